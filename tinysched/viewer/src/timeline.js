// A run as it went: a bar per kernel over time, a row per device (copies apart).

import { h, s, time } from "./dom.js";
import { badge, table } from "./table.js";

/** @typedef {import("./store.js").Store} Store */

const [WIDTH, LEFT, ROW] = [720, 96, 30];

/** When each kernel starts: they run one after another. @param {number[]} seconds @returns {number[]} */
export function starts(seconds) {
  let now = 0;
  return seconds.map((t) => (now += t) - t);
}

/** @param {Store} store @param {number} k */
function lane(store, k) {
  const kernel = store.schedule.kernels[k];
  return kernel.device + (kernel.kind === "copy" ? ", copies" : "");
}

/** @param {Store} store */
export function timeline(store) {
  const { schedule, targets } = store;
  const seconds = /** @type {number[]} */ (schedule.run?.seconds ?? []);
  if (!seconds.length) return h("p", { class: "ts-empty" }, "It did not run, so there are no times: press “run” in a notebook, or capture with run=True.");
  const from = starts(seconds);
  const total = Math.max(from[seconds.length - 1] + seconds[seconds.length - 1], 1e-9);
  const lanes = [...new Set(seconds.map((_, k) => lane(store, k)))];
  const x = (/** @type {number} */ t) => LEFT + (t / total) * (WIDTH - LEFT - 8);
  const bars = seconds.map((t, k) => {
    const [w, row] = [Math.max((t / total) * (WIDTH - LEFT - 8), 1), lanes.indexOf(lane(store, k))];
    return s("g", { class: `ts-block ts-k${k % 8}${targets.kernels.has(k) ? " ts-chosen" : ""}`, onclick: () => store.select({ kind: "kernel", id: k }) },
      s("title", {}, `kernel ${k} ${schedule.kernels[k].name}: ${time(t)}, ${((t / total) * 100).toFixed(0)}% of the run`),
      s("rect", { x: x(from[k]), y: row * ROW + 4, width: w, height: ROW - 8, rx: 2 }), w > 16 ? s("text", { x: x(from[k]) + w / 2, y: row * ROW + ROW / 2 + 4 }, k) : null);
  });
  const height = lanes.length * ROW;
  const names = lanes.map((name, i) => s("text", { class: "ts-tick", x: LEFT - 8, y: i * ROW + ROW / 2 + 4, "text-anchor": "end" }, name));
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((f) => s("text", { class: "ts-tick", x: x(total * f), y: height + 14, "text-anchor": f === 0 ? "start" : f === 1 ? "end" : "middle" }, time(total * f)));
  return h("figure", {}, h("figcaption", {}, h("b", {}, time(total)), ` in ${seconds.length} kernels, one after another; the widest are where the time goes`),
    /** @type {any} */ (s("svg", { class: "ts-arena", viewBox: `0 0 ${WIDTH} ${height + 20}`, role: "img", "aria-label": `timeline: ${seconds.length} kernels in ${time(total)}` },
      s("rect", { class: "ts-frame", x: LEFT, y: 0, width: WIDTH - LEFT - 8, height }), names, ticks, bars)));
}

/** @param {Store} store */
export function timelineTable(store) {
  const { schedule, targets } = store;
  const seconds = /** @type {number[]} */ (schedule.run?.seconds ?? []);
  const from = starts(seconds);
  const rows = seconds.map((t, k) => h("tr", { class: targets.kernels.has(k) ? "ts-chosen" : "", onclick: () => store.select({ kind: "kernel", id: k }) },
    h("td", {}, h("button", { class: "ts-bare", "aria-label": `kernel ${k}` }, badge(k))), h("td", {}, h("code", {}, schedule.kernels[k].name)), h("td", {}, lane(store, k)),
    h("td", { class: "ts-num", "data-value": from[k] }, time(from[k])), h("td", { class: "ts-num", "data-value": t }, time(t))));
  return table(["#", "kernel", "device", "starts", "takes"], rows, "kernels over time");
}
