// The kernels as a table, and the programs of the chosen one.

import { bytes, count, h, time } from "./dom.js";
import { programs } from "./programs.js";
import { badge, table } from "./table.js";

/** @typedef {import("./store.js").Store} Store */

/** @param {Store} store */
export function kernels(store) {
  const { schedule, targets } = store;
  if (!schedule.kernels.length) return h("p", { class: "ts-empty" }, "No kernel: everything asked for is in memory already, or was only planned in part.");
  // a node may be computed in several kernels: the one that was looked at stays
  if (!targets.kernels.has(store.shown)) store.shown = [...targets.kernels][0] ?? 0;
  const rows = schedule.kernels.map((kernel, k) => h("tr", { class: targets.kernels.has(k) ? "ts-chosen" : "", onclick: () => store.select({ kind: "kernel", id: k }) },
    h("td", {}, h("button", { class: "ts-bare", "aria-label": `kernel ${k}` }, badge(k))), h("td", {}, h("code", {}, kernel.name)),
    h("td", {}, names(store, k, false)), h("td", {}, names(store, k, true)),
    h("td", { class: "ts-num" }, bytes((kernel.bytes_read ?? 0) + (kernel.bytes_written ?? 0))), h("td", { class: "ts-num" }, count(kernel.ops ?? 0)),
    h("td", { class: "ts-num" }, ((kernel.ops ?? 0) / Math.max((kernel.bytes_read ?? 0) + (kernel.bytes_written ?? 0), 1)).toFixed(2)),
    h("td", { class: "ts-num" }, seconds(store, k))));
  return h("div", { class: "ts-split ts-kernels" },
    table(["#", "kernel", "reads", "writes", "bytes", "ops", "ops/byte", "time"], rows, "kernels"), programs(store, store.shown));
}

/** @param {Store} store @param {number} k @param {boolean} written */
function names(store, k, written) {
  const kernel = store.schedule.kernels[k];
  return (kernel.buffers ?? []).filter((_, i) => (written ? kernel.writes?.includes(i) : !kernel.writes?.includes(i) || kernel.updates?.includes(i))).map((b) => store.schedule.bufferName(b)).join(", ");
}

/** @param {Store} store @param {number} k */
function seconds(store, k) {
  const all = store.schedule.run?.seconds;
  return all?.[k] === undefined ? "–" : time(all[k]);
}
