// Making elements. Text only ever becomes text: nothing here, or anywhere in the viewer, parses markup.

const FOCUSABLE = new Set(["button", "input", "select", "summary"]);

/** Keeps a notebook's own keys away. It asks the element that has the focus, before those around it. */
export const OURS = { "data-lm-suppress-shortcuts": "true" };
const SVG = "http://www.w3.org/2000/svg";

/** @typedef {Node | string | number | null | undefined | false} Leaf @typedef {Leaf | Leaf[] | (Leaf | Leaf[])[]} Child lists may stand in lists */

/**
 * An HTML element: `h("button", {class: "x", onclick: f}, "text", child)`.
 * @param {string} tag @param {Record<string, any>} [props] @param {...Child} children
 * @returns {HTMLElement}
 */
export function h(tag, props = {}, ...children) {
  if (FOCUSABLE.has(tag)) props = { ...OURS, ...props };
  if (tag === "pre") props = { tabindex: 0, ...OURS, ...props }; // it may scroll: also by keyboard
  return /** @type {HTMLElement} */ (fill(document.createElement(tag), props, children));
}

/**
 * An SVG element.
 * @param {string} tag @param {Record<string, any>} [props] @param {...Child} children
 * @returns {SVGElement}
 */
export function s(tag, props = {}, ...children) {
  return /** @type {SVGElement} */ (fill(document.createElementNS(SVG, tag), props, children));
}

/** @param {Element} el @param {Record<string, any>} props @param {Child[]} children */
function fill(el, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) el.addEventListener(name.slice(2), value);
    else el.setAttribute(name, value === true ? "" : String(value));
  }
  append(el, children);
  return el;
}

/** @param {Element} el @param {Child[]} children */
export function append(el, children) {
  for (const child of /** @type {Leaf[]} */ (children.flat(3))) {
    if (child === null || child === undefined || child === false) continue;
    el.append(child instanceof Node ? child : String(child));
  }
}

/** Replaces what an element holds. @param {Element} el @param {...Child} children */
export function put(el, ...children) {
  el.textContent = "";
  append(el, children);
}

/** A sentence: what stands in `backticks` is a name of the program's, and is shown as one. @param {string} text @returns {Leaf[]} */
export function prose(text) {
  return text.split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part));
}

/** A whole number of bytes as people read it. @param {number} n */
export function bytes(n) {
  for (const [unit, size] of /** @type {[string, number][]} */ ([["GB", 1e9], ["MB", 1e6], ["kB", 1e3]])) {
    if (n >= size) return `${(n / size).toFixed(n / size < 10 ? 1 : 0)} ${unit}`;
  }
  return `${n} B`;
}

/** A count. @param {number} n */
export function count(n) {
  for (const [unit, size] of /** @type {[string, number][]} */ ([["G", 1e9], ["M", 1e6], ["k", 1e3]])) {
    if (n >= size) return `${(n / size).toFixed(n / size < 10 ? 1 : 0)}${unit}`;
  }
  return String(n);
}

/** A time. @param {number} seconds */
export function time(seconds) {
  if (seconds >= 1) return `${seconds.toFixed(2)} s`;
  return seconds >= 1e-3 ? `${(seconds * 1e3).toFixed(2)} ms` : `${(seconds * 1e6).toFixed(0)} µs`;
}

/** "1 kernel", "2 kernels". @param {number} n @param {string} word */
export function many(n, word) {
  return `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;
}

/** @param {number} value */
export function number(value) {
  if (typeof value !== "number") return String(value);
  const size = Math.abs(value);
  if (value !== 0 && (size >= 1e5 || size < 1e-3)) return value.toExponential(2);
  return String(Math.round(value * 1e4) / 1e4);
}
