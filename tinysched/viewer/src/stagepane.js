// The middle: the step's sentence, and the graph with its few controls.

import { CanvasGraph } from "./canvas.js";
import { COLOURINGS, legend } from "./colours.js";
import { h, many, prose, put } from "./dom.js";
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
    this.boxed = store.boxed;
    this.holder = h("div", { class: "ts-holder" });
    this.samples = h("div", { class: "ts-samples" });
    this.buttons = this.#controls();
    this.holder.append(h("div", { class: "ts-controls" }, this.buttons.all), this.samples);
    this.el = h("section", { class: "ts-middle", "aria-label": "graph" }, this.sentence, this.holder, this.count);
    this.graph = /** @type {SvgGraph | CanvasGraph | null} */ (null);
    this.fitted = false;
    this.told = "";
    new ResizeObserver(() => this.#resized()).observe(this.holder);
  }

  #controls() {
    const button = (/** @type {string} */ text, /** @type {string} */ title, /** @type {() => void} */ act) =>
      h("button", { class: "ts-mini", title, "aria-label": title, onclick: act }, icon(text));
    const boxes = button("boxes", "kernels as boxes that open, or all ops", () => this.store.set({ kernels: !this.store.boxed }));
    const hulls = button("hulls", "show kernels", () => this.store.set({ hulls: !this.store.state.hulls }));
    const ghosts = button("ghosts", "show what was removed in this pass", () => this.store.set({ ghosts: !this.store.state.ghosts }));
    const around = button("around", "only what is near the selection", () => this.store.set({ around: !this.store.state.around }));
    const all = [
      button("plus", "zoom in", () => this.graph?.view.zoom(1.25)),
      button("minus", "zoom out", () => this.graph?.view.zoom(0.8)),
      button("fit", "fit the whole graph", () => this.graph?.view.fit(true)),
      button("target", "go to what the step, or the selection, is about", () => this.goTo()),
      boxes, hulls, ghosts, around, this.#colours(),
    ];
    return { all, boxes, hulls, ghosts, around };
  }

  #colours() {
    this.colour = /** @type {HTMLSelectElement} */ (h("select", { class: "ts-colour", title: "what colour means", "aria-label": "colour by", onchange: () => this.store.set({ colour: this.colour?.value ?? "kernel" }) },
      COLOURINGS.map(({ id, label }) => h("option", { value: id }, `colour: ${label}`))));
    return this.colour;
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
    const large = this.store.visible.picture.slots.length > MOST_SVG;
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
    return this.store.visible.around(this.#chosen(), HOPS);
  }

  /** @param {State} state @param {State | null} before */
  update(state, before) {
    const { boxed } = this.store;
    const other = !before || state.stage !== before.stage || state.schedule !== before.schedule || boxed !== this.boxed;
    const opened = before?.opened !== state.opened ? state.opened.find((k) => !before?.opened.includes(k)) : undefined;
    this.boxed = boxed;
    this.#choose();
    const graph = /** @type {SvgGraph | CanvasGraph} */ (this.graph);
    const only = this.#only();
    graph.update(state, only);
    for (const name of /** @type {const} */ (["hulls", "ghosts", "around"])) this.buttons[name].setAttribute("aria-pressed", String(state[name]));
    this.buttons.boxes.setAttribute("aria-pressed", String(boxed));
    this.#tell(state, only);
    this.#legend();
    if (other) {
      this.fitted = this.#room();
      if (this.fitted) graph.view.fit();
    }
    if (other || state.step !== before?.step) this.#lead();
    else if (opened !== undefined) graph.view.touched ? graph.reveal([opened]) : graph.view.fit();
  }

  #legend() {
    put(this.samples, legend(this.store).map(({ text, colour }) => h("span", { class: "ts-legendsample" }, h("i", { style: `background: color-mix(in srgb, var(--ts-${colour.name}) ${Math.round(colour.share * 100)}%, var(--ts-bg))` }), text)));
  }

  /** The eye is led only if what changed is out of sight. */
  #lead() {
    const scene = this.store.visible;
    const about = scene.focus.size ? scene.focus : new Set([...scene.marks.keys(), ...scene.gone]);
    this.graph?.reveal(about.size ? about : this.#chosen());
  }

  #chosen() {
    const { nodes } = this.store.targets;
    return [...this.store.visible.shown].filter(([, c]) => nodes.has(c.node)).map(([slot]) => slot);
  }

  goTo() {
    const scene = this.store.visible;
    const chosen = this.#chosen();
    this.graph?.reveal(chosen.length ? chosen : scene.focus.size ? scene.focus : scene.marks.keys());
  }

  /** @param {State} state @param {Set<number> | null} only */
  #tell(state, only) {
    const text = this.store.sentence();
    if (this.told !== text) put(this.sentence, prose((this.told = text))); // live: what is the same is not said again
    const { scene, visible: view } = this.store;
    const shown = only ? [...view.shown.keys()].filter((s) => only.has(s)).length : view.shown.size;
    const kernels = /** @type {{kernel?: number, open?: boolean}[]} */ ([...view.shown.values()]).filter((c) => c.kernel !== undefined);
    const boxes = kernels.filter((c) => !c.open).length;
    const ghosts = state.ghosts ? view.ghosts.size : 0;
    const gone = ghosts ? `, ${many(ghosts, "ghost")} of what was removed` : "";
    const say = (/** @type {number} */ n) => n.toLocaleString("en");
    put(this.count, this.store.boxed ? `showing ${many(boxes, "kernel")} as boxes and ${say(shown - kernels.length)} of ${many(scene.shown.size, "node")}${gone}` : `showing ${say(shown)} of ${many(scene.shown.size, "node")}${gone}`);
  }
}
