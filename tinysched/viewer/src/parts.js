// Small parts that several views share: facts, links to nodes, kernels, buffers and lines.

import { bytes, h } from "./dom.js";
import { placeOfLine } from "./model.js";

/** @typedef {import("./store.js").Store} Store */

/** Name and value; rows without a value are left out. @param {[string, any][]} rows */
export function facts(rows) {
  const kept = rows.filter(([, v]) => v !== null && v !== undefined && !(Array.isArray(v) && !v.length));
  return kept.length ? h("dl", { class: "ts-facts-list" }, kept.flatMap(([k, v]) => [h("dt", {}, k), h("dd", {}, v)])) : null;
}

/** @param {string} text */
export function mono(text) {
  return h("code", {}, text);
}

/** Chooses a node. @param {Store} store @param {number} id */
export function nodeLink(store, id) {
  const { schedule } = store;
  const node = schedule.nodes[id];
  const shape = (node.shape ?? []).join("×");
  return h("button", { class: "ts-link", onclick: () => store.select({ kind: "node", id }) }, schedule.called(id), shape && node.expr === undefined ? h("span", { class: "ts-dim" }, ` ${shape}`) : null);
}

/** Chooses a loop. @param {Store} store @param {string} name */
export function loopLink(store, name) {
  return h("button", { class: "ts-link ts-loopname", onclick: () => store.select({ kind: "range", id: name }) }, name);
}

/** Chooses kernels. @param {Store} store @param {Iterable<number>} kernels */
export function kernelLinks(store, kernels) {
  return [...kernels].map((k) => h("button", { class: `ts-link ts-chip ts-k${k % 8}`, onclick: () => store.select({ kind: "kernel", id: k }) }, `${k} ${store.schedule.kernels[k]?.name ?? ""}`));
}

/** Chooses buffers. @param {Store} store @param {Iterable<number>} buffers */
export function bufferLinks(store, buffers) {
  return [...buffers].map((b) => h("button", { class: "ts-link ts-buffername", onclick: () => store.select({ kind: "buffer", id: b }) }, store.schedule.bufferName(b), h("span", { class: "ts-dim" }, ` ${bytes(store.schedule.buffers[b].bytes)}`)));
}

/** The user's lines. @param {Store} store @param {Iterable<number>} lines */
export function lineLinks(store, lines) {
  const all = [...lines];
  if (!all.length) return null;
  return h("div", { class: "ts-lines" }, all.map((l) => {
    const line = store.schedule.lines[l];
    return h("button", { class: "ts-line", onclick: () => store.select({ kind: "line", id: l }) },
      h("span", { class: "ts-dim" }, `${placeOfLine(line)}${line.gradient ? " (gradient)" : ""}`), h("code", {}, line.code || "…"));
  }));
}

/** A button for what only Python can do: without Python it says so. @param {Store} store @param {string} text @param {string} title @param {() => void} act */
export function pythonButton(store, text, title, act) {
  const can = Boolean(store.python);
  return h("button", { class: "ts-button ts-python", disabled: !can, title: can ? title : `${title}: needs Python, open this in a notebook`, onclick: act }, text);
}

/** @param {string} verdict */
export function verdictClass(verdict) {
  return ["fused", "removed", "view", "no buffer", "in place"].includes(verdict) ? "ts-good" : "ts-cutverdict";
}
