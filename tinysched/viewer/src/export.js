// What one takes along: the graph as SVG or PNG, the trace as JSON, the explorer as one HTML file.

import { h } from "./dom.js";
import { SvgGraph } from "./graph.js";

/** @typedef {import("./store.js").Store} Store @typedef {{script: string, style: string}} Sources what a page is made of */

const KEPT = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "stroke-linecap", "opacity", "font-size", "font-weight", "font-family", "text-anchor", "display"];
const MARGIN = 24, LARGEST = 8192;

/** The graph as it is shown now, as a file of its own: every style is written into it. @param {Store} store @param {HTMLElement} root an element of the explorer, for its style sheet @returns {{text: string, width: number, height: number}} */
export function svg(store, root) {
  const graph = new SvgGraph(store);
  const room = h("div", { style: "position: absolute; width: 400px; height: 400px; left: -9999px; visibility: hidden" }, graph.el);
  root.append(room);
  try {
    graph.restart();
    graph.update(store.state, null);
    graph.view.k = 1;
    graph.view.x = graph.view.y = MARGIN;
    graph.view.redraw();
    const [width, height] = graph.picture.size.map((n) => Math.ceil(n + 2 * MARGIN));
    inline(graph.svg);
    for (const el of graph.svg.querySelectorAll("[style*='display: none']")) el.remove();
    const paper = getComputedStyle(root).backgroundColor;
    for (const [name, value] of Object.entries({ xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${width} ${height}`, width, height, style: `background: ${paper}` })) graph.svg.setAttribute(name, String(value));
    return { text: new XMLSerializer().serializeToString(graph.svg), width, height };
  } finally {
    room.remove();
  }
}

/** @param {Element} el */
function inline(el) {
  const style = getComputedStyle(el);
  el.setAttribute("style", KEPT.map((name) => `${name}: ${style.getPropertyValue(name)}`).join("; "));
  for (const child of el.children) inline(child);
}

/** The same as pixels, two to a unit as far as that fits. @param {Store} store @param {HTMLElement} root @returns {Promise<Blob>} */
export async function png(store, root) {
  const { text, width, height } = svg(store, root);
  const picture = new Image();
  picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await picture.decode();
  const scale = Math.min(2, LARGEST / Math.max(width, height));
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { width: Math.ceil(width * scale), height: Math.ceil(height * scale) }));
  const c = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  c.fillStyle = getComputedStyle(root).backgroundColor;
  c.fillRect(0, 0, canvas.width, canvas.height);
  c.drawImage(picture, 0, 0, canvas.width, canvas.height);
  return new Promise((yes, no) => canvas.toBlob((blob) => (blob ? yes(blob) : no(new Error("this picture is too large"))), "image/png"));
}

/** What Trace.from_json reads. @param {Store} store */
export function json(store) {
  return JSON.stringify(store.doc.trace);
}

/** The explorer as a page. @param {Store} store @param {Sources} sources @returns {Promise<string>} */
export async function html(store, { script, style }) {
  const packed = new Response(new Blob([JSON.stringify(store.doc)]).stream().pipeThrough(new CompressionStream("deflate")));
  const bytes = new Uint8Array(await packed.arrayBuffer());
  let binary = "";
  for (let i = 0; i < bytes.length; i += 0x8000) binary += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
  const text = (/** @type {string} */ t) => t.replace(/[&<>"]/g, (c) => /** @type {Record<string, string>} */ ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
  const policy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:";
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<title>${text(store.doc.trace.title)}</title>
<style>${style}</style>
</head>
<body class="ts-page">
<div data-tinysched="ts-document"></div>
<script id="ts-document" type="text/plain">${btoa(binary)}<${"/script"}>
<script type="module">
${script}
<${"/script"}>
</body>
</html>
`;
}

/** Hands a file to the person. @param {string | Blob} content @param {string} name @param {string} type */
function give(content, name, type) {
  const url = URL.createObjectURL(typeof content === "string" ? new Blob([content], { type }) : content);
  const link = /** @type {HTMLAnchorElement} */ (h("a", { href: url, download: name }));
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** The menu. @param {Store} store @param {HTMLElement} root @param {(() => Sources) | null} sources @param {(error: string) => void} say @param {() => void} close */
export function menu(store, root, sources, say, close) {
  const name = store.doc.trace.title.replace(/[^\w.-]+/g, "-").slice(0, 60) || "trace";
  const stage = store.schedule.stages[store.state.stage].name.replace(/\W+/g, "-");
  const acts = /** @type {[string, string, () => Promise<void> | void][]} */ ([
    ["SVG", "the graph as it is now", () => give(svg(store, root).text, `${name}-${stage}.svg`, "image/svg+xml")],
    ["PNG", "the graph as it is now", async () => give(await png(store, root), `${name}-${stage}.png`, "image/png")],
    ["JSON", "the trace: Trace.from_json reads it", () => give(json(store), `${name}.json`, "application/json")],
    ...(sources ? [/** @type {[string, string, () => Promise<void>]} */ (["HTML", "this explorer as one file", async () => give(await html(store, sources()), `${name}.html`, "text/html")])] : []),
  ]);
  const act = async (/** @type {() => Promise<void> | void} */ make) => {
    close();
    try {
      await make();
    } catch (error) {
      say(`It could not be exported: ${error}`);
    }
  };
  return h("div", { class: "ts-menu", role: "dialog", "aria-label": "export" }, h("h3", {}, "export"),
    acts.map(([what, words, make]) => h("button", { class: "ts-hit", onclick: () => act(make) }, h("span", { class: "ts-what" }, what), h("span", {}, words))));
}
