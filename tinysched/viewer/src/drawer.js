// The drawer below the graph: kernels, order, arena, bytes, values, decisions, nodes. Each is a table or has one.

import { arena } from "./arena.js";
import { bytes, count, h, many, put, time } from "./dom.js";
import { icon } from "./icons.js";
import { order } from "./order.js";
import { badge, table } from "./table.js";
import { values } from "./values.js";

/** @typedef {import("./store.js").Store} Store @typedef {import("./store.js").State} State */

const PANELS = /** @type {Record<string, (store: Store) => Node | Node[]>} */ ({ kernels, order, arena, bytes: traffic, values, decisions, nodes });

export class Drawer {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    this.body = h("div", { class: "ts-drawerbody", role: "tabpanel" });
    this.tabs = h("div", { class: "ts-tabs", role: "tablist" });
    this.el = h("section", { class: "ts-drawer", "aria-label": "tables" }, this.tabs, this.body);
    this.scrolled = 0;
  }

  /** @param {State} state @param {State | null} before */
  update(state, before) {
    this.el.classList.toggle("ts-open", state.open);
    if (!before || before.drawer !== state.drawer || before.open !== state.open) this.#tabs(state);
    if (!state.open) return;
    const same = before && before.open && before.drawer === state.drawer && before.schedule === state.schedule;
    const moves = ["nodes"].includes(state.drawer) && (state.step !== before?.step || state.stage !== before?.stage);
    if (same && !moves && before.selection === state.selection && before.running === state.running) return;
    const top = same ? this.body.scrollTop : 0;
    put(this.body, PANELS[state.drawer](this.store));
    this.body.scrollTop = top;
  }

  /** @param {State} state */
  #tabs(state) {
    const tab = (/** @type {string} */ name) => {
      const current = state.open && name === state.drawer;
      return h("button", { class: `ts-tab${current ? " ts-current" : ""}`, role: "tab", "aria-selected": String(current),
        onclick: () => this.store.set(current ? { open: false } : { drawer: name, open: true }) }, name);
    };
    put(this.tabs, Object.keys(PANELS).map(tab),
      h("button", { class: "ts-mini ts-fold", title: state.open ? "close the tables" : "open the tables", "aria-label": state.open ? "close the tables" : "open the tables",
        onclick: () => this.store.set({ open: !this.store.state.open }) }, icon(state.open ? "down" : "up")));
  }
}

// ** kernels **

/** @param {Store} store */
function kernels(store) {
  const { schedule, targets } = store;
  if (!schedule.kernels.length) return h("p", { class: "ts-empty" }, "No kernel: everything asked for is in memory already, or was only planned in part.");
  const chosen = [...targets.kernels][0] ?? 0;
  const rows = schedule.kernels.map((kernel, k) => h("tr", { class: targets.kernels.has(k) ? "ts-chosen" : "", onclick: () => store.select({ kind: "kernel", id: k }) },
    h("td", {}, h("button", { class: "ts-bare", "aria-label": `kernel ${k}` }, badge(k))), h("td", {}, h("code", {}, kernel.name)),
    h("td", {}, names(store, k, false)), h("td", {}, names(store, k, true)),
    h("td", { class: "ts-num" }, bytes((kernel.bytes_read ?? 0) + (kernel.bytes_written ?? 0))), h("td", { class: "ts-num" }, count(kernel.ops ?? 0)),
    h("td", { class: "ts-num" }, ((kernel.ops ?? 0) / Math.max((kernel.bytes_read ?? 0) + (kernel.bytes_written ?? 0), 1)).toFixed(2)),
    h("td", { class: "ts-num" }, seconds(store, k))));
  return h("div", { class: "ts-split" },
    table(["#", "kernel", "reads", "writes", "bytes", "ops", "ops/byte", "time"], rows, "kernels"), programs(store, chosen));
}

/** @param {Store} store @param {number} k @param {boolean} written */
function names(store, k, written) {
  const kernel = store.schedule.kernels[k];
  return (kernel.buffers ?? []).filter((_, i) => Boolean(kernel.writes?.includes(i)) === written).map((b) => store.schedule.bufferName(b)).join(", ");
}

/** @param {Store} store @param {number} k */
function seconds(store, k) {
  const all = store.schedule.run?.seconds;
  return all?.[k] === undefined ? "–" : time(all[k]);
}

/** @param {Store} store @param {number} k */
function programs(store, k) {
  const kernel = store.schedule.kernels[k];
  const ops = (kernel.nodes ?? []).filter((n) => n <= store.schedule.stages[0]?.end && store.schedule.nodes[n].kind !== "index");
  return h("div", { class: "ts-programs" },
    h("p", {}, badge(k), " ", h("b", {}, kernel.name), h("span", { class: "ts-dim" }, ` computes ${ops.map((n) => store.schedule.called(n)).join(", ") || "a copy"}`)),
    kernel.loops ? h("figure", {}, h("figcaption", {}, "as Python loops"), h("pre", { class: "ts-code ts-loops" }, kernel.loops)) : null,
    kernel.program ? h("figure", {}, h("figcaption", {}, "as the NumPy program that runs"), h("pre", { class: "ts-code ts-program" }, kernel.program)) : null);
}

// ** bytes **

/** @param {Store} store */
function traffic(store) {
  const { schedule, targets } = store;
  const most = Math.max(1, ...schedule.kernels.map((k) => (k.bytes_read ?? 0) + (k.bytes_written ?? 0)));
  const rows = schedule.kernels.map((kernel, k) => {
    const bar = (/** @type {number} */ n, /** @type {string} */ name) => h("span", { class: `ts-meter ${name}`, style: `width:${(n / most) * 100}%` });
    return h("tr", { class: targets.kernels.has(k) ? "ts-chosen" : "", onclick: () => store.select({ kind: "kernel", id: k }) },
      h("td", {}, badge(k)), h("td", {}, h("code", {}, kernel.name)),
      h("td", { class: "ts-wide" }, bar(kernel.bytes_read ?? 0, "ts-readbar"), bar(kernel.bytes_written ?? 0, "ts-writebar")),
      h("td", { class: "ts-num" }, `${bytes(kernel.bytes_read ?? 0)} read`), h("td", { class: "ts-num" }, `${bytes(kernel.bytes_written ?? 0)} written`),
      h("td", { class: "ts-num" }, `${((kernel.ops ?? 0) / Math.max((kernel.bytes_read ?? 0) + (kernel.bytes_written ?? 0), 1)).toFixed(2)} ops/byte`));
  });
  return table(["#", "kernel", "read (solid) and written (striped)", "", "", ""], rows, "bytes moved by each kernel");
}

// ** decisions **

/** @param {Store} store */
function decisions(store) {
  const { schedule, targets } = store;
  if (!schedule.decisions.length) return h("p", { class: "ts-empty" }, "No pass had anything to decide.");
  const rows = schedule.decisions.map((d) => h("tr", { class: targets.nodes.has(d.node) ? "ts-chosen" : "", onclick: () => store.set({ stage: d.stage, step: d.step + 1, selection: d.node < 0 ? null : { kind: "node", id: d.node } }) },
    h("td", {}, schedule.stages[d.stage].name), h("td", {}, h("button", { class: "ts-bare" }, d.node < 0 ? "the schedule" : schedule.called(d.node))),
    h("td", {}, d.verdict), h("td", {}, d.text)));
  return table(["pass", "node", "verdict", "why"], rows, "decisions");
}

// ** nodes: the graph as text **

/** @param {Store} store */
function nodes(store) {
  const { schedule, scene, targets } = store;
  const sources = /** @type {Map<number, number[]>} */ (new Map());
  for (const e of scene.edges) {
    const [a, b] = scene.picture.edges[e];
    sources.set(b, [...(sources.get(b) ?? []), a]);
  }
  const shown = [...scene.shown].sort((a, b) => scene.picture.slots[a[0]][1] - scene.picture.slots[b[0]][1] || a[0] - b[0]);
  const rows = shown.map(([slot, caption]) => h("tr", { class: targets.nodes.has(caption.node) ? "ts-chosen" : "", onclick: () => store.select({ kind: "node", id: caption.node }) },
    h("td", { class: "ts-num" }, slot), h("td", {}, h("button", { class: "ts-bare" }, caption.title)), h("td", {}, h("code", {}, caption.sub)),
    h("td", {}, schedule.nodes[caption.node].dtype), h("td", {}, (sources.get(slot) ?? []).map((s) => `${s} ${scene.shown.get(s)?.title ?? ""}`).join(", ")),
    h("td", {}, scene.picture.slots[slot][4].join(", ")), h("td", {}, scene.marks.get(slot) ?? "")));
  return [h("p", { class: "ts-dim" }, `${many(rows.length, "node")} at this step, inputs first`), table(["#", "node", "shape or loops", "dtype", "reads", "kernel", "this step"], rows, "nodes of the graph")];
}
