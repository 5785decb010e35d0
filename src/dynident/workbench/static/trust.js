// Trust: is the model right, how sure are the values, and what do records say that were not fitted?
import { barChart, lineChart } from "./charts.js";
import { button, fill, h, number, percent, toast } from "./elements.js";
import { attempt, changed, content, current, post, store } from "./store.js";
import { call } from "./api.js";
import { takeResult } from "./sliders.js";

export async function load(id) {
  if (!id || store.details[id]) return;
  const found = await attempt(() => call("POST", "/api/result", { result: id }));
  if (found) { store.details[id] = found.details; changed("details"); }
}

export function render(place) {
  const result = current() ?? store.state?.results.at(-1);
  if (!result) { fill(place, h("h2", { tabindex: -1 }, "Trust"), h("p", { class: "hint" }, "Fit first; then this step says what the fit is worth.")); return; }
  const found = store.details[result.id];
  if (!found) { load(result.id); fill(place, h("h2", { tabindex: -1 }, "Trust"), h("p", { class: "skeleton" }, `Reading ${result.label} …`)); return; }
  fill(place, h("h2", { tabindex: -1 }, `Trust: ${result.label}`), parts(found.verdict), intervals(found, result), validation(found, result), residuals(found), strong(found),
    h("details", { class: "fold" }, h("summary", {}, "How it was found"), h("p", {}, found.ended), h("p", { class: "hint" }, `${found.method}: ${found.asked}`), h("p", { class: "hint" }, found.effort)),
    found.notes.length ? h("section", { class: "note" }, h("h3", {}, "Notes"), h("ul", {}, found.notes.map((note) => h("li", {}, note)))) : null,
    h("div", { class: "actions" }, button("Take as start values", () => takeResult(result)), button("Open the report", () => report(result))));
}

async function report(result) {
  const tab = window.open("about:blank", "_blank");
  const found = await post("/api/report", { result: result.id });
  if (found && tab) tab.location = found.path;
  else if (!tab) toast("The browser did not let a tab open.", "bad");
}

export const grade = (verdict) => h("strong", { class: `grade ${verdict.colour}` }, verdict.grade);

function parts(verdict) {
  if (verdict.parts.length < 2) return null;
  return h("section", {}, h("h3", {}, "By signal"), h("ul", { class: "parts" }, verdict.parts.map((part) => h("li", {}, grade(part), h("span", {}, h("strong", {}, part.subject), ` ${part.says}`)))));
}

function intervals(found, result) {
  return h("section", {}, h("h3", {}, "Values"), h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Values and intervals" }, h("table", { class: "values" },
    h("thead", {}, h("tr", {}, ["name", "value", found.heading, ""].map((title) => h("th", { scope: "col" }, title)))),
    h("tbody", {}, found.rows.map((row) => h("tr", { class: row.held ? "held" : "" }, h("th", { scope: "row" }, row.name),
      h("td", { class: "number" }, row.value, h("span", { class: "unit" }, ` ${row.unit}`)), h("td", { class: "number" }, row.interval, row.held || found.verdict.withholds ? null : h("div", { class: "hint" }, relative(row)), row.remark ? h("div", { class: "hint" }, row.remark) : null),
      h("td", {}, row.held ? null : button("profile", () => profile(result, row.name), { class: "quiet small", disabled: Boolean(store.job), "aria-label": `Profile likelihood of ${row.name}` }))))))),
  h("p", { class: "hint" }, found.meaning), Object.entries(store.profile[result.id] ?? {}).map(([name, curve]) => curveOf(name, curve)));
}

// Half of the interval in percent of the value, where both say something.
function relative(row) {
  const half = typeof row.low === "number" && typeof row.high === "number" ? (row.high - row.low) / 2 : NaN;
  return Number.isFinite(half) && row.number ? `± ${number((100 * half) / Math.abs(row.number), 2)} %` : "";
}

async function profile(result, name) {
  const begun = await post("/api/jobs", { kind: "profile", result: result.id, names: [name] });
  if (begun) { store.job = begun.job; toast(`Profiling ${name}: refits with it held …`); changed("step"); }
}

export function profiled(result, found) {
  store.profile[result] = { ...(store.profile[result] ?? {}), ...found.curves };
  changed("details");
}

function curveOf(name, curve) {
  const level = curve.values.map(() => 3.84);
  return h("figure", { class: "profile" }, h("figcaption", {}, h("strong", {}, `Profile of ${name}`), ` ${number(curve.low, 5)} to ${number(curve.high, 5)}: ${curve.says}`, curve.partners.length ? `; compensated by ${curve.partners.join(", ")}` : ""),
    lineChart(`Profile likelihood of ${name}: rise of the cost over its value, with the 95 % level`, curve.values, [{ values: curve.rise, colour: "fitted", points: true }, { values: level, colour: "quiet", dash: [4, 4], width: 1 }], { height: 140, across: name }));
}

function validation(found, result) {
  const has = (content().validation ?? []).length > 0;
  return h("section", {}, h("h3", {}, "Validation"), found.validations.length ? found.validations.map((one) => h("div", { class: "validated" },
    h("p", {}, one.verdict ? grade(one.verdict) : null, h("strong", {}, ` ${one.record} `), one.verdict?.says ?? ""),
    h("p", { class: "hint" }, Object.entries(one.fit).map(([name, value]) => `${name} ${percent(value)}${one.attainable[name] !== undefined ? ` (the noise allows ${percent(one.attainable[name])})` : ""}`).join(", ")),
    one.tests.length ? h("details", { class: "fold" }, h("summary", {}, `${one.tests.filter((test) => test.passed).length} of ${one.tests.length} tests passed`), tests(one.tests)) : null))
    : h("p", { class: "hint" }, "Whether the model is right, only another record can tell. Add one under Records, as validation."),
  has ? button("Validate on the present records", async () => { const begun = await post("/api/jobs", { kind: "validate", result: result.id }); if (begun) { store.job = begun.job; changed("step"); } }, { disabled: Boolean(store.job) }) : null);
}

const tests = (all) => h("ul", { class: "tests" }, all.map((test) => h("li", { class: test.passed ? "passed" : "missed" }, h("b", {}, test.passed ? "✓ ok" : "✕ fail"), ` ${test.says}`)));

function residuals(found) {
  return h("section", {}, h("h3", {}, "What is left over"), found.residuals.map((one) => h("details", { class: "fold", open: true }, h("summary", {}, `${one.record}: ${one.output}`),
    h("p", { class: "hint" }, "Correlation with itself, by lag; noise stays within the band."), barChart(`Autocorrelation of the residuals of ${one.output}`, one.own, one.band, 1),
    Object.entries(one.inputs).map(([name, it]) => [h("p", { class: "hint" }, `Correlation with past ${name}.`), barChart(`Correlation of the residuals of ${one.output} with ${name}`, it.correlation, it.band)]), tests(one.tests))));
}

function strong(found) {
  if (!found.correlation) return null;
  const pairs = [];
  found.names.forEach((a, i) => found.names.forEach((b, j) => { const value = found.correlation[i]?.[j]; if (j > i && typeof value === "number" && Math.abs(value) > 0.9) pairs.push([a, b, value]); }));
  pairs.sort((one, two) => Math.abs(two[2]) - Math.abs(one[2]));
  return h("section", {}, h("h3", {}, "Correlation of the values"), pairs.length ? h("ul", {}, pairs.slice(0, 8).map(([a, b, value]) => h("li", {}, `${a} and ${b}: ${number(value, 3)}`))) : h("p", { class: "hint" }, "No two values are correlated beyond ±0.9."));
}
