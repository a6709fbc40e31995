// Nodes, kernels, passes, steps, rules and lines that hold a text.

import { placeOfLine } from "./model.js";

/** @typedef {import("./model.js").Schedule} Schedule @typedef {{label: string, what: string, go: any}} Hit */

const MOST_HITS = 400;

/** @param {Schedule} schedule @param {string} text @returns {Hit[]} */
export function search(schedule, text) {
  const flat = (/** @type {any} */ t) => String(t).toLowerCase().replace(/\s+/g, " ");
  const want = flat(text).trim();
  const hits = /** @type {Hit[]} */ ([]);
  if (!want) return hits;
  const has = (/** @type {any} */ t) => t !== undefined && flat(t).includes(want);
  schedule.stages.forEach((s, i) => has(s.name) && hits.push({ label: s.name, what: "pass", go: { stage: i, step: 0 } }));
  schedule.kernels.forEach((k, i) => {
    if (has(k.name) || has(`kernel ${i}`)) hits.push({ label: `${i} ${k.name}`, what: "kernel", go: { selection: { kind: "kernel", id: i } } });
  });
  schedule.buffers.forEach((b, i) => (has(b.name) || has(`b${i}`)) && hits.push({ label: schedule.bufferName(i), what: "buffer", go: { selection: { kind: "buffer", id: i } } }));
  schedule.lines.forEach((/** @type {any} */ l, /** @type {number} */ i) => {
    if (has(l.code) || has(placeOfLine(l))) hits.push({ label: `${placeOfLine(l)} ${l.code ?? ""}`, what: "line", go: { selection: { kind: "line", id: i } } });
  });
  steps(schedule, has, hits);
  schedule.nodes.forEach((n, i) => {
    if (hits.length < MOST_HITS && n.expr === undefined && (has(schedule.names[i]) || has(n.label) || has(n.op))) {
      hits.push({ label: `${schedule.called(i)} ${(n.shape ?? []).join("×")}`, what: "node", go: { selection: { kind: "node", id: i } } });
    }
  });
  return hits;
}

/** @param {Schedule} schedule @param {(t: any) => boolean} has @param {Hit[]} hits */
function steps(schedule, has, hits) {
  schedule.stages.forEach((stage, s) => {
    (stage.steps ?? []).forEach((step, i) => {
      const name = step.kind === "rewrite" ? schedule.rules[step.rule].name : step.reason;
      if (hits.length < MOST_HITS && (has(name) || has(step.verdict))) {
        hits.push({ label: `${stage.name} ${i + 1}: ${schedule.texts[s][i]}`, what: "step", go: { stage: s, step: i + 1 } });
      }
    });
  });
}
