// Tables, as every panel of the drawer has one.

import { h } from "./dom.js";

const MOST_ROWS = 2000; // at once; what is left out is said

/** @param {string[]} heads @param {Node[]} rows @param {string} label */
export function table(heads, rows, label) {
  const left = rows.length - MOST_ROWS;
  return h("div", { class: "ts-scroll" },
    h("table", { class: "ts-table", "aria-label": label },
      h("thead", {}, h("tr", {}, heads.map((t) => h("th", { scope: "col" }, t)))), h("tbody", {}, rows.slice(0, MOST_ROWS))),
    left > 0 ? h("p", { class: "ts-dim" }, `showing ${MOST_ROWS.toLocaleString("en")} of ${rows.length.toLocaleString("en")}`) : null);
}

/** @param {number} k */
export function badge(k) {
  return h("span", { class: `ts-chip ts-k${k % 8}` }, k);
}
