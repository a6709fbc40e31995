// How tables are sorted, decisions filtered, and time laid out.

import assert from "node:assert/strict";
import { test } from "node:test";
import { matching } from "../../../tinysched/viewer/src/decisions.js";
import { cellOf, cut, elementOf, fixed, step, told } from "../../../tinysched/viewer/src/grid.js";
import { ravel } from "../../../tinysched/viewer/src/reads.js";
import { visitAt } from "../../../tinysched/viewer/src/ranges.js";
import { amount, by } from "../../../tinysched/viewer/src/table.js";
import { starts } from "../../../tinysched/viewer/src/timeline.js";

test("amounts are compared by what they mean", () => {
  assert.deepEqual(["12 µs", "3 ms", "8.4 MB", "1,234", "66%", "–"].map(amount), [12e-6, 3e-3, 8.4e6, 1234, 66, NaN]);
  assert.deepEqual(["2 MB", "–", "300 kB", "1 GB"].sort(by(["2 MB", "–", "300 kB", "1 GB"])), ["–", "300 kB", "2 MB", "1 GB"]);
  assert.deepEqual(["b10", "a", "b2"].sort(by(["b10", "a", "b2"])), ["a", "b10", "b2"]);
});

test("decisions are filtered by any word and by verdict", () => {
  const all = /** @type {any[]} */ ([{ verdict: "fused", text: "one reader" }, { verdict: "kept", text: "reads a buffer" }]);
  const words = (/** @type {any} */ d) => d.text;
  assert.equal(matching(all, "READ", "", words).length, 2);
  assert.equal(matching(all, "", "kept", words).length, 1);
  assert.equal(matching(all, "reader", "kept", words).length, 0);
});

test("kernels start one after another", () => {
  assert.deepEqual(starts([1, 2, 3]), [0, 1, 3]);
});

test("a step belongs to the node whose loops come next", () => {
  const visits = /** @type {any[]} */ ([[1, [], [], ""], [4, [], [], ""]]);
  assert.deepEqual([1, 2, 3, 5, 9].map((s) => visitAt(visits, s)), [0, 0, 1, 1, 1]);
});

test("a grid shows every element of its slice in some cell", () => {
  for (const shape of [[3], [2, 3, 4], [1, 50, 1, 70], [], [1, 1]]) {
    const g = cut(shape, shape.map(() => 0));
    assert.ok(g.high <= 20 && g.broad <= 28);
    for (let r = 0; r < g.high; r++) for (let c = 0; c < g.broad; c++) assert.deepEqual(cellOf(g, elementOf(g, r, c)), [r, c]);
  }
  const g = cut([2, 100, 3], [1, 0, 0]);
  assert.deepEqual(fixed(g), [0]);
  assert.equal(cellOf(g, ravel([0, 5, 1], g.shape)), null);
  assert.equal(told(g), "each cell is 5×1 elements, slice i0=1");
  assert.equal(step(g, ravel([1, 5, 1], g.shape), "ArrowRight"), ravel([1, 5, 2], g.shape));
  assert.equal(step(g, ravel([1, 5, 2], g.shape), "ArrowRight"), ravel([1, 5, 2], g.shape));
});
