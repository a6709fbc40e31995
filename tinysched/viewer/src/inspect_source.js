// The program: the lines that are known of each file, with the kernels they went into beside them.

import { h } from "./dom.js";
import { badge } from "./table.js";

/** @typedef {import("./store.js").Store} Store @typedef {import("./model.js").Selection} Selection */

/** @param {Store} store */
export function source(store) {
  const { schedule, targets } = store;
  if (!schedule.lines.length) return h("p", { class: "ts-none" }, "No lines are known: this trace was made without a program.");
  const none = targets.lines.size ? null : h("p", { class: "ts-none" }, "No line of yours made this: a pass did.");
  return [none, ...schedule.files().map(([file, lines]) => listing(store, file, lines))].filter((x) => x !== null);
}

/** @param {Store} store @param {string} file @param {number[]} lines */
function listing(store, file, lines) {
  const { schedule, targets } = store;
  const rows = lines.map((l) => {
    const line = schedule.lines[l];
    const kernels = schedule.kernelsOfLine(l);
    const shown = kernels.slice(0, 6).map((k) => badge(k));
    return h("button", { class: `ts-sourceline${targets.lines.has(l) ? " ts-chosen" : ""}`, title: kernels.length ? `kernels ${kernels.join(", ")}` : "no kernel", onclick: () => store.select({ kind: "line", id: l }) },
      h("span", { class: "ts-num" }, line.number), h("code", {}, line.code || "…"), h("span", { class: "ts-gutter" }, shown, kernels.length > 6 ? `+${kernels.length - 6}` : null));
  });
  return h("figure", { class: "ts-source" }, h("figcaption", {}, file), rows);
}
