// Kernels and who waits for whom: who could run next, and the longest chain. Pure data.

/** @typedef {{before: number, after: number}} Wait */

/** Who could run after the first `done` kernels ran. @param {number} count @param {Wait[]} waits @param {number} done */
export function ready(count, waits, done) {
  const blocked = new Set(waits.filter((w) => w.before >= done).map((w) => w.after));
  return Array.from({ length: count - done }, (_, i) => done + i).filter((k) => !blocked.has(k));
}

/** The chain of waits that costs most: no number of devices is faster. @param {number} count @param {Wait[]} waits @param {number[]} cost @returns {{path: number[], cost: number}} */
export function criticalPath(count, waits, cost) {
  const before = /** @type {number[][]} */ (Array.from({ length: count }, () => []));
  for (const w of waits) before[w.after]?.push(w.before);
  const total = /** @type {number[]} */ ([]), from = /** @type {number[]} */ ([]);
  for (let k = 0; k < count; k++) {
    const best = before[k].reduce((a, b) => (a < 0 || total[b] > total[a] ? b : a), -1);
    from[k] = best;
    total[k] = (best < 0 ? 0 : total[best]) + (cost[k] ?? 0);
  }
  let end = total.reduce((a, t, k) => (t > (total[a] ?? -1) ? k : a), 0);
  const path = [];
  for (const most = total[end] ?? 0; ; end = from[end]) {
    if (count) path.unshift(end);
    if (!count || from[end] < 0) return { path, cost: most };
  }
}
