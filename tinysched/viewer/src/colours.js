// What colour means: kernels by default, else a quality of each node. A colour is a variable of the style sheet and how much
// of it; numbers and words stand in the table "nodes" as well.

import { bytes, time } from "./dom.js";
import { bytesOf } from "./shapes.js";

/** @typedef {import("./store.js").Store} Store @typedef {{name: string, share: number}} Colour @typedef {{text: string, colour: Colour}} Sample */

const KINDS = ["memory", "movement", "alu", "reduce", "index", "store", "stage", "device"];
const STORED = new Set(["realized", "partially realized", "kept", "split", "snapshot"]);
const FUSED = new Set(["fused", "removed", "no buffer", "in place", "view"]);

/** @type {{id: string, label: string}[]} */
export const COLOURINGS = [
  { id: "kernel", label: "kernel" }, { id: "kind", label: "kind of op" }, { id: "decision", label: "decision" }, { id: "bytes", label: "bytes" }, { id: "time", label: "time" },
];

/** The colour of a node, null for none. @param {Store} store @param {number} id @param {number | undefined} kernel where a whole kernel is meant @returns {Colour | null} */
export function colourOf(store, id, kernel) {
  const { schedule, state } = store;
  const node = schedule.nodes[id];
  if (state.colour === "kind") return kind(kernel === undefined ? node.kind : "device");
  if (state.colour === "decision") return kernel === undefined ? decision(schedule.why(id).at(-1)?.verdict) : null;
  if (state.colour === "bytes") return heat(kernel === undefined ? bytesOf(node) : moved(schedule.kernels[kernel]), mostBytes(store));
  if (state.colour !== "time") return null;
  const seconds = schedule.run?.seconds ?? [];
  const own = kernel === undefined ? schedule.kernelsOf.get(id) ?? [] : [kernel];
  return own.length && seconds.length ? heat(Math.max(...own.map((k) => seconds[k] ?? 0)), Math.max(...seconds)) : null;
}

/** What the colours mean. @param {Store} store @returns {Sample[]} */
export function legend(store) {
  const { schedule, state } = store;
  if (state.colour === "kind") return KINDS.filter((k) => schedule.nodes.some((n) => n.kind === k)).map((k) => ({ text: k, colour: /** @type {Colour} */ (kind(k)) }));
  if (state.colour === "decision") return [{ text: "stored", colour: /** @type {Colour} */ (decision("kept")) }, { text: "fused", colour: /** @type {Colour} */ (decision("fused")) }];
  if (state.colour === "bytes") return scale(mostBytes(store), bytes);
  if (state.colour === "time") return schedule.run?.seconds?.length ? scale(Math.max(...schedule.run.seconds), time) : [{ text: "no times: it was not run", colour: { name: "line", share: 0 } }];
  return [];
}

/** @param {string} name @returns {Colour | null} */
function kind(name) {
  const i = KINDS.indexOf(name);
  return i < 0 ? null : { name: `k${i}`, share: 0.4 };
}

/** @param {string | undefined} verdict @returns {Colour | null} */
function decision(verdict) {
  if (verdict === undefined) return null;
  return STORED.has(verdict) ? { name: "k5", share: 0.5 } : FUSED.has(verdict) ? { name: "k2", share: 0.3 } : null;
}

/** On a logarithmic scale. @param {number} n @param {number} most @returns {Colour} */
function heat(n, most) {
  return { name: "k5", share: n <= 0 ? 0 : 0.04 + 0.7 * Math.max(0, 1 + Math.log10(n / most) / 4) };
}

/** @param {number} most @param {(n: number) => string} say @returns {Sample[]} */
function scale(most, say) {
  return [0.001, 0.03, 1].map((part) => ({ text: say(part * most < 1 && say === bytes ? 1 : say === bytes ? Math.round(part * most) : part * most), colour: heat(part * most, most) }));
}

/** @param {Store} store */
function mostBytes({ schedule }) {
  return Math.max(1, ...schedule.nodes.map(bytesOf), ...schedule.kernels.map(moved));
}

/** @param {import("./model.js").Kernel} kernel */
function moved(kernel) {
  return (kernel.bytes_read ?? 0) + (kernel.bytes_written ?? 0);
}
