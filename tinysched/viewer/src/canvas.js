// The same graph on a canvas, for pictures too large for a thousand elements. What it draws is also in the table "nodes".

import { colourOf } from "./colours.js";
import { h } from "./dom.js";
import { look } from "./shapes.js";
import { Viewport } from "./viewport.js";

/** @typedef {import("./store.js").Store} Store @typedef {import("./store.js").State} State */

export class CanvasGraph {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    this.canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { class: "ts-svg", role: "img", "aria-label": "graph; the table “nodes” below holds the same" }));
    this.el = h("div", { class: "ts-canvas" }, this.canvas);
    this.picture = /** @type {import("./scene.js").Picture} */ ({ size: [1, 1], slots: [], edges: [] });
    this.scene = store.visible;
    this.only = /** @type {Set<number> | null} */ (null);
    this.view = new Viewport(this.el, () => this.#later(), () => this.picture.size);
    this.el.addEventListener("click", (e) => this.#clicked(e));
    this.el.addEventListener("dblclick", (e) => this.#opened(e));
    this.waiting = false;
    this.colours = /** @type {Record<string, string>} */ ({});
  }

  restart() {
    this.scene = this.store.visible;
    this.picture = this.scene.picture;
  }

  /** @param {State} state @param {Set<number> | null} only */
  update(state, only) {
    this.restart();
    this.only = only;
    const style = getComputedStyle(this.el);
    for (const name of ["bg", "fg", "dim", "line", "accent", "soft", "added", "removed"]) {
      this.colours[name] = style.getPropertyValue(`--ts-${name}`).trim() || "#888";
    }
    for (let k = 0; k < 8; k++) this.colours[`k${k}`] = style.getPropertyValue(`--ts-k${k}`).trim();
    this.#later();
  }

  #later() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.#draw();
    });
  }

  #draw() {
    const ratio = window.devicePixelRatio || 1;
    const [W, H] = [this.el.clientWidth, this.el.clientHeight];
    if (this.canvas.width !== Math.round(W * ratio) || this.canvas.height !== Math.round(H * ratio)) {
      this.canvas.width = Math.round(W * ratio);
      this.canvas.height = Math.round(H * ratio);
    }
    const c = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d"));
    const { x, y, k } = this.view;
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, W, H);
    c.setTransform(ratio * k, 0, 0, ratio * k, ratio * x, ratio * y);
    const box = [-x / k, -y / k, (W - x) / k, (H - y) / k];
    const inside = (/** @type {number} */ slot) => {
      const [sx, sy, w, h2] = this.picture.slots[slot];
      return sx + w > box[0] && sx - w < box[2] && sy + h2 > box[1] && sy - h2 < box[3];
    };
    this.#drawEdges(c, box);
    const scene = this.scene;
    for (const [slot, caption] of scene.shown) if (this.#may(slot) && inside(slot)) this.#drawNode(c, slot, caption, k, false);
    if (this.store.state.ghosts) for (const [slot, caption] of scene.ghosts) if (this.#may(slot) && inside(slot)) this.#drawNode(c, slot, caption, k, true);
  }

  /** @param {number} slot */
  #may(slot) {
    return !this.only || this.only.has(slot);
  }

  /** @param {CanvasRenderingContext2D} c @param {number[]} box */
  #drawEdges(c, box) {
    c.lineWidth = 1.2;
    c.strokeStyle = this.colours.line;
    c.setLineDash([]);
    c.beginPath();
    for (const e of this.scene.edges) {
      const [a, b, route] = this.picture.edges[e];
      if (!route || !this.#may(a) || !this.#may(b)) continue;
      const last = route.length - 1;
      if (Math.max(route[1], route[last]) < box[1] || Math.min(route[1], route[last]) > box[3]) continue;
      c.moveTo(route[0], route[1]);
      for (let i = 2; i < route.length; i += 2) c.lineTo(route[i], route[i + 1]);
    }
    c.stroke();
  }

  /** @param {CanvasRenderingContext2D} c @param {number} slot @param {import("./scene.js").Caption & {kernel?: number, open?: boolean}} caption @param {number} k @param {boolean} ghost */
  #drawNode(c, slot, caption, k, ghost) {
    const [x, y, w, height, kernels] = this.picture.slots[slot];
    const { schedule, targets } = this.store, { scene } = this;
    const node = schedule.nodes[caption.node];
    const mark = scene.marks.get(slot);
    const chosen = targets.nodes.has(caption.node) || scene.focus.has(slot) || (caption.kernel !== undefined && targets.kernels.has(caption.kernel));
    c.globalAlpha = ghost ? 0.45 : 1;
    c.beginPath();
    c.roundRect(x - w / 2, y - height / 2, w, height, look(node, false) === "stored" ? 3 : Math.min(height / 2, 16));
    c.fillStyle = this.colours.bg;
    if (!caption.open) c.fill();
    const byKernel = this.store.state.colour === "kernel";
    const colour = byKernel ? (kernels.length && this.store.state.hulls ? { name: `k${kernels[0] % 8}`, share: 0.28 } : null) : colourOf(this.store, caption.node, caption.kernel);
    if (colour) {
      c.globalAlpha = ghost ? 0.1 : colour.share;
      c.fillStyle = this.colours[colour.name];
      c.fill();
      c.globalAlpha = ghost ? 0.45 : 1;
    }
    c.setLineDash(ghost ? [4, 3] : []);
    c.lineWidth = chosen || mark ? 3 : 1;
    c.strokeStyle = chosen ? this.colours.accent : mark === "added" ? this.colours.added : ghost ? this.colours.removed : this.colours.dim;
    c.stroke();
    if (k > 0.32) this.#drawText(c, caption, x, caption.open ? y - height / 2 + 18 : y, k);
    c.globalAlpha = 1;
  }

  /** @param {CanvasRenderingContext2D} c @param {import("./scene.js").Caption} caption @param {number} x @param {number} y @param {number} k */
  #drawText(c, caption, x, y, k) {
    c.textAlign = "center";
    c.fillStyle = this.colours.fg;
    c.font = "500 12px system-ui, sans-serif";
    const two = caption.sub && k > 0.5;
    c.fillText(caption.title, x, y + (two ? -2 : 4));
    if (!two) return;
    c.fillStyle = this.colours.dim;
    c.font = "10px ui-monospace, monospace";
    c.fillText(caption.sub, x, y + 12);
  }

  /** @param {MouseEvent} e @returns {(import("./scene.js").Caption & {kernel?: number, open?: boolean}) | undefined} */
  #under(e) {
    const rect = this.el.getBoundingClientRect();
    const scale = rect.width / this.el.clientWidth || 1;
    const x = ((e.clientX - rect.left) / scale - this.view.x) / this.view.k;
    const y = ((e.clientY - rect.top) / scale - this.view.y) / this.view.k;
    return [...this.scene.shown, ...this.scene.ghosts].find(([slot]) => {
      const [sx, sy, w, height] = this.picture.slots[slot];
      return Math.abs(x - sx) <= w / 2 && Math.abs(y - sy) <= height / 2;
    })?.[1];
  }

  /** @param {MouseEvent} e */
  #clicked(e) {
    if (this.view.moved) return;
    const found = this.#under(e);
    this.store.select(!found ? null : found.kernel === undefined ? { kind: "node", id: found.node } : { kind: "kernel", id: found.kernel });
  }

  /** @param {MouseEvent} e */
  #opened(e) {
    const kernel = this.#under(e)?.kernel;
    if (kernel !== undefined) this.store.open(kernel);
  }

  /** @param {Iterable<number>} slots */
  reveal(slots) {
    for (const slot of slots) {
      const [x, y, w, height] = this.picture.slots[slot];
      this.view.reveal(x, y, w, height);
      return;
    }
  }
}
