// The walk of rangeify: the tuple of loops flows against the edges, from readers to sources. One node at a time, as the pass
// visits them; the table holds the whole walk.

import { h, prose, s } from "./dom.js";
import { table } from "./table.js";

/** @typedef {import("./store.js").Store} Store @typedef {[number, [number, string[]][], number[], string]} Visit step, wanted, decided, rule */

/** Which visit the current step belongs to: its decisions come before its loops. @param {Visit[]} visits @param {number} step */
export function visitAt(visits, step) {
  const k = visits.findIndex(([at]) => at + 1 >= step);
  return k < 0 ? visits.length - 1 : k;
}

/** @param {Store} store @returns {[number, Visit[]]} */
function walk(store) {
  return [store.schedule.stages.findIndex((x) => x.name === "rangeify"), store.schedule.part("ranges") ?? []];
}

/** @param {Store} store */
export function ranges(store) {
  const [stage, visits] = walk(store);
  if (!visits.length) return h("p", { class: "ts-empty" }, "No pass gave out loops here.");
  const { state } = store;
  const k = state.stage === stage ? visitAt(visits, Math.max(state.step, 1)) : 0;
  const go = (/** @type {number} */ to) => store.set({ stage, step: visits[to][0] + 1 });
  return h("div", { class: "ts-rangewalk" },
    h("div", { class: "ts-indexhead" },
      h("button", { class: "ts-button", disabled: k === 0, onclick: () => go(k - 1) }, "← node before"), ` node ${k + 1} of ${visits.length}, readers first `,
      h("button", { class: "ts-button", disabled: k === visits.length - 1, onclick: () => go(k + 1) }, "next node →")),
    card(store, stage, visits[k]));
}

/** @param {Store} store @param {number} stage @param {Visit} visit */
function card(store, stage, [at, wanted, decided, rule]) {
  const { schedule } = store;
  const told = schedule.stages[stage].steps?.[at];
  const evidence = decided.map((i) => schedule.stages[stage].steps?.[i].evidence).find((e) => e?.indices && e.axes?.length);
  const failed = new Set(evidence?.axes ?? []);
  const node = told?.node ?? 0;
  const words = decided.map((i) => h("p", { class: "ts-why" }, prose(schedule.texts[stage][i])));
  return h("div", {}, picture(store, node, wanted, told?.out ?? [], told?.in ?? [], failed), h("p", {}, h("b", {}, "rule "), rule),
    told?.realized ? h("p", {}, h("b", {}, "stored"), told.realized.length === (told.out ?? []).length ? ": all axes get new loops, the value gets a buffer" : `: axes ${told.realized.join(", ")} get new loops`) : h("p", {}, "not stored: computed inside of its reader’s loops"),
    words.length ? words : h("p", { class: "ts-dim" }, "Nothing had to be decided: its one reader’s indices are its own."),
    told?.index?.length ? h("details", {}, h("summary", {}, `index arithmetic, ${told.index.length} rules`),
      h("ol", { class: "ts-arithmetic" }, told.index.map(([r, before, after]) => h("li", {}, h("b", {}, schedule.rules[r].name), " ", h("code", {}, before), " → ", h("code", {}, after))))) : null);
}

/** Readers above, the node, sources below, and on each edge the tuple that flows down it. @param {Store} store @param {number} node @param {[number, string[]][]} wanted @param {string[]} out @param {string[]} in_ @param {Set<number>} failed */
function picture(store, node, wanted, out, in_, failed) {
  const { schedule } = store;
  const sources = [...new Set(schedule.nodes[node].src ?? [])].filter((n) => schedule.nodes[n].expr === undefined);
  const [readers, below] = [wanted.slice(0, 4), sources.slice(0, 4)];
  const columns = Math.max(readers.length, below.length, 1);
  const [W, H] = [Math.max(240 * columns, 340 + 2 * 7 * out.join(", ").length), 196];
  const x = (/** @type {number} */ i, /** @type {number} */ n) => (W * (i + 0.5)) / Math.max(n, 1);
  const pill = (/** @type {number} */ cx, /** @type {number} */ y, /** @type {number} */ id, /** @type {string} */ name, before = "") => s("g", { class: `ts-node ${name}`, transform: `translate(${cx} ${y})`, onclick: () => store.select({ kind: "node", id }) },
    s("rect", { class: "ts-body", x: -100, y: -14, width: 200, height: 28, rx: 14 }), s("text", { class: "ts-title", "text-anchor": "middle", y: 4 }, short([`${before}${schedule.called(id)}`, (schedule.nodes[id].shape ?? []).join("×")].filter(Boolean).join(" · "))));
  const tuple = (/** @type {number} */ cx, /** @type {number} */ y, /** @type {string[]} */ index) => s("text", { class: "ts-tuple", x: cx, y, "text-anchor": "middle" }, index.flatMap((part, i) => [i ? ", " : "(", s("tspan", { class: failed.has(i) && y < 80 ? "ts-differs2" : "" }, part)]), index.length ? ")" : "()", s("title", {}, index.join(", ")));
  const parts = readers.flatMap(([reader, index], i) => [s("path", { class: "ts-edge", d: `M${x(i, readers.length)} 34L${W / 2} 84` }), pill(x(i, readers.length), 20, reader, "ts-alu"), tuple(x(i, readers.length), 54, index)]);
  parts.push(...below.flatMap((source, i) => [s("path", { class: "ts-edge", d: `M${W / 2} 112L${x(i, below.length)} 162` }), pill(x(i, below.length), 176, source, "ts-alu", schedule.nodes[node].op === "STORE" && source === schedule.nodes[node].src?.[0] ? "written to: " : "")]));
  parts.push(tuple(W / 2, 146, in_), pill(W / 2, 98, node, "ts-alu ts-focus"), s("text", { class: "ts-sub", x: W / 2 + 108, y: 102 }, `loops (${out.join(", ")})`));
  const words = `${schedule.called(node)}: readers want it at ${wanted.map(([r, i]) => `(${i.join(", ")}) for ${schedule.called(r)}`).join("; ") || "nothing, it is a root"}; its loops are (${out.join(", ")}); it reads its sources at (${in_.join(", ")})`;
  const more = wanted.length > 4 || sources.length > 4 ? h("p", { class: "ts-dim" }, `showing ${readers.length} of ${wanted.length} readers and ${below.length} of ${sources.length} sources; the table has all`) : null;
  return h("div", { class: "ts-scroll" }, /** @type {any} */ (s("svg", { class: "ts-orderdag ts-rangecard", viewBox: `0 0 ${W} ${H}`, width: W, height: H, role: "img", "aria-label": words }, parts)), more);
}

/** @param {string} text */
function short(text) {
  return text.length > 26 ? `${text.slice(0, 25)}…` : text;
}

/** The whole walk as a table. @param {Store} store */
export function rangesTable(store) {
  const [stage, visits] = walk(store);
  const { schedule, targets, state } = store;
  const now = state.stage === stage ? visitAt(visits, Math.max(state.step, 1)) : 0;
  const rows = visits.map(([at, wanted], k) => {
    const told = schedule.stages[stage].steps?.[at];
    const node = told?.node ?? 0;
    return h("tr", { class: k === now ? "ts-chosen" : "", onclick: () => store.set({ stage, step: at + 1 }) },
      h("td", { class: "ts-num" }, k + 1), h("td", {}, h("button", { class: `ts-bare${targets.nodes.has(node) ? " ts-strong" : ""}` }, schedule.called(node))),
      h("td", {}, h("code", {}, wanted.map(([, index]) => `(${index.join(", ")})`).join(" · ") || "–")), h("td", {}, h("code", {}, (told?.out ?? []).join(", "))),
      h("td", {}, h("code", {}, (told?.in ?? []).join(", "))), h("td", {}, told?.realized ? (told.realized.length === (told.out ?? []).length ? "all" : told.realized.join(", ")) : "–"));
  });
  return table(["#", "node", "wanted at", "its loops", "reads at", "stored axes"], rows, "the walk of rangeify");
}
