// The trace document as the views ask for it: who computes a node, where it came from, what was decided about it.
// Pure data: no element is made here, so that `node --test` can try it.

/**
 * @typedef {{op: string, dtype: string, label: string, kind: string, src?: number[], shape?: (number | string)[],
 *   arg?: string, tag?: string, expr?: string, ranges?: string[], name?: string, lines?: number[]}} UNode
 * @typedef {{kind: string, rule: number, before: number, after: number, node?: number, verdict: string, reason: string,
 *   evidence?: any, in?: string[], out?: string[], realized?: number[], index?: [number, string, string][]}} Step
 * @typedef {{name: string, root: number, end: number, doc?: string, steps?: Step[], replaced?: [number, number, number][]}} Stage
 * @typedef {{name: string, node: number, device: string, kind?: string, buffers?: number[], writes?: number[], updates?: number[],
 *   loops?: string, program?: string, cuda?: string, links?: Record<string, number[][]>, bytes_read?: number, bytes_written?: number, ops?: number, nodes?: number[],
 *   lines?: number[], key?: string}} Kernel
 * @typedef {{bytes: number, elements: number, dtype: string, device: string, role: string, name?: string, node?: number}} Buffer
 * @typedef {{before: number, after: number, kind: string, buffer: number}} Edge
 * @typedef {{buffer: number, lane: number, offset_bytes: number, bytes: number, first: number, last: number, reason?: string}} Placement
 * @typedef {{shape: number[], min?: number, max?: number, mean?: number, nan?: number, inf?: number, sample?: number[][],
 *   rows?: number[], columns?: number[], histogram?: number[]}} Value
 * @typedef {{kind: "node" | "kernel" | "buffer" | "line" | "range", id: any}} Selection
 * @typedef {{nodes: Set<number>, kernels: Set<number>, buffers: Set<number>, lines: Set<number>}} Targets
 * @typedef {{stage: number, step: number, node: number, verdict: string, reason: string, text: string}} Decision
 */

/** A line as people write it: "model.py:7", and of a notebook's cell "cell [3], line 7". @param {{file: string, number: number}} line */
export function placeOfLine({ file, number }) {
  return file.startsWith("cell ") ? `${file}, line ${number}` : `${file}:${number}`;
}

/** One schedule of a trace, with the tables that views look things up in. */
export class Schedule {
  /** @param {any} doc @param {number} index */
  constructor(doc, index) {
    const data = doc.trace.schedules[index];
    this.title = /** @type {string} */ (data.title);
    this.nodes = /** @type {UNode[]} */ (data.nodes ?? []);
    this.stages = /** @type {Stage[]} */ (data.stages ?? []);
    this.kernels = /** @type {Kernel[]} */ (data.kernels ?? []);
    this.buffers = /** @type {Buffer[]} */ (data.buffers ?? []);
    this.order = /** @type {Edge[]} */ (data.order ?? []);
    this.memory = data.memory ?? {};
    this.cache = data.cache ?? {};
    this.run = data.run ?? null;
    this.lines = doc.trace.lines ?? [];
    this.rules = doc.trace.rules ?? [];
    this.pictures = /** @type {(string | import("./scene.js").Picture)[]} */ (doc.pictures[index]); // a text until it is looked at
    this.lengths = /** @type {number[]} */ (doc.lengths[index]);
    this.kernelPicture = /** @type {import("./scene.js").Picture | null} */ (doc.kernels?.[index] ?? null);
    this.texts = /** @type {string[][]} */ (doc.texts[index]);
    this.names = /** @type {Record<string, string>} */ (doc.names?.[index] ?? {});
    this.parts = /** @type {Record<string, any>} */ (doc.parts?.[index] ?? {});
    this.known = /** @type {{selection: Selection | null, targets: Targets}} */ ({ selection: null, targets: { nodes: new Set(), kernels: new Set(), buffers: new Set(), lines: new Set() } });
    this.kernelsOf = this.#kernelsOf();
    /** Nodes whose values are in memory. */
    this.stored = new Set(this.buffers.map((b) => b.node));
    this.ways = doc.ways?.[index] ?? { shows: [], about: {}, gone: {}, forced: {}, flips: [], turns: {} };
    const [later, earlier] = this.#flow();
    this.later = later;
    this.earlier = earlier;
    this.decisions = this.#decisions();
  }

  /** The picture of a pass. @param {number} stage @returns {import("./scene.js").Picture} */
  picture(stage) {
    const known = this.pictures[stage];
    return typeof known === "string" ? (this.pictures[stage] = JSON.parse(known)) : known;
  }

  /** What Python computed for one view (views/panels.py). @param {string} id */
  part(id) {
    return this.parts[id];
  }

  #kernelsOf() {
    const found = /** @type {Map<number, number[]>} */ (new Map());
    this.kernels.forEach((kernel, k) => {
      for (const n of kernel.nodes ?? []) {
        const known = found.get(n);
        if (known) known.push(k);
        else found.set(n, [k]);
      }
    });
    return found;
  }

  /** What each node became, and what it came from. */
  #flow() {
    const later = /** @type {Map<number, Set<number>>} */ (new Map());
    const earlier = /** @type {Map<number, Set<number>>} */ (new Map());
    const note = (/** @type {number} */ a, /** @type {number} */ b) => {
      if (a === b) return;
      for (const [map, key, value] of /** @type {const} */ ([[later, a, b], [earlier, b, a]])) {
        const known = map.get(key);
        if (known) known.add(value);
        else map.set(key, new Set([value]));
      }
    };
    for (const stage of this.stages) {
      for (const step of stage.steps ?? []) if (step.kind === "rewrite") note(step.before, step.after);
      for (const [old, now] of stage.replaced ?? []) note(old, now);
    }
    return [later, earlier];
  }

  #decisions() {
    const found = /** @type {Decision[]} */ ([]);
    this.stages.forEach((stage, s) => {
      (stage.steps ?? []).forEach((step, i) => {
        if (step.kind !== "decision") return;
        const text = this.texts[s][i];
        found.push({ stage: s, step: i, node: step.node ?? -1, verdict: step.verdict, reason: step.reason, text });
      });
    });
    return found;
  }

  /** A node, what it was before and what it became. @param {number} id */
  lineage(id) {
    const found = new Set([id]);
    for (const map of [this.later, this.earlier]) {
      const stack = [id];
      while (stack.length) {
        for (const n of map.get(/** @type {number} */ (stack.pop())) ?? []) {
          if (!found.has(n)) {
            found.add(n);
            stack.push(n);
          }
        }
      }
    }
    return found;
  }

  /** Everything that a selection means, in every view. @param {Selection | null} selection @returns {Targets} */
  targets(selection) {
    if (this.known?.selection !== selection) this.known = { selection, targets: this.#targets(selection) };
    return this.known.targets;
  }

  /** @param {Selection | null} selection @returns {Targets} */
  #targets(selection) {
    const found = { nodes: new Set(), kernels: new Set(), buffers: new Set(), lines: new Set() };
    if (!selection) return /** @type {Targets} */ (found);
    if (selection.kind === "node") this.#nodeTargets(selection.id, found);
    else if (selection.kind === "kernel") {
      found.kernels.add(selection.id);
      this.kernels[selection.id]?.nodes?.forEach((n) => found.nodes.add(n));
      this.kernels[selection.id]?.buffers?.forEach((b) => found.buffers.add(b));
      this.kernels[selection.id]?.lines?.forEach((l) => found.lines.add(l));
    } else if (selection.kind === "buffer") {
      found.buffers.add(selection.id);
      const node = this.buffers[selection.id]?.node;
      if (node !== undefined) this.lineage(node).forEach((n) => found.nodes.add(n));
      this.kernels.forEach((kernel, k) => kernel.buffers?.includes(selection.id) && found.kernels.add(k));
    } else if (selection.kind === "range") {
      this.nodes.forEach((n, i) => (n.ranges?.includes(selection.id) || n.expr === selection.id) && found.nodes.add(i));
      for (const stage of this.stages) for (const step of stage.steps ?? []) if (step.out?.includes(selection.id)) found.nodes.add(step.node);
      for (const n of found.nodes) this.kernelsOf.get(n)?.forEach((k) => found.kernels.add(k));
    } else {
      found.lines.add(selection.id);
      this.nodes.forEach((n, i) => n.lines?.includes(selection.id) && found.nodes.add(i));
      this.kernels.forEach((kernel, k) => kernel.lines?.includes(selection.id) && found.kernels.add(k));
    }
    return /** @type {Targets} */ (found);
  }

  /** @param {number} id @param {{nodes: Set<any>, kernels: Set<any>, buffers: Set<any>, lines: Set<any>}} found */
  #nodeTargets(id, found) {
    for (const n of this.lineage(id)) {
      found.nodes.add(n);
      this.nodes[n].lines?.forEach((l) => found.lines.add(l));
    }
    this.kernelsOf.get(id)?.forEach((k) => found.kernels.add(k));
    this.buffers.forEach((b, i) => b.node !== undefined && found.nodes.has(b.node) && found.buffers.add(i));
    const own = this.nodes[id].op === "BUFFER" ? this.buffers.findIndex((_, i) => this.nodes[id].label === `b${i}`) : -1;
    if (own >= 0) found.buffers.add(own);
    if (this.nodes[id].op === "CALL") {
      const k = this.callNumber(id);
      if (k >= 0) found.kernels.add(k);
    }
  }

  /** The kernel that a CALL runs, by its place in the LINEAR. @param {number} id */
  callNumber(id) {
    for (const stage of this.stages) {
      for (const root of [stage.end, stage.root]) {
        const place = this.nodes[root].op === "LINEAR" ? (this.nodes[root].src ?? []).indexOf(id) : -1;
        if (place >= 0) return place;
      }
    }
    return -1;
  }

  /** What was told about a node's value on its way, first to last. @param {number} id @returns {Decision[]} */
  why(id) {
    const told = this.ways.about[this.ways.shows[id]] ?? this.ways.about[id] ?? [];
    const kept = told.filter((/** @type {[number, number]} */ [stage, step]) => this.stages[stage].steps?.[step]);
    return kept.map((/** @type {[number, number]} */ [stage, step]) => {
      const { node, verdict, reason, before } = this.stages[stage].steps?.[step] ?? {};
      return { stage, step, node: node ?? before ?? -1, verdict: verdict ?? "rewritten", reason: reason ?? "", text: this.texts[stage][step] };
    });
  }

  /** Whether the user wrote a node: it stands in the tensor graph. @param {number} id */
  isUsers(id) {
    return this.ways.shows[id] === id;
  }

  /** Why there is no kernel for a selection. @param {Selection} selection */
  noKernel({ kind, id }) {
    if (kind === "buffer") return "no kernel reads or writes it.";
    if (kind !== "node") return "its values became part of others.";
    const told = this.ways.gone[id] ?? this.ways.gone[this.ways.shows[id]];
    return told ?? (this.nodes[id].expr === undefined ? "it only joins others." : "it is index arithmetic inside of its reader.");
  }

  /** Why nothing was decided about a node. @param {number} id */
  noDecision(id) {
    const told = this.ways.gone[id] ?? this.ways.gone[this.ways.shows[id]];
    if (told) return told;
    return this.nodes[id].kind === "memory" ? "It is memory: there is nothing to decide." : "Nothing had to be decided about it.";
  }

  /** Whether this schedule has what a selection names. @param {Selection | null} selection */
  knows(selection) {
    if (!selection) return false;
    if (selection.kind === "range") return selection.id in this.ways.turns || this.nodes.some((n) => n.expr === selection.id || n.ranges?.includes(selection.id));
    return selection.id in { node: this.nodes, kernel: this.kernels, buffer: this.buffers, line: this.lines }[selection.kind];
  }

  /** The trip count of a loop, as text. @param {string} name @returns {string | undefined} */
  turns(name) {
    return this.ways.turns[name];
  }

  /** @param {number} b @returns {Placement | undefined} */
  placement(b) {
    return (this.memory.placements ?? []).find((/** @type {Placement} */ p) => p.buffer === b);
  }

  /** The buffers that a kernel writes. @param {number} k */
  written(k) {
    const { writes, buffers } = this.kernels[k];
    return (writes ?? []).map((i) => /** @type {number[]} */ (buffers)[i]);
  }

  /** The known lines of each file, in the order of the file. @returns {[string, number[]][]} */
  files() {
    const found = /** @type {Map<string, number[]>} */ (new Map());
    this.lines.forEach((/** @type {any} */ line, /** @type {number} */ l) => found.set(line.file, [...(found.get(line.file) ?? []), l]));
    for (const lines of found.values()) lines.sort((a, b) => this.lines[a].number - this.lines[b].number || a - b);
    return [...found];
  }

  /** @param {number} l @returns {number[]} */
  kernelsOfLine(l) {
    return this.kernels.flatMap((kernel, k) => (kernel.lines?.includes(l) ? [k] : []));
  }

  /** How people call a node. @param {number} id */
  called(id) {
    const node = this.nodes[id];
    return node.name ?? this.names[id] ?? node.expr ?? node.label;
  }

  /** @param {number} b */
  bufferName(b) {
    return this.buffers[b].name ?? `b${b}`;
  }

  /** How long a stage's walk is: its steps, and one more where its end has to be shown. @param {number} stage */
  length(stage) {
    return this.lengths[stage];
  }

  /** The sentence of a step (1 is the first; 0 is the start). @param {number} stage @param {number} step */
  sentence(stage, step) {
    if (step === 0) return this.stages[stage].doc || `The graph at the start of ${this.stages[stage].name}.`;
    return this.texts[stage][step - 1] ?? `The graph that ${this.stages[stage].name} leaves.`;
  }

  /** A step in a few words. @param {number} stage @param {number} step */
  short(stage, step) {
    const told = this.stages[stage].steps?.[step - 1];
    if (!told) return "what it leaves";
    if (told.kind === "rewrite") return `${this.rules[told.rule].name}: ${this.called(told.after)}`;
    const name = told.node === undefined ? "" : this.called(told.node);
    if (told.kind === "decision") return `${name} ${told.verdict}`;
    return `${name} [${(told.out ?? []).filter((r) => r !== "0").join(", ")}]`;
  }
}
