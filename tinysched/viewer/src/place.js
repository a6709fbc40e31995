// Where a person is, as plain values that travel between Python, the address and other views.

export const PLACE = ["schedule", "stage", "step", "selection"];

/** @param {import("./store.js").Store} store */
export function placeOf(store) {
  const { schedule, stage, step, selection } = store.state;
  return { schedule, stage: store.schedule.stages[stage]?.name ?? "", step, selection };
}

/** @param {import("./store.js").Store} store @param {any} place */
export function move(store, place) {
  if (place.schedule !== store.state.schedule) store.set({ schedule: place.schedule });
  const stage = store.schedule.stages.findIndex((s) => s.name === place.stage);
  const selection = place.selection ?? null;
  const same = JSON.stringify(selection) === JSON.stringify(store.state.selection);
  const known = same ? store.state.selection : store.schedule.knows(selection) ? selection : null;
  store.set({ stage: stage < 0 ? store.state.stage : stage, step: place.step, selection: known });
}
