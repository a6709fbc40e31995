// Every decision as a sentence; a row leads to its step.

import { h } from "./dom.js";
import { table } from "./table.js";

/** @typedef {import("./store.js").Store} Store */

/** @param {Store} store */
export function decisions(store) {
  const { schedule, targets } = store;
  if (!schedule.decisions.length) return h("p", { class: "ts-empty" }, "No pass had anything to decide.");
  const rows = schedule.decisions.map((d) => h("tr", { class: targets.nodes.has(d.node) ? "ts-chosen" : "", onclick: () => store.set({ stage: d.stage, step: d.step + 1, selection: d.node < 0 ? null : { kind: "node", id: d.node } }) },
    h("td", {}, schedule.stages[d.stage].name), h("td", {}, h("button", { class: "ts-bare" }, d.node < 0 ? "the schedule" : schedule.called(d.node))),
    h("td", {}, d.verdict), h("td", {}, d.text)));
  return table(["pass", "node", "verdict", "why"], rows, "decisions");
}
