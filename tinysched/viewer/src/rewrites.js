// The rewrite stepper: the rule in one line, the nodes it matched and what it left, and the rule's own code.

import { h } from "./dom.js";
import { placeOfLine } from "./model.js";
import { table } from "./table.js";

/** @typedef {import("./store.js").Store} Store @typedef {import("./model.js").Schedule} Schedule */

const DEPTH = 4; // of the trees
const MOST_LINES = 24;

/** Every rewrite as (stage, step). @param {Schedule} schedule @returns {[number, number][]} */
function all(schedule) {
  return schedule.stages.flatMap((stage, s) => (stage.steps ?? []).flatMap((step, i) => (step.kind === "rewrite" ? [/** @type {[number, number]} */ ([s, i])] : [])));
}

/** The rewrite of the current step, or the next one. @param {Store} store @param {[number, number][]} found */
function now(store, found) {
  const { stage, step } = store.state;
  const k = found.findIndex(([s, i]) => s > stage || (s === stage && i + 1 >= step));
  return k < 0 ? found.length - 1 : k;
}

/** To the next rewrite, or to the one before: what the arrow keys do in the small widget. @param {Store} store @param {number} by */
export function rewriteBy(store, by) {
  const found = all(store.schedule);
  if (!found.length) return;
  const k = now(store, found);
  const [stage, i] = found[k];
  const between = store.state.stage !== stage || store.state.step !== i + 1; // then the one that is shown comes next
  const to = found[between && by > 0 ? k : k + by];
  if (to) store.set({ stage: to[0], step: to[1] + 1 });
}

/** @param {Store} store */
export function rewrites(store) {
  const { schedule } = store;
  const found = all(schedule);
  if (!found.length) return h("p", { class: "ts-empty" }, "No rule was applied: nothing in this graph had to be rewritten.");
  const k = now(store, found);
  const [stage, i] = found[k];
  const step = /** @type {import("./model.js").Step} */ (schedule.stages[stage].steps?.[i]);
  const rule = schedule.rules[step.rule];
  const times = found.filter(([s, j]) => schedule.stages[s].steps?.[j].rule === step.rule).length;
  const go = (/** @type {number} */ to) => store.set({ stage: found[to][0], step: found[to][1] + 1 });
  const [before, after] = [below(schedule, step.before), below(schedule, step.after)];
  return h("div", { class: "ts-rewrite" },
    h("div", { class: "ts-indexhead" }, h("button", { class: "ts-button", disabled: k === 0, onclick: () => go(k - 1) }, "← rewrite before"), ` rewrite ${k + 1} of ${found.length}, in ${schedule.stages[stage].name} `,
      h("button", { class: "ts-button", disabled: k === found.length - 1, onclick: () => go(k + 1) }, "next rewrite →")),
    h("p", {}, h("b", {}, rule.name), h("span", { class: "ts-dim" }, ` applied ${times} ${times === 1 ? "time" : "times"} here`)),
    h("pre", { class: "ts-code ts-rule" }, rule.doc ?? ""),
    h("div", { class: "ts-beforeafter" },
      h("figure", {}, h("figcaption", {}, "matched (− is gone afterwards)"), tree(store, step.before, after, "−")),
      h("figure", {}, h("figcaption", {}, "became (+ is new)"), tree(store, step.after, before, "+"))),
    rule.code ? h("figure", {}, h("figcaption", {}, `the rule, ${placeOfLine({ file: rule.file, number: rule.line })}`), h("pre", { class: "ts-code" }, rule.code))
      : h("p", { class: "ts-dim" }, rule.file ? `The rule is written in ${placeOfLine({ file: rule.file, number: rule.line })}; its text was not recorded.` : "This rule has no function of its own."));
}

/** @param {Schedule} schedule @param {number} root */
function below(schedule, root) {
  const found = new Set([root]);
  const stack = [root];
  while (stack.length) {
    for (const n of schedule.nodes[/** @type {number} */ (stack.pop())].src ?? []) {
      if (!found.has(n)) {
        found.add(n);
        stack.push(n);
      }
    }
  }
  return found;
}

/** A node and its sources as an indented tree; those that the other side has not are marked. @param {Store} store @param {number} root @param {Set<number>} other @param {string} sign */
function tree(store, root, other, sign) {
  const { schedule } = store;
  const lines = /** @type {Node[]} */ ([]);
  let left = 0;
  const walk = (/** @type {number} */ id, /** @type {number} */ depth) => {
    if (lines.length >= MOST_LINES) return void left++;
    const node = schedule.nodes[id];
    const own = !other.has(id);
    lines.push(h("button", { class: `ts-treeline${own ? " ts-own" : ""}`, style: `padding-left:${depth * 16 + 4}px`, onclick: () => store.select({ kind: "node", id }) },
      h("b", {}, own ? sign : " "), ` ${schedule.called(id)}`, h("span", { class: "ts-dim" }, ` ${(node.shape ?? []).join("×")}${node.expr === undefined && node.arg && !["memory", "stage"].includes(node.kind) && schedule.called(id) !== node.arg ? ` ${node.arg}` : ""}`)));
    if (node.expr !== undefined || !own) return;
    if (depth < DEPTH) for (const n of node.src ?? []) walk(n, depth + 1);
    else if (node.src?.length) left++;
  };
  walk(root, 0);
  return h("div", { class: "ts-tree" }, lines, left ? h("p", { class: "ts-dim" }, `${left} more below: select a node to see it in the graph`) : null);
}

/** Every rewrite as a table. @param {Store} store */
export function rewritesTable(store) {
  const { schedule } = store;
  const found = all(schedule);
  const k = found.length ? now(store, found) : -1;
  const rows = found.map(([s, i], at) => {
    const step = /** @type {import("./model.js").Step} */ (schedule.stages[s].steps?.[i]);
    const rule = schedule.rules[step.rule];
    return h("tr", { class: at === k ? "ts-chosen" : "", onclick: () => store.set({ stage: s, step: i + 1 }) }, h("td", {}, schedule.stages[s].name), h("td", { class: "ts-num" }, i + 1),
      h("td", {}, h("button", { class: "ts-bare" }, rule.name)), h("td", {}, schedule.called(step.before)), h("td", {}, schedule.called(step.after)), h("td", {}, rule.doc ?? ""));
  });
  return table(["pass", "step", "rule", "before", "after", "what it does"], rows, "rewrites");
}
