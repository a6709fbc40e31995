// The whole explorer in one element, whoever hosts it: a notebook's widget or a page.

import { walk } from "./along.js";
import { Bar } from "./bar.js";
import { OURS, h, many, put } from "./dom.js";
import { Drawer } from "./drawer.js";
import { menu } from "./export.js";
import { help } from "./help.js";
import { icon } from "./icons.js";
import { Inspector } from "./inspector.js";
import { Rail } from "./rail.js";
import { search } from "./search.js";
import { StagePane } from "./stagepane.js";
import { Store } from "./store.js";

/**
 * Who hosts the explorer. `moved` hears where the person is; `python` does what only Python can, or is null.
 * @typedef {{height: number, python: import("./store.js").Python | null, moved: (state: import("./store.js").State) => void,
 *   sources?: () => import("./export.js").Sources}} Host `sources`: the viewer's own script and style, for pages made from here
 */

export class Explorer {
  /** @param {HTMLElement} parent @param {any} doc @param {Host} host */
  constructor(parent, doc, host) {
    this.host = host;
    this.hits = /** @type {any[]} */ ([]);
    this.hit = -1;
    this.el = h("div", { class: "ts", tabindex: 0, ...OURS, role: "application", "aria-label": `schedule explorer: ${doc.trace.title}` });
    if (host.height) this.el.style.height = `${host.height}px`;
    parent.append(this.el);
    if (!doc.trace.schedules?.length) {
      put(this.el, h("p", { class: "ts-empty" }, "Nothing was scheduled: no kernel is needed for what was asked."));
      return;
    }
    this.store = new Store(doc, host.python && this.#patient(host.python));
    this.#build(this.store);
    this.el.addEventListener("keydown", (e) => this.#key(e));
    this.store.listen((state, before) => this.#update(state, before));
    this.#update(this.store.state, null);
  }

  /** @param {Store} store */
  #build(store) {
    this.bar = new Bar(store, { run: () => this.#run(), search: (t) => this.#search(t), help: () => this.#help(), share: () => this.#share() });
    this.rail = new Rail(store);
    this.middle = new StagePane(store);
    this.inspector = new Inspector(store);
    this.drawer = new Drawer(store);
    this.popup = h("div", { class: "ts-popup", hidden: true });
    this.notice = h("p", { class: "ts-notice", role: "status", hidden: true });
    const grid = h("div", { class: "ts-grid" }, this.bar.el, this.rail.el, this.middle.el, this.inspector.el, this.drawer.el);
    this.live = h("p", { class: "ts-spoken", "aria-live": "polite" });
    put(this.el, grid, this.popup, this.notice, this.live);
  }

  /** @param {import("./store.js").State} state @param {import("./store.js").State | null} before */
  #update(state, before) {
    const root = /** @type {Document | ShadowRoot} */ (this.el.getRootNode());
    const focused = this.el.contains(root.activeElement);
    for (const view of [this.bar, this.rail, this.middle, this.inspector, this.drawer]) view?.update(state, before);
    // what had the focus may be gone: the keys go on working
    if (focused && !this.el.contains(root.activeElement)) this.el.focus({ preventScroll: true });
    if (before) this.host.moved(state);
  }

  /** Asks Python one thing at a time, and shows that it is being asked. @param {import("./store.js").Python} python */
  #patient(python) {
    const wait = (/** @type {string} */ doing, /** @type {any} */ act) => (/** @type {any[]} */ ...given) => {
      if (this.store?.state.running) return;
      this.say("");
      this.store?.set({ running: doing });
      act(...given);
    };
    return /** @type {import("./store.js").Python} */ ({
      run: python.run && wait("running", python.run), tryIt: wait("scheduling again", python.tryIt), undo: wait("scheduling again", python.undo),
      flip: wait("scheduling again", python.flip), measure: wait("running both", python.measure),
    });
  }

  #run() {
    this.store?.python?.run?.();
  }

  /** Another document, for the same person. @param {any} doc @param {any} comparison */
  replace(doc, comparison) {
    if (!this.store || !doc.trace.schedules?.length) return;
    this.store.comparison = comparison;
    this.store.replace(doc);
    if (comparison) this.store.set({ drawer: "compare", open: true });
  }

  /** What a run brought, or why it brought nothing. @param {any} run @param {string} [error] */
  ran(run, error) {
    if (run) this.store?.ran(run);
    else this.store?.set({ running: "" });
    if (run) this.store?.set({ open: true, drawer: "values" });
    this.say(error ?? "");
  }

  /** @param {string} text */
  say(text) {
    if (!this.notice) return;
    put(this.notice, text, text ? h("button", { class: "ts-mini", "aria-label": "close", onclick: () => this.say("") }, icon("close")) : null);
    this.notice.hidden = !text;
  }

  // ** keys: only while the explorer has the focus, and none of them reaches the notebook **

  /** @param {KeyboardEvent} e */
  #key(e) {
    const typing = /** @type {HTMLElement} */ (e.target).matches("input, textarea, select");
    if (e.key === "Escape") this.#escape(typing);
    else if (typing) {
      if (e.key === "Enter") this.#follow(0);
      e.stopPropagation();
      return;
    } else if (e.ctrlKey || e.metaKey || e.altKey || !this.#press(e.key)) return;
    e.preventDefault();
    e.stopPropagation();
  }

  /** @param {string} key @returns {boolean} whether it means something here */
  #press(key) {
    const { store, middle } = this;
    const acts = /** @type {Record<string, () => void>} */ ({
      ArrowRight: () => store?.stepBy(1), ArrowLeft: () => store?.stepBy(-1), ArrowDown: () => store?.passBy(1), ArrowUp: () => store?.passBy(-1),
      "/": () => this.bar?.input.focus(), n: () => this.#follow(1), "?": () => this.#help(), p: () => this.#present(), u: () => this.#walk("up"), d: () => this.#walk("down"), l: () => this.#walk("next"),
      "+": () => middle?.graph?.view.zoom(1.25), "=": () => middle?.graph?.view.zoom(1.25), "-": () => middle?.graph?.view.zoom(0.8), 0: () => middle?.graph?.view.fit(true),
      o: () => this.#open(),
    });
    if (!acts[key]) return false;
    acts[key]();
    return true;
  }

  /** Opens the chosen kernel, or closes it. */
  #open() {
    const { store } = this;
    if (store?.boxed && store.state.selection?.kind === "kernel") store.open(store.state.selection.id);
  }

  /** @param {boolean} typing */
  #escape(typing) {
    if (this.popup && !this.popup.hidden) this.popup.hidden = true;
    else this.store?.select(null);
    if (typing) this.el.focus();
  }

  /** Along the edges, told to who does not see it. @param {"up" | "down" | "next"} way */
  #walk(way) {
    if (!this.store || !this.live) return;
    put(this.live, walk(this.store, way));
    this.middle?.goTo();
  }

  /** Everything larger, so that the last row can read it; and back. */
  #present() {
    this.el.classList.toggle("ts-presenter");
  }

  #help() {
    if (!this.popup) return;
    const open = this.popup.hidden || !this.popup.querySelector(".ts-help");
    put(this.popup, help(() => this.#escape(false), () => this.#present()));
    this.popup.hidden = !open;
  }

  #share() {
    if (!this.popup || !this.store) return;
    const open = this.popup.hidden || !this.popup.querySelector(".ts-menu");
    put(this.popup, menu(this.store, this.el, this.host.sources ?? null, (text) => this.say(text), () => this.#escape(false)));
    this.popup.hidden = !open;
  }

  // ** search **

  /** @param {string} text */
  #search(text) {
    if (!this.popup || !this.store) return;
    this.hits = search(this.store.schedule, text);
    this.hit = -1;
    this.popup.hidden = !text.trim();
    const rows = this.hits.slice(0, 60).map((hit, i) => h("button", { class: "ts-hit", role: "option", onclick: () => this.#go(i) }, h("span", { class: "ts-what" }, hit.what), h("span", {}, hit.label)));
    put(this.popup, h("div", { class: "ts-hits", role: "listbox", "aria-label": "matches" }, h("p", { class: "ts-dim" }, this.hits.length > 60 ? `showing 60 of ${this.hits.length}` : many(this.hits.length, "match").replace("matchs", "matches")), rows));
  }

  /** @param {number} by */
  #follow(by) {
    if (!this.hits.length) return;
    this.#go(by ? (this.hit + by) % this.hits.length : 0);
    this.el.focus();
  }

  /** @param {number} i */
  #go(i) {
    const { store } = this;
    if (!store || !this.popup) return;
    this.hit = i;
    this.popup.hidden = true;
    const { go } = this.hits[i];
    store.set(go);
    this.middle?.goTo();
  }
}

/** What is shown instead, when nothing can be. @param {HTMLElement} parent @param {unknown} error */
export function failed(parent, error) {
  parent.append(h("div", { class: "ts ts-failed", role: "alert" }, h("p", {}, "This trace cannot be shown."), h("p", { class: "ts-dim" }, String(error))));
}
