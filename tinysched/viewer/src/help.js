// What keys do and what signs mean.

import { h } from "./dom.js";
import { icon } from "./icons.js";

const KEYS = [["← →", "a step back, a step on"], ["↑ ↓", "the pass before, the next pass"], ["/", "search; n goes to the next match"], ["u d l", "in the graph: up to what it reads, down to who reads it, along the row"], ["+ − 0", "zoom in, out, fit"], ["o", "open the chosen kernel’s box, or close it"], ["p", "larger, for a projector; again, as before"], ["Esc", "close, or select nothing"], ["?", "this"]];
const SIGNS = [["ts-stored", "stored: a box with a floor"], ["ts-alu", "computed where it is read: a pill"], ["ts-reduce", "a reduction"], ["ts-quiet", "only moves indices"], ["ts-added", "+ new in this step"], ["ts-ghost", "− removed in this pass"], ["ts-changed", "~ changed in this step"], ["ts-rerouted", "↝ reads something else now"]];

/** @param {() => void} close @param {() => void} present */
export function help(close, present) {
  return h("div", { class: "ts-help", role: "dialog", "aria-label": "keys and signs" },
    h("button", { class: "ts-mini ts-close", "aria-label": "close", onclick: close }, icon("close")),
    h("button", { class: "ts-button", onclick: present }, "larger, for a projector"),
    h("h3", {}, "keys"), h("dl", { class: "ts-facts-list" }, KEYS.flatMap(([k, text]) => [h("dt", {}, h("kbd", {}, k)), h("dd", {}, text)])),
    h("h3", {}, "signs"), h("ul", { class: "ts-legend" }, SIGNS.map(([name, text]) => h("li", {}, h("span", { class: `ts-sample ${name}` }), text))),
    h("p", { class: "ts-dim" }, "A coloured area with a number is a kernel: the number is the same in every table. Thicker edges carry more bytes. Inputs are above, outputs below."));
}
