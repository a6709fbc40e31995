// A stage's picture step by step: forwards, and backwards to the same.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Scene } from "../../../tinysched/viewer/src/scene.js";

const PICTURE = {
  size: [1, 1], slots: [[0, 0, 1, 1, []], [0, 0, 1, 1, []], [0, 0, 1, 1, []]], edges: [[0, 1, null], [1, 2, null]],
  start: [[0, 10, "a", ""], [1, 11, "b", ""]], startEdges: [0],
  steps: [{ add: [[2, 12, "c", ""]], on: [1] }, { remove: [0], off: [0], reroute: [1] }],
};
const state = (s) => JSON.stringify([[...s.shown], [...s.ghosts], [...s.edges], [...s.marks], [...s.gone]]);

test("steps add, remove as ghosts, and mark", () => {
  const scene = new Scene(PICTURE);
  scene.go(1);
  assert.deepEqual([...scene.marks], [[2, "added"]]);
  scene.go(2);
  assert.deepEqual([...scene.ghosts.keys()], [0]);
  assert.deepEqual([[...scene.marks], [...scene.goneEdges]], [[[1, "rerouted"]], [0]]);
});

test("going back is the same as going there at once", () => {
  const there = new Scene(PICTURE).go(1), back = new Scene(PICTURE);
  back.go(2);
  back.go(1);
  assert.equal(state(back), state(there));
});

test("the neighbourhood grows along edges", () => {
  const scene = new Scene(PICTURE).go(1);
  assert.deepEqual([...scene.around([0], 1)].sort(), [0, 1]);
  assert.deepEqual([...scene.around([0], 2)].sort(), [0, 1, 2]);
});
