// Values of a run: statistics, a heat map of elements from the first to the last, a histogram; two of them side by side.

import { h, number, s } from "./dom.js";
import { table } from "./table.js";

/** @typedef {import("./store.js").Store} Store @typedef {import("./model.js").Value} Value */

const CELL = 9;
const against = /** @type {WeakMap<Store, number | null>} */ (new WeakMap()); // the buffer that the selected one is compared with

/** @param {Store} store @returns {[number, Value][]} */
function kept(store) {
  return Object.entries(store.schedule.run?.values ?? {}).map(([b, v]) => [Number(b), v]);
}

/** @param {Store} store */
export function values(store) {
  const found = kept(store);
  if (!found.length) {
    return h("p", { class: "ts-empty" }, store.schedule.run
      ? "This run kept no values: capture with values=True, or name those to keep."
      : "No values are recorded: press “run” in a notebook, or capture with run=True and values=True.");
  }
  const el = h("div", {});
  const draw = () => {
    el.textContent = "";
    el.append(comparison(store, found, draw), h("div", { class: "ts-values" }, found.map(([b, value]) => card(store, b, value))));
  };
  draw();
  return el;
}

/** @param {Store} store @param {[number, Value][]} found @param {() => void} draw */
function comparison(store, found, draw) {
  const chosen = found.find(([b]) => store.targets.buffers.has(b)) ?? found[0];
  const other = found.find(([b]) => b === against.get(store)) ?? null;
  const name = (/** @type {number} */ b) => store.schedule.bufferName(b);
  const select = h("select", { "aria-label": "value to compare with", onchange: (/** @type {any} */ e) => {
    against.set(store, e.target.value === "" ? null : Number(e.target.value));
    draw();
  } }, h("option", { value: "" }, "nothing"), found.map(([b]) => h("option", { value: b, selected: other?.[0] === b }, name(b))));
  return h("div", {}, h("p", {}, "compare ", h("b", {}, name(chosen[0])), " with ", select), other ? difference(name(chosen[0]), chosen[1], name(other[0]), other[1]) : null);
}

/** Both at the same elements, and what differs. @param {string} an @param {Value} a @param {string} bn @param {Value} b */
function difference(an, a, bn, b) {
  const same = String(a.shape) === String(b.shape) && a.sample?.length;
  if (!same) return h("p", { class: "ts-dim" }, `${an} is ${shape(a)} and ${bn} ${shape(b)}: they have no elements to compare one by one. Their ranges are ${range(a)} and ${range(b)}.`);
  const rows = /** @type {number[][]} */ (a.sample).map((row, i) => row.map((v, j) => v - /** @type {number[][]} */ (b.sample)[i][j]));
  const all = rows.flat().filter((v) => Number.isFinite(v));
  const most = Math.max(0, ...all.map(Math.abs));
  return h("figure", { class: "ts-value" }, h("figcaption", {}, `${an} − ${bn}, at ${all.length} of ${a.shape.reduce((x, y) => x * y, 1).toLocaleString("en")} elements`),
    heat({ ...a, sample: rows, min: -most, max: most }, `${an} minus ${bn}`),
    h("p", {}, most === 0 ? "No difference at these elements." : `Largest difference at these elements: ${number(most)}.`));
}

/** @param {Value} v */
function shape(v) {
  return v.shape.join("×") || "one value";
}

/** @param {Value} v */
function range(v) {
  return v.min === undefined ? "nothing finite" : `${number(v.min)} … ${number(/** @type {number} */ (v.max))}`;
}

/** @param {Store} store @param {number} b @param {Value} value */
function card(store, b, value) {
  const chosen = store.targets.buffers.has(b);
  const bad = [value.nan ? `${value.nan.toLocaleString("en")} NaN` : "", value.inf ? `${value.inf.toLocaleString("en")} inf` : ""].filter(Boolean).join(", ");
  const total = value.shape.reduce((x, y) => x * y, 1);
  const shown = (value.sample ?? []).reduce((n, row) => n + row.length, 0);
  return h("figure", { class: `ts-value${chosen ? " ts-chosen" : ""}`, onclick: () => store.select({ kind: "buffer", id: b }) },
    h("figcaption", {}, h("button", { class: "ts-bare" }, h("b", {}, store.schedule.bufferName(b))), ` ${shape(value)}`),
    value.sample?.length ? heat(value, store.schedule.bufferName(b)) : h("p", { class: "ts-dim" }, "no elements"), histogram(value),
    h("p", { class: "ts-dim" }, value.min === undefined ? "" : `${range(value)}, mean ${number(/** @type {number} */ (value.mean))}`),
    shown < total ? h("p", { class: "ts-dim" }, `showing ${shown.toLocaleString("en")} of ${total.toLocaleString("en")} elements, evenly spread`) : null,
    bad ? h("p", { class: "ts-bad" }, bad) : null, loose(store, b) ? h("p", { class: "ts-dim" }, "Room for the largest size: what this run did not write may hold anything, also NaN.") : null);
}

/** Whether a buffer has room for the largest value of a Variable. @param {Store} store @param {number} b */
function loose(store, b) {
  const node = store.schedule.nodes[store.schedule.buffers[b].node ?? -1];
  return node?.shape?.some((n) => typeof n === "string");
}

/** Blue below zero, orange above: the strength is the size; what is no number has a cross. @param {Value} value @param {string} name */
function heat(value, name) {
  const rows = /** @type {number[][]} */ (value.sample);
  const most = Math.max(Math.abs(value.min ?? 0), Math.abs(value.max ?? 0)) || 1;
  const at = (/** @type {number} */ i, /** @type {number} */ j) => `[${value.rows?.[i] ?? i}, ${value.columns?.[j] ?? j}]`;
  const cells = rows.flatMap((row, i) => row.map((v, j) => {
    const good = Number.isFinite(v);
    const [x, y, w] = [j * CELL, i * CELL, CELL - 0.6];
    if (!good) return s("path", { class: "ts-odd", d: `M${x} ${y}l${w} ${w}m0 ${-w}l${-w} ${w}` }, s("title", {}, `${at(i, j)} ${v}`));
    return s("rect", { x, y, width: w, height: w, class: v < 0 ? "ts-minus" : "ts-plus", "fill-opacity": (0.06 + 0.94 * Math.min(1, Math.abs(v) / most)).toFixed(3) }, s("title", {}, `${at(i, j)} ${number(v)}`));
  }));
  const [w, height] = [rows[0].length * CELL, rows.length * CELL];
  return /** @type {any} */ (s("svg", { class: "ts-heat", viewBox: `0 0 ${w} ${height}`, width: w, height, role: "img", "aria-label": `${name}: heat map of ${rows.length} × ${rows[0].length} elements, ${range(value)}` }, cells));
}

/** @param {Value} value */
function histogram(value) {
  const counts = value.histogram ?? [];
  if (counts.length < 2) return null;
  const most = Math.max(...counts);
  const bars = counts.map((n, i) => s("rect", { x: i * 7, y: 36 - (n / most) * 36, width: 6, height: Math.max((n / most) * 36, n ? 1 : 0) }, s("title", {}, `${n.toLocaleString("en")} elements`)));
  return /** @type {any} */ (s("svg", { class: "ts-histogram", viewBox: `0 0 ${counts.length * 7} 37`, width: counts.length * 7, height: 37, role: "img", "aria-label": `histogram in ${counts.length} parts from ${range(value)}: ${counts.join(", ")}` }, bars));
}

/** @param {Store} store */
export function valuesTable(store) {
  const rows = kept(store).map(([b, v]) => h("tr", { class: store.targets.buffers.has(b) ? "ts-chosen" : "", onclick: () => store.select({ kind: "buffer", id: b }) },
    h("td", {}, h("button", { class: "ts-bare" }, store.schedule.bufferName(b))), h("td", {}, shape(v)), ...[v.min, v.max, v.mean].map((x) => h("td", { class: "ts-num", "data-value": x }, x === undefined ? "–" : number(x))),
    h("td", { class: "ts-num" }, v.nan ?? 0), h("td", { class: "ts-num" }, v.inf ?? 0)));
  return table(["buffer", "shape", "least", "greatest", "mean", "NaN", "inf"], rows, "values");
}
