// The graph by keyboard: up to sources, down to readers, and along a row.

import assert from "node:assert/strict";
import { test } from "node:test";
import { along } from "../../../tinysched/viewer/src/along.js";
import { Scene } from "../../../tinysched/viewer/src/scene.js";

const scene = new Scene(/** @type {any} */ ({
  size: [100, 100], slots: [[10, 10, 8, 8, []], [50, 10, 8, 8, []], [30, 50, 8, 8, []]], edges: [[0, 2, null], [1, 2, null]],
  start: [[0, 0, "x", ""], [1, 1, "y", ""], [2, 2, "add", ""]], startEdges: [0, 1], steps: [],
}));

test("it starts at the output, goes up, along, and down", () => {
  assert.equal(along(scene, null, "up"), 2);
  assert.equal(along(scene, 2, "up"), 0);
  assert.equal(along(scene, 0, "next"), 1);
  assert.equal(along(scene, 1, "next"), 0);
  assert.equal(along(scene, 1, "down"), 2);
  assert.equal(along(scene, 2, "down"), null);
});
