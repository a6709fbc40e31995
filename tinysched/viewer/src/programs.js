// A kernel as text: loops, NumPy, CUDA C. A line shows what it computes, and is marked where that is selected.

import { h } from "./dom.js";
import { stepper } from "./stepper.js";
import { badge } from "./table.js";

/** @typedef {import("./store.js").Store} Store @typedef {import("./model.js").Kernel} Kernel */

/** @param {Store} store @param {number} k */
export function programs(store, k) {
  const { schedule } = store;
  const kernel = schedule.kernels[k];
  const onGpu = kernel.device.startsWith("CUPY");
  return h("div", { class: "ts-programs" },
    h("p", {}, badge(k), " ", h("b", {}, kernel.name), h("span", { class: "ts-dim" }, told(schedule, k))),
    text(store, kernel, "loops", "as Python loops"),
    text(store, kernel, "program", onGpu ? "as a NumPy program" : "as the NumPy program that runs"),
    text(store, kernel, "cuda", onGpu ? "as the CUDA C that runs" : "as CUDA C, for a GPU"));
}

const MOST_NAMES = 12;

/** What a kernel computes: in the user's nodes, or, where those were made into several (shards), in its own. @param {import("./model.js").Schedule} schedule @param {number} k */
function told(schedule, k) {
  const { kind, nodes = [] } = schedule.kernels[k];
  if (kind === "copy") return " brings a value from one device to another";
  const asked = nodes.filter((n) => n <= schedule.stages[0]?.end && schedule.nodes[n].kind !== "index");
  const found = asked.length ? asked : nodes.filter((n) => ["alu", "reduce"].includes(schedule.nodes[n].kind) && schedule.nodes[n].expr === undefined);
  const names = [...new Set(found.map((n) => schedule.called(n)))];
  const more = names.length - MOST_NAMES;
  return ` computes ${names.slice(0, MOST_NAMES).join(", ") || "a copy"}${more > 0 ? ` and ${more} more` : ""}`;
}

/** @param {Store} store @param {Kernel} kernel @param {"loops" | "program" | "cuda"} which @param {string} title */
function text(store, kernel, which, title) {
  const code = kernel[which];
  if (!code) return null;
  const nodes = kernel.links?.[which] ?? [];
  const one = ["node", "line"].includes(store.state.selection?.kind ?? "");
  const chosen = one ? store.targets.nodes : new Set();
  const lines = code.split("\n").map((line, i) => linked(store, `${line}\n`, nodes[i] ?? [], chosen));
  return h("figure", {}, h("figcaption", {}, title), h("pre", { class: `ts-code ts-${which}` }, lines), which === "loops" ? stepper(store, store.shown, lines) : null);
}

/** @param {Store} store @param {string} line @param {number[]} nodes @param {Set<number>} chosen */
function linked(store, line, nodes, chosen) {
  if (!nodes.length) return h("span", {}, line);
  return h("span", {
    class: `ts-linked${nodes.some((n) => chosen.has(n)) ? " ts-lit" : ""}`,
    title: nodes.map((n) => store.schedule.called(n)).join(", "),
    onclick: () => store.select({ kind: "node", id: nodes[nodes.length - 1] }),
  }, line);
}
