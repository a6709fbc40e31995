// The bundle's entry. In a notebook anywidget calls `render`; a page with its trace inside starts by itself.

import { h } from "./dom.js";
import { Explorer, failed } from "./explorer.js";
import { fromBase64, unpack } from "./unpack.js";

/** @typedef {import("./store.js").State} State */

/** @param {State} state */
function place(state) {
  return { schedule: state.schedule, stage: state.stage, step: state.step, selection: state.selection };
}

// ** notebook **

/** @param {{model: any, el: HTMLElement}} widget */
async function render({ model, el }) {
  el.classList.add("ts-output");
  let explorer = /** @type {Explorer | null} */ (null);
  const show = async () => {
    el.textContent = "";
    explorer = null;
    try {
      el.append(h("p", { class: "ts-loading" }, "unpacking the trace …"));
      const doc = await unpack(model.get("_packed"));
      el.textContent = "";
      explorer = new Explorer(el, doc, {
        height: model.get("height"),
        run: model.get("_can_run") ? () => model.send({ kind: "run" }) : null,
        moved: (state) => tell(model, explorer, state),
      });
      follow();
      if (model.get("view") !== "graph") explorer.store?.set({ drawer: model.get("view"), open: true });
    } catch (error) {
      el.textContent = "";
      failed(el, error);
    }
  };
  const follow = () => obey(model, explorer);
  const answered = () => model.get("_run") && explorer?.ran(JSON.parse(model.get("_run")));
  const message = (/** @type {any} */ m) => m.kind === "failed" && explorer?.ran(null, m.text);
  model.on("change:_packed", show);
  for (const name of ["schedule", "stage", "step", "selection"]) model.on(`change:${name}`, follow);
  model.on("change:_run", answered);
  model.on("msg:custom", message);
  await show();
  if (model.get("_run")) explorer?.ran(JSON.parse(model.get("_run")));
  return () => {
    model.off("change:_packed", show);
    for (const name of ["schedule", "stage", "step", "selection"]) model.off(`change:${name}`, follow);
    model.off("change:_run", answered);
    model.off("msg:custom", message);
  };
}

/** The person moved: Python's traits follow. @param {any} model @param {Explorer | null} explorer @param {State} state */
function tell(model, explorer, state) {
  const store = explorer?.store;
  if (!store) return;
  const now = /** @type {Record<string, any>} */ ({ schedule: state.schedule, stage: store.schedule.stages[state.stage]?.name ?? "", step: state.step, selection: state.selection });
  let changed = false;
  for (const [name, value] of Object.entries(now)) {
    if (JSON.stringify(model.get(name)) !== JSON.stringify(value)) {
      model.set(name, value);
      changed = true;
    }
  }
  if (changed) model.save_changes();
}

/** Python moved: the explorer follows. @param {any} model @param {Explorer | null} explorer */
function obey(model, explorer) {
  const store = explorer?.store;
  if (!store) return;
  const schedule = model.get("schedule");
  if (schedule !== store.state.schedule) store.set({ schedule });
  const stage = store.schedule.stages.findIndex((s) => s.name === model.get("stage"));
  const selection = model.get("selection") ?? null;
  const same = JSON.stringify(selection) === JSON.stringify(store.state.selection);
  store.set({ stage: stage < 0 ? store.state.stage : stage, step: model.get("step"), selection: same ? store.state.selection : selection });
}

// ** page **

/** @param {HTMLElement} el */
async function start(el) {
  try {
    const data = /** @type {HTMLElement} */ (document.getElementById(el.dataset.tinysched ?? ""));
    const doc = await unpack(fromBase64(data.textContent ?? ""));
    el.textContent = "";
    const explorer = new Explorer(el, doc, { height: 0, run: null, moved: (state) => remember(explorer, state) });
    recall(explorer);
    explorer.el.focus();
    window.addEventListener("hashchange", () => recall(explorer));
  } catch (error) {
    el.textContent = "";
    failed(el, error);
  }
}

/** Deep links: `#pass=rangeify&step=12&node=31`. @param {Explorer} explorer @param {State} state */
function remember(explorer, state) {
  const { schedule, stage, step, selection } = place(state);
  const parts = new URLSearchParams({ pass: explorer.store?.schedule.stages[stage].name ?? "", step: String(step) });
  if ((explorer.store?.schedules.length ?? 1) > 1) parts.set("schedule", String(schedule));
  if (selection) parts.set(selection.kind, String(selection.id));
  history.replaceState(null, "", `#${parts}`);
}

/** @param {Explorer} explorer */
function recall(explorer) {
  const store = explorer.store;
  const parts = new URLSearchParams(location.hash.slice(1));
  if (!store || ![...parts].length) return;
  if (parts.has("schedule")) store.set({ schedule: Number(parts.get("schedule")) });
  const stage = store.schedule.stages.findIndex((s) => s.name === parts.get("pass"));
  const kind = /** @type {any} */ (["node", "kernel", "buffer", "line"].find((k) => parts.has(k)));
  const most = { node: store.schedule.nodes, kernel: store.schedule.kernels, buffer: store.schedule.buffers, line: store.schedule.lines };
  const id = kind ? Number(parts.get(kind)) : -1;
  const selection = kind && id in most[/** @type {keyof typeof most} */ (kind)] ? { kind, id } : null;
  store.set({ stage: Math.max(stage, 0), step: Number(parts.get("step") ?? 0), selection });
}

for (const el of document.querySelectorAll("[data-tinysched]")) start(/** @type {HTMLElement} */ (el));

export default { render };
