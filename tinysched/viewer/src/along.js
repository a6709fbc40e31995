// Walking the graph by keyboard: from a node to what it reads, to who reads it, and to its neighbours.

/** @typedef {import("./store.js").Store} Store @typedef {import("./scene.js").Scene} Scene */

/**
 * The slot that a way leads to from a slot: "up" to a source, "down" to a reader, "next" to the right in the same row (and
 * around). Nothing selected: the last output. null where there is no way on.
 * @param {Scene} scene @param {number | null} slot @param {"up" | "down" | "next"} way
 */
export function along(scene, slot, way) {
  const { edges, slots } = scene.picture;
  const byPlace = (/** @type {number} */ a, /** @type {number} */ b) => slots[a][1] - slots[b][1] || slots[a][0] - slots[b][0];
  const shown = [...scene.shown.keys()].sort(byPlace);
  if (slot === null || !scene.shown.has(slot)) return shown.at(-1) ?? null;
  if (way === "next") {
    const row = shown.filter((s) => slots[s][1] === slots[slot][1]);
    return row[(row.indexOf(slot) + 1) % row.length];
  }
  const [from, to] = way === "up" ? [1, 0] : [0, 1];
  const found = [...scene.edges].filter((e) => edges[e][from] === slot).map((e) => /** @type {number} */ (edges[e][to]));
  return found.filter((s) => scene.shown.has(s)).sort(byPlace)[0] ?? null;
}

/** Selects the node that a way leads to, and says it in words. @param {Store} store @param {"up" | "down" | "next"} way */
export function walk(store, way) {
  const { scene, schedule, state } = store;
  const at = [...scene.shown].filter(([, c]) => c.node === state.selection?.id || store.targets.nodes.has(c.node));
  const own = at.find(([, c]) => state.selection?.kind === "node" && c.node === state.selection.id) ?? at[0];
  const slot = along(scene, own?.[0] ?? null, way);
  if (slot === null) return way === "up" ? "It reads nothing that is shown here." : "Nobody here reads it.";
  const caption = /** @type {import("./scene.js").Caption} */ (scene.shown.get(slot));
  store.select({ kind: "node", id: caption.node });
  const kernels = scene.picture.slots[slot][4];
  return `${caption.title} ${caption.sub}${kernels.length ? `, kernel ${kernels.join(" and ")}` : ""}, ${schedule.nodes[caption.node].dtype}`;
}
