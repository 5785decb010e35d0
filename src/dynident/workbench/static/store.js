// Store: what every part of the page looks at. State comes from the server whole; the rest belongs to this tab.
import { call, Refusal } from "./api.js";
import { toast } from "./elements.js";

export const STEPS = ["records", "model", "parameters", "fit", "trust", "design"];
export const TITLES = { records: "Records", model: "Model", parameters: "Parameters", fit: "Fit", trust: "Trust", design: "Next experiment" };

export const store = {
  state: null, step: "records", record: 0, view: "signals", range: null, values: {}, moved: false, shown: null, details: {},
  job: null, progress: null, check: null, checkedAt: -1, gone: false, pick: null, files: [], templates: [], profile: {}, plan: null,
  curve: null, comparison: null,
};

const watchers = new Set();
export function watch(parts, update) { watchers.add({ parts, update }); }
export function changed(...parts) {
  for (const watcher of watchers) if (watcher.parts.some((part) => parts.includes(part))) watcher.update();
}

let lastTaken = "";
export const described = () => store.state?.description ?? {};
export const content = () => described().content ?? {};
export const records = () => described().records ?? [];
export const quantities = () => described().quantities ?? [];
export const current = () => store.shown ? store.state?.results.find((one) => one.id === store.shown) ?? null : null;

export function take(state) {
  const { events: _, ...said } = state, text = JSON.stringify(said);
  if (text === lastTaken && !store.moved) return; // nothing new: what somebody is typing stays
  lastTaken = text;
  const other = store.state?.file !== state.file;
  store.state = state;
  if (other) Object.assign(store, { shown: null, record: 0, range: null, check: null, details: {}, progress: null, profile: {}, plan: null });
  if (store.record >= records().length) store.record = 0;
  if (!store.moved) store.values = Object.fromEntries(quantities().map((q) => [q.name, q.start]));
  store.job = state.job;
  changed("state", "values");
}

export async function refresh() {
  take(await call("GET", "/api/state"));
}

export async function attempt(doing, otherwise) {
  try {
    return await doing();
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    if (otherwise?.(error)) return null;
    if (error.status === 409) await refresh().catch(() => {});
    toast(error.message, "bad");
    return null;
  }
}

export const post = (path, body = {}, otherwise) => attempt(async () => {
  const found = await call("POST", path, body);
  if (found.revision !== undefined) take(found);
  return found;
}, otherwise);

let pending = Promise.resolve();
export function edit(edits) {
  pending = pending.then(() => attempt(async () => {
    take(await call("PATCH", "/api/problem", { revision: store.state.revision, edits }));
    return true;
  }));
  return pending;
}

export function undo(back) {
  pending = pending.then(() => post(back ? "/api/undo" : "/api/redo", { revision: store.state.revision }));
  return pending;
}

export function go(step) {
  store.step = step;
  store.pick = null;
  changed("step");
  document.querySelector(".form h2")?.focus({ preventScroll: true });
}

// Values that the curve is of: what is shown from the history, or the sliders.
export function shownValues() {
  return store.progress?.values ?? current()?.values ?? store.values;
}
