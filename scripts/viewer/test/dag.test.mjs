import assert from "node:assert/strict";
import { test } from "node:test";
import { criticalPath, ready } from "../../../tinysched/viewer/src/dag.js";

const WAITS = [{ before: 0, after: 2 }, { before: 1, after: 2 }, { before: 2, after: 4 }, { before: 1, after: 3 }];

test("who is ready", () => {
  assert.deepEqual([0, 1, 2, 3, 4, 5].map((n) => ready(5, WAITS, n)), [[0, 1], [1], [2, 3], [3, 4], [4], []]);
});

test("the critical path is the dearest chain", () => {
  assert.deepEqual(criticalPath(5, WAITS, [5, 1, 1, 1, 1]), { path: [0, 2, 4], cost: 7 });
  assert.deepEqual(criticalPath(5, WAITS, [1, 5, 1, 9, 1]), { path: [1, 3], cost: 14 });
  assert.deepEqual(criticalPath(0, [], []), { path: [], cost: 0 });
});
