// Bundles tinysched/viewer/src into dist/viewer.js and dist/viewer.css beside it. The first line of each holds a stamp of
// the sources, by which a test proves (without Node) that they are in step.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const viewer = fileURLToPath(new URL("../../tinysched/viewer/", import.meta.url));

/** @param {string} ending */
function stamp(ending) {
  const hash = createHash("sha256");
  for (const name of readdirSync(viewer + "src").filter((n) => n.endsWith(ending)).sort()) {
    hash.update(name + "\n");
    hash.update(readFileSync(viewer + "src/" + name, "utf8").replaceAll("\r\n", "\n"));
  }
  return `/* tinysched viewer, sources ${hash.digest("hex")} */\n`;
}

for (const [entry, name, ending] of [["main.js", "viewer.js", ".js"], ["loader.js", "loader.js", ".js"], ["style.css", "viewer.css", ".css"]]) {
  const result = await build({
    entryPoints: [`${viewer}src/${entry}`],
    bundle: true,
    format: "esm",
    target: "es2022",
    charset: "utf8",
    minify: true,
    legalComments: "none",
    write: false,
  });
  // A page holds the bundle between <script> tags: nothing in it may end them.
  const text = result.outputFiles[0].text.replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
  writeFileSync(`${viewer}dist/${name}`, stamp(ending) + text);
}
