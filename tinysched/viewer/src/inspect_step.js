// What the current step did: a rewrite, a decision with its evidence, or the loops a node got.

import { h, prose } from "./dom.js";
import { placeOfLine } from "./model.js";
import { facts, loopLink, mono, nodeLink, verdictClass } from "./parts.js";

/** @typedef {import("./store.js").Store} Store @typedef {import("./model.js").Step} Step */

/** @param {Store} store */
export function stepCard(store) {
  const { schedule, state } = store;
  const stage = schedule.stages[state.stage];
  const step = stage.steps?.[state.step - 1];
  const head = h("h3", {}, state.step ? `step ${state.step}` : stage.name);
  if (!step) return [head, h("p", {}, prose(store.sentence()))];
  const tell = step.kind === "rewrite" ? rewrite : step.kind === "decision" ? decision : ranges;
  return [head, ...tell(store, step)];
}

/** @param {Store} store @param {Step} step */
function rewrite(store, step) {
  const rule = store.schedule.rules[step.rule];
  return [
    h("p", {}, h("b", {}, rule.name), rule.file ? h("span", { class: "ts-dim" }, ` ${placeOfLine({ file: rule.file, number: rule.line })}`) : null),
    rule.doc ? h("pre", { class: "ts-code" }, rule.doc) : null,
    facts([["before", nodeLink(store, step.before)], ["after", nodeLink(store, step.after)]]),
  ];
}

/** @param {Store} store @param {Step} step */
function decision(store, step) {
  return [
    h("p", {}, h("span", { class: `ts-verdict ${verdictClass(step.verdict)}` }, step.verdict), " ", step.node === undefined ? "" : nodeLink(store, step.node)),
    h("p", { class: "ts-dim" }, step.reason),
    evidence(store, step.evidence ?? {}),
  ];
}

/** The numbers and index expressions that a decision went by. @param {Store} store @param {any} e */
export function evidence(store, e) {
  if (!e.consumers || !e.indices) return facts(Object.entries(e).map(([k, v]) => [k.replaceAll("_", " "), part(store, v)]));
  const rows = e.consumers.map((/** @type {any} */ c, /** @type {number} */ i) => h("tr", {},
    h("th", { scope: "row" }, part(store, c)),
    (e.indices[i] ?? []).map((/** @type {any} */ index, /** @type {number} */ axis) =>
      h("td", { class: (e.axes ?? []).includes(axis) ? "ts-differs" : "" }, part(store, index)))));
  return h("table", { class: "ts-indices" }, h("caption", {}, "index of each axis, per reader"), h("tbody", {}, rows));
}

/** @param {Store} store @param {Step} step */
function ranges(store, step) {
  const loops = (/** @type {string[] | undefined} */ names) => (names?.length ? h("span", { class: "ts-list" }, names.flatMap((n, i) => [i ? ", " : "", /^r\d+$/i.test(n) ? loopLink(store, n) : mono(n)])) : "none");
  return [
    h("p", {}, nodeLink(store, step.node ?? 0)),
    facts([["its loops", loops(step.out)], ["reads at", loops(step.in)], ["stored", step.realized ? "yes" : "no"]]),
    step.index?.length ? h("h4", {}, "index arithmetic") : null,
    step.index?.length ? h("ol", { class: "ts-arithmetic" }, step.index.map(([rule, before, after]) =>
      h("li", {}, h("b", {}, store.schedule.rules[rule].name), " ", mono(before), " → ", mono(after)))) : null,
  ];
}

/** Evidence: a node, a list, or plain words. @param {Store} store @param {any} value @returns {any} */
function part(store, value) {
  if (value === null || value === undefined) return "none";
  if (Array.isArray(value) && !value.length) return [];
  if (Array.isArray(value)) return h("span", { class: "ts-list" }, value.flatMap((p, i) => (i ? [", ", part(store, p)] : [part(store, p)])));
  if (typeof value === "object") return "node" in value ? nodeLink(store, value.node) : JSON.stringify(value);
  return typeof value === "number" ? value.toLocaleString("en") : mono(String(value));
}
