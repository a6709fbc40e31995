// The middle: the step's sentence, and the graph with its few controls.

import { CanvasGraph } from "./canvas.js";
import { h, many, put } from "./dom.js";
import { SvgGraph } from "./graph.js";
import { icon } from "./icons.js";

/** @typedef {import("./store.js").Store} Store @typedef {import("./store.js").State} State */

const MOST_SVG = 700; // slots; above, elements are too slow and a canvas draws
const HOPS = 2;

export class StagePane {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    this.sentence = h("p", { class: "ts-sentence", "aria-live": "polite" });
    this.count = h("span", { class: "ts-count" });
    this.holder = h("div", { class: "ts-holder" });
    this.buttons = this.#controls();
    this.holder.append(h("div", { class: "ts-controls" }, this.buttons.all));
    this.el = h("section", { class: "ts-middle", "aria-label": "graph" }, this.sentence, this.holder, this.count);
    this.graph = /** @type {SvgGraph | CanvasGraph | null} */ (null);
    this.fitted = false;
    new ResizeObserver(() => this.#resized()).observe(this.holder);
  }

  #controls() {
    const button = (/** @type {string} */ text, /** @type {string} */ title, /** @type {() => void} */ act) =>
      h("button", { class: "ts-mini", title, "aria-label": title, onclick: act }, icon(text));
    const hulls = button("hulls", "show kernels", () => this.store.set({ hulls: !this.store.state.hulls }));
    const ghosts = button("ghosts", "show what was removed in this pass", () => this.store.set({ ghosts: !this.store.state.ghosts }));
    const around = button("around", "only what is near the selection", () => this.store.set({ around: !this.store.state.around }));
    const all = [
      button("plus", "zoom in", () => this.graph?.view.zoom(1.25)),
      button("minus", "zoom out", () => this.graph?.view.zoom(0.8)),
      button("fit", "fit the whole graph", () => this.graph?.view.fit(true)),
      button("target", "go to what the step, or the selection, is about", () => this.goTo()),
      hulls, ghosts, around,
    ];
    return { all, hulls, ghosts, around };
  }

  /** The first time there is room, and whenever there is another picture, it is fitted. */
  #resized() {
    if (!this.fitted && this.#room()) {
      this.fitted = true;
      this.#fit();
    } else if (this.graph && !this.graph.view.touched) this.#fit();
    else this.graph?.view.zoom(1);
  }

  #fit() {
    this.graph?.view.fit();
    this.#lead();
  }

  #room() {
    return this.holder.clientWidth > 60 && this.holder.clientHeight > 60;
  }

  #choose() {
    const large = this.store.scene.picture.slots.length > MOST_SVG;
    const Kind = large ? CanvasGraph : SvgGraph;
    if (this.graph instanceof Kind) return;
    this.graph?.el.remove();
    this.graph = new Kind(this.store);
    this.holder.prepend(this.graph.el);
  }

  /** @returns {Set<number> | null} */
  #only() {
    const { around, selection } = this.store.state;
    if (!around || !selection) return null;
    return this.store.scene.around(this.#chosen(), HOPS);
  }

  /** @param {State} state @param {State | null} before */
  update(state, before) {
    const other = !before || state.stage !== before.stage || state.schedule !== before.schedule;
    this.#choose();
    const graph = /** @type {SvgGraph | CanvasGraph} */ (this.graph);
    const only = this.#only();
    graph.update(state, only);
    for (const [name, el] of /** @type {[("hulls" | "ghosts" | "around"), HTMLElement][]} */ (Object.entries(this.buttons).filter(([n]) => n !== "all"))) {
      el.setAttribute("aria-pressed", String(state[name]));
    }
    this.#tell(state, only);
    if (other) {
      this.fitted = this.#room();
      if (this.fitted) graph.view.fit();
    }
    if (other || state.step !== before?.step) this.#lead();
  }

  /** The eye is led only if what changed is out of sight. */
  #lead() {
    const scene = this.store.scene;
    const about = scene.focus.size ? scene.focus : new Set([...scene.marks.keys(), ...scene.gone]);
    this.graph?.reveal(about.size ? about : this.#chosen());
  }

  #chosen() {
    const { nodes } = this.store.targets;
    return [...this.store.scene.shown].filter(([, c]) => nodes.has(c.node)).map(([slot]) => slot);
  }

  goTo() {
    const scene = this.store.scene;
    const chosen = this.#chosen();
    this.graph?.reveal(chosen.length ? chosen : scene.focus.size ? scene.focus : scene.marks.keys());
  }

  /** @param {State} state @param {Set<number> | null} only */
  #tell(state, only) {
    const scene = this.store.scene;
    const text = this.store.sentence();
    if (this.sentence.textContent !== text) put(this.sentence, text);
    const ghosts = state.ghosts ? scene.ghosts.size : 0;
    const visible = only ? [...scene.shown.keys()].filter((s) => only.has(s)).length : scene.shown.size;
    const gone = ghosts ? `, ${many(ghosts, "ghost")} of what was removed` : "";
    put(this.count, `showing ${visible.toLocaleString("en")} of ${many(scene.shown.size, "node")}${gone}`);
  }
}
