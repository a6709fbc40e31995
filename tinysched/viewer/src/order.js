// The order: kernels as a graph, an arrow for each reason to wait, and the same as a table.

import { badge, table } from "./table.js";
import { bytes, h, s } from "./dom.js";
import { path } from "./shapes.js";

/** @typedef {import("./store.js").Store} Store */

const MOST_DRAWN = 400;

/** @param {Store} store */
export function order(store) {
  if (!store.schedule.kernels.length) return h("p", { class: "ts-empty" }, "No kernel, so no order.");
  return h("div", {}, lanes(store), drawing(store));
}

/** Each reason to wait, as a row. @param {Store} store */
export function reasons(store) {
  const { schedule, targets } = store;
  if (!schedule.order.length) return h("p", { class: "ts-empty" }, "No kernel waits for another.");
  const rows = schedule.order.map((e) => h("tr", { class: targets.kernels.has(e.after) && targets.kernels.has(e.before) ? "ts-chosen" : "", onclick: () => store.select({ kind: "buffer", id: e.buffer }) },
    h("td", {}, badge(e.after)), h("td", {}, "waits for"), h("td", {}, badge(e.before)),
    h("td", {}, because(e.kind, e.before, e.after, schedule.bufferName(e.buffer))), h("td", {}, e.kind)));
  return table(["kernel", "", "kernel", "because", ""], rows, "why kernels wait for one another");
}

/** Where several devices work: a lane for each, copies apart, and the bytes between them. @param {Store} store */
function lanes(store) {
  const { schedule } = store;
  const found = /** @type {Map<string, number[]>} */ (new Map()), moved = /** @type {Map<string, number>} */ (new Map());
  schedule.kernels.forEach((kernel, k) => {
    const lane = kernel.device + (kernel.kind === "copy" ? ", copies" : "");
    found.set(lane, [...(found.get(lane) ?? []), k]);
    if (kernel.kind !== "copy") return;
    const way = `${schedule.buffers[kernel.buffers?.[1] ?? 0].device} to ${kernel.device}`;
    moved.set(way, (moved.get(way) ?? 0) + (kernel.bytes_written ?? 0));
  });
  if (found.size < 2) return null;
  const rows = [...found].map(([lane, ks]) => h("tr", {}, h("td", {}, lane), h("td", {}, ks.map((k) => badge(k)))));
  const between = [...moved].map(([way, n]) => `${way}: ${bytes(n)}`).join(", ");
  return h("div", {}, table(["lane", "kernels, in order"], rows, "lanes"), between ? h("p", { class: "ts-dim" }, `between devices: ${between}`) : null);
}

/** @param {string} kind @param {number} before @param {number} after @param {string} buffer */
function because(kind, before, after, buffer) {
  if (kind === "RAW") return `kernel ${after} reads ${buffer}, which kernel ${before} writes`;
  if (kind === "WAR") return `kernel ${before} reads ${buffer} before kernel ${after} overwrites it`;
  return `kernel ${before} writes ${buffer} before kernel ${after} does`;
}

/** @param {Store} store */
function drawing(store) {
  const picture = store.schedule.kernelPicture;
  if (!picture || picture.slots.length > MOST_DRAWN) {
    return h("p", { class: "ts-empty" }, `${store.schedule.kernels.length.toLocaleString("en")} kernels: see the pass “order” for the picture, the table for the reasons.`);
  }
  const { targets, schedule } = store;
  const kinds = new Map(schedule.order.map((e) => [`${e.before}/${e.after}`, e.kind]));
  const edges = picture.edges.filter((/** @type {any} */ e) => e[2]).map((/** @type {any} */ [a, b, route]) =>
    s("path", { d: path(route), class: `ts-edge ts-${(kinds.get(`${a}/${b}`) ?? "RAW").toLowerCase()}` }, s("title", {}, because(kinds.get(`${a}/${b}`) ?? "RAW", a, b, "a buffer"))));
  const nodes = (picture.start ?? []).map((/** @type {any} */ [k, , title, sub]) => {
    const [x, y, w, height] = picture.slots[k];
    return s("g", { class: `ts-node ts-kernel${targets.kernels.has(k) ? " ts-chosen" : ""}`, transform: `translate(${x} ${y})`, role: "img", "aria-label": `kernel ${title}`, onclick: () => store.select({ kind: "kernel", id: k }) },
      s("rect", { class: `ts-body ts-k${k % 8}`, x: -w / 2, y: -height / 2, width: w, height, rx: 4 }),
      s("text", { class: "ts-title", "text-anchor": "middle", y: -2 }, title), s("text", { class: "ts-sub", "text-anchor": "middle", y: 12 }, sub));
  });
  const [w, height] = picture.size;
  return h("div", { class: "ts-scroll" }, /** @type {any} */ (s("svg", { class: "ts-orderdag", viewBox: `-12 -12 ${w + 24} ${height + 24}`, width: w + 24, height: height + 24, role: "group", "aria-label": "kernels in order" }, edges, nodes)));
}
