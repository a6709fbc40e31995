// The viewer's evaluator of index expressions against NumPy's answers (tests/golden/reads.json, made by test_views_reads.py).

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Reader, compile, ravel, size, unravel } from "../../../tinysched/viewer/src/reads.js";

const cases = JSON.parse(readFileSync(new URL("../../../tests/golden/reads.json", import.meta.url), "utf8"));

/** @param {Reader} reader @param {Map<number, any>} seen */
function memory(reader, seen) {
  return [...seen].filter(([n]) => !reader.edges(n).length && reader.shape(n).length).flatMap(([, s]) => [...s.elements]);
}

test("every element of a chain comes from where NumPy says", () => {
  for (const c of cases) {
    const reader = new Reader(c);
    for (const [element, want] of c.answers) {
      const seen = reader.down(c.top, ravel(element, reader.shape(c.top)));
      assert.deepEqual(memory(reader, seen), want);
      for (const [n, s] of seen) for (const e of s.elements) assert.ok(e >= 0 && e < size(reader.shape(n)));
    }
  }
});

test("who reads an element is the other way round of what is read", () => {
  for (const c of cases) {
    const reader = new Reader(c);
    const nodes = reader.below(c.top);
    for (const [element, want] of c.answers) {
      if (!want.length) continue;
      const leaf = nodes.findLast((n) => !reader.edges(n).length && reader.shape(n).length) ?? -1;
      assert.ok(reader.up(leaf, want[0], nodes).get(c.top)?.elements.has(ravel(element, reader.shape(c.top))));
    }
  }
});

test("padding is where nothing is read", () => {
  for (const c of cases) {
    const reader = new Reader(c);
    const top = reader.edges(c.top).find((e) => reader.shape(e[0]).length)?.[0] ?? c.top;
    for (const [element, want] of c.answers) assert.equal(reader.isPadding(top, ravel(element, reader.shape(top))), !want.length);
  }
});

test("a reduction reads every element of its loops, a stack the part its leading index names", () => {
  const reader = new Reader({
    shapes: { 0: [2, 3], 1: [3], 2: [2, 3] },
    edges: { 1: [[0, ["R0", "i0"], [2], ""]], 2: [[1, ["i1"], [], "", ["==", "i0", 0]], [1, ["i1"], [], "", ["!", ["==", "i0", 0], 0]]] },
  });
  assert.deepEqual([...(reader.down(1, 2).get(0)?.elements ?? [])], [2, 5]);
  assert.deepEqual([...(reader.down(2, 4).get(0)?.elements ?? [])], [1, 4]);
  assert.deepEqual([...(reader.up(0, 4, [2, 1, 0]).get(2)?.elements ?? [])], [1, 4]);
});

test("many elements are cut, and it is said", () => {
  const reader = new Reader({ shapes: { 0: [9000], 1: [] }, edges: { 1: [[0, ["R0"], [9000], ""]] } });
  const seen = reader.down(1, 0).get(0);
  assert.equal(seen?.elements.size, 4096);
  assert.equal(seen?.whole, false);
});

test("floor division and remainder of negative numbers are Python's", () => {
  assert.equal(compile(["//", ["+", "i0", -7], 2])([0], []), -4);
  assert.equal(compile(["%", ["+", "i0", -7], 4])([0], []), 1);
  assert.deepEqual(unravel(ravel([1, 2, 3], [2, 3, 4]), [2, 3, 4]), [1, 2, 3]);
});
