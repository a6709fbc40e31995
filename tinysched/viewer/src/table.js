// Tables, as every panel of the drawer has one: sorted by a column when its head is pressed.

import { h, put } from "./dom.js";

const MOST_ROWS = 2000; // at once; what is left out is said, and can be had

/** @param {string[]} heads @param {Node[]} rows @param {string} label */
export function table(heads, rows, label) {
  const order = { column: -1, down: false };
  const body = h("tbody", {});
  const more = h("p", { class: "ts-dim" });
  let most = MOST_ROWS;
  const draw = () => {
    const sorted = order.column < 0 ? rows : sort(/** @type {HTMLElement[]} */ (rows), order.column, order.down);
    put(body, sorted.slice(0, most));
    const left = rows.length - most;
    put(more, left > 0 ? [`showing ${most.toLocaleString("en")} of ${rows.length.toLocaleString("en")} `, h("button", { class: "ts-mini", onclick: () => (most = rows.length, draw()) }, "show all")] : []);
    more.hidden = left <= 0;
  };
  const cells = heads.map((text, k) => {
    const cell = h("th", { scope: "col" }, text ? h("button", { class: "ts-bare ts-sort", title: `sort by ${text}`, onclick: () => {
      order.down = order.column === k && !order.down;
      order.column = k;
      cells.forEach((c, i) => (i === k ? c.setAttribute("aria-sort", order.down ? "descending" : "ascending") : c.removeAttribute("aria-sort")));
      draw();
    } }, text) : h("span", { class: "ts-unseen" }, "–"));
    return cell;
  });
  draw();
  return h("div", { class: "ts-scroll", tabindex: 0, role: "region", "aria-label": label },
    h("table", { class: "ts-table", "aria-label": label }, h("thead", {}, h("tr", {}, cells)), body), more);
}

/** Rows by a column: by number where its cells are numbers, else by text. @param {HTMLElement[]} rows @param {number} column @param {boolean} down */
function sort(rows, column, down) {
  const keys = new Map(rows.map((row) => {
    const cell = /** @type {HTMLElement} */ (row.children[column]);
    return [row, cell?.dataset.value ?? cell?.textContent ?? ""];
  }));
  const compare = by([...keys.values()]);
  const found = [...rows].sort((a, b) => compare(keys.get(a) ?? "", keys.get(b) ?? ""));
  return down ? found.reverse() : found;
}

const UNITS = /** @type {Record<string, number>} */ ({ "": 1, B: 1, kB: 1e3, MB: 1e6, GB: 1e9, k: 1e3, M: 1e6, G: 1e9, "µs": 1e-6, ms: 1e-3, s: 1, "%": 1 });

/** "8.4 MB" and "12 µs" as numbers; NaN for what is none. @param {string} text */
export function amount(text) {
  const found = /^([-+]?[\d,.]+(?:e[-+]?\d+)?)\s*([a-zµ%]*)/i.exec(text.trim());
  return found && found[2] in UNITS ? Number(found[1].replaceAll(",", "")) * UNITS[found[2]] : NaN;
}

/** @param {string[]} values @returns {(a: string, b: string) => number} */
export function by(values) {
  const numbers = values.some((v) => !Number.isNaN(amount(v))) && values.every((v) => v === "" || v === "–" || !Number.isNaN(amount(v)));
  if (!numbers) return (a, b) => a.localeCompare(b, "en");
  const key = (/** @type {string} */ v) => (Number.isNaN(amount(v)) ? -Infinity : amount(v));
  return (a, b) => key(a) - key(b) || 0;
}

/** @param {number} k */
export function badge(k) {
  return h("span", { class: `ts-chip ts-k${k % 8}` }, k);
}
