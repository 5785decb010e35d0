// Plots: the record and the curve of the model, one time axis, one cursor; they stay through all steps.
import { columns, Refusal } from "./api.js";
import { button, fill, h, number, percent, select, toast } from "./elements.js";
import { changed, content, described, edit, records, shownValues, store, watch } from "./store.js";

const dark = matchMedia("(prefers-color-scheme: dark)");
let colours = {};
let panels = [];
let measured = null; // {head, data, key}
let curve = null; // the last good one, with its key
let dashed = null; // the kept one
let spectra = null; // measured and simulated over frequency, where that view is on
let built = "";
let frames = 0;

export const colour = (name) => colours[name] ||= getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const stack = () => document.getElementById("stack");
const width = () => Math.max(200, stack().clientWidth);
const viewKey = () => JSON.stringify([store.record, store.range, width(), store.state?.revision, store.pick !== null]);
const asked = () => ({ record: store.record, width: Math.round(width() * Math.min(devicePixelRatio, 2)),
  from: store.range?.[0] ?? null, to: store.range?.[1] ?? null });

export function start() {
  watch(["state", "record", "range", "pick"], () => { show(); simulate(); keptCurve(); });
  watch(["values", "progress", "shown"], simulate);
  watch(["shown", "kept"], keptCurve);
  watch(["view"], () => { draw(); if (store.view === "spectrum") simulate(); });
  dark.addEventListener("change", () => { colours = {}; built = ""; draw(); });
  let waiting;
  new ResizeObserver(() => { clearTimeout(waiting); waiting = setTimeout(() => { built = ""; draw(); show(); simulate(); }, 120); })
    .observe(stack());
}

async function show() {
  const record = records()[store.record];
  if (!record?.readable) { measured = curve = dashed = null; draw(); return; }
  const key = viewKey();
  if (measured?.key === key) return;
  try {
    const found = await columns("/api/record", { ...asked(), whole: store.pick !== null });
    if (key === viewKey()) { measured = { ...found, key }; draw(); }
  } catch (error) { if (!(error instanceof Refusal)) throw error; store.curve = { old: true, says: error.message }; changed("curve"); }
}

let busy = false, wanted = false;
async function simulate() {
  if (!described().quantities || !records()[store.record]?.readable || store.pick) {
    if (!described().quantities) { curve = null; store.curve = null; draw(); changed("curve"); }
    return;
  }
  if (busy) { wanted = true; return; }
  busy = true;
  do {
    wanted = false;
    const key = viewKey();
    try {
      const found = await columns("/api/simulate", { ...asked(), values: shownValues() });
      if (store.view === "spectrum") spectra = await columns("/api/simulate", { ...asked(), values: shownValues(), spectrum: true });
      if (key === viewKey()) { curve = { ...found, key }; store.curve = { ...found.head, old: false }; }
      else wanted = true;
    } catch (error) {
      if (!(error instanceof Refusal)) { busy = false; throw error; }
      store.curve = { ...(store.curve ?? {}), old: true, says: error.message };
    }
    draw();
    changed("curve");
    await new Promise(requestAnimationFrame);
  } while (wanted);
  busy = false;
}

async function keptCurve() {
  const kept = store.kept;
  if (!kept || !described().quantities || store.pick) { dashed = null; draw(); return; }
  try {
    const key = viewKey();
    const found = await columns("/api/simulate", { ...asked(), values: kept.values });
    if (kept === store.kept && key === viewKey()) { dashed = { ...found, key }; draw(); }
  } catch (error) { if (!(error instanceof Refusal)) throw error; dashed = null; draw(); }
}

const unit = (name) => { const found = described().units?.[name] ?? records()[store.record]?.units?.[name]; return found ? ` [${found}]` : ""; };

function draw() {
  const place = stack();
  if (!measured) { panels.forEach((panel) => panel.plot.destroy()); panels = []; built = ""; fill(place, empty()); return; }
  const outputs = described().outputs ?? measured.head.outputs;
  const frequency = store.view === "spectrum";
  const names = frequency ? (spectra?.head.outputs ?? []) : store.view === "residuals" ? (curve?.head.residuals ?? []) : [...new Set([...outputs, ...measured.head.outputs])];
  const inputs = frequency ? [] : measured.head.inputs;
  const wantedPanels = JSON.stringify([names, inputs, store.view, width(), dark.matches, store.record]);
  if (built !== wantedPanels) {
    built = wantedPanels;
    panels.forEach((panel) => panel.plot.destroy());
    fill(place);
    const each = height(names.length, inputs.length);
    panels = [...names.map((name) => panel(name, "output", each.output)), ...inputs.map((name) => panel(name, "input", each.input))];
    if (panels.length) panels.at(-1).last = true;
    panels = panels.map((one, k) => ({ ...one, ...mount(place, one, k === panels.length - 1) }));
  }
  for (const one of panels) update(one);
  place.dataset.frames = String(++frames);
}

function height(outputs, inputs) {
  const room = innerWidth < 800 ? 520 : Math.max(380, innerHeight - 330);
  const output = Math.min(330, Math.max(125, (room - inputs * 125) / Math.max(outputs, 1)));
  return { output: Math.round(output), input: 100 };
}

const panel = (name, kind, tall) => ({ name, kind, tall });

function mount(place, one, last) {
  const readout = h("span", { class: "readout" });
  const says = h("span", { class: "fit" });
  const body = h("div", { class: "canvas", role: "img" });
  const residual = store.view === "residuals" && one.kind === "output";
  const frequency = store.view === "spectrum";
  place.append(h("figure", { class: "panel" }, h("figcaption", {}, h("strong", {}, one.name),
    h("span", { class: "unit" }, `${unit(one.name)}${residual ? " measured − simulated" : frequency ? " amplitude at each frequency" : ""}`), says, readout), body));
  const decades = (u, marks) => marks.map((mark) => (Math.abs(Math.log10(mark) - Math.round(Math.log10(mark))) < 1e-9 ? mark : null));
  const axis = { stroke: () => colour("quiet"), grid: { stroke: () => colour("line"), width: 1, filter: frequency ? decades : (u, marks) => marks }, ticks: { stroke: () => colour("line"), width: 1, filter: frequency ? decades : (u, marks) => marks },
    font: "12px system-ui, sans-serif" };
  const line = (label, name, wide, dash) => ({ label, stroke: () => colour(typeof name === "function" ? name() : name), width: wide, dash,
    points: { show: false }, spanGaps: false });
  const series = one.kind === "input" ? [line("input", "input", 1.5)]
    : residual ? [line("residual", "residual", 1.2), line("+", "quiet", 1, [4, 4]), line("-", "quiet", 1, [4, 4])]
      : frequency ? [line("measured", "measured", 4), line("simulated", "fitted", 1.8)]
        : [line("measured", "measured", 5), line("kept", "second", 1.6, [6, 4]), line("simulated", () => (store.curve?.old ? "quiet" : "fitted"), 1.8)];
  if (one.kind === "output" && !residual) series[0].alpha = dark.matches ? 0.8 : 0.55;
  const plot = new uPlot({
    width: width(), height: one.tall + (last ? 22 : 0), legend: { show: false }, padding: [6, frequency ? 16 : 10, 0, 0],
    scales: frequency ? { x: { time: false, distr: 3 }, y: { distr: 3 } } : { x: { time: false, range: (u, low, high) => store.range ?? [low, high] } },
    axes: [{ ...axis, size: last ? 40 : 18, label: last ? (frequency ? "frequency [Hz]" : "time [s]") : undefined, labelSize: 18, labelFont: axis.font,
      values: last ? undefined : (u, marks) => marks.map(() => "") },
    { ...axis, size: 62, space: 26, values: (u, marks) => marks.map((mark) => (mark === null ? "" : number(mark, 4))) }],
    cursor: { sync: { key: frequency ? "frequency" : "time" }, drag: { x: !frequency, y: false, setScale: false }, points: { show: false } },
    series: [{}, ...series],
    hooks: { setSelect: [(u) => selected(u)], setCursor: [(u) => read(u, readout, series, frequency ? "f" : "t")], drawClear: [(u) => shade(u)] },
  }, [frequency ? [1, 2] : [0, 1], ...series.map(() => [null, null])], body);
  body.addEventListener("dblclick", () => { store.range = null; changed("range"); });
  return { plot, body, says, residual, frequency };
}

function selected(u) {
  if (u.select.width < 3) return;
  const ends = [u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")];
  u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
  if (store.pick) picked(ends);
  else { store.range = ends; changed("range"); }
}

const short = (value) => Number(value.toPrecision(6));

// A window of the present record, for the fit or as a record for validation.
async function picked(ends) {
  const kind = store.pick;
  const record = records()[store.record], place = record.place;
  const window_ = ends.map(short);
  store.pick = null;
  if (kind === "fit") await edit([{ path: [record.kind, place, "window"], value: window_ }]);
  else {
    const table = { ...content()[record.kind][place], window: window_, name: `${record.name} ${number(window_[0], 4)} to ${number(window_[1], 4)} s` };
    delete table.initial;
    await edit([{ path: ["validation", "+"], value: table }]);
  }
  toast(`${kind === "fit" ? "Fitted" : "Validated"} from ${number(window_[0], 4)} to ${number(window_[1], 4)} s.`);
  changed("pick");
}

// Windows of all records of the same file, while one is being picked.
function shade(u) {
  if (!store.pick) return;
  const file = records()[store.record]?.file;
  for (const one of records().filter((each) => each.file === file && each.window)) {
    const [left, right] = one.window.map((value) => u.valToPos(value, "x", true));
    u.ctx.save();
    u.ctx.globalAlpha = 0.16;
    u.ctx.fillStyle = colour(one.kind === "experiment" ? "fitted" : "second");
    u.ctx.fillRect(left, u.bbox.top, right - left, u.bbox.height);
    u.ctx.restore();
  }
}

function read(u, place, series, axis) {
  const at = u.cursor.idx;
  if (at === null || at === undefined || u.cursor.left < 0) { place.textContent = ""; return; }
  const parts = series.map((one, k) => [one.label, u.data[k + 1]?.[at]]).filter(([label, value]) => value !== null && value !== undefined
    && !Number.isNaN(value) && label.length > 1);
  place.textContent = `${axis} = ${number(u.data[0][at], 6)}  ${parts.map(([label, value]) => `${label} ${number(value, 5)}`).join("  ")}`;
}

const nulls = (array) => (array ? Array.from(array, (value) => (Number.isNaN(value) ? null : value)) : null);
const fitting = (found, key) => found && found.data[0].length === measured.data[0].length && found.key === key;

function updateSpectrum(one) {
  const k = spectra ? spectra.head.outputs.indexOf(one.name) : -1;
  if (k < 0) return;
  const positive = (array) => Array.from(array, (value) => (value > 0 ? value : null));
  one.plot.setData([Array.from(spectra.data[0]), positive(spectra.data[1 + 2 * k]), positive(spectra.data[2 + 2 * k])]);
  one.body.setAttribute("aria-label", `Spectrum of measured and simulated ${one.name}`);
}

function update(one) {
  if (one.frequency) { updateSpectrum(one); return; }
  const { head, data } = measured;
  const time = data[0], blank = new Array(time.length).fill(null);
  const here = store.pick ? null : fitting(curve, measured.key) ? curve : null;
  const kept = store.pick ? null : fitting(dashed, measured.key) ? dashed : null;
  const simulated = (found) => (found && found.head.outputs.includes(one.name) ? nulls(found.data[1 + found.head.outputs.indexOf(one.name)]) : blank);
  let columns_;
  if (one.kind === "input") columns_ = [nulls(data[1 + head.outputs.length + head.inputs.indexOf(one.name)])];
  else if (one.residual) {
    const k = here ? here.head.residuals.indexOf(one.name) : -1;
    const std = records()[store.record]?.noise?.[one.name];
    const line = (sign) => (std ? new Array(time.length).fill(sign * 1.96 * std) : blank);
    columns_ = [k < 0 ? blank : nulls(here.data[1 + here.head.outputs.length + k]), line(1), line(-1)];
  } else {
    const k = head.outputs.indexOf(one.name);
    columns_ = [k < 0 ? blank : nulls(data[1 + k]), simulated(kept), simulated(here ?? (fitting(curve, curve?.key) && !store.pick ? curve : null))];
  }
  one.plot.setData([time, ...columns_]);
  const score = here?.head.fit?.[one.name];
  one.says.textContent = one.kind === "output" && score !== undefined && score !== null ? `fit ${percent(score)}` : "";
  one.says.classList.toggle("old", Boolean(store.curve?.old));
  one.body.setAttribute("aria-label", one.kind === "input" ? `Input ${one.name} over time`
    : `${one.residual ? "Measured minus simulated" : "Measured and simulated"} ${one.name} over time${score ? `, fit ${percent(score)}` : ""}`);
}

function empty() {
  if (!store.state) return h("p", { class: "skeleton" }, "Loading …");
  if (!store.state.file) return h("div", { class: "welcome" }, h("h2", {}, "Open a record, a problem file, or the demo"),
    h("p", {}, "The files of this folder stand on the left. A record becomes a new problem beside it; nothing is written until you save."));
  return h("div", { class: "welcome" }, h("h2", {}, "There is nothing to draw yet"),
    h("p", {}, records().length ? "The record cannot be read as the problem says; see the faults on the left." : "Add a record on the left."));
}

export function toolbar() {
  const all = records();
  const place = document.getElementById("view");
  if (!all.length) { fill(place); return; }
  const note = store.curve?.old ? h("span", { class: "badge warn" }, `⚠ ${store.curve.says}`)
    : store.curve?.coarse ? h("span", { class: "badge warn" }, `⚠ steps too coarse here: the curve is uncertain by ${percent(100 * store.curve.change)}`) : null;
  fill(place,
    h("label", { class: "inline" }, "Record ", select(all.map((one, k) => [String(k), `${one.name}${one.kind === "validation" ? " (validation)" : ""}`]),
      String(store.record), (value) => { store.record = Number(value); store.range = null; changed("record"); })),
    h("div", { class: "segmented", role: "group", "aria-label": "View" }, ["signals", "residuals", "spectrum"].map((name) =>
      button(name, () => { store.view = name; changed("view"); }, { "aria-pressed": store.view === name ? "true" : "false" }))),
    button("whole record", () => { store.range = null; changed("range"); }, { disabled: !store.range, class: "quiet" }),
    store.pick ? h("span", { class: "badge" }, `Drag over the plot: the part to ${store.pick === "fit" ? "fit" : "validate on"}.`) : null,
    note,
    h("span", { class: "legend", "aria-hidden": "true" }, h("i", { class: "key measured" }), "measured ", h("i", { class: "key simulated" }),
      store.shown ? "fit " : "simulated ", store.kept ? [h("i", { class: "key kept" }), `${store.kept.label} `] : null));
}
