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
  const ops = (kernel.nodes ?? []).filter((n) => n <= schedule.stages[0]?.end && schedule.nodes[n].kind !== "index");
  return h("div", { class: "ts-programs" },
    h("p", {}, badge(k), " ", h("b", {}, kernel.name), h("span", { class: "ts-dim" }, ` computes ${ops.map((n) => schedule.called(n)).join(", ") || "a copy"}`)),
    text(store, kernel, "loops", "as Python loops"),
    text(store, kernel, "program", onGpu ? "as a NumPy program" : "as the NumPy program that runs"),
    text(store, kernel, "cuda", onGpu ? "as the CUDA C that runs" : "as CUDA C, for a GPU"));
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
