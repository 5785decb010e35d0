// Next experiment: which input tells most, within limits; predicted intervals, and a CSV for the controller.
import { lineChart } from "./charts.js";
import { button, field, fill, h, number, select } from "./elements.js";
import { changed, content, current, described, edit, post, store } from "./store.js";

const SHAPES = [["auto", "the best of several"], ["piecewise_linear", "piecewise linear"], ["piecewise_constant", "piecewise constant"], ["multisine", "multisine"], ["bernstein", "Bernstein polynomial"], ["binary", "binary, free switching times"]];
const COUNT = { piecewise_linear: "pieces", piecewise_constant: "pieces", multisine: "harmonics", bernstein: "order", binary: "switches" };

export function render(place) {
  const table = content().design ?? {};
  const shape = typeof table.signal === "string" ? { kind: table.signal } : table.signal ?? {};
  const kind = shape.kind ?? "piecewise_linear";
  const inputs = described().inputs ?? [];
  if (!inputs.length) { fill(place, h("h2", { tabindex: -1 }, "Next experiment"), h("p", { class: "hint" }, "A model without inputs has nothing to plan.")); return; }
  const controls = {
    kind: select(SHAPES, kind, () => {}), count: h("input", { type: "number", min: 1, step: 1, value: shape[COUNT[kind]] ?? "", placeholder: "default" }),
    limits: h("textarea", { rows: 3, class: "code", value: (table.constraints ?? inputs.map((name) => `abs(${name}) <= 1`)).join("\n") }),
    terminal: h("textarea", { rows: 2, class: "code", value: (table.terminal_constraints ?? []).join("\n"), placeholder: "v == 0" }),
    duration: h("input", { type: "number", step: "any", min: 0, value: typeof table.duration === "number" ? table.duration : "", placeholder: "as the last record" }),
    sample_time: h("input", { type: "number", step: "any", min: 0, value: table.sample_time ?? "", placeholder: "as the last record" }),
    criterion: select([["D", "D: volume of the confidence region"], ["A", "A: sum of the variances"], ["E", "E: the longest axis"]], table.criterion ?? "D", () => {}),
    starts: h("input", { type: "number", min: 1, max: 20, step: 1, value: table.starts ?? "", placeholder: "4" }) };
  const known = current() ?? store.state?.results.at(-1);
  fill(place, h("h2", { tabindex: -1 }, "Next experiment"), h("p", { class: "hint" }, known ? `Planned from ${known.label}.` : "Planned at the start values; a fit first makes a better plan."),
    field("Shape of the input", controls.kind), field("Pieces, harmonics, order or switches", controls.count), field("Limits, one a line", controls.limits, "hold all along: abs(u) <= 2, abs(v) <= 0.5"),
    field("At the end, one a line", controls.terminal), h("div", { class: "grid" }, field("Duration [s]", controls.duration), field("Sample time [s]", controls.sample_time)), field("Criterion", controls.criterion), field("Starts of the search", controls.starts),
    h("div", { class: "actions" }, store.job?.kind === "design" ? button("Stop, keep the best", () => post("/api/stop", {}), { class: "danger" }) : button("Plan the input", () => plan(controls, known), { class: "primary", disabled: Boolean(store.job) })),
    store.job?.kind === "design" ? h("p", { class: "progress" }, store.progress?.note ?? "Planning …") : null, shown());
}

async function plan(controls, known) {
  const lines = (text) => text.split("\n").map((line) => line.trim()).filter(Boolean);
  const kind = controls.kind.value;
  const made = { signal: controls.count.value && COUNT[kind] ? { kind, [COUNT[kind]]: Number(controls.count.value) } : kind, constraints: lines(controls.limits.value), terminal_constraints: lines(controls.terminal.value),
    duration: controls.duration.value ? Number(controls.duration.value) : null, sample_time: controls.sample_time.value ? Number(controls.sample_time.value) : null, criterion: controls.criterion.value === "D" ? null : controls.criterion.value, starts: controls.starts.value ? Number(controls.starts.value) : null };
  const before = content().design ?? {};
  const edits = Object.entries(made).filter(([key, value]) => JSON.stringify(before[key] ?? (Array.isArray(value) ? [] : null)) !== JSON.stringify(value)).map(([key, value]) => ({ path: ["design", key], value: Array.isArray(value) && !value.length ? null : value }));
  if (edits.length && !(await edit(edits))) return;
  const begun = await post("/api/jobs", { kind: "design", result: known?.id ?? "" });
  if (begun) { store.job = begun.job; changed("step"); }
}

function shown() {
  const found = store.plan;
  if (!found) return null;
  return h("section", { class: "plan" }, h("h3", {}, found.converged ? "✓ Plan" : "! Plan, not converged"), h("p", {}, found.says),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Predicted standard deviations" }, h("table", { class: "values" }, h("thead", {}, h("tr", {}, ["name", "std now", "std after", "sharper"].map((title) => h("th", { scope: "col" }, title)))),
      h("tbody", {}, found.rows.map((row) => h("tr", {}, h("th", { scope: "row" }, row.name), h("td", { class: "number" }, number(row.before, 3)), h("td", { class: "number" }, number(row.after, 3)), h("td", { class: "number" }, row.sharper ? `${number(row.sharper, 3)} ×` : "–")))))),
    found.limits.length ? h("ul", { class: "tests" }, found.limits.map((one) => h("li", { class: one.holds ? "passed" : "missed" }, h("b", {}, one.holds ? "✓ holds" : "✕ broken"), ` ${one.says}: ${number(one.least, 3)} to ${number(one.most, 3)}`))) : null,
    found.records.map((record) => Object.entries(record.inputs).map(([name, values]) => [h("h3", {}, `${name} to run`), lineChart(`Planned input ${name} over time`, record.time, [{ values, colour: "input", width: 1.6 }], { height: 130, across: "time [s]" })])),
    h("p", {}, "Written to ", h("code", {}, found.files.join(", ")), " beside the problem."), found.notes.map((note) => h("p", { class: "hint" }, note)));
}
