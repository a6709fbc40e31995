// What the person looks at: one state, changed in one place, told to all views.

import { Schedule } from "./model.js";
import { Overview } from "./overview.js";
import { Scene } from "./scene.js";

const MOST_OPS = 150; // of a larger graph kernels are shown first

/**
 * @typedef {import("./model.js").Selection} Selection
 * @typedef {{schedule: number, stage: number, step: number, selection: Selection | null, drawer: string, open: boolean,
 *   section: string, ghosts: boolean, hulls: boolean, around: boolean, running: string, asked: number,
 *   kernels: boolean | null, opened: number[], colour: string}} State `kernels`: kernels as boxes; null is by size
 * What only Python can do; null where there is none.
 * @typedef {{run: (() => void) | null, tryIt: (node: number, what: string) => void, undo: (which: string | null) => void,
 *   flip: (d: import("./model.js").Decision) => void, measure: () => void}} Python
 */

export class Store {
  /** @param {any} doc @param {Python | null} [python] */
  constructor(doc, python = null) {
    this.doc = doc;
    this.python = python;
    this.flips = /** @type {Map<string, string>} */ (new Map()); // what Python answered, by stage/step
    this.comparison = /** @type {any} */ (null); // with what was before the what-ifs; null where there are none
    this.schedules = /** @type {Schedule[]} */ (doc.trace.schedules.map((/** @type {any} */ _, /** @type {number} */ i) => new Schedule(doc, i)));
    this.listeners = /** @type {((state: State, before: State | null) => void)[]} */ ([]);
    this.steppers = /** @type {Map<string, import("./stepper.js").Stepper>} */ (new Map());
    this.overview = /** @type {{key: string, view: Overview} | null} */ (null);
    this.scenes = /** @type {Map<string, Scene>} */ (new Map());
    this.slot = /** @type {number | null} */ (null); // of the ready queue, where it is stepped through
    this.shown = 0; // the kernel whose programs are shown
    this.state = /** @type {State} */ ({
      schedule: this.schedules.length - 1, stage: 0, step: 0, selection: null, drawer: "kernels", open: false, section: "why",
      ghosts: true, hulls: true, around: false, running: "", asked: 0,
      kernels: null, opened: [], colour: "kernel",
    });
  }

  /** @returns {Schedule} */
  get schedule() {
    return this.schedules[this.state.schedule];
  }

  /** The picture at the current step. */
  get scene() {
    const { schedule, stage, step } = this.state;
    const key = `${schedule}/${stage}`;
    let scene = this.scenes.get(key);
    if (!scene) this.scenes.set(key, (scene = new Scene(this.schedule.picture(stage))));
    return scene.go(step);
  }

  /** Whether kernels are shown as boxes: as the person chose, else where the graph is large. */
  get boxed() {
    const { schedule, stage, kernels } = this.state;
    const end = this.schedule.nodes[this.schedule.stages[stage]?.end];
    if (!this.schedules[schedule].kernelPicture || end?.op === "LINEAR") return false;
    return kernels ?? (this.schedule.picture(stage).start ?? []).length > MOST_OPS;
  }

  /** What is drawn: all ops, or kernels as boxes, some of them open. */
  get visible() {
    if (!this.boxed) return this.scene;
    const { schedule, stage, opened } = this.state;
    const key = `${schedule}/${stage}/${opened.join(" ")}`;
    if (this.overview?.key !== key) {
      const kernels = /** @type {import("./scene.js").Picture} */ (this.schedule.kernelPicture);
      this.overview = { key, view: new Overview(kernels, this.schedule.picture(stage), opened.filter((k) => k < kernels.slots.length)) };
    }
    return this.overview.view.at(this.scene);
  }

  /** Opens a kernel's box, or closes it. @param {number} k */
  open(k) {
    const { opened } = this.state;
    this.set({ opened: opened.includes(k) ? opened.filter((o) => o !== k) : [...opened, k].sort((a, b) => a - b) });
  }

  /** What the current step did. */
  sentence() {
    const { stage, step } = this.state;
    const { schedule, scene } = this;
    if (step === 0 || schedule.texts[stage][step - 1]) return schedule.sentence(stage, step);
    const marks = [...scene.marks.values()];
    const counts = [[marks.filter((m) => m === "added").length, "added"], [scene.gone.size, "removed"], [marks.filter((m) => m === "changed").length, "changed"]];
    const told = counts.filter(([n]) => n).map(([n, word]) => `${n} ${word}`);
    return `The graph that ${schedule.stages[stage].name} leaves${told.length ? `: ${told.join(", ")}` : ""}.`;
  }

  /** What is known of turning a decision. @param {import("./model.js").Decision} d @returns {{text: string, forced: boolean} | null} */
  flipOf(d) {
    const { forced, flips } = this.schedule.ways;
    if (forced[d.reason]) return { text: forced[d.reason], forced: true };
    const text = this.flips.get(`${this.state.schedule}/${d.stage}/${d.step}`) ?? flips.find((/** @type {any} */ [stage, step]) => stage === d.stage && step === d.step)?.[2];
    return text ? { text, forced: false } : null;
  }

  /** Python said what a turned decision would give. @param {any} answer */
  flipped({ schedule, stage, step, text }) {
    this.flips.set(`${schedule}/${stage}/${step}`, text);
    this.set({ asked: this.state.asked + 1, running: "" });
  }

  /** The decisions that were turned, by what they are about: now, or before this trace was captured or saved. @returns {Record<string, string>} */
  get turned() {
    return this.comparison?.overrides ?? this.doc.trace.schedules[this.state.schedule]?.choices?.overrides ?? {};
  }

  get targets() {
    return this.schedule.targets(this.state.selection);
  }

  /** @param {(state: State, before: State | null) => void} listener */
  listen(listener) {
    this.listeners.push(listener);
  }

  /** @param {Partial<State>} change */
  set(change) {
    const before = this.state;
    const next = { ...before, ...change };
    next.schedule = clamp(next.schedule, this.schedules.length - 1);
    const schedule = this.schedules[next.schedule];
    if (next.schedule !== before.schedule) [next.selection, next.opened] = [null, []];
    next.stage = clamp(next.stage, schedule.stages.length - 1);
    next.step = clamp(next.step, schedule.length(next.stage));
    if (Object.keys(next).every((k) => next[/** @type {keyof State} */ (k)] === before[/** @type {keyof State} */ (k)])) return;
    this.state = next;
    for (const listener of this.listeners) listener(next, before);
  }

  /** One step on, or back; over the ends of a pass into the next. @param {number} by */
  stepBy(by) {
    const { stage, step } = this.state;
    const target = step + by;
    if (target < 0) {
      if (stage > 0) this.set({ stage: stage - 1, step: this.schedule.length(stage - 1) });
    } else if (target > this.schedule.length(stage)) {
      if (stage < this.schedule.stages.length - 1) this.set({ stage: stage + 1, step: 0 });
    } else this.set({ step: target });
  }

  /** The start of the next pass, or of one before. @param {number} by */
  passBy(by) {
    const stage = this.state.stage + by;
    if (stage >= 0 && stage < this.schedule.stages.length) this.set({ stage, step: 0 });
  }

  /** @param {Selection | null} selection */
  select(selection) {
    this.set({ selection });
  }

  /** Another document for the same person: the place is kept as far as it exists. @param {any} doc */
  replace(doc) {
    const { schedule, stage, step, selection } = this.state;
    const pass = this.schedule.stages[stage]?.name;
    const shared = this.schedule.nodes.length;
    this.doc = doc;
    this.schedules = doc.trace.schedules.map((/** @type {any} */ _, /** @type {number} */ i) => new Schedule(doc, i));
    this.scenes.clear();
    this.overview = null;
    this.steppers.clear();
    this.slot = null;
    this.flips.clear();
    const at = clamp(schedule, this.schedules.length - 1);
    const found = this.schedules[at].stages.findIndex((s) => s.name === pass);
    const stays = selection?.kind === "node" && selection.id < Math.min(shared, this.schedules[at].nodes.length) && this.schedules[at].isUsers(selection.id);
    this.state = { ...this.state, schedule: at, stage: Math.max(found, 0), selection: stays || selection?.kind === "line" ? selection : null, running: "", opened: [] };
    this.state.step = clamp(step, this.schedule.length(this.state.stage));
    for (const listener of this.listeners) listener(this.state, null);
  }

  /** How this schedule differs from the one before the what-ifs. @param {any} comparison */
  compared(comparison) {
    this.comparison = comparison;
    this.set({ asked: this.state.asked + 1, running: "" });
  }

  /** Times and values of a run. @param {any} run */
  ran(run) {
    this.schedule.run = run;
    const before = { ...this.state, running: "running" }; // also where it was Python that ran: the tables are drawn again
    this.state = { ...before, running: "" };
    for (const listener of this.listeners) listener(this.state, before);
  }
}

/** @param {number} value @param {number} most */
function clamp(value, most) {
  return Math.max(0, Math.min(Number.isFinite(value) ? Math.trunc(value) : 0, Math.max(most, 0)));
}
