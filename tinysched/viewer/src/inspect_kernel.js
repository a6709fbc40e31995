// The kernels of the selection: what they read, write, cost and wait for.

import { bytes, count, h, time } from "./dom.js";
import { bufferLinks, facts, kernelLinks } from "./parts.js";

/** @typedef {import("./store.js").Store} Store @typedef {import("./model.js").Selection} Selection */

/** @param {Store} store @param {Selection} selection */
export function kernel(store, selection) {
  const { kernels } = store.targets;
  if (!kernels.size) return h("p", { class: "ts-none" }, `No kernel here: ${store.schedule.noKernel(selection)}`);
  const all = [...kernels];
  if (all.length > 1) return [h("p", {}, `In ${all.length} kernels:`), ...all.slice(0, 8).flatMap((k) => [kernelLinks(store, [k]), figures(store, k)])];
  return [selection.kind === "kernel" ? null : h("p", {}, kernelLinks(store, all)), figures(store, all[0]), waits(store, all[0]),
    h("button", { class: "ts-button", onclick: () => store.set({ drawer: "kernels", open: true, selection: { kind: "kernel", id: all[0] } }) }, "its programs")];
}

/** @param {Store} store @param {number} k */
function figures(store, k) {
  const { schedule } = store;
  const kernel = schedule.kernels[k];
  const seconds = schedule.run?.seconds?.[k];
  const moved = (kernel.bytes_read ?? 0) + (kernel.bytes_written ?? 0);
  return facts([
    ["reads", bufferLinks(store, new Set((kernel.buffers ?? []).filter((_, i) => !kernel.writes?.includes(i) || kernel.updates?.includes(i))))],
    ["writes", bufferLinks(store, new Set((kernel.writes ?? []).map((i) => /** @type {number[]} */ (kernel.buffers)[i])))],
    ["bytes", `${bytes(kernel.bytes_read ?? 0)} in, ${bytes(kernel.bytes_written ?? 0)} out`],
    ["operations", `${count(kernel.ops ?? 0)}, ${((kernel.ops ?? 0) / Math.max(moved, 1)).toFixed(2)} per byte`],
    ["time", seconds === undefined ? null : time(seconds)],
  ]);
}

/** @param {Store} store @param {number} k */
export function waits(store, k) {
  const { schedule } = store;
  const edges = schedule.order.filter((e) => e.after === k);
  if (!edges.length) return h("p", { class: "ts-dim" }, "It waits for no other kernel.");
  return h("ul", {}, edges.map((e) => h("li", {}, "waits for kernel ", kernelLinks(store, [e.before]), ` ${schedule.bufferName(e.buffer)} (${e.kind})`)));
}
