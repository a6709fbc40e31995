// Kernels as boxes: what is stretched and squeezed stays in order, and nothing stands on anything.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Overview, squeeze, stretch } from "../../../tinysched/viewer/src/overview.js";
import { Scene } from "../../../tinysched/viewer/src/scene.js";

const numbers = (seed, n, most) => Array.from({ length: n }, () => ((seed = (seed * 1103515245 + 12345) % 2147483648) / 2147483648) * most);

test("empty strips are taken out, and order and sizes stay", () => {
  const [map, size] = squeeze([[0, 10], [100, 130], [105, 140]], 20);
  assert.deepEqual([0, 10, 100, 130, 140].map(map), [0, 10, 30, 60, 70]);
  assert.equal(size, 70);
  for (let seed = 1; seed < 40; seed++) {
    const starts = numbers(seed, 8, 900);
    const spans = starts.map((a, i) => [a, a + numbers(seed + i, 1, 60)[0]]);
    const [m] = squeeze(spans, 16);
    for (const [a, b] of spans) assert.ok(Math.abs(m(b) - m(a) - (b - a)) < 1e-6, "a span keeps its size");
    const along = numbers(seed, 50, 960).sort((a, b) => a - b).map(m);
    assert.ok(along.every((v, i) => !i || v >= along[i - 1] - 1e-9), "what was left of something stays left of it");
  }
});

test("room is made around each place, once where several need it", () => {
  const map = stretch([[100, 40], [100, 60], [300, 10]]);
  assert.deepEqual([50, 100, 200, 300, 400].map(map), [50, 130, 260, 365, 470]);
});

const KERNELS = { size: [100, 200], slots: [[50, 20, 60, 40, [0]], [50, 120, 60, 40, [1]]], edges: [[0, 1, [50, 40, 50, 100]]], start: [[0, 90, "0 a", ""], [1, 91, "1 b", ""]] };
const OPS = {
  size: [300, 400], slots: [[20, 20, 30, 20, [0]], [250, 20, 30, 20, [0, 1]], [20, 300, 30, 20, [1]]], edges: [[0, 1, [20, 30, 250, 10]], [1, 2, [250, 30, 20, 290]]],
  start: [[0, 1, "x", ""], [1, 2, "y", ""], [2, 3, "z", ""]], startEdges: [0, 1], steps: [{ change: [[2, 4, "w", ""]], focus: [2] }],
};

test("closed boxes carry the marks of what is inside; open ones show it", () => {
  const scene = new Scene(OPS);
  const closed = new Overview(KERNELS, OPS, []).at(scene.go(1));
  assert.deepEqual([...closed.shown.values()].map((c) => c.title), ["0 a", "1 b"]);
  assert.deepEqual([...closed.marks], [[1, "changed"]]);
  assert.deepEqual([...closed.focus], [1]);
  const open = new Overview(KERNELS, OPS, [1]).at(scene);
  assert.deepEqual([...open.shown.values()].map((c) => c.title).sort(), ["0 a", "1 b", "w", "y"]);
  const [x, y, w, h] = open.picture.slots[1];
  for (const [slot, caption] of open.shown) {
    if (caption.kernel !== undefined) continue;
    const [sx, sy, sw, sh] = open.picture.slots[slot];
    assert.ok(sx - sw / 2 >= x - w / 2 && sx + sw / 2 <= x + w / 2 && sy - sh / 2 >= y - h / 2 && sy + sh / 2 <= y + h / 2, "inside of its kernel's box");
  }
  const above = open.picture.slots[0];
  assert.ok(above[1] + above[3] / 2 < y - h / 2, "the other box is not covered");
  assert.equal(open.edges.size, 2, "the edge between the kernels, and the one inside");
});
