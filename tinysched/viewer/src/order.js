// The order: kernels as a graph, an arrow for each reason to wait, the critical path, and who is ready at each slot.

import { badge, table } from "./table.js";
import { bytes, h, many, s, time } from "./dom.js";
import { criticalPath, ready } from "./dag.js";
import { path } from "./shapes.js";

/** @typedef {import("./store.js").Store} Store */

const MOST_DRAWN = 400;
const READABLE = 0.55; // of its size: a wide picture is made smaller to be seen whole, but not smaller than this

/** @param {Store} store */
export function order(store) {
  const { schedule } = store;
  if (!schedule.kernels.length) return h("p", { class: "ts-empty" }, "No kernel, so no order.");
  const cost = costs(store);
  const critical = criticalPath(schedule.kernels.length, schedule.order, cost.of);
  const holder = h("div", {});
  const draw = (/** @type {number | null} */ slot) => {
    store.slot = slot;
    holder.replaceChildren(controls(store, draw), drawing(store, critical.path));
  };
  draw(store.slot);
  return h("div", {}, lanes(store),
    h("p", { class: "ts-dim" }, "critical path: ", critical.path.map((k) => badge(k)), ` ${cost.say(critical.cost)} of ${cost.say(cost.total)}${cost.what}${critical.path.length === schedule.kernels.length ? ": every kernel waits for the one before" : ""}`), holder);
}

/** What a kernel costs: its time where it ran, else the bytes it moves. @param {Store} store */
function costs({ schedule }) {
  const { seconds } = schedule.run ?? {};
  const timed = seconds?.length === schedule.kernels.length;
  const of = schedule.kernels.map((kernel, k) => (timed ? seconds[k] : (kernel.bytes_read ?? 0) + (kernel.bytes_written ?? 0)));
  return { of, total: of.reduce((a, b) => a + b, 0), say: timed ? time : bytes, what: timed ? "" : " moved" };
}

/** The ready queue, slot by slot. @param {Store} store @param {(slot: number | null) => void} draw */
function controls(store, draw) {
  const { schedule, slot } = store;
  const n = schedule.kernels.length;
  const at = slot ?? 0;
  const waiting = ready(n, schedule.order, at);
  const button = (/** @type {string} */ text, /** @type {string} */ title, /** @type {number | null} */ to, off = false) => h("button", { class: "ts-mini", title, "aria-label": title, disabled: off, onclick: () => draw(to) }, text);
  return h("p", { class: "ts-acts ts-queue" },
    button("‹", "a slot back", Math.max(at - 1, 0), at === 0), button("›", "a slot on", Math.min(at + 1, n), slot !== null && at === n), button("all", "every kernel alike", null, slot === null),
    slot === null ? h("span", { class: "ts-dim" }, "step through the ready queue")
      : at === n ? h("span", {}, `all ${many(n, "kernel")} ran`)
        : h("span", {}, `slot ${at + 1} of ${n}: ready `, waiting.map((k) => badge(k)), " → runs ", badge(at)));
}

/** Each reason to wait, as a row. @param {Store} store */
export function reasons(store) {
  const { schedule, targets } = store;
  if (!schedule.order.length) return h("p", { class: "ts-empty" }, "No kernel waits for another.");
  const chosen = store.state.selection?.kind === "kernel" ? store.state.selection.id : null;
  const shown = schedule.order.filter((e) => chosen === null || e.after === chosen || e.before === chosen);
  const rows = shown.map((e) => h("tr", { class: targets.kernels.has(e.after) && targets.kernels.has(e.before) ? "ts-chosen" : "", onclick: () => store.select({ kind: "buffer", id: e.buffer }) },
    h("td", {}, badge(e.after)), h("td", {}, "waits for"), h("td", {}, badge(e.before)),
    h("td", { class: "ts-says" }, because(e.kind, e.before, e.after, schedule.bufferName(e.buffer))), h("td", {}, e.kind)));
  return h("div", {}, whose(store, chosen, shown), rows.length ? table(["kernel", "", "kernel", "because", ""], rows, "why kernels wait for one another") : null);
}

/** Whose reasons are shown, and the way back to all. @param {Store} store @param {number | null} chosen @param {{before: number, after: number}[]} shown */
function whose(store, chosen, shown) {
  if (chosen === null) return h("p", { class: "ts-dim" }, "every wait; click on a kernel to see only its own");
  const [before, after] = [shown.filter((e) => e.after === chosen).map((e) => e.before), shown.filter((e) => e.before === chosen).map((e) => e.after)];
  const badges = (/** @type {number[]} */ ks) => [...new Set(ks)].map((k) => badge(k));
  return h("p", {}, badge(chosen), " waits for ", before.length ? badges(before) : "nobody", "; ", after.length ? [badges(after), " wait for it "] : "nobody waits for it ",
    h("button", { class: "ts-mini", onclick: () => store.select(null) }, "show all"));
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

/** @param {Store} store @param {number[]} chain the critical path */
function drawing(store, chain) {
  const critical = new Set(chain), links = new Set(chain.map((k, i) => `${chain[i - 1]}/${k}`));
  const picture = store.schedule.kernelPicture;
  const { targets, schedule, slot } = store;
  if (!picture || picture.slots.length > MOST_DRAWN) {
    return h("p", { class: "ts-empty" }, `${schedule.kernels.length.toLocaleString("en")} kernels: see the pass “order” for the picture, the table for the reasons.`);
  }
  const told = new Map(schedule.order.map((e) => [`${e.before}/${e.after}`, e]));
  const edges = picture.edges.filter((/** @type {any} */ e) => e[2]).map((/** @type {any} */ [a, b, route]) => {
    const e = told.get(`${a}/${b}`);
    const classes = ["ts-edge", `ts-${(e?.kind ?? "RAW").toLowerCase()}`, links.has(`${a}/${b}`) ? "ts-critical" : ""];
    return s("path", { d: path(route), class: classes.join(" ") }, s("title", {}, because(e?.kind ?? "RAW", a, b, e ? schedule.bufferName(e.buffer) : "a buffer")));
  });
  const now = slot === null ? new Set() : new Set(ready(schedule.kernels.length, schedule.order, slot));
  const nodes = (picture.start ?? []).map((/** @type {any} */ [k, , title, sub]) => {
    const [x, y, w, height] = picture.slots[k];
    const state = slot === null ? "" : k < slot ? " ts-ran" : now.has(k) ? " ts-ready" : " ts-waits";
    return s("g", { class: `ts-node ts-kernel${targets.kernels.has(k) ? " ts-chosen" : ""}${critical.has(k) ? " ts-critical" : ""}${state}`, transform: `translate(${x} ${y})`, role: "img", "aria-label": `kernel ${title}${state}`, onclick: () => store.select({ kind: "kernel", id: k }) },
      s("rect", { class: `ts-body ts-k${k % 8}`, x: -w / 2, y: -height / 2, width: w, height, rx: 4 }),
      s("text", { class: "ts-title", "text-anchor": "middle", y: -2 }, title), s("text", { class: "ts-sub", "text-anchor": "middle", y: 12 }, sub));
  });
  const [w, height] = picture.size;
  return h("div", { class: "ts-scroll" }, /** @type {any} */ (s("svg", { class: "ts-orderdag", viewBox: `-12 -12 ${w + 24} ${height + 24}`, width: "100%", style: `min-width: ${Math.round((w + 24) * READABLE)}px; max-width: ${w + 24}px`, role: "group", "aria-label": "kernels in order" }, edges, nodes)));
}
