// The bytes that each kernel reads and writes, as bars.

import { bytes, h } from "./dom.js";
import { badge, table } from "./table.js";

/** @typedef {import("./store.js").Store} Store */

/** @param {Store} store */
export function traffic(store) {
  const { schedule, targets } = store;
  const most = Math.max(1, ...schedule.kernels.map((k) => (k.bytes_read ?? 0) + (k.bytes_written ?? 0)));
  const rows = schedule.kernels.map((kernel, k) => {
    const bar = (/** @type {number} */ n, /** @type {string} */ name) => h("span", { class: `ts-meter ${name}`, style: `width:${(n / most) * 100}%` });
    return h("tr", { class: targets.kernels.has(k) ? "ts-chosen" : "", onclick: () => store.select({ kind: "kernel", id: k }) },
      h("td", {}, badge(k)), h("td", {}, h("code", {}, kernel.name)),
      h("td", { class: "ts-wide" }, bar(kernel.bytes_read ?? 0, "ts-readbar"), bar(kernel.bytes_written ?? 0, "ts-writebar")),
      h("td", { class: "ts-num" }, `${bytes(kernel.bytes_read ?? 0)} read`), h("td", { class: "ts-num" }, `${bytes(kernel.bytes_written ?? 0)} written`),
      h("td", { class: "ts-num" }, `${((kernel.ops ?? 0) / Math.max((kernel.bytes_read ?? 0) + (kernel.bytes_written ?? 0), 1)).toFixed(2)} ops/byte`));
  });
  return table(["#", "kernel", "read (solid) and written (striped)", "", "", ""], rows, "bytes moved by each kernel");
}
