// Why: the last verdict first, what would change it (and a button that tries), then the chain, then every counterpart.

import { h, many, prose } from "./dom.js";
import { evidence } from "./inspect_step.js";
import { waits } from "./inspect_kernel.js";
import { bufferLinks, facts, kernelLinks, lineLinks, loopLink, nodeLink, pythonButton, verdictClass } from "./parts.js";

/**
 * @typedef {import("./store.js").Store} Store @typedef {import("./model.js").Selection} Selection
 * @typedef {import("./model.js").Decision} Decision
 */

const STORED = ["realized", "partially realized", "kept"];
const FUSED = ["fused", "removed", "no buffer"];
const MOST_PARTS = 12;

/** @param {Store} store @param {Selection} selection */
export function why(store, selection) {
  const about = { node: ofNode, kernel: ofKernel, buffer: ofBuffer, line: ofLine, range: ofRange }[selection.kind];
  return [...about(store, /** @type {never} */ (selection.id)), counterparts(store, selection)];
}

/** @param {Store} store @param {number} id */
function ofNode(store, id) {
  const chain = store.schedule.why(id);
  const last = chain.at(-1);
  if (!last) return [h("p", { class: "ts-none" }, store.schedule.noDecision(id))];
  const step = store.schedule.stages[last.stage].steps?.[last.step];
  return [
    h("p", { class: "ts-why" }, h("span", { class: `ts-verdict ${verdictClass(last.verdict)}` }, last.verdict), " ", prose(last.text)),
    flip(store, id, last),
    step?.kind === "decision" ? evidence(store, step.evidence ?? {}) : null,
    chain.length > 1 ? h("details", {}, h("summary", {}, many(chain.length, "decision")), h("ol", {}, chain.map((d) => decided(store, d)))) : null,
  ];
}

/** What would change the verdict, and the buttons that ask Python. @param {Store} store @param {number} id @param {Decision} last */
function flip(store, id, last) {
  const known = store.flipOf(last);
  const stored = STORED.includes(last.verdict);
  if (!stored && !FUSED.includes(last.verdict)) return known ? h("p", { class: "ts-flip" }, prose(known.text)) : null;
  const word = stored ? "fuse" : "realize";
  return h("div", { class: "ts-flip" },
    h("p", {}, known ? prose(known.text) : `What ${stored ? "fusing" : "storing"} it would give was not tried.`),
    known?.forced ? null : h("p", { class: "ts-acts" },
      known ? null : pythonButton(store, "what would it give?", "schedule again with this decision turned, and say what changes", () => store.python?.flip(last)),
      pythonButton(store, `try it: ${stored ? "fuse" : "store"}`, `schedule again with this value ${stored ? "fused" : "stored"}, and show that`, () => store.python?.tryIt(id, word))));
}

/** @param {Store} store @param {Decision} d */
function decided(store, d) {
  return h("li", {}, h("button", { class: "ts-link", onclick: () => store.set({ stage: d.stage, step: d.step + 1 }) }, store.schedule.stages[d.stage].name), ": ", prose(d.text));
}

/** @param {Store} store @param {number} k */
function ofKernel(store, k) {
  const { schedule } = store;
  const held = schedule.written(k).map((b) => schedule.buffers[b].node).filter((n) => n !== undefined);
  return [...each(store, held), waits(store, k)];
}

/** @param {Store} store @param {number} b */
function ofBuffer(store, b) {
  const { node } = store.schedule.buffers[b];
  const place = store.schedule.placement(b);
  return [...(node === undefined ? [] : each(store, [node])), place?.reason ? h("p", {}, `Placed ${place.reason}.`) : null];
}

/** @param {Store} store @param {number} l */
function ofLine(store, l) {
  const { nodes } = store.schedule.targets({ kind: "line", id: l });
  const own = [...nodes].filter((n) => store.schedule.isUsers(n) && store.schedule.why(n).length);
  return [h("pre", { class: "ts-code" }, store.schedule.lines[l].code || "…"), ...each(store, own)];
}

/** @param {Store} store @param {string} name */
function ofRange(store, name) {
  const turns = store.schedule.turns(name);
  const { nodes } = store.schedule.targets({ kind: "range", id: name });
  return [h("p", {}, `A loop${turns ? ` of ${turns} turns` : ""}: ${many(nodes.size, "node")} stand inside it.`)];
}

/** The last word about each of some values. @param {Store} store @param {number[]} nodes */
function each(store, nodes) {
  return nodes.slice(0, MOST_PARTS).map((n) => {
    const last = store.schedule.why(n).at(-1);
    return h("p", { class: "ts-why" }, nodeLink(store, n), " ", prose(last ? last.text : store.schedule.noDecision(n)));
  });
}

/** Where the same thing is in every other view, or why it is not there. @param {Store} store @param {Selection} selection */
function counterparts(store, selection) {
  const { schedule, targets } = store;
  const none = (/** @type {string} */ text) => h("span", { class: "ts-none" }, text);
  const ops = [...targets.nodes].filter((n) => schedule.isUsers(n));
  const loops = selection.kind === "node" ? schedule.nodes[selection.id].ranges ?? [] : [];
  const placed = [...targets.buffers].filter((b) => schedule.placement(b));
  return h("details", { class: "ts-counterparts", open: true }, h("summary", {}, "counterparts"), facts([
    ["ops", ops.length ? ops.slice(0, MOST_PARTS).map((n) => nodeLink(store, n)) : none("none: a pass made this")],
    ["loops", loops.length ? loops.map((r) => loopLink(store, r)) : null],
    ["kernel", targets.kernels.size ? kernelLinks(store, targets.kernels) : none(schedule.noKernel(selection))],
    ["slot", targets.kernels.size ? [...targets.kernels].map((k) => `${k + 1} of ${schedule.kernels.length}`).join(", ") : null],
    ["memory", targets.buffers.size ? bufferLinks(store, targets.buffers) : none("none: it is never stored")],
    ["arena block", placed.length ? placed.map((b) => `byte ${schedule.placement(b)?.offset_bytes.toLocaleString("en")}`).join(", ") : targets.buffers.size ? none("none: only intermediates lie in the arena") : null],
    ["line", targets.lines.size ? lineLinks(store, targets.lines) : none("none: no line of yours made this")],
  ]));
}
