// One part of the explorer by itself, as a small widget: the graph, why, a kernel, the order, the arena.

import { OURS, h, put } from "./dom.js";
import { Inspector } from "./inspector.js";
import { PANELS } from "./panels.js";
import { rewriteBy } from "./rewrites.js";
import { StagePane } from "./stagepane.js";
import { Store } from "./store.js";

/** @typedef {import("./explorer.js").Host} Host @typedef {import("./store.js").State} State */

export class Single {
  /** @param {HTMLElement} parent @param {any} doc @param {Host} host @param {string} part "graph", "why", or the id of a panel */
  constructor(parent, doc, host, part) {
    this.host = host;
    this.el = h("div", { class: `ts ts-single ts-single-${part}`, tabindex: 0, ...OURS, role: "application", "aria-label": `${part}: ${doc.trace.title}` });
    if (host.height) this.el.style.height = `${host.height}px`;
    parent.append(this.el);
    if (!doc.trace.schedules?.length) {
      put(this.el, h("p", { class: "ts-empty" }, "Nothing was scheduled: no kernel is needed for what was asked."));
      return;
    }
    this.store = new Store(doc, host.python);
    const store = this.store;
    this.stepBy = part === "rewrites" ? (/** @type {number} */ by) => rewriteBy(store, by) : (/** @type {number} */ by) => store.stepBy(by);
    this.part = part === "graph" ? new StagePane(this.store) : part === "why" ? new Inspector(this.store) : new PanelPart(this.store, part);
    this.where = h("p", { class: "ts-singlehead ts-dim" });
    put(this.el, this.where, this.part.el);
    this.el.addEventListener("keydown", (e) => this.#key(e));
    this.store.listen((state, before) => this.#update(state, before));
    this.#update(this.store.state, null);
  }

  /** @param {State} state @param {State | null} before */
  #update(state, before) {
    const { store } = this;
    if (!store || !this.part || !this.where) return;
    const stage = store.schedule.stages[state.stage];
    put(this.where, h("b", {}, store.doc.trace.title), ` · ${stage?.name ?? ""}${state.step ? `, step ${state.step}/${store.schedule.length(state.stage)}` : ""}`);
    this.part.update(state, before);
    if (before) this.host.moved(state);
  }

  /** @param {KeyboardEvent} e */
  #key(e) {
    if (/** @type {HTMLElement} */ (e.target).matches("input, textarea, select")) { // its arrows are its own
      e.stopPropagation();
      return;
    }
    const acts = /** @type {Record<string, () => void>} */ ({
      ArrowRight: () => this.stepBy?.(1), ArrowLeft: () => this.stepBy?.(-1), ArrowDown: () => this.store?.passBy(1), ArrowUp: () => this.store?.passBy(-1), Escape: () => this.store?.select(null),
    });
    if (!acts[e.key] || e.ctrlKey || e.metaKey || e.altKey) return;
    acts[e.key]();
    e.preventDefault();
    e.stopPropagation();
  }

  /** @param {any} doc @param {any} comparison */
  replace(doc, comparison) {
    if (!this.store || !doc.trace.schedules?.length) return;
    this.store.comparison = comparison;
    this.store.replace(doc);
  }

  /** @param {any} run @param {string} [error] */
  ran(run, error) {
    if (run) this.store?.ran(run);
    else this.store?.set({ running: "" });
    if (error && this.where) put(this.where, error);
  }
}

/** A view of the drawer without the drawer. */
class PanelPart {
  /** @param {Store} store @param {string} id */
  constructor(store, id) {
    this.store = store;
    this.panel = PANELS.find((p) => p.id === id) ?? PANELS[0];
    this.el = h("section", { class: "ts-drawerbody ts-alone", "aria-label": this.panel.label });
  }

  /** @param {State} state @param {State | null} before */
  update(state, before) {
    const moves = this.panel.follows === "step" || !before || ["selection", "schedule", "running", "asked"].some((k) => state[/** @type {keyof State} */ (k)] !== before[/** @type {keyof State} */ (k)]);
    if (!moves) return;
    const top = this.el.scrollTop;
    const drawn = this.panel.draw(this.store);
    put(this.el, this.panel.twin ? h("div", { class: `ts-split ts-split-${this.panel.id}` }, h("div", {}, drawn), this.panel.twin(this.store)) : drawn);
    this.el.scrollTop = top;
  }
}
