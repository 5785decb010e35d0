// Sliders: a value, its bounds, its lock; the curve follows while one moves, the file when one lets go.
import { button, field, fill, h, number, say } from "./elements.js";
import { attempt, changed, current, edit, post, quantities, store } from "./store.js";

const STEPS_OF_RANGE = 1000;
const finite = (value) => typeof value === "number" && Number.isFinite(value);
const rows = new Map();
let waiting = null;

// The ends of a slider: the bounds; where there are none, a tenth and ten times the value, or around zero.
export function ends(q, value) {
  const size = Math.abs(value) || 1;
  let low = finite(q.lower) ? q.lower : value > 0 ? value / 10 : value - 10 * size;
  let high = finite(q.upper) ? q.upper : value < 0 ? value / 10 : value + 9 * size;
  if (q.log) low = low > 0 ? low : size / 1000;
  if (!(high > low)) [low, high] = [value - size, value + size];
  return [low, high];
}
const toPlace = (q, [low, high], value) => STEPS_OF_RANGE * (q.log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low));
const toValue = (q, [low, high], place) => { const share = place / STEPS_OF_RANGE; return q.log ? low * (high / low) ** share : low + share * (high - low); };

const path = (q, key) => [q.initial ? "initial_states" : "parameters", q.quantity, key];

export function render(place) {
  rows.clear();
  const all = quantities();
  if (!all.length) { fill(place, h("h2", { tabindex: -1 }, "Parameters"), h("p", { class: "hint" }, "Parameters appear here when the model can be read. See Model.")); return; }
  fill(place, h("h2", { tabindex: -1 }, "Parameters"), notice(),
    h("p", { class: "hint" }, "Move a slider: the curve follows. The values are the start of the next fit."),
    h("div", { class: "sliders" }, all.map(row)),
    h("div", { class: "actions" }, button("Keep this point", keep, { title: "Puts these values into the history, with a dashed curve" })));
}

function notice() {
  const shown = current();
  if (!shown) return null;
  return h("div", { class: "note" }, h("p", {}, `The curve is that of ${shown.label}; the sliders hold the start values.`),
    h("div", { class: "actions" }, button(`Take ${shown.label} as start`, () => takeResult(shown), { class: "primary" }),
      button("Show the start values", () => { store.shown = null; changed("shown", "step"); })));
}

export async function takeResult(result) {
  const known = quantities().filter((q) => finite(result.values[q.name]));
  const each = new Map(known.map((q) => [path(q, "start").join("\n"), { path: path(q, "start"), value: result.values[q.name] }]));
  await edit([...each.values()]);
  store.moved = false;
  store.shown = null;
  changed("shown", "step");
}

export function keep() {
  const count = store.state.kept.length + 1;
  store.kept = { label: `by hand ${count}`, values: { ...store.values } };
  changed("kept");
  return post("/api/keep", store.kept);
}

function row(q) {
  const range = ends(q, store.values[q.name] ?? q.start);
  const slider = h("input", { type: "range", min: 0, max: STEPS_OF_RANGE, step: 1, "aria-label": `${q.name}${q.unit ? ` in ${q.unit}` : ""}`, class: "slider" });
  const box = h("input", { type: "number", step: "any", "aria-label": `${q.name}, value`, class: "value" });
  const lock = button(q.free ? "free" : "fixed", () => edit([{ path: path(q, "free"), value: q.free ? false : null }]),
    { "aria-pressed": q.free ? "false" : "true", class: `lock ${q.free ? "" : "on"}`, "aria-label": `${q.name} is ${q.free ? "free; fix it" : "fixed; free it"}` });
  const one = { q, slider, box, range };
  rows.set(q.name, one);
  slider.addEventListener("input", () => move(one, toValue(q, one.range, Number(slider.value))));
  slider.addEventListener("change", () => commit(q));
  slider.addEventListener("keydown", (event) => {
    const sign = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 }[event.key];
    if (!sign) return;
    event.preventDefault();
    const place = Math.min(STEPS_OF_RANGE, Math.max(0, Number(slider.value) + sign * STEPS_OF_RANGE * (event.shiftKey ? 0.1 : 0.01)));
    slider.value = place;
    move(one, toValue(q, one.range, place));
    clearTimeout(waiting);
    waiting = setTimeout(() => commit(q), 400);
  });
  box.addEventListener("change", () => { const value = Number(box.value); if (box.value !== "" && finite(value)) { move(one, value); commit(q); } else place(one); });
  place(one);
  return h("div", { class: `slider-row ${q.free ? "" : "held"}` },
    h("div", { class: "slider-head" }, h("span", { class: "name" }, q.name), lock, h("span", { class: "spring" }), box, h("span", { class: "unit" }, q.unit)),
    slider, more(one));
}

function more(one) {
  const { q } = one;
  const bound = (key, label) => {
    const control = h("input", { type: "number", step: "any", value: finite(q[key]) ? q[key] : "", placeholder: "none" });
    control.addEventListener("change", () => edit([{ path: path(q, key), value: control.value === "" ? null : Number(control.value) }]));
    return field(label, control);
  };
  const log = h("input", { type: "checkbox", checked: q.log });
  log.addEventListener("change", () => edit([{ path: path(q, "log"), value: log.checked ? true : null }]));
  const unit = h("input", { type: "text", value: q.unit, size: 8 });
  unit.addEventListener("change", () => edit([{ path: path(q, "unit"), value: unit.value || null }]));
  return h("details", { class: "more" }, h("summary", {}, h("span", {}, number(one.range[0], 4)), h("span", { class: "between" }, "bounds, unit, log"), h("span", {}, number(one.range[1], 4))),
    h("div", { class: "grid" }, bound("lower", "Lower"), bound("upper", "Upper"), field("Unit", unit), field("Logarithmic", log)));
}

function place(one) {
  const value = store.progress?.values?.[one.q.name] ?? store.values[one.q.name];
  if (!finite(value)) return;
  one.slider.value = Math.min(STEPS_OF_RANGE, Math.max(0, toPlace(one.q, one.range, value)));
  one.slider.setAttribute("aria-valuetext", `${number(value, 5)} ${one.q.unit}`);
  if (document.activeElement !== one.box) one.box.value = Number(value.toPrecision(6));
  const locked = Boolean(store.job);
  one.slider.disabled = locked;
  one.box.disabled = locked;
}

function move(one, value) {
  store.values = { ...store.values, [one.q.name]: value };
  store.moved = true;
  store.shown = null;
  place(one);
  changed("values");
}

async function commit(q) {
  await attempt(async () => edit([{ path: path(q, "start"), value: Number(store.values[q.name].toPrecision(8)) }]));
  store.moved = false;
  say(`${q.name} is ${number(store.values[q.name], 5)} ${q.unit}`);
}

export function follow() {
  for (const one of rows.values()) place(one);
}
