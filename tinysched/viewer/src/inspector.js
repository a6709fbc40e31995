// The right: what the step did, and below it the selection under a few headings. The headings are the table SECTIONS; each
// has an answer for every kind of selection, if only why there is none.

import { h, put } from "./dom.js";
import { stepCard } from "./inspect_step.js";
import { node } from "./inspect_node.js";
import { placeOfLine } from "./model.js";
import { kernel } from "./inspect_kernel.js";
import { source } from "./inspect_source.js";
import { why } from "./inspect_why.js";

/**
 * @typedef {import("./store.js").Store} Store @typedef {import("./store.js").State} State
 * @typedef {import("./model.js").Selection} Selection @typedef {import("./dom.js").Child} Child
 * @typedef {{id: string, label: string, draw: (store: Store, selection: Selection) => Child}} Section
 */

/** @type {Section[]} */
export const SECTIONS = [
  { id: "why", label: "why", draw: why },
  { id: "node", label: "what", draw: node },
  { id: "kernel", label: "kernel", draw: kernel },
  { id: "source", label: "source", draw: source },
];

export class Inspector {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    this.step = h("section", { class: "ts-card", "aria-label": "this step" });
    this.tabs = h("div", { class: "ts-tabs ts-sections", role: "tablist", "aria-label": "about the selection" });
    this.chosen = h("section", { class: "ts-card", "aria-label": "the selection" });
    this.el = h("aside", { class: "ts-inspector", "aria-label": "details" }, this.step, this.tabs, this.chosen);
  }

  /** @param {State} state @param {State | null} before */
  update(state, before) {
    const other = !before || state.schedule !== before.schedule;
    if (other || state.step !== before.step || state.stage !== before.stage) put(this.step, stepCard(this.store));
    if (other || ["selection", "section", "running", "asked"].some((k) => state[/** @type {keyof State} */ (k)] !== before[/** @type {keyof State} */ (k)])) this.#chosen(state);
  }

  /** @param {State} state */
  #chosen(state) {
    const { selection } = state;
    this.tabs.hidden = !selection;
    if (!selection) {
      put(this.chosen, h("p", { class: "ts-dim" }, "Select a node, a kernel, a line or a block to follow it through every pass."));
      return;
    }
    put(this.tabs, SECTIONS.map(({ id, label }) => h("button", { class: `ts-tab${id === state.section ? " ts-current" : ""}`, role: "tab", "aria-selected": String(id === state.section), onclick: () => this.store.set({ section: id }) }, label)));
    const section = SECTIONS.find((s) => s.id === state.section) ?? SECTIONS[0];
    put(this.chosen, heading(this.store, selection), section.draw(this.store, selection));
  }
}

/** What is selected. @param {Store} store @param {Selection} selection */
function heading({ schedule }, { kind, id }) {
  if (kind === "node") {
    const called = schedule.called(id), { label } = schedule.nodes[id];
    return h("h3", {}, called, called === label ? null : h("span", { class: "ts-dim" }, ` ${label}`));
  }
  if (kind === "kernel") return h("h3", {}, h("span", { class: `ts-chip ts-k${id % 8}` }, id), ` ${schedule.kernels[id].name}`);
  if (kind === "buffer") return h("h3", {}, schedule.bufferName(id), h("span", { class: "ts-dim" }, ` ${schedule.buffers[id].role}`));
  if (kind === "range") return h("h3", {}, id, h("span", { class: "ts-dim" }, " loop"));
  return h("h3", {}, placeOfLine(schedule.lines[id]));
}
