// The arena: offset over time. A rectangle is an intermediate: as wide as it is alive, as high as it is large.

import { badge, table } from "./table.js";
import { bytes, h, s } from "./dom.js";

/** @typedef {import("./store.js").Store} Store */

const [WIDTH, HEIGHT, LEFT, BOTTOM] = [640, 190, 64, 20];

/** @param {Store} store */
export function arena(store) {
  const { memory } = store.schedule;
  const lanes = memory.lanes ?? [];
  if (!lanes.length) return h("p", { class: "ts-empty" }, "No intermediate needs memory: nothing to place.");
  return lanes.map((/** @type {any} */ lane, /** @type {number} */ i) => [figure(store, lane, i), others(store, lane, i)]);
}

/** @param {Store} store @param {any} lane @param {number} index */
function figure(store, lane, index) {
  const places = (store.schedule.memory.placements ?? []).filter((/** @type {any} */ p) => p.lane === index);
  const kernels = Math.max(store.schedule.kernels.length, 1);
  const x = (/** @type {number} */ k) => LEFT + (k / kernels) * WIDTH;
  const y = (/** @type {number} */ byte) => HEIGHT - (byte / Math.max(lane.arena_bytes, 1)) * HEIGHT;
  const { targets } = store;
  const blocks = places.map((/** @type {any} */ p) => {
    const [w, height] = [x(p.last + 1) - x(p.first), y(p.offset_bytes) - y(p.offset_bytes + p.bytes)];
    const name = store.schedule.bufferName(p.buffer);
    const writer = store.schedule.kernels.findIndex((k) => k.writes?.some((i) => k.buffers?.[i] === p.buffer));
    return s("g", { class: `ts-block ts-k${Math.max(writer, 0) % 8}${targets.buffers.has(p.buffer) ? " ts-chosen" : ""}`, role: "img", onclick: () => store.select({ kind: "buffer", id: p.buffer }),
      "aria-label": `${name}, byte ${p.offset_bytes}, ${bytes(p.bytes)}, kernels ${p.first} to ${p.last}` },
    s("title", {}, `${name}: ${bytes(p.bytes)} at byte ${p.offset_bytes.toLocaleString("en")}, kernels ${p.first} to ${p.last}\n${p.reason ?? ""}`),
    s("rect", { x: x(p.first) + 1, y: y(p.offset_bytes + p.bytes) + 0.5, width: Math.max(w - 2, 2), height: Math.max(height - 1, 1.5), rx: 2 }),
    w > 26 && height > 11 ? s("text", { x: x(p.first) + w / 2, y: y(p.offset_bytes + p.bytes / 2) + 4 }, name) : null);
  });
  const every = Math.ceil(kernels / 24);
  const ticks = Array.from({ length: kernels }, (_, k) => k).filter((k) => k % every === 0).map((k) =>
    s("text", { class: "ts-tick", x: x(k + 0.5), y: HEIGHT + 14, "text-anchor": "middle" }, k));
  const bound = s("path", { class: "ts-bound", d: `M${LEFT} ${y(lane.lower_bound_bytes)}h${WIDTH}` }, s("title", {}, `lower bound: ${bytes(lane.lower_bound_bytes)} are alive at once`));
  return h("figure", {},
    h("figcaption", {}, h("b", {}, `${lane.device}${lane.copy ? ", what copies read or write" : ""}`), ` ${bytes(lane.arena_bytes)} (${store.schedule.memory.planner}); lower bound ${bytes(lane.lower_bound_bytes)}; without reuse ${bytes(lane.unplanned_bytes)}`),
    /** @type {any} */ (s("svg", { class: "ts-arena", viewBox: `0 -6 ${LEFT + WIDTH + 8} ${HEIGHT + BOTTOM + 8}`, role: "group", "aria-label": "arena: offset over time" },
      s("rect", { class: "ts-frame", x: LEFT, y: 0, width: WIDTH, height: HEIGHT }),
      s("text", { class: "ts-tick", x: LEFT - 6, y: 8, "text-anchor": "end" }, bytes(lane.arena_bytes)), s("text", { class: "ts-tick", x: LEFT - 6, y: HEIGHT, "text-anchor": "end" }, "0"),
      s("text", { class: "ts-tick", x: LEFT - 6, y: HEIGHT + 14, "text-anchor": "end" }, "kernel"), blocks, bound, ticks)));
}

/** The same lifetimes as other planners pack them, on the same scale. @param {Store} store @param {any} lane @param {number} index */
function others(store, lane, index) {
  const found = /** @type {{name: string, bytes: number, offsets: number[]}[]} */ (store.schedule.part("arena")?.lanes?.[index] ?? []);
  if (found.length < 2) return null;
  const places = (store.schedule.memory.placements ?? []).filter((/** @type {any} */ p) => p.lane === index);
  const most = Math.max(1, ...found.map((f) => f.bytes));
  const kernels = Math.max(store.schedule.kernels.length, 1);
  return h("div", { class: "ts-planners" }, found.map(({ name, bytes: size, offsets }) => {
    const [W, H] = [180, 90];
    const y = (/** @type {number} */ byte) => H - (byte / most) * H;
    const blocks = places.map((/** @type {any} */ p, /** @type {number} */ i) => s("rect", { class: store.targets.buffers.has(p.buffer) ? "ts-chosen" : "", x: (p.first / kernels) * W + 0.5, y: y(offsets[i] + p.bytes), width: Math.max(((p.last + 1 - p.first) / kernels) * W - 1, 1), height: Math.max((p.bytes / most) * H - 0.5, 1), onclick: () => store.select({ kind: "buffer", id: p.buffer }) },
      s("title", {}, `${store.schedule.bufferName(p.buffer)} at byte ${offsets[i].toLocaleString("en")}`)));
    const over = lane.lower_bound_bytes ? Math.round((size / lane.lower_bound_bytes - 1) * 100) : 0;
    return h("figure", { class: name === store.schedule.memory.planner ? "ts-runs" : "" }, h("figcaption", {}, h("b", {}, name === "none" ? "no reuse" : name), ` ${bytes(size)}, ${over ? `${over} % over the least` : "the least possible"}`),
      /** @type {any} */ (s("svg", { class: "ts-planner", viewBox: `0 0 ${W} ${H}`, width: W, height: H, role: "img", "aria-label": `${name}: ${bytes(size)}` }, s("rect", { class: "ts-frame", width: W, height: H }), blocks, s("path", { class: "ts-bound", d: `M0 ${y(lane.lower_bound_bytes)}h${W}` }))));
  }));
}

/** @param {Store} store */
export function placements(store) {
  const { schedule, targets } = store;
  const rows = (schedule.memory.placements ?? []).map((/** @type {any} */ p) => h("tr", { class: targets.buffers.has(p.buffer) ? "ts-chosen" : "", onclick: () => store.select({ kind: "buffer", id: p.buffer }) },
    h("td", {}, h("button", { class: "ts-bare" }, schedule.bufferName(p.buffer))), h("td", { class: "ts-num" }, p.offset_bytes.toLocaleString("en")), h("td", { class: "ts-num" }, bytes(p.bytes)),
    h("td", {}, badge(p.first), " – ", badge(p.last)), h("td", {}, p.reason ?? "")));
  return table(["buffer", "at byte", "size", "kernels", "why there"], rows, "placements in the arena");
}
