// The right: what the step did, and everything about what is selected.

import { bytes, count, h, many, put } from "./dom.js";
import { bytesOf } from "./shapes.js";

/** @typedef {import("./store.js").Store} Store @typedef {import("./store.js").State} State @typedef {import("./model.js").Step} Step */

export class Inspector {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    this.step = h("section", { class: "ts-card" });
    this.chosen = h("section", { class: "ts-card" });
    this.el = h("aside", { class: "ts-inspector", "aria-label": "details" }, this.step, this.chosen);
  }

  /** @param {State} state @param {State | null} before */
  update(state, before) {
    if (!before || state.step !== before.step || state.stage !== before.stage || state.schedule !== before.schedule) this.#step(state);
    if (!before || state.selection !== before.selection || state.schedule !== before.schedule || state.running !== before.running) this.#chosen(state);
  }

  // ** the step **

  /** @param {State} state */
  #step(state) {
    const { schedule } = this.store;
    const stage = schedule.stages[state.stage];
    const step = stage.steps?.[state.step - 1];
    const parts = [h("h3", {}, state.step ? `step ${state.step}` : stage.name)];
    if (!step) parts.push(h("p", {}, this.store.sentence()));
    else if (step.kind === "rewrite") parts.push(...this.#rewrite(step));
    else if (step.kind === "decision") parts.push(...this.#decision(step));
    else parts.push(...this.#ranges(step));
    put(this.step, parts);
  }

  /** @param {Step} step */
  #rewrite(step) {
    const rule = this.store.schedule.rules[step.rule];
    return [
      h("p", {}, h("b", {}, rule.name), rule.file ? h("span", { class: "ts-dim" }, ` ${rule.file}:${rule.line}`) : null),
      rule.doc ? h("pre", { class: "ts-code" }, rule.doc) : null,
      facts([["before", this.#link(step.before)], ["after", this.#link(step.after)]]),
    ].filter((x) => x !== null);
  }

  /** @param {Step} step */
  #decision(step) {
    const parts = [h("p", {}, h("span", { class: `ts-verdict ${verdictClass(step.verdict)}` }, step.verdict), " ", step.node === undefined ? "" : this.#link(step.node))];
    const e = step.evidence ?? {};
    parts.push(h("p", { class: "ts-dim" }, step.reason));
    if (e.consumers && e.indices) {
      const rows = e.consumers.map((/** @type {any} */ c, /** @type {number} */ i) => h("tr", {},
        h("th", { scope: "row" }, this.#part(c)),
        (e.indices[i] ?? []).map((/** @type {any} */ index, /** @type {number} */ axis) =>
          h("td", { class: (e.axes ?? []).includes(axis) ? "ts-differs" : "" }, this.#part(index)))));
      parts.push(h("table", { class: "ts-indices" }, h("caption", {}, "index of each axis, per reader"), h("tbody", {}, rows)));
    } else parts.push(facts(Object.entries(e).map(([k, v]) => [k.replaceAll("_", " "), this.#part(v)])));
    return parts;
  }

  /** @param {Step} step */
  #ranges(step) {
    const parts = [
      h("p", {}, this.#link(step.node ?? 0)),
      facts([["its loops", mono((step.out ?? []).join(", ") || "none")], ["reads at", mono((step.in ?? []).join(", ") || "none")], ["stored", step.realized ? "yes" : "no"]]),
    ];
    if (step.index?.length) {
      parts.push(h("h4", {}, "index arithmetic"));
      parts.push(h("ol", { class: "ts-arithmetic" }, step.index.map(([rule, before, after]) =>
        h("li", {}, h("b", {}, this.store.schedule.rules[rule].name), " ", mono(before), " → ", mono(after)))));
    }
    return parts;
  }

  /** Evidence: a node, a list, or plain words. @param {any} part @returns {any} */
  #part(part) {
    if (part === null || part === undefined) return "none";
    if (Array.isArray(part)) return part.flatMap((p, i) => (i ? [", ", this.#part(p)] : [this.#part(p)]));
    if (typeof part === "object") return "node" in part ? this.#link(part.node) : JSON.stringify(part);
    return typeof part === "number" ? part.toLocaleString("en") : mono(String(part));
  }

  /** @param {number} id */
  #link(id) {
    const { schedule } = this.store;
    const node = schedule.nodes[id];
    const shape = (node.shape ?? []).join("×");
    return h("button", { class: "ts-link", onclick: () => this.store.select({ kind: "node", id }) }, schedule.called(id), shape && node.expr === undefined ? h("span", { class: "ts-dim" }, ` ${shape}`) : null);
  }

  // ** the selection **

  /** @param {State} state */
  #chosen(state) {
    const { selection } = state;
    if (!selection) {
      put(this.chosen, h("p", { class: "ts-dim" }, "Select a node, a kernel or a block to follow it through every pass."));
      return;
    }
    const parts = { node: this.#node, kernel: this.#kernel, buffer: this.#buffer, line: this.#line }[selection.kind].call(this, selection.id);
    put(this.chosen, parts);
  }

  /** @param {number} id */
  #node(id) {
    const { schedule } = this.store;
    const node = schedule.nodes[id];
    const why = schedule.why(id);
    const last = why.at(-1);
    const targets = schedule.targets({ kind: "node", id });
    return [
      h("h3", {}, schedule.called(id), schedule.called(id) !== node.label ? h("span", { class: "ts-dim" }, ` ${node.label}`) : null),
      last ? h("p", { class: "ts-why" }, last.text) : null,
      facts([
        ["op", mono(node.op)], ["dtype", mono(node.dtype)],
        ["shape", node.shape ? mono(node.shape.join(" × ") || "one value") : null],
        ["size", node.shape?.length ? bytes(bytesOf(node)) : null],
        ["loops", node.ranges?.length ? mono(node.ranges.join(", ")) : null],
        ["argument", node.arg ? mono(node.arg) : null],
        ["kernel", this.#kernels(targets.kernels, node)], ["memory", this.#buffers(targets.buffers)],
      ]),
      this.#lines([...targets.lines]),
      why.length > 1 ? h("details", {}, h("summary", {}, many(why.length, "decision")), h("ol", {}, why.map((d) => this.#decided(d)))) : null,
      facts([["reads", (node.src ?? []).map((n) => this.#link(n))]]),
    ];
  }

  /** @param {import("./model.js").Decision} d */
  #decided(d) {
    return h("li", {}, h("button", { class: "ts-link", onclick: () => this.store.set({ stage: d.stage, step: d.step + 1 }) }, this.store.schedule.stages[d.stage].name), ": ", d.text);
  }

  /** @param {Set<number>} kernels @param {any} node */
  #kernels(kernels, node) {
    if (!kernels.size) return node.kind === "memory" || node.kind === "const" ? null : "none: no kernel computes this";
    return [...kernels].map((k) => h("button", { class: `ts-link ts-chip ts-k${k % 8}`, onclick: () => this.store.select({ kind: "kernel", id: k }) }, `${k} ${this.store.schedule.kernels[k].name}`));
  }

  /** @param {Set<number>} buffers */
  #buffers(buffers) {
    if (!buffers.size) return null;
    return [...buffers].map((b) => h("button", { class: "ts-link", onclick: () => this.store.select({ kind: "buffer", id: b }) }, this.store.schedule.bufferName(b)));
  }

  /** @param {number[]} lines */
  #lines(lines) {
    if (!lines.length) return null;
    return h("div", { class: "ts-lines" }, lines.map((l) => {
      const line = this.store.schedule.lines[l];
      return h("button", { class: "ts-line", onclick: () => this.store.select({ kind: "line", id: l }) },
        h("span", { class: "ts-dim" }, `${line.file}:${line.number}${line.gradient ? " (gradient)" : ""}`), h("code", {}, line.code || "…"));
    }));
  }

  /** @param {number} k */
  #kernel(k) {
    const { schedule } = this.store;
    const kernel = schedule.kernels[k];
    const seconds = schedule.run?.seconds?.[k];
    const moved = (kernel.bytes_read ?? 0) + (kernel.bytes_written ?? 0);
    const waits = schedule.order.filter((e) => e.after === k);
    return [
      h("h3", {}, h("span", { class: `ts-chip ts-k${k % 8}` }, k), ` ${kernel.name}`),
      facts([
        ["reads", this.#buffers(new Set((kernel.buffers ?? []).filter((_, i) => !kernel.writes?.includes(i))))],
        ["writes", this.#buffers(new Set((kernel.writes ?? []).map((i) => /** @type {number[]} */ (kernel.buffers)[i])))],
        ["bytes", `${bytes(kernel.bytes_read ?? 0)} in, ${bytes(kernel.bytes_written ?? 0)} out`],
        ["operations", `${count(kernel.ops ?? 0)}, ${((kernel.ops ?? 0) / Math.max(moved, 1)).toFixed(2)} per byte`],
        ["time", seconds === undefined ? null : `${(seconds * 1e6).toFixed(0)} µs`],
      ]),
      waits.length ? h("ul", {}, waits.map((e) => h("li", {}, `waits for kernel ${e.before}: `, schedule.bufferName(e.buffer), ` (${e.kind})`))) : null,
      this.#lines(kernel.lines ?? []),
      h("button", { class: "ts-button", onclick: () => this.store.set({ drawer: "kernels", open: true }) }, "its loops"),
    ];
  }

  /** @param {number} b */
  #buffer(b) {
    const { schedule } = this.store;
    const buffer = schedule.buffers[b];
    const place = (schedule.memory.placements ?? []).find((/** @type {any} */ p) => p.buffer === b);
    return [
      h("h3", {}, schedule.bufferName(b), h("span", { class: "ts-dim" }, ` ${buffer.role}`)),
      facts([
        ["elements", mono(`${buffer.elements.toLocaleString("en")} ${buffer.dtype}`)], ["size", bytes(buffer.bytes)], ["device", mono(buffer.device)],
        ["holds", buffer.node === undefined ? null : this.#link(buffer.node)],
        ["place", place ? `byte ${place.offset_bytes.toLocaleString("en")}, kernels ${place.first} to ${place.last}` : null],
      ]),
      place?.reason ? h("p", {}, place.reason) : null,
    ];
  }

  /** @param {number} l */
  #line(l) {
    const { schedule } = this.store;
    const targets = schedule.targets({ kind: "line", id: l });
    const line = schedule.lines[l];
    return [
      h("h3", {}, `${line.file}:${line.number}`), h("pre", { class: "ts-code" }, line.code || "…"),
      facts([["kernels", this.#kernels(targets.kernels, { kind: "" })], ["nodes", many(targets.nodes.size, "node")]]),
    ];
  }
}

/** @param {[string, any][]} rows */
function facts(rows) {
  const kept = rows.filter(([, v]) => v !== null && v !== undefined && !(Array.isArray(v) && !v.length));
  return h("dl", { class: "ts-facts-list" }, kept.flatMap(([k, v]) => [h("dt", {}, k), h("dd", {}, v)]));
}

/** @param {string} text */
function mono(text) {
  return h("code", {}, text);
}

/** @param {string} verdict */
export function verdictClass(verdict) {
  return ["fused", "removed", "view", "no buffer", "in place"].includes(verdict) ? "ts-good" : "ts-cutverdict";
}
