// The drawer below the graph: one of the views of panels.js at a time.

import { h, put } from "./dom.js";
import { icon } from "./icons.js";
import { PANELS } from "./panels.js";

/** @typedef {import("./store.js").Store} Store @typedef {import("./store.js").State} State */

export class Drawer {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    this.body = h("div", { class: "ts-drawerbody", role: "tabpanel" });
    this.tabs = h("div", { class: "ts-tabs" });
    this.el = h("section", { class: "ts-drawer", "aria-label": "tables" }, this.tabs, this.body);
  }

  /** @param {State} state @param {State | null} before */
  update(state, before) {
    this.el.classList.toggle("ts-open", state.open);
    if (!before || before.drawer !== state.drawer || before.open !== state.open) this.#tabs(state);
    if (!state.open) return;
    const panel = PANELS.find((p) => p.id === state.drawer) ?? PANELS[0];
    const same = before && before.open && before.drawer === state.drawer && before.schedule === state.schedule;
    const moves = panel.follows === "step" && (state.step !== before?.step || state.stage !== before?.stage);
    if (same && !moves && before.selection === state.selection && before.running === state.running && before.asked === state.asked) return;
    const top = same ? this.body.scrollTop : 0;
    this.body.setAttribute("aria-label", panel.label);
    this.#draw(panel);
    this.body.scrollTop = top;
  }

  /** A view that cannot be drawn says so, and leaves the others alone. @param {import("./panels.js").Panel} panel */
  #draw(panel) {
    try {
      const drawn = panel.draw(this.store);
      put(this.body, panel.twin ? h("div", { class: `ts-split ts-split-${panel.id}` }, h("div", {}, drawn), panel.twin(this.store)) : drawn);
    } catch (error) {
      put(this.body, h("p", { class: "ts-empty", role: "alert" }, `This view cannot be drawn: ${error}`));
    }
  }

  /** @param {State} state */
  #tabs(state) {
    const tab = (/** @type {import("./panels.js").Panel} */ { id, label }) => {
      const current = state.open && id === state.drawer;
      return h("button", { class: `ts-tab${current ? " ts-current" : ""}`, role: "tab", "data-panel": id, "aria-selected": String(current),
        onclick: () => this.store.set(current ? { open: false } : { drawer: id, open: true }) }, label);
    };
    const words = state.open ? "close the tables" : "open the tables";
    put(this.tabs, h("div", { class: "ts-tablist", role: "tablist", "aria-label": "views" }, PANELS.map(tab)),
      h("button", { class: "ts-mini ts-fold", title: words, "aria-label": words, onclick: () => this.store.set({ open: !this.store.state.open }) }, icon(state.open ? "down" : "up")));
  }
}
