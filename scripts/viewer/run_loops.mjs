// Runs the loops that come in as JSON, and writes what they leave in memory: a test compares that with Python.
import { readFileSync } from "node:fs";
import { parse } from "../../tinysched/viewer/src/loopcode.js";
import { run } from "../../tinysched/viewer/src/looprun.js";

const found = JSON.parse(readFileSync(0, "utf8")).map(({ code, memory, variables }) => {
  const numbers = Object.fromEntries(Object.entries(memory).map(([name, { data, t }]) => [name, { data: data.map(Number), t }]));
  let steps = 0;
  const turns = run(parse(code), numbers, variables);
  while (!turns.next().done) steps++;
  return { steps, memory: Object.fromEntries(Object.entries(numbers).map(([name, { data }]) => [name, data.map(String)])) };
});
process.stdout.write(JSON.stringify(found));
