// A notebook as the host: traits of a Python widget move the viewer and are moved by it, messages ask Python to act.

import { h } from "./dom.js";
import { Explorer, failed } from "./explorer.js";
import { Follower } from "./group.js";
import { PLACE, move, placeOf } from "./place.js";
import { Single } from "./single.js";
import { unpack } from "./unpack.js";

/** @typedef {Explorer | Single} View */

/** @param {{model: any, el: HTMLElement}} widget */
export async function render({ model, el }) {
  el.classList.add("ts-output");
  const host = new Notebook(model, el);
  await host.show();
  return () => host.end();
}

class Notebook {
  /** @param {any} model @param {HTMLElement} el */
  constructor(model, el) {
    this.model = model;
    this.el = el;
    this.view = /** @type {View | null} */ (null);
    this.telling = false;
    this.follower = new Follower(model.get("_group"), (place) => this.view?.store && move(this.view.store, place));
    this.heard = /** @type {[string, (...given: any[]) => void][]} */ ([
      ["change:_packed", () => this.#changed()], ["change:_run", () => this.#ran()], ["msg:custom", (/** @type {any} */ m) => this.#told(m)],
      ["change:_compared", () => this.#compared()],
      ...PLACE.map((name) => /** @type {[string, () => void]} */ ([`change:${name}`, () => this.#obey()])),
    ]);
    for (const [name, act] of this.heard) model.on(name, act);
  }

  end() {
    for (const [name, act] of this.heard) this.model.off(name, act);
    this.follower.end();
  }

  async show() {
    const { model, el } = this;
    el.textContent = "";
    try {
      el.append(h("p", { class: "ts-loading" }, "unpacking the trace …"));
      const doc = await unpack(model.get("_packed"));
      el.textContent = "";
      const part = model.get("part");
      const host = { height: model.get("height"), python: model.get("_live") ? this.#python() : null, moved: () => this.#tell(), sources: () => ({ script: model.get("_esm"), style: model.get("_css") }) };
      this.view = part === "explorer" ? new Explorer(el, doc, host) : new Single(el, doc, host, part);
      if (this.view.store) this.view.store.comparison = comparison(model);
      this.#obey();
      this.#ran(); // which opens the values, where no other table was asked for
      if (model.get("view") !== "graph") this.view.store?.set({ drawer: model.get("view"), open: true });
    } catch (error) {
      el.textContent = "";
      failed(el, error);
    }
  }

  /** @returns {import("./store.js").Python} */
  #python() {
    const send = (/** @type {any} */ message) => this.model.send(message);
    return {
      run: this.model.get("_can_run") ? () => send({ kind: "run" }) : null,
      tryIt: (node, what) => send({ kind: "try", node, what }), undo: (which) => send({ kind: "undo", which }),
      flip: ({ stage, step }) => send({ kind: "flip", stage, step }), measure: () => send({ kind: "measure" }),
    };
  }

  /** Another trace: the same view goes on, at the same place as far as that exists. */
  async #changed() {
    if (!this.view?.store) return this.show();
    try {
      this.view.replace(await unpack(this.model.get("_packed")), comparison(this.model));
    } catch (error) {
      this.el.textContent = "";
      failed(this.el, error);
    }
  }

  #ran() {
    const text = this.model.get("_run");
    if (text) this.view?.ran(JSON.parse(text));
  }

  #compared() {
    const found = comparison(this.model);
    if (found || this.view?.store?.comparison) this.view?.store?.compared(found);
  }

  /** @param {any} message */
  #told(message) {
    if (message.kind === "progress" && this.view?.store?.state.running) this.view.store.set({ running: message.text });
    if (message.kind === "failed") this.view?.ran(null, message.text);
    if (message.kind === "flipped") this.view?.store?.flipped(message);
  }

  /** The person moved: Python's traits follow, and so do the other views of this trace. */
  #tell() {
    const { model } = this;
    const store = this.view?.store;
    if (!store) return;
    const place = /** @type {Record<string, any>} */ (placeOf(store));
    const changed = PLACE.filter((name) => JSON.stringify(model.get(name)) !== JSON.stringify(place[name]));
    this.telling = true; // one trait after the other: between them the model is nowhere
    for (const name of changed) model.set(name, place[name]);
    this.telling = false;
    if (changed.length) model.save_changes();
    this.follower.tell(place);
  }

  /** Python moved: the view follows. */
  #obey() {
    const store = this.view?.store;
    if (store && !this.telling) move(store, Object.fromEntries(PLACE.map((name) => [name, this.model.get(name)])));
  }
}

/** @param {any} model */
function comparison(model) {
  const text = model.get("_compared");
  return text ? JSON.parse(text) : null;
}
