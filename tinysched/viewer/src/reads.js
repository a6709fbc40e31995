// Which elements read which: index expressions (see views/reads.py) evaluated one element at a time. Pure data, for
// `node --test`. An element of a value is its position in row-major order, so that sets of them are sets of numbers.

/**
 * @typedef {number | string | [string, any, any]} Expr
 * @typedef {[number, Expr[] | null, number[], string, (Expr | null)?, [number, string]?]} Edge source, index, loops, text,
 *   under which condition, and below movement ops: what is read, and where
 * @typedef {{shapes: Record<string, number[]>, edges: Record<string, Edge[]>}} Reads
 * @typedef {{elements: Set<number>, padding: number, whole: boolean}} Seen
 */

export const MOST = 4096; // elements of one value that are followed
export const PATIENCE = 1 << 20; // elements that are looked at to find who reads one, before asking
const PAUSE = 1 << 17;

/** @type {Record<string, (x: any, y: any) => any>} */
const COMPUTE = {
  "+": (x, y) => x + y, "*": (x, y) => x * y, "//": (x, y) => Math.floor(x / y), "%": (x, y) => x - Math.floor(x / y) * y,
  "<": (x, y) => x < y, "!=": (x, y) => x !== y, "==": (x, y) => x === y, "&": (x, y) => x && y, "|": (x, y) => x || y, "!": (x) => !x,
};

/** A function of the axes (i0, i1, …) and loops (R0, R1, …); null where a condition fails. @param {Expr} e @returns {(i: number[], r: number[]) => any} */
export function compile(e) {
  if (typeof e === "number") return () => e;
  if (typeof e === "string") {
    const n = Number(e.slice(1));
    return e[0] === "R" ? (_, r) => r[n] : (i) => i[n];
  }
  const [a, b] = [compile(e[1]), compile(e[2])];
  if (e[0] === "if") return (i, r) => (a(i, r) ? b(i, r) : null);
  const f = COMPUTE[e[0]];
  return (i, r) => f(a(i, r), b(i, r));
}

/** @param {number[]} shape */
export function size(shape) {
  return shape.reduce((a, b) => a * b, 1);
}

/** The index of the element at a position. @param {number} flat @param {number[]} shape */
export function unravel(flat, shape) {
  const found = new Array(shape.length);
  for (let k = shape.length - 1; k >= 0; k--) {
    found[k] = flat % shape[k];
    flat = Math.floor(flat / shape[k]);
  }
  return found;
}

/** @param {number[]} index @param {number[]} shape */
export function ravel(index, shape) {
  return index.reduce((flat, i, k) => flat * shape[k] + i, 0);
}

export class Reader {
  /** @param {Reads} data */
  constructor(data) {
    this.data = data;
    this.compiled = /** @type {WeakMap<Edge, (i: number[], r: number[]) => number | null>} */ (new WeakMap());
    this.conditions = /** @type {WeakMap<Edge, (i: number[], r: number[]) => any>} */ (new WeakMap());
  }

  /** @param {number} node @returns {number[]} */
  shape(node) {
    return this.data.shapes[node];
  }

  /** @param {number} node @returns {Edge[]} */
  edges(node) {
    return this.data.edges[node] ?? [];
  }

  /** The position in the source, null for padding. @param {Edge} edge */
  #at(edge) {
    let known = this.compiled.get(edge);
    if (!known) {
      const parts = (edge[1] ?? []).map(compile);
      const shape = this.shape(edge[0]);
      known = (i, r) => {
        let flat = 0;
        for (let k = 0; k < parts.length; k++) {
          const v = parts[k](i, r);
          if (v === null) return null;
          flat = flat * shape[k] + v;
        }
        return flat;
      };
      this.compiled.set(edge, known);
    }
    return known;
  }

  /** @param {Edge} edge */
  #when(edge) {
    let known = this.conditions.get(edge);
    if (!known) this.conditions.set(edge, (known = compile(/** @type {Expr} */ (edge[4]))));
    return known;
  }

  /** Calls `tell` with each position of the source that an element reads, null for padding. @param {number} node @param {Edge} edge @param {number} flat @param {(source: number | null) => boolean | void} tell true stops */
  each(node, edge, flat, tell) {
    const [, index, loops, , when] = edge;
    if (index === null && when == null) return void tell(flat);
    const element = unravel(flat, this.shape(node));
    if (when != null && !this.#when(edge)(element, [])) return;
    if (index === null) return void tell(flat);
    const at = this.#at(edge);
    const turns = size(loops ?? []);
    for (let n = 0; n < turns; n++) if (tell(at(element, loops?.length ? unravel(n, loops) : []))) return;
  }

  /** The nodes below a node, itself among them, readers first. @param {number} node */
  below(node) {
    const found = new Set([node]);
    const stack = [node];
    while (stack.length) {
      for (const [source] of this.edges(/** @type {number} */ (stack.pop()))) {
        if (!found.has(source)) {
          found.add(source);
          stack.push(source);
        }
      }
    }
    return [...found].sort((a, b) => b - a);
  }

  /** What an element reads, by node. @param {number} node @param {number} flat @returns {Map<number, Seen>} */
  down(node, flat) {
    const seen = /** @type {Map<number, Seen>} */ (new Map([[node, { elements: new Set([flat]), padding: 0, whole: true }]]));
    for (const n of this.below(node)) {
      const reader = seen.get(n);
      if (!reader) continue;
      for (const edge of this.edges(n)) {
        const source = seen.get(edge[0]) ?? { elements: new Set(), padding: 0, whole: true };
        seen.set(edge[0], source);
        source.whole &&= reader.whole;
        for (const e of reader.elements) {
          this.each(n, edge, e, (at) => {
            if (at === null) source.padding++;
            else if (source.elements.size < MOST || source.elements.has(at)) source.elements.add(at);
            else return !(source.whole = false);
          });
          if (!source.whole && source.elements.size >= MOST) break;
        }
      }
    }
    return seen;
  }

  /** How many elements have to be looked at to find who reads an element. @param {number[]} nodes in question */
  effort(nodes) {
    return nodes.reduce((sum, n) => sum + this.edges(n).reduce((s, e) => s + size(this.shape(n)) * size(e[2] ?? []), 0), 0);
  }

  /** Which elements read an element, by node: every element of the nodes in question is asked. @param {number} node @param {number} flat @param {number[]} nodes @returns {Map<number, Seen>} */
  up(node, flat, nodes) {
    const steps = this.upInSteps(node, flat, nodes);
    for (;;) {
      const { done, value } = steps.next();
      if (done) return value;
    }
  }

  /** The same with a pause after every so many elements, so that it can be stopped. @param {number} node @param {number} flat @param {number[]} nodes @returns {Generator<number, Map<number, Seen>>} */
  *upInSteps(node, flat, nodes) {
    const seen = /** @type {Map<number, Seen>} */ (new Map([[node, { elements: new Set([flat]), padding: 0, whole: true }]]));
    for (const n of [...nodes].sort((a, b) => a - b)) {
      if (n <= node) continue;
      for (const edge of this.edges(n)) {
        const source = seen.get(edge[0]);
        if (!source?.elements.size) continue;
        const found = seen.get(n) ?? { elements: new Set(), padding: 0, whole: true };
        seen.set(n, found);
        found.whole &&= source.whole;
        yield* this.#readers(n, edge, source, found);
      }
    }
    return seen;
  }

  /** @param {number} n @param {Edge} edge @param {Seen} source @param {Seen} found */
  *#readers(n, edge, source, found) {
    const total = size(this.shape(n));
    const turns = size(edge[2] ?? []);
    let looked = 0;
    for (let e = 0; e < total; e++) {
      let reads = false;
      this.each(n, edge, e, (at) => (reads = at !== null && source.elements.has(at)));
      if ((looked += turns) >= PAUSE) {
        yield looked;
        looked = 0;
      }
      if (!reads) continue;
      if (found.elements.size >= MOST) return void (found.whole = false);
      found.elements.add(e);
    }
    yield looked;
  }

  /** Whether an element of a movement op is padding, here or further down. @param {number} node @param {number} flat */
  isPadding(node, flat) {
    let here = /** @type {number | null} */ (flat);
    for (let n = node; this.edges(n).length === 1 && !this.edges(n)[0][2]?.length; n = this.edges(n)[0][0]) {
      const edge = this.edges(n)[0];
      this.each(n, edge, /** @type {number} */ (here), (at) => void (here = at));
      if (here === null) return true;
    }
    return false;
  }
}
