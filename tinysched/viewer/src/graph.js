// The graph as SVG: hulls below, edges, nodes. A step moves nothing; it shows, hides and marks.

import { h, put, s } from "./dom.js";
import { colourOf } from "./colours.js";
import { look, path, thickness } from "./shapes.js";
import { SlotView } from "./slotview.js";
import { Viewport } from "./viewport.js";

/** @typedef {import("./store.js").Store} Store @typedef {import("./store.js").State} State */

const GLYPHS = { added: "+", changed: "~", rerouted: "↝" };

export class SvgGraph {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    this.hulls = s("g", { class: "ts-hulls" });
    this.edges = s("g", { class: "ts-edges" });
    this.nodes = s("g", { class: "ts-nodes" });
    this.badges = s("g", { class: "ts-badges" });
    this.layer = s("g", {}, this.hulls, this.edges, this.nodes, this.badges);
    this.svg = s("svg", { class: "ts-svg", role: "group", "aria-label": "graph" }, this.layer);
    this.el = h("div", { class: "ts-canvas" }, /** @type {any} */ (this.svg));
    this.view = new Viewport(this.el, () => this.#place(), () => this.picture.size);
    this.el.addEventListener("click", (e) => this.#clicked(e));
    this.el.addEventListener("dblclick", (e) => this.#opened(e));
    this.scene = store.visible;
    this.picture = /** @type {import("./scene.js").Picture} */ ({ size: [1, 1], slots: [], edges: [] });
    this.hulled = /** @type {string | null} */ (null); // what the hulls were last drawn for
    this.slots = /** @type {Map<number, SlotView>} */ (new Map());
    this.paths = /** @type {Map<number, SVGElement>} */ (new Map());
  }

  #place() {
    const { x, y, k } = this.view;
    this.layer.setAttribute("transform", `translate(${x.toFixed(2)} ${y.toFixed(2)}) scale(${k.toFixed(4)})`);
    this.svg.setAttribute("data-zoom", k < 0.3 ? "far" : k < 0.5 ? "middle" : "near");
  }

  /** @param {Event} e */
  #clicked(e) {
    if (this.view.moved) return;
    const target = /** @type {Element} */ (e.target).closest("[data-slot],[data-kernel]");
    if (!target) return this.store.select(null);
    const kernel = target.getAttribute("data-kernel");
    if (kernel !== null) return this.store.select({ kind: "kernel", id: Number(kernel) });
    const caption = this.caption(Number(target.getAttribute("data-slot")));
    if (caption) this.store.select(caption.kernel === undefined ? { kind: "node", id: caption.node } : { kind: "kernel", id: caption.kernel });
  }

  /** A kernel's box opens, and closes again. @param {Event} e */
  #opened(e) {
    const target = /** @type {Element} */ (e.target).closest("[data-kernel],[data-slot]");
    const kernel = target?.getAttribute("data-kernel") ?? this.caption(Number(target?.getAttribute("data-slot")))?.kernel;
    if (this.store.boxed && kernel !== null && kernel !== undefined) this.store.open(Number(kernel));
  }

  /** @param {number} slot @returns {(import("./scene.js").Caption & {kernel?: number, open?: boolean}) | undefined} */
  caption(slot) {
    return this.scene.shown.get(slot) ?? this.scene.ghosts.get(slot);
  }

  /** Another picture: everything is drawn anew. */
  restart() {
    this.hulled = null;
    this.picture = this.scene.picture;
    for (const layer of [this.hulls, this.edges, this.nodes, this.badges]) put(layer);
    this.slots.clear();
    this.paths.clear();
  }

  /** @param {State} state @param {Set<number> | null} only the slots that may be seen, null for all */
  update(state, only) {
    const scene = (this.scene = this.store.visible);
    if (scene.picture !== this.picture) this.restart();
    const targets = this.store.targets;
    const seen = new Set();
    for (const [slot, caption] of scene.shown) if (!only || only.has(slot)) seen.add(slot), this.#node(slot, caption, targets, false);
    if (state.ghosts) {
      for (const [slot, caption] of scene.ghosts) if (!only || only.has(slot)) seen.add(slot), this.#node(slot, caption, targets, true);
    }
    for (const [slot, view] of this.slots) if (!seen.has(slot)) view.hide();
    this.#edges(seen, targets.nodes);
    this.#hulls(state.hulls, seen, targets.kernels);
  }

  /**
   * @param {number} slot @param {import("./scene.js").Caption & {kernel?: number, open?: boolean}} caption
   * @param {import("./model.js").Targets} targets @param {boolean} ghost
   */
  #node(slot, caption, targets, ghost) {
    let view = this.slots.get(slot);
    if (!view) {
      view = new SlotView(this.picture.slots[slot], slot);
      this.slots.set(slot, view);
      this.nodes.append(view.el);
    }
    const { schedule } = this.store, { scene } = this;
    const stored = schedule.stored.has(caption.node);
    const mark = ghost ? (scene.gone.has(slot) ? "removed" : "") : (scene.marks.get(slot) ?? "");
    const classes = ["ts-node", `ts-${look(schedule.nodes[caption.node], stored)}`];
    if (caption.open) classes.push("ts-openbox");
    if (ghost) classes.push("ts-ghost");
    if (mark) classes.push(`ts-${mark}`);
    if (scene.focus.has(slot)) classes.push("ts-focus");
    const { kernel } = caption;
    if (targets.nodes.has(caption.node) || (kernel !== undefined && targets.kernels.has(kernel))) classes.push("ts-chosen");
    const colour = this.store.state.colour === "kernel" || ghost || caption.open ? null : colourOf(this.store, caption.node, kernel);
    view.show(classes.join(" "), caption, ghost ? "−" : (GLYPHS[/** @type {keyof GLYPHS} */ (mark)] ?? ""), this.#spoken(slot, caption, mark), colour);
  }

  /** @param {number} slot @param {import("./scene.js").Caption} caption @param {string} mark */
  #spoken(slot, caption, mark) {
    const node = this.store.schedule.nodes[caption.node];
    const kernels = this.picture.slots[slot][4];
    const where = kernels.length ? `, kernel ${kernels.join(" and ")}` : "";
    return `${caption.title}${node.name ? ` (${node.label})` : ""}, ${node.dtype} ${caption.sub}${where}${mark ? `, ${mark}` : ""}`;
  }

  /** @param {Set<number>} seen @param {Set<number>} chosen */
  #edges(seen, chosen) {
    const scene = this.scene;
    const wanted = new Map();
    for (const e of scene.edges) wanted.set(e, scene.newEdges.has(e) ? "ts-edge ts-added" : "ts-edge");
    for (const e of scene.goneEdges) wanted.set(e, "ts-edge ts-removed");
    for (const [e, el] of this.paths) if (!wanted.has(e)) el.setAttribute("class", "ts-hidden");
    for (const [e, name] of wanted) {
      const [a, b, route] = this.picture.edges[e];
      const el = this.paths.get(e) ?? this.#makeEdge(e, route);
      const near = chosen.has(this.caption(a)?.node ?? -1) || chosen.has(this.caption(b)?.node ?? -1);
      el.setAttribute("class", seen.has(a) && seen.has(b) ? `${name}${near ? " ts-near" : ""}${route ? "" : " ts-far"}` : "ts-hidden");
    }
  }

  /** @param {number} e @param {number[] | null} route */
  #makeEdge(e, route) {
    const [a, b] = this.picture.edges[e];
    const source = this.store.schedule.nodes[this.caption(a)?.node ?? 0];
    const el = route
      ? s("path", { d: path(route), "stroke-width": thickness(source).toFixed(2) }, s("title", {}, this.#carries(a, b)))
      : this.#longEdge(a, b);
    this.paths.set(e, el);
    this.edges.append(el);
    return el;
  }

  /** @param {number} a @param {number} b */
  #carries(a, b) {
    const [from, to] = [this.caption(a), this.caption(b)];
    return `${from?.title} → ${to?.title}: ${from?.sub || "one value"}`;
  }

  /** An edge too long to draw: a label at its reader, which leads to its source. @param {number} a @param {number} b */
  #longEdge(a, b) {
    const [x, y, w, height] = this.picture.slots[b];
    const text = s("text", { x: x + w / 2 + 4, y: y - height / 2 - 3, "data-slot": a, role: "img" }, `↑ ${this.caption(a)?.title}`);
    return s("g", {}, s("title", {}, this.#carries(a, b)), text);
  }

  /** @param {boolean} wanted @param {Set<number>} seen @param {Set<number>} chosen */
  #hulls(wanted, seen, chosen) {
    const key = wanted ? `${[...seen].filter((slot) => !this.scene.ghosts.has(slot)).join()}|${[...this.scene.edges].join()}|${[...chosen].join()}` : "";
    if (key === this.hulled) return; // most steps change none of it
    this.hulled = key;
    put(this.hulls);
    put(this.badges);
    if (!wanted) return;
    const members = /** @type {Map<number, number[]>} */ (new Map());
    for (const slot of seen) {
      if (this.scene.ghosts.has(slot)) continue;
      for (const k of this.picture.slots[slot][4]) members.set(k, [...(members.get(k) ?? []), slot]);
    }
    const inside = this.#edgesInside(seen);
    const taken = /** @type {Map<number, number>} */ (new Map()); // several kernels may start at one node: badges side by side
    for (const [k, slots] of [...members].sort((a, b) => a[0] - b[0])) this.#hull(k, slots, inside.get(k) ?? [], chosen.has(k), taken);
  }

  /** The edges whose both ends lie in a kernel, by kernel. @param {Set<number>} seen @returns {Map<number, number[][]>} */
  #edgesInside(seen) {
    const found = /** @type {Map<number, number[][]>} */ (new Map());
    for (const e of this.scene.edges) {
      const [a, b, route] = this.picture.edges[e];
      if (!route || !seen.has(a) || !seen.has(b) || this.scene.ghosts.has(a) || this.scene.ghosts.has(b)) continue;
      for (const k of this.picture.slots[a][4]) if (this.picture.slots[b][4].includes(k)) found.set(k, [...(found.get(k) ?? []), route]);
    }
    return found;
  }

  /** @param {number} k @param {number[]} slots @param {number[][]} routes @param {boolean} chosen @param {Map<number, number>} taken */
  #hull(k, slots, routes, chosen, taken) {
    const group = s("g", { class: `ts-hull ts-k${k % 8}${chosen ? " ts-chosen" : ""}`, "data-kernel": k }, routes.map((route) => s("path", { d: path(route) })));
    let top = slots[0];
    for (const slot of slots) {
      const [x, y, w, height] = this.picture.slots[slot];
      group.append(s("rect", { x: x - w / 2 - 9, y: y - height / 2 - 9, width: w + 18, height: height + 18, rx: 14 }));
      const [tx, ty] = this.picture.slots[top];
      if (y < ty || (y === ty && x < tx)) top = slot;
    }
    this.hulls.append(group);
    const [x, y, w, height] = this.picture.slots[top];
    const offset = taken.get(top) ?? 0;
    taken.set(top, offset + 14 + 7 * String(k).length);
    this.#badge(k, x - w / 2 - 9 + offset, y - height / 2 - 7, chosen);
  }

  /** @param {number} k @param {number} x @param {number} y @param {boolean} chosen */
  #badge(k, x, y, chosen) {
    const name = this.store.schedule.kernels[k]?.name ?? "";
    const w = 12 + 7 * String(k).length;
    if (this.store.boxed) this.#handle(k, x + w - 2, y);
    this.badges.append(
      s("g", { class: `ts-badge ts-k${k % 8}${chosen ? " ts-chosen" : ""}`, "data-kernel": k, role: "img", "aria-label": `kernel ${k}, ${name}` },
        s("title", {}, `kernel ${k}: ${name}`),
        s("rect", { x: x - 4, y: y - 8, width: w, height: 16, rx: 8 }),
        s("text", { x: x - 4 + w / 2, y: y + 4 }, k)),
    );
  }

  /** Opens or closes a kernel's box. @param {number} k @param {number} x @param {number} y */
  #handle(k, x, y) {
    const open = this.store.state.opened.includes(k);
    const words = open ? `close kernel ${k}` : `open kernel ${k}: show its ops`;
    const act = (/** @type {Event} */ e) => (e.stopPropagation(), this.store.open(k));
    this.badges.append(s("g", { class: `ts-handle ts-k${k % 8}`, role: "button", "aria-label": words, onclick: act, ondblclick: (/** @type {Event} */ e) => e.stopPropagation() }, s("title", {}, words),
      s("rect", { x, y: y - 8, width: 16, height: 16, rx: 8 }), s("path", { d: `M${x + 4} ${y}h8${open ? "" : `m-4 -4v8`}` })));
  }

  /** Brings some slots into sight. @param {Iterable<number>} slots */
  reveal(slots) {
    for (const slot of slots) {
      const [x, y, w, height] = this.picture.slots[slot];
      this.view.reveal(x, y, w, height);
      return;
    }
  }
}
