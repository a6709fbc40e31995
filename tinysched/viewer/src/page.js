// A page as the host: the trace lies in the page, and the address holds the place.

import { Explorer, failed } from "./explorer.js";
import { fromBase64, unpack } from "./unpack.js";

/** @typedef {import("./store.js").State} State @typedef {import("./store.js").Store} Store */

const KINDS = /** @type {const} */ (["node", "kernel", "buffer", "line", "range"]);

/** Starts every page of ours that this script stands in. */
export function startAll() {
  for (const el of document.querySelectorAll("[data-tinysched]:not([data-tinysched-started])")) {
    el.setAttribute("data-tinysched-started", "");
    start(/** @type {HTMLElement} */ (el));
  }
}

/** @param {HTMLElement} el */
async function start(el) {
  try {
    const data = /** @type {HTMLElement} */ (document.getElementById(el.dataset.tinysched ?? ""));
    const doc = await unpack(fromBase64(data.textContent ?? ""));
    el.textContent = "";
    const explorer = new Explorer(el, doc, { height: 0, python: null, moved: () => remember(explorer.store), sources });
    recall(explorer.store);
    explorer.el.focus();
    window.addEventListener("hashchange", () => recall(explorer.store));
  } catch (error) {
    el.textContent = "";
    failed(el, error);
  }
}

/** The page's own script and style. */
function sources() {
  return { script: document.querySelector("script[type=module]")?.textContent ?? "", style: document.querySelector("style")?.textContent ?? "" };
}

/** Deep links: `#pass=rangeify&step=12&node=31`. @param {Store | undefined} store */
function remember(store) {
  if (!store) return;
  const { schedule, stage, step, selection } = store.state;
  const parts = new URLSearchParams({ pass: store.schedule.stages[stage].name, step: String(step) });
  if (store.schedules.length > 1) parts.set("schedule", String(schedule));
  if (selection) parts.set(selection.kind, String(selection.id));
  history.replaceState(null, "", `#${parts}`);
}

/** @param {Store | undefined} store */
function recall(store) {
  const parts = new URLSearchParams(location.hash.slice(1));
  if (!store || ![...parts].length) return;
  if (parts.has("schedule")) store.set({ schedule: Number(parts.get("schedule")) });
  const stage = store.schedule.stages.findIndex((s) => s.name === parts.get("pass"));
  const kind = KINDS.find((k) => parts.has(k));
  const selection = kind ? { kind, id: kind === "range" ? parts.get(kind) : Number(parts.get(kind)) } : null;
  store.set({ stage: Math.max(stage, 0), step: Number(parts.get("step") ?? 0), selection: store.schedule.knows(selection) ? selection : null });
}
