// The graph of the current step as text.

import { h, many } from "./dom.js";
import { table } from "./table.js";

/** @typedef {import("./store.js").Store} Store */

/** @param {Store} store */
export function nodes(store) {
  const { schedule, scene, targets } = store;
  const sources = /** @type {Map<number, number[]>} */ (new Map());
  for (const e of scene.edges) {
    const [a, b] = scene.picture.edges[e];
    sources.set(b, [...(sources.get(b) ?? []), a]);
  }
  const shown = [...scene.shown].sort((a, b) => scene.picture.slots[a[0]][1] - scene.picture.slots[b[0]][1] || a[0] - b[0]);
  const rows = shown.map(([slot, caption]) => h("tr", { class: targets.nodes.has(caption.node) ? "ts-chosen" : "", onclick: () => store.select({ kind: "node", id: caption.node }) },
    h("td", { class: "ts-num" }, slot), h("td", {}, h("button", { class: "ts-bare" }, caption.title)), h("td", {}, h("code", {}, caption.sub)),
    h("td", {}, schedule.nodes[caption.node].dtype), h("td", {}, (sources.get(slot) ?? []).map((s) => `${s} ${scene.shown.get(s)?.title ?? ""}`).join(", ")),
    h("td", {}, scene.picture.slots[slot][4].join(", ")), h("td", {}, scene.marks.get(slot) ?? "")));
  return [h("p", { class: "ts-dim" }, `${many(rows.length, "node")} at this step, inputs first`), table(["#", "node", "shape or loops", "dtype", "reads", "kernel", "this step"], rows, "nodes of the graph")];
}
