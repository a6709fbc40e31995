// Values of a run: statistics and a small heat map of each buffer that was kept.

import { h, number, s } from "./dom.js";

/** @typedef {import("./store.js").Store} Store */

const CELL = 9;

/** @param {Store} store */
export function values(store) {
  const found = Object.entries(store.schedule.run?.values ?? {});
  if (!found.length) {
    return h("p", { class: "ts-empty" }, store.schedule.run
      ? "This run kept no values."
      : "No values are recorded: press “run” in a notebook, or capture with run=True and values=True.");
  }
  return h("div", { class: "ts-values" }, found.map(([b, value]) => card(store, Number(b), value)));
}

/** @param {Store} store @param {number} b @param {import("./model.js").Value} value */
function card(store, b, value) {
  const chosen = store.targets.buffers.has(b);
  const bad = [value.nan ? `${value.nan} NaN` : "", value.inf ? `${value.inf} inf` : ""].filter(Boolean).join(", ");
  return h("figure", { class: `ts-value${chosen ? " ts-chosen" : ""}`, onclick: () => store.select({ kind: "buffer", id: b }) },
    h("figcaption", {}, h("b", {}, store.schedule.bufferName(b)), ` ${value.shape.join("×") || "one value"}`),
    value.sample?.length ? heat(value) : h("p", { class: "ts-dim" }, "no elements"),
    h("p", { class: "ts-dim" }, value.min === undefined ? "" : `${number(value.min)} … ${number(/** @type {number} */ (value.max))}, mean ${number(/** @type {number} */ (value.mean))}`),
    bad ? h("p", { class: "ts-bad" }, bad) : null);
}

/** Blue below zero, orange above: the strength is the size. @param {import("./model.js").Value} value */
function heat(value) {
  const rows = /** @type {number[][]} */ (value.sample);
  const most = Math.max(Math.abs(value.min ?? 0), Math.abs(value.max ?? 0)) || 1;
  const cells = rows.flatMap((row, i) => row.map((v, j) => {
    const good = typeof v === "number";
    const strength = good ? Math.min(1, Math.abs(v) / most) : 1;
    return s("rect", { x: j * CELL, y: i * CELL, width: CELL - 0.6, height: CELL - 0.6, class: !good ? "ts-odd" : v < 0 ? "ts-minus" : "ts-plus", "fill-opacity": (0.06 + 0.94 * strength).toFixed(3) },
      s("title", {}, `[${i}, ${j}] ${number(v)}`));
  }));
  const [w, height] = [rows[0].length * CELL, rows.length * CELL];
  return /** @type {any} */ (s("svg", { class: "ts-heat", viewBox: `0 0 ${w} ${height}`, width: w, height, role: "img", "aria-label": `first ${rows.length} × ${rows[0].length} values` }, cells));
}
