// A few icons as paths: which signs a font has is anyone's guess.

import { s } from "./dom.js";

const PATHS = /** @type {Record<string, string>} */ ({
  back: "M10 3 5 8l5 5", next: "M6 3l5 5-5 5", passback: "M3 6l5-4 5 4M3 11l5-4 5 4", passnext: "M3 5l5 4 5-4M3 10l5 4 5-4",
  plus: "M8 3v10M3 8h10", minus: "M3 8h10", fit: "M3 6V3h3M10 3h3v3M13 10v3h-3M6 13H3v-3", target: "M8 1v4M8 11v4M1 8h4M11 8h4M8 8h.01",
  hulls: "M2 5a3 3 0 0 1 3-3h6a3 3 0 0 1 3 3v6a3 3 0 0 1-3 3H5a3 3 0 0 1-3-3zM6 6h4v4H6z", ghosts: "M3 3h2M7 3h2M11 3h2v2M13 7v2M13 11v2h-2M9 13H7M5 13H3v-2M3 9V7M3 5V3",
  around: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13z", run: "M4 2.5v11l9-5.5z", up: "M3 10l5-5 5 5", down: "M3 6l5 5 5-5", boxes: "M2 2h5v5H2zM9 9h5v5H9zM7 4.5h4.5V9", close: "M4 4l8 8M12 4l-8 8", share: "M8 10V2M5 4.5 8 1.5l3 3M3 8v5.5h10V8", undo: "M6 3 2.5 6.5 6 10M3 6.5h6.5a4 4 0 0 1 0 8H7",
});

/** @param {string} name @returns {any} */
export function icon(name) {
  return s("svg", { class: "ts-icon", viewBox: "0 0 16 16", width: 14, height: 14, "aria-hidden": "true" }, s("path", { d: PATHS[name] }));
}
