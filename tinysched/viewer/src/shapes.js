// Geometry and looks of nodes and edges, the same for SVG and canvas.

/** @typedef {import("./model.js").UNode} UNode */

const QUIET = new Set(["movement", "hint", "control"]);
const ITEM = /** @type {Record<string, number>} */ ({ bool: 1, index: 8, void: 0, weakint: 4, weakfloat: 4 });

/** Which of the few looks a node has. @param {UNode} node @param {boolean} stored */
export function look(node, stored) {
  if (node.op === "CALL") return "kernel";
  if (QUIET.has(node.kind)) return "quiet";
  if (node.kind === "stage") return "candidate";
  if (node.kind === "memory" || stored) return "stored";
  if (node.kind === "store") return "store";
  if (node.kind === "index") return "read";
  return node.kind === "reduce" || node.kind === "device" ? node.kind : "alu";
}

/** Bytes of a node's value. @param {UNode} node */
export function bytesOf(node) {
  const item = ITEM[node.dtype] ?? (Number(/\d+$/.exec(node.dtype)?.[0] ?? 32) / 8);
  const sizes = /** @type {number[]} */ ((node.shape ?? []).filter((n) => typeof n === "number"));
  return sizes.reduce((a, b) => a * b, item);
}

/** As thick as the bytes it carries, on a logarithmic scale. @param {UNode} node */
export function thickness(node) {
  const n = bytesOf(node);
  return n <= 64 ? 1 : Math.min(4.5, 1 + Math.log2(n / 64) / 6);
}

/** A path through points, leaving and entering each rank straight down. @param {number[]} route */
export function path(route) {
  let d = `M${route[0]} ${route[1]}`;
  for (let i = 2; i < route.length; i += 2) {
    const [x0, y0, x1, y1] = [route[i - 2], route[i - 1], route[i], route[i + 1]];
    const middle = (y0 + y1) / 2;
    d += x0 === x1 ? `L${x1} ${y1}` : `C${x0} ${middle} ${x1} ${middle} ${x1} ${y1}`;
  }
  return d;
}
