// A saved notebook's output as the host: no Python, no address; other outputs of the same trace move along.

import { Explorer, failed } from "./explorer.js";
import { Follower } from "./group.js";
import { move, placeOf } from "./place.js";
import { Single } from "./single.js";
import { unpack } from "./unpack.js";

/** @param {HTMLElement} el @param {Uint8Array<ArrayBuffer>} packed @param {any} how part, height and place */
export async function mount(el, packed, how) {
  try {
    const doc = await unpack(packed);
    el.textContent = "";
    const follower = new Follower(how.group ?? "", (place) => view.store && move(view.store, place));
    const host = { height: how.height, python: null, moved: () => view.store && follower.tell(placeOf(view.store)), sources: () => ({ script: how.script, style: how.style }) };
    /** @type {Explorer | Single} */
    const view = how.part === "explorer" ? new Explorer(el, doc, host) : new Single(el, doc, host, how.part);
    if (view.store && how.place) move(view.store, how.place);
    if (how.place?.view && how.place.view !== "graph") view.store?.set({ drawer: how.place.view, open: true });
  } catch (error) {
    el.textContent = "";
    failed(el, error);
  }
}
