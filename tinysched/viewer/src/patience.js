// Work that may take long: done in pieces, with a bar that shows how far it is and a button that stops it.

import { h, put } from "./dom.js";

/**
 * Runs a generator to its end between frames. Returns what stops it.
 * @template T
 * @param {HTMLElement | undefined} place where the bar stands @param {Generator<number, T>} steps each yields how much was done
 * @param {number} total @param {(result: T) => void} done
 * @returns {() => void}
 */
export function patiently(place, steps, total, done) {
  let stopped = false;
  let so = 0;
  const stop = () => {
    stopped = true;
    if (place) put(place, "Stopped.");
  };
  const bar = /** @type {HTMLProgressElement} */ (h("progress", { max: Math.max(total, 1), value: 0, "aria-label": "how far it is" }));
  if (place) put(place, bar, " ", h("button", { class: "ts-button", onclick: stop }, "stop"));
  const piece = () => {
    const until = performance.now() + 30;
    while (!stopped && performance.now() < until) {
      const { done: end, value } = steps.next();
      if (end) return done(/** @type {T} */ (value));
      so += /** @type {number} */ (value);
    }
    bar.value = so;
    if (!stopped) setTimeout(piece, 0);
  };
  setTimeout(piece, 0);
  return () => void (stopped = true);
}
