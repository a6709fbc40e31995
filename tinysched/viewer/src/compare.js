// What if: this schedule beside the one before, and the decisions that were turned, each of which can be turned back.

import { bytes, count, h, prose, time } from "./dom.js";
import { pythonButton } from "./parts.js";

/** @typedef {import("./store.js").Store} Store */

/** @param {Store} store */
export function compare(store) {
  const { comparison } = store;
  if (!comparison && Object.keys(store.turned).length) return before(store);
  if (!comparison) {
    return h("p", { class: "ts-empty" }, store.python
      ? "No decision was turned. Select a value and press “try it” under “why”: the scheduler really runs again, and both schedules stand here side by side."
      : "No decision was turned. Turning one needs Python: open this trace in a notebook, with explore(trace).");
  }
  return h("div", { class: "ts-split" }, figures(store), turned(store));
}

/** A trace that was captured or saved with decisions turned: which, and nothing to compare with. @param {Store} store */
function before(store) {
  const values = Object.entries(store.turned).map(([key, what]) => {
    const id = Number.parseInt(key, 10);
    return h("li", {}, h("b", {}, store.schedule.nodes[id] ? store.schedule.called(id) : key), ` is ${what === "fuse" ? "fused" : "stored"}`);
  });
  return h("div", {}, h("p", { class: "ts-dim" }, "This schedule was made with decisions turned. What it was before is not in this trace."), h("ul", { class: "ts-turned" }, values));
}

/** @param {Store} store */
function figures(store) {
  const c = store.comparison;
  const rows = /** @type {[string, [number, number] | null, (n: number) => string][]} */ ([
    ["kernels", c.kernels, String], ["bytes moved", c.bytes, bytes], ["operations", c.ops, count], ["arena", c.arena_bytes, bytes], ["time", c.seconds ?? null, time],
  ]);
  const row = (/** @type {string} */ name, /** @type {[number, number] | null} */ pair, /** @type {(n: number) => string} */ say) => h("tr", {},
    h("th", { scope: "row" }, name), ...(pair ? [h("td", { class: "ts-num" }, say(pair[0])), h("td", { class: "ts-num" }, say(pair[1])), h("td", {}, bars(pair)), h("td", { class: `ts-num ${pair[1] > pair[0] ? "ts-cutverdict" : "ts-good"}` }, change(pair, say))]
      : [h("td", { colspan: 4 }, pythonButton(store, "measure both", "run both schedules on the same random inputs, and compare their values", () => store.python?.measure()))]));
  return h("div", {}, h("table", { class: "ts-table ts-compare", "aria-label": "before and after" },
    h("thead", {}, h("tr", {}, ["", "before", "what if", "", "change"].map((t) => h("th", { scope: "col", class: t === "before" || t === "what if" || t === "change" ? "ts-num" : "" }, t)))),
    h("tbody", {}, rows.map(([name, pair, say]) => row(name, pair, say)))),
  c.same === true ? h("p", { class: "ts-good" }, "Both leave the same values.") : c.same === false ? h("p", { class: "ts-bad" }, "The values differ.") : null);
}

/** Two bars: before above, what if below. @param {[number, number]} pair */
function bars([before, after]) {
  const most = Math.max(before, after, 1e-12);
  return h("div", { class: "ts-pair", role: "img", "aria-label": "bars: before above, what if below" }, [before, after].map((n, i) => h("span", { class: `ts-meter ${i ? "ts-readbar" : "ts-beforebar"}`, style: `width:${((n / most) * 100).toFixed(1)}%` })));
}

/** @param {[number, number]} pair @param {(n: number) => string} say */
function change([before, after], say) {
  if (before === after) return "same";
  const times = before > 0 && after / before >= 2 ? `, ${(after / before).toFixed(1)} ×` : "";
  return `${after > before ? "+" : "−"}${say(Math.abs(after - before))}${times}`;
}

/** @param {Store} store */
function turned(store) {
  const c = store.comparison;
  const all = Object.entries(c.overrides ?? {});
  return h("div", {}, h("p", { class: "ts-dim" }, "decisions turned"),
    h("ul", { class: "ts-turned" }, all.map(([key, what]) => h("li", {}, h("b", {}, prose(c.names?.[key] ?? key)), ` is ${what === "fuse" ? "fused" : "stored"} `,
      h("button", { class: "ts-mini", title: "take this one back", "aria-label": `take back ${(c.names?.[key] ?? key).replaceAll("`", "")}`, onclick: () => store.python?.undo(key) }, "×")))),
    (c.changed ?? []).map((/** @type {string} */ text) => h("p", {}, prose(text))),
    (c.notes ?? []).map((/** @type {string} */ text) => h("p", { class: "ts-dim" }, text)),
    h("p", {}, pythonButton(store, "undo the last", "take the last what-if back", () => store.python?.undo("")), " ", pythonButton(store, "undo all", "back to what the scheduler decided", () => store.python?.undo(null))));
}
