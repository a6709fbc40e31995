// Kernels as boxes that open: the picture of the kernels, stretched where one is open to show its ops. Nothing is laid out
// anew: the kernels keep their order, and inside of one the ops stand as in the whole graph, with empty strips taken out.
// It has the shape of a Scene, so that the same graph draws both.

import { nearby } from "./scene.js";

/**
 * @typedef {import("./scene.js").Picture} Picture @typedef {import("./scene.js").Scene} Scene
 * @typedef {import("./scene.js").Caption & {kernel?: number, open?: boolean}} Caption
 * @typedef {{slots: number[], places: Map<number, [number, number]>, routes: Map<number, number[] | null>, width: number, height: number}} Inside
 */

const GAP_X = 26, GAP_Y = 16, PAD = 20, HEAD = 22;

export class Overview {
  /** @param {Picture} kernels a slot per kernel @param {Picture} ops the stage's picture @param {number[]} opened */
  constructor(kernels, ops, opened) {
    this.kernels = kernels;
    this.ops = ops;
    this.opened = new Set(opened);
    this.insides = /** @type {Map<number, Inside>} */ (new Map());
    this.slotOf = /** @type {Map<string, number>} */ (new Map()); // "kernel/slot of the stage" -> slot here
    this.edgeOf = /** @type {Map<string, number>} */ (new Map());
    for (const k of this.opened) this.insides.set(k, inside(ops, k));
    this.picture = this.#picture();
    this.shown = /** @type {Map<number, Caption>} */ (new Map());
    this.ghosts = /** @type {Map<number, Caption>} */ (new Map());
    this.edges = /** @type {Set<number>} */ (new Set());
    this.marks = /** @type {Map<number, import("./scene.js").Mark>} */ (new Map());
    this.gone = /** @type {Set<number>} */ (new Set());
    this.goneEdges = /** @type {Set<number>} */ (new Set());
    this.newEdges = /** @type {Set<number>} */ (new Set());
    this.focus = /** @type {Set<number>} */ (new Set());
  }

  /** @returns {Picture} */
  #picture() {
    const { slots, edges, size } = this.kernels;
    const grown = [...this.insides].map(([k, i]) => ({ k, x: slots[k][0], y: slots[k][1], w: Math.max(0, i.width - slots[k][2]), h: Math.max(0, i.height - slots[k][3]) }));
    const [mx, my] = [stretch(grown.map((g) => [g.x, g.w])), stretch(grown.map((g) => [g.y, g.h]))];
    const boxes = slots.map(([x, y, w, h], k) => {
      const i = this.insides.get(k);
      return /** @type {[number, number, number, number, number[]]} */ ([mx(x), my(y), i ? Math.max(i.width, w) : w, i ? Math.max(i.height, h) : h, [k]]);
    });
    const links = edges.map(([a, b, route]) => /** @type {[number, number, number[] | null]} */ ([a, b, route && bent(route, boxes[a], boxes[b], mx, my)]));
    const all = [...boxes];
    const whole = /** @type {[number, number]} */ ([mx(size[0]), my(size[1])]);
    for (const [k, i] of this.insides) this.#place(k, i, all, links);
    return { size: whole, slots: all, edges: links };
  }

  /** The ops of an open kernel. @param {number} k @param {Inside} i @param {Picture["slots"]} slots @param {Picture["edges"]} edges */
  #place(k, i, slots, edges) {
    const [bx, by] = slots[k];
    const [left, top] = [bx - i.width / 2, by - i.height / 2];
    for (const [slot, [x, y]] of i.places) {
      this.slotOf.set(`${k}/${slot}`, slots.length);
      slots.push([left + x, top + y, this.ops.slots[slot][2], this.ops.slots[slot][3], []]);
    }
    for (const [e, route] of i.routes) {
      const [a, b] = this.ops.edges[e];
      this.edgeOf.set(`${k}/${e}`, edges.length);
      edges.push([this.slotOf.get(`${k}/${a}`) ?? 0, this.slotOf.get(`${k}/${b}`) ?? 0, route && route.map((v, n) => v + (n % 2 ? top : left))]);
    }
  }

  /** What is visible at the step that a scene stands at. @param {Scene} scene */
  at(scene) {
    for (const part of [this.shown, this.ghosts, this.edges, this.marks, this.gone, this.goneEdges, this.newEdges, this.focus]) part.clear();
    this.kernels.edges.forEach((_, e) => this.edges.add(e));
    for (const [k, node, title, sub] of this.kernels.start ?? []) this.shown.set(k, { node, title, sub, kernel: k, open: this.opened.has(k) });
    for (const [slot, mark] of scene.marks) for (const k of this.ops.slots[slot][4]) if (!this.opened.has(k)) this.marks.set(k, mark === "added" ? "changed" : mark);
    for (const slot of scene.focus) for (const k of this.ops.slots[slot][4]) if (!this.opened.has(k)) this.focus.add(k);
    for (const k of this.opened) this.#inside(k, scene);
    return this;
  }

  /** @param {number} k @param {Scene} scene */
  #inside(k, scene) {
    const carry = (/** @type {Iterable<number>} */ from, /** @type {Map<string, number>} */ names, /** @type {(here: number, there: number) => void} */ act) => {
      for (const there of from) {
        const here = names.get(`${k}/${there}`);
        if (here !== undefined) act(here, there);
      }
    };
    carry(scene.shown.keys(), this.slotOf, (here, there) => this.shown.set(here, /** @type {Caption} */ (scene.shown.get(there))));
    carry(scene.ghosts.keys(), this.slotOf, (here, there) => this.ghosts.set(here, /** @type {Caption} */ (scene.ghosts.get(there))));
    carry(scene.marks.keys(), this.slotOf, (here, there) => this.marks.set(here, /** @type {any} */ (scene.marks.get(there))));
    for (const name of /** @type {const} */ (["gone", "focus"])) carry(scene[name], this.slotOf, (here) => this[name].add(here));
    for (const name of /** @type {const} */ (["edges", "goneEdges", "newEdges"])) carry(scene[name], this.edgeOf, (here) => this[name].add(here));
  }

  /** The slots within some edges of others. @param {Iterable<number>} from @param {number} hops */
  around(from, hops) {
    return nearby(this.edges, this.picture, from, hops);
  }
}

/** The ops of one kernel in a box of its own. @param {Picture} ops @param {number} k @returns {Inside} */
function inside(ops, k) {
  const slots = ops.slots.flatMap((s, i) => (s[4].includes(k) ? [i] : []));
  const [mx, width] = squeeze(slots.map((i) => [ops.slots[i][0] - ops.slots[i][2] / 2, ops.slots[i][0] + ops.slots[i][2] / 2]), GAP_X);
  const [my, height] = squeeze(slots.map((i) => [ops.slots[i][1] - ops.slots[i][3] / 2, ops.slots[i][1] + ops.slots[i][3] / 2]), GAP_Y);
  const places = new Map(slots.map((i) => /** @type {[number, [number, number]]} */ ([i, [mx(ops.slots[i][0]) + PAD, my(ops.slots[i][1]) + PAD + HEAD]])));
  const routes = /** @type {Map<number, number[] | null>} */ (new Map());
  ops.edges.forEach(([a, b, route], e) => {
    if (places.has(a) && places.has(b)) routes.set(e, route && route.map((v, n) => (n % 2 ? my(v) + HEAD : mx(v)) + PAD));
  });
  return { slots, places, routes, width: width + 2 * PAD, height: height + 2 * PAD + HEAD };
}

/** Takes empty strips out: a map of coordinates, and how much is left. @param {number[][]} spans @param {number} gap @returns {[(v: number) => number, number]} */
export function squeeze(spans, gap) {
  const sorted = [...spans].sort((a, b) => a[0] - b[0]);
  const pieces = /** @type {[number, number, number][]} */ ([]); // from, to, where it starts now
  for (const [from, to] of sorted) {
    const last = pieces.at(-1);
    if (last && from <= last[1] + gap) last[1] = Math.max(last[1], to);
    else pieces.push([from, to, last ? last[2] + last[1] - last[0] + gap : 0]);
  }
  const map = (/** @type {number} */ v) => {
    const i = pieces.findLastIndex((p) => v >= p[0]);
    if (i < 0) return 0;
    const [from, to, start] = pieces[i];
    if (v <= to || i === pieces.length - 1) return start + Math.min(v, to) - from;
    return start + to - from + (gap * (v - to)) / (pieces[i + 1][0] - to);
  };
  const last = pieces.at(-1);
  return [map, last ? last[2] + last[1] - last[0] : 0];
}

/** Makes room: at each place as much as the largest there needs, half of it before and half after. @param {number[][]} wanted place and room @returns {(v: number) => number} */
export function stretch(wanted) {
  const rooms = /** @type {Map<number, number>} */ (new Map());
  for (const [at, room] of wanted) rooms.set(at, Math.max(rooms.get(at) ?? 0, room));
  const all = [...rooms];
  return (v) => all.reduce((sum, [at, room]) => sum + (v > at ? room : v === at ? room / 2 : 0), v);
}

/** @param {number[]} route @param {Picture["slots"][number]} from @param {Picture["slots"][number]} to @param {(v: number) => number} mx @param {(v: number) => number} my */
function bent(route, from, to, mx, my) {
  const found = route.map((v, n) => (n % 2 ? my(v) : mx(v)));
  [found[0], found[1]] = [from[0], from[1] + from[3] / 2];
  [found[found.length - 2], found[found.length - 1]] = [to[0], to[1] - to[3] / 2];
  return found;
}
