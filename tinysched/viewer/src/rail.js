// The left: the passes in order with how much each did, and below them the steps of the current one.

import { h, put } from "./dom.js";

/** @typedef {import("./store.js").Store} Store @typedef {import("./store.js").State} State */

const ROW = 26;

export class Rail {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    this.passes = h("ol", { class: "ts-passes", "aria-label": "passes" });
    this.steps = new StepList(store);
    this.el = h("nav", { class: "ts-rail", "aria-label": "passes and steps" }, this.passes, this.steps.el, leftOut(store.doc.left_out));
  }

  /** @param {State} state @param {State | null} before */
  update(state, before) {
    if (!before || state.stage !== before.stage || state.schedule !== before.schedule) this.#passes(state);
    this.steps.update(state, before);
  }

  /** @param {State} state */
  #passes(state) {
    put(this.passes, this.store.schedule.stages.map((stage, i) => {
      const n = this.store.schedule.length(i);
      const current = i === state.stage;
      return h("li", {},
        h("button", { class: `ts-pass${current ? " ts-current" : ""}${n || !i ? "" : " ts-idle"}`, "aria-current": current ? "step" : null, title: stage.doc ?? "", onclick: () => this.store.set({ stage: i, step: 0 }) },
          h("span", { class: "ts-dot" }, i + 1), h("span", { class: "ts-passname" }, stage.name), h("span", { class: "ts-num" }, n || "")));
    }));
  }
}

/** What a saved notebook had no room for. @param {string[] | undefined} parts */
function leftOut(parts) {
  if (!parts?.length) return null;
  return h("details", { class: "ts-leftout" }, h("summary", {}, "not all of it is here"),
    h("p", {}, `A notebook keeps at most 1 MB of a trace. Left out: ${parts.join(", ")}. trace.to_html("explorer.html") has everything.`));
}

/** A list of any length: only the rows in sight exist. */
class StepList {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    this.rows = h("div", { class: "ts-rows", role: "listbox", "aria-label": "steps" });
    this.scroller = h("div", { class: "ts-steps", tabindex: 0, onscroll: () => this.#draw() }, this.rows);
    this.el = this.scroller;
    new ResizeObserver(() => this.#draw()).observe(this.scroller);
  }

  /** @param {State} state @param {State | null} before */
  update(state, before) {
    const other = !before || state.stage !== before.stage || state.schedule !== before.schedule;
    this.rows.style.height = `${(this.store.schedule.length(state.stage) + 1) * ROW}px`;
    const top = state.step * ROW;
    const { scrollTop, clientHeight } = this.scroller;
    if (other || top < scrollTop || top + ROW > scrollTop + clientHeight) this.scroller.scrollTop = top - clientHeight / 2;
    this.#draw();
  }

  #draw() {
    const { stage, step } = this.store.state;
    const total = this.store.schedule.length(stage) + 1;
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / ROW) - 4);
    const last = Math.min(total, first + Math.ceil(this.scroller.clientHeight / ROW) + 10);
    const rows = [];
    for (let i = first; i < last; i++) rows.push(this.#row(stage, i, i === step));
    put(this.rows, rows);
  }

  /** @param {number} stage @param {number} i @param {boolean} current */
  #row(stage, i, current) {
    const text = i === 0 ? "start" : this.store.schedule.sentence(stage, i);
    const short = i === 0 ? "start" : this.store.schedule.short(stage, i);
    const kind = i === 0 ? "" : this.#kind(stage, i);
    return h("button", {
      class: `ts-row${current ? " ts-current" : ""} ${kind}`, role: "option", "aria-selected": String(current), tabindex: -1, title: text,
      style: `top:${i * ROW}px`, onclick: () => this.store.set({ step: i }),
    }, h("span", { class: "ts-num" }, i), h("span", { class: "ts-rowtext" }, short));
  }

  /** @param {number} stage @param {number} i */
  #kind(stage, i) {
    const step = this.store.schedule.stages[stage].steps?.[i - 1];
    if (step?.kind !== "decision") return "";
    return ["realized", "kept", "partially realized", "split", "snapshot"].includes(step.verdict) ? "ts-cut" : "ts-fuse";
  }
}
