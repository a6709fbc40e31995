// The index explorer: pick an element of any value and see what it reads, through every movement op, and who reads it.

import { h, many, put } from "./dom.js";
import { cut, fixed, grid, step, told } from "./grid.js";
import { MOST, PATIENCE, Reader, ravel, size, unravel } from "./reads.js";
import { patiently } from "./patience.js";

/** @typedef {import("./store.js").Store} Store @typedef {import("./reads.js").Seen} Seen */

const MOST_FIGURES = 40;
const FOLD_FROM = 14; // values: from here on movement ops are folded at first
const explorers = /** @type {WeakMap<Store, Map<number, IndexExplorer>>} */ (new WeakMap());

/** @param {Store} store */
export function indexView(store) {
  const known = explorers.get(store) ?? new Map();
  explorers.set(store, known);
  const { schedule } = store.state;
  if (!known.has(schedule)) known.set(schedule, new IndexExplorer(store));
  return known.get(schedule).update();
}

class IndexExplorer {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    this.schedule = store.schedule;
    this.reader = new Reader(this.schedule.part("index") ?? { shapes: {}, edges: {} });
    this.known = { root: -2, nodes: /** @type {number[]} */ ([]), flat: /** @type {Set<number>} */ (new Set()) };
    this.root = this.node = this.#firstRoot();
    this.flat = 0;
    this.slices = /** @type {Map<number, number[]>} */ (new Map());
    this.all = false;
    this.folded = this.root >= 0 && this.#nodes().length > FOLD_FROM;
    this.selection = /** @type {any} */ (undefined);
    this.above = /** @type {Map<number, Seen> | null} */ (null);
    this.stop = () => {};
    this.el = h("div", { class: "ts-indexview" });
  }

  /** Of the values that were asked for the one that needs most. */
  #firstRoot() {
    const { stages, nodes } = this.schedule;
    const asked = (nodes[stages[0]?.root]?.src ?? []).filter((n) => this.reader.edges(n).length);
    const deep = asked.map((n) => this.reader.below(n).length);
    return asked[deep.indexOf(Math.max(...deep))] ?? Math.max(-1, ...Object.keys(this.reader.data.edges).map(Number));
  }

  update() {
    if (this.root < 0) return h("p", { class: "ts-empty" }, "No value here is computed from another, so no index leads anywhere.");
    const { selection } = this.store.state;
    if (selection !== this.selection) this.#follow(selection);
    this.selection = selection;
    this.#pick(this.node, this.flat);
    return this.el;
  }

  /** A node that was selected elsewhere. @param {import("./model.js").Selection | null} selection */
  #follow(selection) {
    if (!selection) return;
    const candidates = [...this.store.targets.nodes].filter((n) => this.reader.shape(n)).sort((a, b) => b - a);
    const node = selection.kind === "node" && this.reader.shape(selection.id) ? selection.id : candidates[0];
    if (node === undefined) return;
    if (this.reader.edges(node).length) this.root = node;
    this.node = this.#nodes().includes(node) ? node : this.root;
    this.flat = 0;
  }

  /** What can be seen of the root and below: no constants, and memory in the shape that the program gives it. */
  #nodes() {
    if (this.known.root === this.root) return this.known.nodes;
    const { nodes } = this.schedule;
    const below = this.reader.below(this.root).filter((n) => nodes[n].kind !== "const" || n === this.root);
    const flat = new Set(below.filter((n) => this.#isMemory(n)).map((n) => this.reader.edges(n)[0][0]));
    this.known = { root: this.root, nodes: below.filter((n) => !flat.has(n) || n === this.root), flat };
    return this.known.nodes;
  }

  /** Memory in a shape. @param {number} n */
  #isMemory(n) {
    const { nodes } = this.schedule;
    return nodes[n].op === "RESHAPE" && ["BUFFER", "PARAM"].includes(nodes[nodes[n].src?.[0] ?? 0].op);
  }

  /** Memory, in its shape where it has one, and whatever else is not followed further. @param {number} n */
  #isLeaf(n) {
    if (this.#isMemory(n)) return true;
    return !this.reader.edges(n).length && !this.known.flat.has(n) && this.schedule.nodes[n].kind !== "const";
  }

  #visible() {
    const all = this.#nodes().filter((n) => !this.folded || n === this.root || n === this.node || this.schedule.nodes[n].kind !== "movement" || this.#isMemory(n));
    return this.all ? all : all.slice(0, MOST_FIGURES);
  }

  /** @param {number} n */
  #name(n) {
    const { nodes } = this.schedule;
    if (this.#isMemory(n)) return this.schedule.called(this.reader.edges(n)[0][0]);
    if (nodes[n].op !== "AFTER") return this.schedule.called(n);
    let memory = n;
    while (nodes[memory].op === "AFTER") memory = nodes[memory].src?.[0] ?? 0;
    return `${this.schedule.called(memory)} after a write`;
  }

  /** @param {number} node @param {number} flat */
  #pick(node, flat) {
    this.stop();
    this.node = node;
    this.flat = Math.min(flat, Math.max(size(this.reader.shape(node)) - 1, 0));
    this.below = size(this.reader.shape(node)) ? this.reader.down(node, this.flat) : new Map();
    this.above = null;
    const nodes = this.#nodes();
    this.effort = this.reader.effort(nodes.filter((n) => n > node));
    if (this.effort <= PATIENCE) this.above = this.reader.up(node, this.flat, nodes);
    this.#draw();
  }

  /** Looks for readers among many elements, with a way to stop. */
  #search() {
    const steps = this.reader.upInSteps(this.node, this.flat, this.#nodes());
    this.stop = patiently(this.live, steps, /** @type {number} */ (this.effort), (found) => {
      this.above = found;
      this.#draw();
    });
  }

  #draw() {
    const visible = this.#visible();
    const left = this.#nodes().length - visible.length;
    this.live = h("p", { class: "ts-indexsentence", "aria-live": "polite" }, this.#sentence());
    const focused = this.#places().indexOf(/** @type {HTMLElement} */ (/** @type {Document | ShadowRoot} */ (this.el.getRootNode()).activeElement));
    const search = this.above ? null : h("button", { class: "ts-button", onclick: () => this.#search() }, `find who reads it (looks at ${many(this.effort ?? 0, "element")})`);
    put(this.el, h("div", { class: "ts-indexhead" }, this.#choice(), this.#axes(), search, this.#folding()), this.live,
      h("div", { class: "ts-strip" }, visible.map((n) => this.#figure(n))),
      left ? h("p", { class: "ts-dim" }, `showing ${visible.length} of ${many(visible.length + left, "value")} `,
        this.folded ? "(movement ops are folded) " : h("button", { class: "ts-button", onclick: () => this.#set({ all: true }) }, "show all")) : null);
    if (focused >= 0) this.#places()[focused]?.focus({ preventScroll: true }); // who typed a number types the next one
  }

  /** What can have the focus. @returns {HTMLElement[]} */
  #places() {
    return [...this.el.querySelectorAll("input, select")].map((el) => /** @type {HTMLElement} */ (el));
  }

  /** @param {Partial<{folded: boolean, all: boolean}>} change */
  #set(change) {
    Object.assign(this, change);
    this.#draw();
  }

  #choice() {
    const values = Object.keys(this.reader.data.edges).map(Number).filter((n) => n === this.root || this.schedule.nodes[n].kind !== "movement").reverse();
    return h("label", {}, "from ", h("select", { "aria-label": "value to start from", onchange: (/** @type {any} */ e) => this.#start(Number(e.target.value)) },
      values.map((n) => h("option", { value: n, selected: n === this.root }, `${this.#name(n)} ${this.#shape(n)}`))));
  }

  /** @param {number} root */
  #start(root) {
    this.root = this.node = root;
    this.all = false;
    this.folded = this.#nodes().length > FOLD_FROM;
    this.#pick(root, 0);
  }

  /** The picked element as numbers: for who has no mouse. */
  #axes() {
    const shape = this.reader.shape(this.node);
    const index = unravel(this.flat, shape);
    const input = (/** @type {number} */ k) => h("input", { class: "ts-axis", type: "number", min: 0, max: shape[k] - 1, value: index[k], "aria-label": `i${k} of ${this.#name(this.node)}`,
      onchange: (/** @type {any} */ e) => this.#pick(this.node, ravel(index.map((i, j) => (j === k ? Math.max(0, Math.min(shape[k] - 1, Math.trunc(Number(e.target.value) || 0))) : i)), shape)) });
    return h("span", {}, h("b", {}, this.#name(this.node)), " [", shape.map((_, k) => [k ? ", " : "", input(k)]).flat(), "]");
  }

  #folding() {
    return h("label", {}, h("input", { type: "checkbox", checked: !this.folded, onchange: () => this.#set({ folded: !this.folded }) }), " every movement op");
  }

  #sentence() {
    const name = `${this.#name(this.node)}[${unravel(this.flat, this.reader.shape(this.node)).join(", ")}]`;
    const memory = [...(this.below ?? [])].filter(([n, s]) => n !== this.node && this.#isLeaf(n) && (s.elements.size || s.padding));
    const reads = memory.map(([n, s]) => `${count(s)} of ${this.#name(n)}`);
    const padding = [...(this.below ?? [])].reduce((sum, [, s]) => sum + s.padding, 0);
    const above = this.above?.get(this.root);
    const readers = this.node === this.root ? "" : !this.above ? " Who reads it was not looked for: there are too many elements to do so unasked."
      : above?.elements.size ? ` ${count(above)} of ${this.#name(this.root)} ${above.elements.size === 1 ? "needs" : "need"} it.` : ` No element of ${this.#name(this.root)} needs it.`;
    const none = this.#isLeaf(this.node) ? "lies in memory" : padding ? "reads padding only, which is 0" : "reads no memory";
    return `${name} ${reads.length ? `reads ${reads.join(", ")}${padding ? `, and padding ${many(padding, "time")}` : ""}` : none}.${readers}`;
  }

  /** @param {number} n */
  #shape(n) {
    return this.reader.shape(n).join("×") || "one value";
  }

  /** @param {number} n */
  #figure(n) {
    const [below, above] = [this.below?.get(n), n > this.node ? this.above?.get(n) : undefined];
    const lit = n === this.node ? this.flat : below?.elements.values().next().value ?? above?.elements.values().next().value ?? 0;
    const g = cut(this.reader.shape(n), this.slices.get(n) ?? unravel(lit, this.reader.shape(n)));
    const marks = { reads: n === this.node ? [] : below?.elements ?? [], readers: above?.elements ?? [], picked: n === this.node ? this.flat : null, padding: (/** @type {number} */ e) => this.schedule.nodes[n].kind === "movement" && this.reader.isPadding(n, e) };
    const label = `${this.#name(n)}, ${this.#shape(n)}: ${below && n !== this.node ? `${count(below)} read` : above ? `${count(above)} read it` : n === this.node ? "the picked element" : "nothing here is concerned"}`;
    const name = this.#isMemory(n) ? [h("b", {}, this.#name(n)), " memory"] : [h("b", {}, this.#name(n)), this.schedule.called(n) !== this.schedule.nodes[n].label ? ` ${this.schedule.nodes[n].label}` : ""];
    const box = h("div", { class: "ts-gridbox", tabindex: 0, role: "group", "aria-label": `${label}. Arrow keys move the element.`, onkeydown: (/** @type {KeyboardEvent} */ e) => this.#key(e, n, g, lit) },
      grid(g, marks, label, (flat) => this.#pick(n, flat)));
    return h("figure", { class: `ts-value2${n === this.node ? " ts-chosen" : ""}` }, h("figcaption", {}, name, ` ${this.#shape(n)}`), box, this.#cuts(n, g),
      h("div", { class: "ts-dim" }, [below && n !== this.node ? `${count(below)} read` : "", above ? `${count(above)} of it read the picked one` : "", told(g)].filter(Boolean).join(" · ")),
      this.#how(n));
  }

  /** @param {KeyboardEvent} e @param {number} n @param {import("./grid.js").Cut} g @param {number} flat */
  #key(e, n, g, flat) {
    const next = step(g, flat, e.key);
    if (next === null) return;
    e.preventDefault();
    e.stopPropagation();
    this.slices.delete(n);
    this.#pick(n, next);
    const boxes = [...this.el.querySelectorAll(".ts-chosen .ts-gridbox")];
    /** @type {HTMLElement} */ (boxes[0])?.focus();
  }

  /** Another slice of the axes that the grid has no room for. @param {number} n @param {import("./grid.js").Cut} g */
  #cuts(n, g) {
    const turn = (/** @type {number} */ k, /** @type {number} */ by) => {
      const others = g.others.slice();
      others[k] = (others[k] + by + g.shape[k]) % g.shape[k];
      this.slices.set(n, others);
      this.#draw();
    };
    return fixed(g).map((k) => h("div", { class: "ts-cut2" }, `i${k} `, h("button", { class: "ts-mini", "aria-label": `slice before along i${k}`, onclick: () => turn(k, -1) }, "‹"), ` ${g.others[k]} of ${g.shape[k]} `,
      h("button", { class: "ts-mini", "aria-label": `next slice along i${k}`, onclick: () => turn(k, 1) }, "›")));
  }

  /** At which index a value reads each of its sources, in terms of its own axes. @param {number} n */
  #how(n) {
    const lines = this.reader.edges(n).filter(([source]) => this.schedule.nodes[source].kind !== "const").map((edge) => {
      const [source, text] = (this.folded && edge[5]) || [edge[0], edge[3]];
      const own = this.reader.shape(n).map((_, k) => `i${k}`).join(", ");
      return h("div", {}, "reads ", this.#isMemory(n) ? "flat memory" : this.#name(source), h("code", {}, ` [${(text || `[${own}]`).slice(1, -1)}]`));
    });
    return lines.length ? h("div", { class: "ts-how" }, lines) : null;
  }
}

/** @param {Seen} s */
function count(s) {
  return `${s.whole ? "" : "at least "}${many(s.elements.size, "element")}${s.elements.size >= MOST && !s.whole ? " (the rest was not followed)" : ""}`;
}
