// A value as a grid of cells: two of its axes, a slice of the others, blocks of elements where it is large. A cell is marked
// if any element in it is; nothing is left out.

import { h, s } from "./dom.js";
import { ravel, size, unravel } from "./reads.js";

const CELL = 12;
const [MOST_ROWS, MOST_COLUMNS] = [20, 28];

/**
 * Which elements the cells show. `rows` and `columns` are axes (-1: none); `others` holds the index of the axes that are cut.
 * @typedef {{shape: number[], rows: number, columns: number, others: number[], tall: number, wide: number, high: number, broad: number}} Cut
 */

/** The last two axes that have more than one element, and blocks that make them fit. @param {number[]} shape @param {number[]} others an element that the slice goes through @returns {Cut} */
export function cut(shape, others) {
  const axes = shape.map((_, k) => k).filter((k) => shape[k] > 1);
  const [rows, columns] = [axes.at(-2) ?? -1, axes.at(-1) ?? -1];
  const [r, c] = [rows < 0 ? 1 : shape[rows], columns < 0 ? 1 : shape[columns]];
  const [tall, wide] = [Math.ceil(r / MOST_ROWS), Math.ceil(c / MOST_COLUMNS)];
  return { shape, rows, columns, others, tall, wide, high: Math.ceil(r / tall), broad: Math.ceil(c / wide) };
}

/** The axes that a slice fixes. @param {Cut} g */
export function fixed(g) {
  return g.shape.map((_, k) => k).filter((k) => k !== g.rows && k !== g.columns && g.shape[k] > 1);
}

/** The cell of an element, null where it lies in another slice. @param {Cut} g @param {number} flat @returns {[number, number] | null} */
export function cellOf(g, flat) {
  const index = unravel(flat, g.shape);
  if (fixed(g).some((k) => index[k] !== g.others[k])) return null;
  return [Math.floor((g.rows < 0 ? 0 : index[g.rows]) / g.tall), Math.floor((g.columns < 0 ? 0 : index[g.columns]) / g.wide)];
}

/** The first element of a cell. @param {Cut} g @param {number} row @param {number} column */
export function elementOf(g, row, column) {
  const index = g.shape.map((n, k) => (n > 1 ? g.others[k] : 0));
  if (g.rows >= 0) index[g.rows] = Math.min(row * g.tall, g.shape[g.rows] - 1);
  if (g.columns >= 0) index[g.columns] = Math.min(column * g.wide, g.shape[g.columns] - 1);
  return ravel(index, g.shape);
}

/** What the grid does not show as single elements, in words; "" where it shows all. @param {Cut} g */
export function told(g) {
  const parts = [];
  if (g.tall > 1 || g.wide > 1) parts.push(`each cell is ${g.tall}×${g.wide} elements`);
  const cuts = fixed(g);
  if (cuts.length) parts.push(`slice ${cuts.map((k) => `i${k}=${g.others[k]}`).join(" ")}`);
  return parts.join(", ");
}

/**
 * @param {Cut} g
 * @param {{reads: Iterable<number>, readers: Iterable<number>, picked: number | null, padding: (flat: number) => boolean}} marks
 * @param {string} label @param {(flat: number) => void} pick
 */
export function grid(g, marks, label, pick) {
  if (!size(g.shape)) return h("p", { class: "ts-dim" }, "no elements");
  const [w, height] = [g.broad * CELL, g.high * CELL];
  const cells = /** @type {(flats: Iterable<number>) => [number, number][]} */ ((flats) => {
    const found = new Map();
    for (const flat of flats) {
      const cell = cellOf(g, flat);
      if (cell) found.set(cell[0] * g.broad + cell[1], cell);
    }
    return [...found.values()];
  });
  const picked = marks.picked === null ? null : cellOf(g, marks.picked);
  const padded = /** @type {[number, number][]} */ ([]);
  for (let r = 0; r < g.high; r++) for (let c = 0; c < g.broad; c++) if (marks.padding(elementOf(g, r, c))) padded.push([r, c]);
  const svg = s("svg", { class: "ts-grid2", viewBox: `-1 -1 ${w + 2} ${height + 2}`, width: w + 2, height: height + 2, role: "img", "aria-label": label },
    s("path", { class: "ts-cells", d: lines(g) }),
    s("path", { class: "ts-padding", d: padded.map(([r, c]) => `M${c * CELL + 2} ${r * CELL + 2}l${CELL - 4} ${CELL - 4}M${c * CELL + 2} ${r * CELL + CELL - 2}l${CELL - 4} ${4 - CELL}`).join("") }),
    s("path", { class: "ts-read", d: cells(marks.reads).map(([r, c]) => box(r, c, 1)).join("") }),
    s("path", { class: "ts-reader", d: cells(marks.readers).map(([r, c]) => `M${c * CELL + CELL / 2} ${r * CELL + 1.5}l${CELL / 2 - 1.5} ${CELL / 2 - 1.5}l${1.5 - CELL / 2} ${CELL / 2 - 1.5}l${1.5 - CELL / 2} ${1.5 - CELL / 2}z`).join("") }),
    picked ? s("path", { class: "ts-picked", d: box(picked[0], picked[1], 0) }) : null);
  svg.addEventListener("click", (e) => {
    const at = svg.getBoundingClientRect();
    const column = Math.floor((((e.clientX - at.left) / at.width) * (w + 2) - 1) / CELL);
    const row = Math.floor((((e.clientY - at.top) / at.height) * (height + 2) - 1) / CELL);
    if (row >= 0 && column >= 0 && row < g.high && column < g.broad) pick(elementOf(g, row, column));
  });
  return /** @type {any} */ (svg);
}

/** @param {Cut} g */
function lines(g) {
  let d = "";
  for (let r = 0; r <= g.high; r++) d += `M0 ${r * CELL}h${g.broad * CELL}`;
  for (let c = 0; c <= g.broad; c++) d += `M${c * CELL} 0v${g.high * CELL}`;
  return d;
}

/** @param {number} r @param {number} c @param {number} edge */
function box(r, c, edge) {
  const n = CELL - 2 * edge;
  return `M${c * CELL + edge} ${r * CELL + edge}h${n}v${n}h${-n}z`;
}

/** The element that an arrow key leads to. @param {Cut} g @param {number} flat @param {string} key @returns {number | null} */
export function step(g, flat, key) {
  const move = /** @type {Record<string, [number, number]>} */ ({ ArrowLeft: [g.columns, -1], ArrowRight: [g.columns, 1], ArrowUp: [g.rows, -1], ArrowDown: [g.rows, 1] })[key];
  if (!move) return null;
  const [axis, by] = move;
  if (axis < 0) return flat;
  const index = unravel(flat, g.shape);
  index[axis] = Math.max(0, Math.min(g.shape[axis] - 1, index[axis] + by));
  return ravel(index, g.shape);
}
