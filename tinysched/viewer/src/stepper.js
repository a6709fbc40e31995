// Steps the loops of a kernel: which line, the loop counters, the accumulators, what was read and what is written so far.
// It computes in the browser, so also in a mailed file. Inputs are those of the recorded run where all of them are known.

import { h, many, number, put } from "./dom.js";
import { parse } from "./loopcode.js";
import { run } from "./looprun.js";

/** @typedef {import("./store.js").Store} Store @typedef {import("./looprun.js").Event} Event */

const MOST_ELEMENTS = 1 << 20, MOST_AT_ONCE = 20_000, MOST_SHOWN = 32;

export class Stepper {
  /** @param {Store} store @param {number} k */
  constructor(store, k) {
    this.store = store;
    this.k = k;
    this.program = parse(store.schedule.kernels[k].loops ?? "");
    this.lines = /** @type {HTMLElement[]} */ ([]);
    this.values = /** @type {Map<string, number>} */ (new Map());
    this.event = /** @type {Event | null} */ (null);
    this.memory = /** @type {Record<string, {data: number[], t: string}>} */ ({});
    this.turns = run(this.program, {}, {});
    this.known = this.done = false;
    this.taken = 0;
    this.failed = "";
    this.panel = h("div", { class: "ts-stepper", role: "group", "aria-label": "step through the iterations" });
    this.restart();
  }

  restart() {
    Object.assign(this, inputs(this.store, this.k, readBy(this.program.body)));
    this.turns = run(this.program, this.memory, variables(this.program));
    this.values.clear();
    this.event = null;
    this.done = false;
    this.taken = 0;
    this.failed = "";
    this.draw();
  }

  /** Goes on until a statement is wanted. @param {(e: Event) => boolean} wanted */
  on(wanted) {
    for (let i = 0; i < MOST_AT_ONCE && !this.done && !this.failed; i++) {
      try {
        const { value, done } = this.turns.next();
        if (done) this.done = true;
        else this.#took(value);
      } catch (error) {
        this.failed = String(error instanceof Error ? error.message : error);
      }
      if (this.event && wanted(this.event)) break;
    }
    this.draw();
  }

  /** @param {Event} event */
  #took(event) {
    this.event = event;
    this.taken++;
    if (event.kind === "for" || event.kind === "let") this.values.set(event.name, event.value ?? 0);
  }

  draw() {
    const { event } = this;
    this.lines.forEach((el, n) => el.classList.toggle("ts-now", n === event?.line));
    const button = (/** @type {string} */ text, /** @type {string} */ title, /** @type {() => void} */ act, off = this.done) => h("button", { class: "ts-button", title, disabled: off, onclick: act }, text);
    const line = event?.line;
    put(this.panel,
      h("p", { class: "ts-acts" }, button("step", "one statement on", () => this.on(() => true)),
        button("next turn", "on until this line again", () => this.on((e) => e.line === (line ?? e.line))),
        button("next store", "on until an element is written", () => this.on((e) => e.kind === "store")),
        button("to the end", `at most ${MOST_AT_ONCE.toLocaleString("en")} statements on`, () => this.on(() => false)),
        button("restart", "from the first statement", () => this.restart(), !this.taken)),
      h("p", { class: "ts-dim" }, `${many(this.taken, "statement")}${this.done ? ", done" : ""}. ${this.known ? "Inputs as in the recorded run." : "Inputs are made up: small numbers."}`),
      this.failed ? h("p", { class: "ts-bad" }, `Not stepped further: ${this.failed}.`) : null,
      event ? this.#state(event) : null);
  }

  /** @param {Event} event */
  #state(event) {
    const loops = [...this.values].filter(([n]) => /^[rRd]\d/.test(n)), rest = [...this.values].filter(([n]) => !/^[rRd]\d/.test(n));
    const value = (/** @type {[string, number]} */ [name, v]) => h("span", { class: `ts-var${name === event.name ? " ts-now" : ""}` }, `${name} = `, h("b", {}, number(v)));
    const [of, at] = event.wrote ?? [];
    return h("div", {},
      h("p", { class: "ts-vars" }, loops.map(value)), h("p", { class: "ts-vars" }, rest.map(value)),
      event.reads.length ? h("p", {}, "reads ", event.reads.map(([p, i, v]) => h("span", { class: "ts-var" }, `${this.#named(p)}[${i}] = ${number(v)}`))) : null,
      event.wrote ? h("p", {}, "writes ", h("span", { class: "ts-var ts-now" }, `${this.#named(event.wrote[0])}[${at}] = ${number(event.wrote[2])}`)) : null,
      this.#memory(of, at));
  }

  /** What is written so far. @param {string | undefined} of @param {number | undefined} at */
  #memory(of, at) {
    const writes = this.store.schedule.kernels[this.k].writes ?? [];
    const name = of ?? `p${writes[0] ?? 0}`;
    const { data } = this.memory[name];
    const first = Math.max(0, Math.min((at ?? 0) - MOST_SHOWN / 2, data.length - MOST_SHOWN));
    return h("p", { class: "ts-cells" }, h("span", { class: "ts-dim" }, `${this.#named(name)}[${first}…] `),
      data.slice(first, first + MOST_SHOWN).map((v, i) => h("span", { class: `ts-cell${first + i === at ? " ts-now" : ""}` }, Number.isNaN(v) ? "·" : number(v))));
  }

  /** @param {string} p */
  #named(p) {
    const b = this.store.schedule.kernels[this.k].buffers?.[Number(p.slice(1))];
    const name = b === undefined ? "" : this.store.schedule.bufferName(b);
    return name && !/^b\d/.test(name) ? `${p} (${name})` : p;
  }
}

/** The panel of a kernel, the same one when the drawer is drawn again. @param {Store} store @param {number} k @param {HTMLElement[]} lines */
export function stepper(store, k, lines) {
  const key = `${store.state.schedule}/${k}`;
  try {
    const known = store.steppers.get(key) ?? new Stepper(store, k);
    store.steppers.set(key, known);
    known.lines = lines;
    known.draw();
    return known.panel;
  } catch (error) {
    return h("p", { class: "ts-dim" }, `It cannot be stepped here: ${error instanceof Error ? error.message : error}.`);
  }
}

/** Memory to step on: recorded values where all of a buffer is known, else small numbers; what is only written is empty.
 * @param {Store} store @param {number} k @param {Set<string>} read */
function inputs(store, k, read) {
  const { schedule } = store;
  const kernel = schedule.kernels[k];
  let known = true;
  const memory = /** @type {Record<string, {data: number[], t: string}>} */ ({});
  (kernel.buffers ?? []).forEach((b, slot) => {
    const { elements, dtype } = schedule.buffers[b];
    if (elements > MOST_ELEMENTS) throw new Error(`a buffer has ${elements.toLocaleString("en")} elements, and ${MOST_ELEMENTS.toLocaleString("en")} is the most`);
    const name = `p${slot}`;
    const sample = /** @type {any[]} */ ((schedule.run?.values?.[b]?.sample ?? []).flat());
    const whole = !kernel.writes?.includes(slot) && sample.length === elements && sample.every((v) => typeof v === "number");
    if (read.has(name)) known &&= whole;
    memory[name] = { t: dtype, data: whole ? sample : Array.from({ length: elements }, (_, i) => (read.has(name) ? made(i, slot, dtype) : NaN)) };
  });
  return { memory, known };
}

/** The names of memory that a program reads. @param {any} part @returns {Set<string>} */
function readBy(part) {
  if (Array.isArray(part)) return new Set(part.flatMap((p) => [...readBy(p)]));
  if (typeof part !== "object" || part === null) return new Set();
  return new Set([...(part.kind === "element" ? [part.of] : []), ...Object.values(part).flatMap((p) => [...readBy(p)])]);
}

/** A made-up element: small, of both signs, different from its neighbours. @param {number} i @param {number} slot @param {string} dtype */
function made(i, slot, dtype) {
  if (dtype === "bool") return (i + slot) % 2;
  return /float/.test(dtype) ? ((i * 7 + slot * 5) % 17 - 8) / 4 : (i * 3 + slot) % 5;
}

/** Variables of the program get the value 2. @param {import("./loopcode.js").Program} program */
function variables(program) {
  return Object.fromEntries(program.params.filter((p) => !/^p\d+$/.test(p)).map((p) => [p, 2]));
}
