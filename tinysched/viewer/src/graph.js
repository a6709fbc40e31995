// The graph as SVG: hulls below, edges, nodes. A step moves nothing; it shows, hides and marks.

import { h, put, s } from "./dom.js";
import { look, path, thickness } from "./shapes.js";
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
    this.picture = /** @type {import("./scene.js").Picture} */ ({ size: [1, 1], slots: [], edges: [] });
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
    if (caption) this.store.select({ kind: "node", id: caption.node });
  }

  /** @param {number} slot */
  caption(slot) {
    const scene = this.store.scene;
    return scene.shown.get(slot) ?? scene.ghosts.get(slot);
  }

  /** Another picture: everything is drawn anew. */
  restart() {
    this.picture = this.store.scene.picture;
    for (const layer of [this.hulls, this.edges, this.nodes, this.badges]) put(layer);
    this.slots.clear();
    this.paths.clear();
  }

  /** @param {State} state @param {Set<number> | null} only the slots that may be seen, null for all */
  update(state, only) {
    const scene = this.store.scene;
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
   * @param {number} slot @param {import("./scene.js").Caption} caption
   * @param {import("./model.js").Targets} targets @param {boolean} ghost
   */
  #node(slot, caption, targets, ghost) {
    let view = this.slots.get(slot);
    if (!view) {
      view = new SlotView(this.picture.slots[slot], slot);
      this.slots.set(slot, view);
      this.nodes.append(view.el);
    }
    const { schedule, scene } = this.store;
    const stored = schedule.buffers.some((b) => b.node === caption.node);
    const mark = ghost ? (scene.gone.has(slot) ? "removed" : "") : (scene.marks.get(slot) ?? "");
    const classes = ["ts-node", `ts-${look(schedule.nodes[caption.node], stored)}`];
    if (ghost) classes.push("ts-ghost");
    if (mark) classes.push(`ts-${mark}`);
    if (scene.focus.has(slot)) classes.push("ts-focus");
    if (targets.nodes.has(caption.node)) classes.push("ts-chosen");
    view.show(classes.join(" "), caption, ghost ? "−" : (GLYPHS[/** @type {keyof GLYPHS} */ (mark)] ?? ""), this.#spoken(slot, caption, mark));
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
    const scene = this.store.scene;
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
    put(this.hulls);
    put(this.badges);
    if (!wanted) return;
    const members = /** @type {Map<number, number[]>} */ (new Map());
    for (const slot of seen) {
      if (this.store.scene.ghosts.has(slot)) continue;
      for (const k of this.picture.slots[slot][4]) members.set(k, [...(members.get(k) ?? []), slot]);
    }
    const taken = /** @type {Map<number, number>} */ (new Map()); // several kernels may start at one node: badges side by side
    for (const [k, slots] of [...members].sort((a, b) => a[0] - b[0])) this.#hull(k, slots, chosen.has(k), taken);
  }

  /** @param {number} k @param {number[]} slots @param {boolean} chosen @param {Map<number, number>} taken */
  #hull(k, slots, chosen, taken) {
    const inside = new Set(slots);
    const group = s("g", { class: `ts-hull ts-k${k % 8}${chosen ? " ts-chosen" : ""}`, "data-kernel": k });
    for (const e of this.store.scene.edges) {
      const [a, b, route] = this.picture.edges[e];
      if (route && inside.has(a) && inside.has(b)) group.append(s("path", { d: path(route) }));
    }
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
    this.badges.append(
      s("g", { class: `ts-badge ts-k${k % 8}${chosen ? " ts-chosen" : ""}`, "data-kernel": k, role: "img", "aria-label": `kernel ${k}, ${name}` },
        s("title", {}, `kernel ${k}: ${name}`),
        s("rect", { x: x - 4, y: y - 8, width: w, height: 16, rx: 8 }),
        s("text", { x: x - 4 + w / 2, y: y + 4 }, k)),
    );
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

/** One node's elements, made once per picture. */
class SlotView {
  /** @param {[number, number, number, number, number[]]} box @param {number} slot */
  constructor([x, y, w, height], slot) {
    this.box = [x, y, w, height];
    this.body = s("rect", { class: "ts-body", x: -w / 2, y: -height / 2, width: w, height });
    this.floor = s("path", { class: "ts-floor", d: `M${-w / 2} ${height / 2}h${w}` });
    this.title = s("text", { class: "ts-title" });
    this.sub = s("text", { class: "ts-sub" });
    this.glyph = s("text", { class: "ts-glyph", x: w / 2 - 1, y: -height / 2 + 3 });
    this.tip = s("title");
    this.el = s("g", { transform: `translate(${x} ${y})`, "data-slot": slot, role: "img" }, this.tip, this.body, this.floor, this.title, this.sub, this.glyph);
    this.known = "";
  }

  hide() {
    this.el.setAttribute("class", "ts-hidden");
  }

  /** @param {string} classes @param {import("./scene.js").Caption} caption @param {string} glyph @param {string} spoken */
  show(classes, caption, glyph, spoken) {
    this.el.setAttribute("class", classes);
    const key = `${caption.title}\n${caption.sub}\n${glyph}\n${spoken}\n${classes.includes("ts-quiet")}`;
    if (key === this.known) return;
    this.known = key;
    const [, , w, height] = this.box;
    const quiet = classes.includes("ts-quiet");
    const pill = /ts-(alu|reduce|read|device)/.test(classes);
    this.body.setAttribute("rx", String(pill ? Math.min(height / 2, 18) : quiet ? 6 : 3));
    this.el.setAttribute("aria-label", spoken);
    this.tip.textContent = spoken;
    this.glyph.textContent = glyph;
    if (quiet && caption.sub) this.#inOneLine(caption, w);
    else this.#inTwoLines(caption);
  }

  /** @param {import("./scene.js").Caption} caption @param {number} w */
  #inOneLine(caption, w) {
    this.title.setAttribute("text-anchor", "start");
    this.title.setAttribute("x", String(-w / 2 + 8));
    this.title.setAttribute("y", "4");
    this.title.textContent = caption.title;
    this.sub.setAttribute("text-anchor", "end");
    this.sub.setAttribute("x", String(w / 2 - 8));
    this.sub.setAttribute("y", "4");
    this.sub.textContent = caption.sub;
  }

  /** @param {import("./scene.js").Caption} caption */
  #inTwoLines(caption) {
    for (const [el, y, text] of /** @type {[SVGElement, number, string][]} */ ([[this.title, caption.sub ? -2 : 4, caption.title], [this.sub, 12, caption.sub]])) {
      el.setAttribute("text-anchor", "middle");
      el.setAttribute("x", "0");
      el.setAttribute("y", String(y));
      el.textContent = text;
    }
  }
}
