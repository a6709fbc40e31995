// Bytes, operations and time of each kernel: against the machine's limits, and in total against one kernel per operation.

import { bytes, count, h, s, time } from "./dom.js";
import { badge, table } from "./table.js";

/** @typedef {import("./store.js").Store} Store @typedef {import("./model.js").Kernel} Kernel */

const [WIDTH, HEIGHT, LEFT, BOTTOM] = [460, 210, 62, 34];

/** @param {Kernel} k */
const moved = (k) => (k.bytes_read ?? 0) + (k.bytes_written ?? 0);

/** @param {Store} store */
export function traffic(store) {
  const { schedule } = store;
  if (!schedule.kernels.length) return h("p", { class: "ts-empty" }, "No kernel, so nothing is moved.");
  return h("div", {}, totals(store), roofline(store));
}

/** Fused against eager, as bars of one scale. @param {Store} store */
function totals(store) {
  const { schedule } = store;
  const eager = schedule.part("bytes")?.eager;
  const sum = (/** @type {(k: Kernel) => number} */ f) => schedule.kernels.reduce((a, k) => a + f(k), 0);
  const rows = /** @type {[string, number, number, number][]} */ ([["as scheduled", schedule.kernels.length, sum(moved), sum((k) => k.ops ?? 0)]]);
  if (eager) rows.push(["one kernel per operation", eager[0], eager[1], eager[2]]);
  const most = Math.max(1, ...rows.map((r) => r[2]));
  return table(["", "kernels", "bytes moved", "", "operations"], rows.map(([name, kernels, n, ops]) => h("tr", {}, h("td", {}, name), h("td", { class: "ts-num" }, kernels),
    h("td", { class: "ts-wide" }, h("span", { class: "ts-meter ts-readbar", style: `width:${(n / most) * 100}%` })), h("td", { class: "ts-num" }, bytes(n)), h("td", { class: "ts-num" }, count(ops)))), "fused against eager");
}

/** Operations per second over operations per byte, both logarithmic; the roof is what the machine can do. @param {Store} store */
function roofline(store) {
  const { run, kernels } = store.schedule;
  if (!run?.seconds?.length) return h("p", { class: "ts-dim" }, "The roofline needs times: run it, or capture with run=True.");
  if (!run.bandwidth || !run.flops) return h("p", { class: "ts-dim" }, "The limits of the device that ran this are not known, so there is no roofline.");
  const points = kernels.map((k, i) => ({ i, per: (k.ops ?? 0) / Math.max(moved(k), 1), rate: (k.ops ?? 0) / Math.max(run.seconds[i], 1e-9) })).filter((p) => p.per > 0);
  const ridge = run.flops / run.bandwidth;
  const [x0, x1] = [Math.floor(Math.log10(Math.min(0.1, ...points.map((p) => p.per)))), Math.ceil(Math.log10(Math.max(ridge * 4, ...points.map((p) => p.per))))];
  const top = Math.ceil(Math.log10(run.flops * 1.2));
  const low = Math.floor(Math.log10(Math.max(1e3, Math.min(run.bandwidth * 10 ** x0, ...points.map((p) => p.rate)))));
  const x = (/** @type {number} */ v) => LEFT + ((Math.log10(v) - x0) / (x1 - x0)) * (WIDTH - LEFT - 10);
  const y = (/** @type {number} */ v) => 8 + ((top - Math.log10(Math.max(v, 10 ** low))) / (top - low)) * (HEIGHT - BOTTOM - 8);
  const ticks = [...Array(x1 - x0 + 1).keys()].map((k) => s("text", { class: "ts-tick", x: x(10 ** (x0 + k)), y: HEIGHT - 18, "text-anchor": "middle" }, power(x0 + k)));
  const rates = [...Array(top - low + 1).keys()].map((k) => s("text", { class: "ts-tick", x: LEFT - 6, y: y(10 ** (low + k)) + 3, "text-anchor": "end" }, count(10 ** (low + k))));
  const dots = points.map((p) => s("g", { class: `ts-point ts-k${p.i % 8}${store.targets.kernels.has(p.i) ? " ts-chosen" : ""}`, onclick: () => store.select({ kind: "kernel", id: p.i }) },
    s("title", {}, `kernel ${p.i} ${kernels[p.i].name}: ${count(Math.round(p.rate))} operations per second at ${p.per.toFixed(2)} per byte, ${(share(store, p.i) * 100).toFixed(0)}% of the limit`),
    s("circle", { cx: x(p.per), cy: y(p.rate), r: 8 }), s("text", { x: x(p.per), y: y(p.rate) + 3.5, "text-anchor": "middle" }, p.i)));
  const roof = `M${x(10 ** x0)} ${y(run.bandwidth * 10 ** x0)}L${x(ridge)} ${y(run.flops)}H${WIDTH - 10}`;
  const words = `roofline: ${points.length} kernels; memory ${bytes(run.bandwidth)} per second, arithmetic ${count(Math.round(run.flops))} operations per second; they meet at ${ridge.toFixed(1)} operations per byte`;
  return h("figure", {}, h("figcaption", {}, `operations per second over operations per byte; the roof: ${bytes(run.bandwidth)}/s copied, ${count(Math.round(run.flops))} operations/s in a matrix product, one thread`),
    /** @type {any} */ (s("svg", { class: "ts-roof", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": words },
      s("rect", { class: "ts-frame", x: LEFT, y: 8, width: WIDTH - LEFT - 10, height: HEIGHT - BOTTOM - 8 }), s("path", { class: "ts-roofline", d: roof }), ticks, rates,
      s("text", { class: "ts-tick", x: (LEFT + WIDTH) / 2, y: HEIGHT - 4, "text-anchor": "middle" }, "operations per byte"), dots)));
}

/** @param {number} exponent */
function power(exponent) {
  return exponent < 0 ? String(10 ** exponent) : count(10 ** exponent);
}

/** The part of the nearer limit that a kernel reaches. @param {Store} store @param {number} k */
function share(store, k) {
  const { run, kernels } = store.schedule;
  return Math.max(moved(kernels[k]) / run.bandwidth, (kernels[k].ops ?? 0) / run.flops) / Math.max(run.seconds[k], 1e-9);
}

/** @param {Store} store */
export function trafficTable(store) {
  const { schedule, targets } = store;
  const { run } = schedule;
  const most = Math.max(1, ...schedule.kernels.map(moved));
  const limits = Boolean(run?.seconds?.length && run.bandwidth && run.flops);
  const rows = schedule.kernels.map((kernel, k) => {
    const bar = (/** @type {number} */ n, /** @type {string} */ name) => h("span", { class: `ts-meter ${name}`, style: `width:${(n / most) * 100}%` });
    return h("tr", { class: targets.kernels.has(k) ? "ts-chosen" : "", onclick: () => store.select({ kind: "kernel", id: k }) },
      h("td", {}, h("button", { class: "ts-bare", "aria-label": `kernel ${k}` }, badge(k))), h("td", {}, h("code", {}, kernel.name)),
      h("td", { class: "ts-wide2" }, bar(kernel.bytes_read ?? 0, "ts-readbar"), bar(kernel.bytes_written ?? 0, "ts-writebar")),
      h("td", { class: "ts-num" }, `${bytes(kernel.bytes_read ?? 0)} + ${bytes(kernel.bytes_written ?? 0)}`),
      h("td", { class: "ts-num" }, ((kernel.ops ?? 0) / Math.max(moved(kernel), 1)).toFixed(2)),
      h("td", { class: "ts-num" }, run?.seconds?.[k] === undefined ? "–" : time(run.seconds[k])),
      h("td", { class: "ts-num" }, limits ? `${(share(store, k) * 100).toFixed(0)}% of ${moved(kernel) / run.bandwidth >= (kernel.ops ?? 0) / run.flops ? "memory" : "arithmetic"}` : "–"));
  });
  return table(["#", "kernel", "read, written (striped)", "bytes", "ops/byte", "time", "of the limit"], rows, "bytes moved by each kernel");
}
