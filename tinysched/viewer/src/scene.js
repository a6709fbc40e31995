// The picture of a stage at a step: what is visible, what went, what the step changed. Pure data.

/**
 * @typedef {{node: number, title: string, sub: string}} Caption
 * @typedef {"added" | "changed" | "rerouted"} Mark
 */

/** @typedef {{size: [number, number], slots: [number, number, number, number, number[]][], edges: [number, number, number[] | null][], start?: any[], startEdges?: number[], steps?: any[]}} Picture */

/** Applies the steps of one picture, one after the other, forwards; going back starts over. */
export class Scene {
  /** @param {Picture} picture */
  constructor(picture) {
    this.picture = picture;
    this.step = 0;
    this.shown = /** @type {Map<number, Caption>} */ (new Map());
    this.ghosts = /** @type {Map<number, Caption>} */ (new Map());
    this.edges = /** @type {Set<number>} */ (new Set());
    this.marks = /** @type {Map<number, Mark>} */ (new Map());
    this.gone = /** @type {Set<number>} */ (new Set());
    this.goneEdges = /** @type {Set<number>} */ (new Set());
    this.newEdges = /** @type {Set<number>} */ (new Set());
    this.focus = /** @type {Set<number>} */ (new Set());
    this.reset();
  }

  reset() {
    this.step = 0;
    this.shown.clear();
    this.ghosts.clear();
    this.edges = new Set(this.picture.startEdges ?? []);
    this.#clear();
    for (const c of this.picture.start ?? []) this.#show(c);
  }

  #clear() {
    this.marks.clear();
    this.focus.clear();
    for (const set of [this.gone, this.goneEdges, this.newEdges]) set.clear();
  }

  /** @param {[number, number, string, string]} caption */
  #show([slot, node, title, sub]) {
    this.shown.set(slot, { node, title, sub });
    this.ghosts.delete(slot);
  }

  /** @param {number} step */
  go(step) {
    if (step < this.step) this.reset();
    const steps = this.picture.steps ?? [];
    while (this.step < step && this.step < steps.length) this.#apply(steps[this.step++]);
    return this;
  }

  /** @param {any} change */
  #apply(change) {
    this.#clear();
    for (const slot of change.remove ?? []) {
      const caption = this.shown.get(slot);
      if (caption) this.ghosts.set(slot, caption);
      this.shown.delete(slot);
      this.gone.add(slot);
    }
    for (const slot of change.reroute ?? []) this.marks.set(slot, "rerouted");
    for (const c of change.change ?? []) {
      this.#show(c);
      this.marks.set(c[0], "changed");
    }
    for (const [slot, node] of change.rename ?? []) {
      const old = this.shown.get(slot);
      if (old) this.shown.set(slot, { ...old, node });
    }
    for (const c of change.add ?? []) {
      this.#show(c);
      this.marks.set(c[0], "added");
    }
    for (const e of change.off ?? []) {
      this.edges.delete(e);
      this.goneEdges.add(e);
    }
    for (const e of change.on ?? []) {
      this.edges.add(e);
      this.goneEdges.delete(e);
      this.newEdges.add(e);
    }
    this.focus = new Set(change.focus ?? []);
  }

  /** The slots within `hops` edges of some slots. @param {Iterable<number>} from @param {number} hops */
  around(from, hops) {
    return nearby(this.edges, this.picture, from, hops);
  }
}

/** The slots within `hops` of some edges of a picture. @param {Set<number>} edges @param {Picture} picture @param {Iterable<number>} from @param {number} hops */
export function nearby(edges, picture, from, hops) {
  const near = new Set(from);
  for (let i = 0; i < hops; i++) {
    const before = new Set(near);
    for (const e of edges) {
      const [a, b] = picture.edges[e];
      if (before.has(a)) near.add(b);
      if (before.has(b)) near.add(a);
    }
  }
  return near;
}
