// Fit: check first, then search; the cost falls before one's eyes, and stop keeps the best point.
import { lineChart } from "./charts.js";
import { button, field, fill, h, number, say, select, toast } from "./elements.js";
import { changed, content, current, described, edit, go, post, store } from "./store.js";

const STARTING = "Starting: the first steps may compile …";
let trace = { x: [], cost: [], values: {} };
let costChart = null, valueChart = null, line = null, lastSaid = 0;

export function render(place) {
  const method = content().method;
  const chosen = method?.kind ?? "";
  const methods = [["", "automatic (the default)"], ...(store.state?.methods ?? []).filter((name) => name !== "automatic").map((name) => [name, name.replaceAll("_", " ")])];
  const running = store.job;
  fill(place, h("h2", { tabindex: -1 }, "Fit"),
    field("Method", select(chosen === "automatic" ? [...methods, ["automatic", "automatic, with options"]] : methods, chosen, (kind) => edit([{ path: ["method"], value: kind ? { kind } : null }]), { disabled: Boolean(running) }),
      chosen ? "" : "Tries a plain fit first and goes on where what is left over is not noise."),
    method ? options(method) : null,
    h("div", { class: "actions" },
      running ? button("Stop, keep the best", stop, { class: "danger" }) : button("Fit", fit, { class: "primary big", disabled: !described().quantities }),
      running ? button("Kill", () => post("/api/stop", { hard: true }), { class: "quiet", title: "Ends the process at once; nothing is kept" }) : button("Check", check, { disabled: !described().quantities })),
    described().quantities ? null : h("p", { class: "hint" }, "A fit needs a problem without faults."),
    progress(), checked(), comparing());
}

function options(method) {
  const rest = Object.entries(method).filter(([key]) => key !== "kind");
  const control = h("input", { type: "text", class: "code", value: rest.map(([key, value]) => `${key} = ${JSON.stringify(value)}`).join(", "), placeholder: "segments = 20" });
  control.addEventListener("change", () => {
    const made = {};
    for (const [, key, value] of control.value.matchAll(/(\w+)\s*=\s*("[^"]*"|\{[^}]*\}|\[[^\]]*\]|[^,]+)/g)) { try { made[key] = JSON.parse(value.trim()); } catch { toast(`${key} = ${value.trim()}: write a number, true, false or a "text".`, "bad"); return; } }
    const keys = new Set([...rest.map(([key]) => key), ...Object.keys(made)]);
    edit([...keys].filter((key) => JSON.stringify(method[key]) !== JSON.stringify(made[key])).map((key) => ({ path: ["method", key], value: made[key] ?? null })));
  });
  return field("Options of the method", control, "name = value, by commas; `dynident methods NAME` lists them");
}

function progress() {
  if (!store.job) recalled();
  if (!store.progress && !trace.x.length) return null;
  line = h("p", { class: "progress" }, said());
  costChart = trace.x.length > 1 ? lineChart("Cost by iteration, on a logarithmic scale", trace.x, [{ values: trace.cost, colour: "fitted", width: 2 }], { log: true, height: 150, across: "iterations told" }) : null;
  const names = Object.keys(trace.values).slice(0, 6);
  const hues = ["fitted", "second", "good", "input", "residual", "apart"];
  valueChart = trace.x.length > 1 && names.length ? lineChart("Parameters by iteration, each relative to its last value", trace.x,
    names.map((name, k) => ({ values: relative(trace.values[name]), colour: hues[k], dash: k % 2 ? [5, 3] : undefined })), { height: 130, across: "iterations told" }) : null;
  return h("div", { class: "live" }, line, costChart ? [h("h3", {}, "Cost"), costChart] : null,
    valueChart ? [h("h3", {}, "Parameters, relative to the last"), valueChart, h("p", { class: "hint legend-line" }, names.map((name, k) => h("span", { class: `hue ${hues[k]} ${k % 2 ? "dashed" : ""}` }, name)))] : null);
}

// The search of the fit that is shown, from its own history: also of one that was too quick to watch, or of another day.
function recalled() {
  const past = current() && store.details[current().id]?.history;
  if (past?.length) trace = { x: past.map((_, k) => k), cost: past.map((one) => (one.cost > 0 ? one.cost : null)), values: byName(past, store.details[current().id].names) };
}
const byName = (past, names) => Object.fromEntries(names.map((name, k) => [name, past.map((one) => (one.values.length === names.length ? one.values[k] : null))]).filter(([, values]) => values.some((value) => value !== null)));

const relative = (values) => { const last = values.at(-1) || 1; return values.map((value) => (value === null ? null : value / last)); };
const said = () => { const p = store.progress; return p ? (p.note ?? `${p.stage ? `${p.stage}: ` : ""}iteration ${p.iteration}, cost ${number(p.cost, 5)}, step ${number(p.step, 2)}`) : "The search of the last fit."; };

let again = 0;
export function told(event, names) {
  if (event.event === "began") { trace = { x: [], cost: [], values: {} }; store.progress = { names: event.names, note: STARTING }; return; }
  if (event.event === "note") { store.progress = { ...store.progress, note: event.says }; }
  else {
    const known = store.progress?.names ?? names ?? [];
    const values = event.values.length === known.length ? Object.fromEntries(known.map((name, k) => [name, event.values[k]])) : null;
    store.progress = { ...store.progress, ...event, values: values ? { ...store.values, ...values } : store.progress?.values, note: undefined };
    trace.x.push(trace.x.length);
    trace.cost.push(event.cost > 0 ? event.cost : null);
    if (values) for (const [name, value] of Object.entries(values)) (trace.values[name] ||= new Array(trace.x.length - 1).fill(value)).push(value);
    for (const list of Object.values(trace.values)) while (list.length < trace.x.length) list.push(list.at(-1));
  }
  if (performance.now() - lastSaid > 1000) { lastSaid = performance.now(); say(said()); }
  if (line?.isConnected) line.textContent = said();
  if (store.step === "fit" && performance.now() - again > 250) { again = performance.now(); changed("trace"); }
  changed("progress");
}

export async function check() {
  store.check = null;
  const begun = await post("/api/jobs", { kind: "check" });
  if (begun) store.job = begun.job;
  changed("step");
}

export async function fit() {
  if (store.job) { toast("Something is running already.", "bad"); return; }
  if (store.checkedAt !== store.state.revision) { store.fitAfter = true; go("fit"); await check(); return; }
  await reallyFit();
}

export async function reallyFit() {
  store.fitAfter = false;
  store.shown = null;
  store.kept = { label: "start", values: { ...store.values } };
  const begun = await post("/api/jobs", { kind: "fit" });
  if (begun) { store.job = begun.job; store.progress = { note: STARTING }; }
  go("fit");
  changed("kept");
}

export const stop = () => (store.job ? post("/api/stop", {}) : null);

function checked() {
  const found = store.check;
  if (!found) return store.job?.kind === "check" ? h("p", { class: "progress" }, "Checking what the data can tell …") : null;
  const icons = { error: "✕", warning: "!", info: "i" };
  return h("section", { class: "checked", "aria-label": "Check" }, h("h3", {}, found.ok ? "✓ Checked: nothing stands in the way" : "✕ Checked: a fit would not give what is asked"),
    h("ul", { class: "findings" }, found.findings.map((one) => h("li", { class: one.severity }, h("b", { "aria-label": one.severity }, icons[one.severity] ?? ""), h("span", {}, h("strong", {}, one.subject), `: ${one.says}. ${one.advice}`)))),
    found.ok || store.job ? null : button("Fit anyway", reallyFit));
}

function comparing() {
  const names = h("input", { type: "text", class: "code", value: "single_shooting, multiple_shooting" });
  return h("details", { class: "fold", open: Boolean(store.comparison) }, h("summary", {}, "Compare methods"), field("Methods", names, "by commas"),
    h("div", { class: "actions" }, button("Compare", async () => { const begun = await post("/api/jobs", { kind: "compare", methods: names.value.split(",").map((name) => name.trim()).filter(Boolean) }); if (begun) { store.job = begun.job; changed("step"); } }, { disabled: Boolean(store.job) || !described().quantities })),
    store.comparison ? h("pre", { class: "printed", tabindex: 0 }, store.comparison) : null);
}
