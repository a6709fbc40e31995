// The views of the drawer, one line each: this is the only place that lists them. A new view is a file of its own with a
// `draw`, a line here and a line in views/panels.py (its text, and what data travels for it: `store.schedule.part(id)`).

import { arena, placements } from "./arena.js";
import { compare } from "./compare.js";
import { decisions } from "./decisions.js";
import { indexView } from "./indexview.js";
import { kernels } from "./kernels.js";
import { nodes } from "./nodes.js";
import { order, reasons } from "./order.js";
import { ranges, rangesTable } from "./ranges.js";
import { rewrites, rewritesTable } from "./rewrites.js";
import { timeline, timelineTable } from "./timeline.js";
import { traffic, trafficTable } from "./traffic.js";
import { values, valuesTable } from "./values.js";

/**
 * `draw` makes what is seen. `twin` says the same as a table and stands beside it; it is left out where `draw` makes a
 * table itself. `follows`: "step" is drawn again at every step, others when the selection or the run changes.
 * @typedef {import("./store.js").Store} Store
 * @typedef {{id: string, label: string, draw: (store: Store) => Node | Node[], twin?: (store: Store) => Node, follows?: "step"}} Panel
 */

/** @type {Panel[]} */
export const PANELS = [
  { id: "kernels", label: "kernels", draw: kernels },
  { id: "order", label: "order", draw: order, twin: reasons },
  { id: "arena", label: "arena", draw: arena, twin: placements },
  { id: "bytes", label: "bytes", draw: traffic, twin: trafficTable },
  { id: "timeline", label: "timeline", draw: timeline, twin: timelineTable },
  { id: "values", label: "values", draw: values, twin: valuesTable },
  { id: "ranges", label: "ranges", draw: ranges, twin: rangesTable, follows: "step" },
  { id: "index", label: "index", draw: indexView },
  { id: "rewrites", label: "rewrites", draw: rewrites, twin: rewritesTable, follows: "step" },
  { id: "compare", label: "what if", draw: compare },
  { id: "decisions", label: "decisions", draw: decisions },
  { id: "nodes", label: "nodes", draw: nodes, follows: "step" },
];
