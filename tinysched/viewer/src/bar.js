// The top: what this is, and the buttons for everything a key does.

import { bytes, h, many, put } from "./dom.js";
import { icon } from "./icons.js";

const ICONS = { back: 1, next: 1, passback: 1, passnext: 1, undo: 1, share: 1 };

/** @typedef {import("./store.js").Store} Store @typedef {import("./store.js").State} State */

export class Bar {
  /** @param {Store} store @param {{run: () => void, search: (text: string) => void, help: () => void, share: () => void}} acts */
  constructor(store, acts) {
    this.store = store;
    this.acts = acts;
    const button = (/** @type {string} */ text, /** @type {string} */ title, /** @type {() => void} */ act, name = "") =>
      h("button", { class: `ts-button ${name}`, title, "aria-label": title, onclick: act }, text in ICONS ? icon(text) : text);
    this.title = h("span", { class: "ts-name" });
    this.facts = h("span", { class: "ts-facts" });
    this.where = h("span", { class: "ts-where" });
    this.input = /** @type {HTMLInputElement} */ (h("input", { class: "ts-search", type: "search", placeholder: "/ search", "aria-label": "search passes, steps, nodes, kernels and lines", oninput: () => acts.search(this.input.value) }));
    const canRun = Boolean(store.python?.run);
    this.run = button("run", canRun ? "run the kernels: times and values" : "running needs Python: open this in a notebook", acts.run, "ts-run");
    if (!canRun) this.run.setAttribute("disabled", "");
    this.whatif = button("what if: 0", "decisions that were turned", () => store.set({ drawer: "compare", open: true }), "ts-whatif");
    this.undo = button("undo", "take the last what-if back", () => store.python?.undo(""), "ts-undo");
    this.schedules = h("select", { class: "ts-schedules", "aria-label": "schedule", onchange: (/** @type {any} */ e) => store.set({ schedule: Number(e.target.value), stage: 0, step: 0 }) });
    this.el = h("div", { class: "ts-bar", role: "group", "aria-label": "title, steps and search" },
      h("div", { class: "ts-head" }, this.title, this.schedules, this.facts),
      h("div", { class: "ts-moves", role: "toolbar", "aria-label": "steps and passes" },
        button("back", "a step back (left arrow)", () => store.stepBy(-1), "ts-back"), this.where, button("next", "a step on (right arrow)", () => store.stepBy(1), "ts-next"),
        button("passback", "the pass before (up arrow)", () => store.passBy(-1), "ts-passback"), button("passnext", "the next pass (down arrow)", () => store.passBy(1), "ts-passnext")),
      this.input, h("span", { class: "ts-group" }, this.whatif, this.undo), this.run, button("share", "export: SVG, PNG, JSON, HTML", acts.share, "ts-share"), button("?", "keys and signs (?)", acts.help, "ts-helpbutton"));
  }

  /** @param {State} state @param {State | null} before */
  update(state, before) {
    const { schedule } = this.store;
    const n = schedule.length(state.stage);
    put(this.where, n ? `step ${state.step}/${n}` : "no steps");
    const turned = Object.keys(this.store.turned).length;
    put(this.whatif, `what if: ${turned}`);
    this.whatif.classList.toggle("ts-on", turned > 0);
    this.undo.hidden = !this.store.comparison || !this.store.python;
    this.run.setAttribute("aria-live", "polite");
    this.run.title = state.running ? "interrupt the kernel (■) to stop: what is done stays whole" : this.run.getAttribute("aria-label") ?? "";
    this.el.classList.toggle("ts-busy", Boolean(state.running));
    this.el.setAttribute("aria-busy", String(Boolean(state.running)));
    put(this.run, state.running ? `${state.running} …` : [icon("run"), " run"]);
    if (before && state.schedule === before.schedule) return;
    const moved = schedule.kernels.reduce((sum, k) => sum + (k.bytes_read ?? 0) + (k.bytes_written ?? 0), 0);
    put(this.title, this.store.doc.trace.title);
    put(this.facts, `${many(schedule.kernels.length, "kernel")} · ${bytes(moved)} moved`);
    put(this.schedules, this.store.schedules.map((/** @type {any} */ _, /** @type {number} */ i) => h("option", { value: i, selected: i === state.schedule }, `schedule ${i + 1} of ${this.store.schedules.length}`)));
    this.schedules.hidden = this.store.schedules.length < 2;
  }
}
