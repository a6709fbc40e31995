// Every decision as a sentence, to sort and to filter; a row leads to its step.

import { h, many, prose, put } from "./dom.js";
import { table } from "./table.js";

/** @typedef {import("./store.js").Store} Store @typedef {import("./model.js").Decision} Decision */

const asked = /** @type {WeakMap<Store, {text: string, verdict: string}>} */ (new WeakMap());

/** Those that hold a text and have a verdict; "" stands for any. @param {Decision[]} all @param {string} text @param {string} verdict @param {(d: Decision) => string} words */
export function matching(all, text, verdict, words) {
  const want = text.trim().toLowerCase();
  return all.filter((d) => (!verdict || d.verdict === verdict) && (!want || words(d).toLowerCase().includes(want)));
}

/** @param {Store} store */
export function decisions(store) {
  const { schedule } = store;
  if (!schedule.decisions.length) return h("p", { class: "ts-empty" }, "No pass had anything to decide.");
  const wish = asked.get(store) ?? { text: "", verdict: "" };
  asked.set(store, wish);
  const called = (/** @type {Decision} */ d) => (d.node < 0 ? "the schedule" : schedule.called(d.node));
  const words = (/** @type {Decision} */ d) => `${schedule.stages[d.stage].name} ${called(d)} ${d.verdict} ${d.reason} ${d.text}`;
  const body = h("div", {});
  const count = h("span", { class: "ts-dim", "aria-live": "polite" });
  const draw = () => {
    const found = matching(schedule.decisions, wish.text, wish.verdict, words);
    put(count, `showing ${found.length.toLocaleString("en")} of ${many(schedule.decisions.length, "decision")}`);
    put(body, table(["pass", "node", "verdict", "reason", "why"], found.map((d) => row(store, d, called(d))), "decisions"));
  };
  const verdicts = [...new Set(schedule.decisions.map((d) => d.verdict))].sort();
  const filter = h("input", { type: "search", class: "ts-search", placeholder: "filter", "aria-label": "filter decisions by any word", value: wish.text, oninput: (/** @type {any} */ e) => (wish.text = e.target.value, draw()) });
  const select = h("select", { "aria-label": "verdict", onchange: (/** @type {any} */ e) => (wish.verdict = e.target.value, draw()) },
    h("option", { value: "" }, "any verdict"), verdicts.map((v) => h("option", { value: v, selected: v === wish.verdict }, v)));
  draw();
  return h("div", {}, h("div", { class: "ts-indexhead" }, filter, select, count), body);
}

/** @param {Store} store @param {Decision} d @param {string} name */
function row(store, d, name) {
  return h("tr", { class: store.targets.nodes.has(d.node) ? "ts-chosen" : "", onclick: () => store.set({ stage: d.stage, step: d.step + 1, selection: d.node < 0 ? null : { kind: "node", id: d.node } }) },
    h("td", { "data-value": d.stage * 1e6 + d.step }, store.schedule.stages[d.stage].name), h("td", {}, h("button", { class: "ts-bare" }, name)),
    h("td", {}, d.verdict), h("td", {}, h("code", {}, d.reason)), h("td", {}, prose(d.text)));
}
