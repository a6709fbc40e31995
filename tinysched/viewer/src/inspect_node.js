// What the selection is: an op's facts, a loop's extent, a kernel's insides, a buffer's size, a line's nodes.

import { bytes, h, many } from "./dom.js";
import { bufferLinks, facts, kernelLinks, loopLink, mono, nodeLink } from "./parts.js";
import { bytesOf } from "./shapes.js";

/** @typedef {import("./store.js").Store} Store @typedef {import("./model.js").Selection} Selection */

const MOST_LISTED = 40;

/** @param {Store} store @param {Selection} selection */
export function node(store, { kind, id }) {
  return { node: op, kernel: inside, buffer, line, range: loop }[kind](store, /** @type {never} */ (id));
}

/** @param {Store} store @param {number} id */
function op(store, id) {
  const n = store.schedule.nodes[id];
  return facts([
    ["op", mono(n.op)], ["dtype", mono(n.dtype)],
    ["shape", n.shape ? mono(n.shape.join(" × ") || "one value") : null],
    ["size", n.shape?.length ? bytes(bytesOf(n)) : null],
    ["loops", n.ranges?.length ? n.ranges.map((r) => loopLink(store, r)) : null],
    ["argument", n.arg ? mono(n.arg) : null],
    ["reads", (n.src ?? []).map((s) => nodeLink(store, s))],
    ["number", mono(String(id))],
  ]);
}

/** @param {Store} store @param {number} k */
function inside(store, k) {
  const kernel = store.schedule.kernels[k];
  const own = (kernel.nodes ?? []).filter((n) => store.schedule.isUsers(n));
  return facts([["device", mono(kernel.device)], ["computes", some(own, (n) => nodeLink(store, n))], ["key", kernel.key ? mono(kernel.key.slice(0, 12)) : null]]);
}

/** @param {Store} store @param {number} b */
function buffer(store, b) {
  const found = store.schedule.buffers[b];
  const place = store.schedule.placement(b);
  return facts([
    ["elements", mono(`${found.elements.toLocaleString("en")} ${found.dtype}`)], ["size", bytes(found.bytes)], ["device", mono(found.device)],
    ["holds", found.node === undefined ? null : nodeLink(store, found.node)],
    ["place", place ? `byte ${place.offset_bytes.toLocaleString("en")}, kernels ${place.first} to ${place.last}` : null],
  ]);
}

/** @param {Store} store @param {number} l */
function line(store, l) {
  const { nodes } = store.schedule.targets({ kind: "line", id: l });
  const own = [...nodes].filter((n) => store.schedule.isUsers(n));
  return facts([["values", some(own, (n) => nodeLink(store, n))], ["all nodes", many(nodes.size, "node")]]);
}

/** @param {Store} store @param {string} name */
function loop(store, name) {
  const { nodes, kernels, buffers } = store.schedule.targets({ kind: "range", id: name });
  return facts([["turns", mono(store.schedule.turns(name) ?? "not known")], ["kernels", kernelLinks(store, kernels)], ["memory", bufferLinks(store, buffers)], ["nodes inside", some([...nodes], (n) => nodeLink(store, n))]]);
}

/** The first of many, and how many more there are. @template T @param {T[]} all @param {(item: T) => any} draw */
function some(all, draw) {
  const more = all.length - MOST_LISTED;
  return [...all.slice(0, MOST_LISTED).map(draw), ...(more > 0 ? [h("span", { class: "ts-dim" }, ` and ${many(more, "more").replace("mores", "more")}`)] : [])];
}
