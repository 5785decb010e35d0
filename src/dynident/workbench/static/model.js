// Model: a template or equations; faults stand under the line while one types, and the formula beside it.
import { call } from "./api.js";
import { button, field, fill, h, math, select, toast } from "./elements.js";
import { attempt, content, described, edit, post, store } from "./store.js";

let draft = null; // the equations that are being typed
let draftOf = null;
let waiting = null;
let template = ""; // chosen, and not used yet
let found = { formulas: {}, line_faults: [], parameters: [] };
let place = null;

const EQUATIONS = ["name", "inputs", "constants", "definitions", "states", "outputs", "units", "parameters", "kind", "unused"];
const editable = (model) => Object.keys(model).every((key) => EQUATIONS.includes(key)) && !Array.isArray(model.states);

function drafted(model) {
  const outputs = Array.isArray(model.outputs) ? Object.fromEntries(model.outputs.map((name) => [name, name])) : model.outputs ?? {};
  return { ...model, inputs: model.inputs ?? [], constants: model.constants ?? {}, states: { ...model.states }, definitions: { ...model.definitions }, outputs: { ...outputs } };
}

export function render(where) {
  place = where;
  const model = content().model;
  const key = JSON.stringify(model ?? null);
  if (draftOf !== key) { draft = model && editable(model) ? drafted(model) : null; draftOf = key; found = { formulas: {}, line_faults: [], parameters: [] }; if (draft) ask(0); }
  fill(where, h("h2", { tabindex: -1 }, "Model"), templates(), draft ? editor() : other(model), formulas(), fileText());
  tell(); // formulas and faults that are known already belong to the new lines, too
}

function templates() {
  if (!store.templates.length) attempt(async () => { store.templates = (await call("GET", "/api/templates")).templates; if (store.step === "model") render(place); });
  const chosen = h("p", { class: "hint" }, store.templates.find((each) => each.name === template)?.says ?? " ");
  const list = select([["", "choose …"], ...store.templates.map((one) => [one.name, one.title]), ["empty", "Empty: write equations"]], template, (name) => {
    template = name;
    const one = store.templates.find((each) => each.name === name);
    chosen.textContent = one?.says ?? "";
    use.disabled = !name;
  });
  const use = button("Use it", () => apply(list.value), { disabled: !template });
  return h("div", {}, field("Start from a template", list), chosen, h("div", { class: "actions" }, use));
}

async function apply(name) {
  const outputs = content().experiment?.[0]?.outputs ?? {};
  const inputs = content().experiment?.[0]?.inputs ?? {};
  const measured = Array.isArray(outputs) ? outputs : Object.keys(outputs);
  const one = store.templates.find((each) => each.name === name)
    ?? { model: { states: { x: "-k*x" }, inputs: Array.isArray(inputs) ? inputs : Object.keys(inputs), outputs: Object.fromEntries(measured.map((output) => [output, "x"])) }, parameters: { k: { start: 1 } } };
  if (content().model && !confirm("This replaces the model and its parameters. Undo brings them back.")) return;
  template = "";
  await edit([{ path: ["model"], value: one.model }, { path: ["parameters"], value: one.parameters }]);
  const given = Object.keys(one.model.outputs ?? {}), missing = measured.filter((output) => !given.includes(output));
  if (missing.length) toast(`The record measures ${missing.join(", ")}, the model gives ${given.join(", ")}: name the columns or the outputs alike.`, "bad");
}

function other(model) {
  if (!model) return h("p", { class: "hint" }, "There is no model yet.");
  const kind = ["fmu", "python", "robot", "simulator", "transfer_function", "modes", "next", "algebraic", "tables"].find((key) => key in model) ?? "this kind";
  return h("p", { class: "note" }, `This model is made by ${kind.replace("_", " ")}; change it in the file below, or in your editor.`);
}

function editor() {
  const part = (key, title, left) => h("fieldset", { class: "equations" }, h("legend", {}, title),
    Object.entries(draft[key]).map(([name, text]) => line(key, name, text, left)),
    button(`Add ${title.toLowerCase().replace(/s$/, "")}`, () => { draft[key][free(key)] = "0"; refreshed(); }, { class: "quiet" }));
  const names = h("input", { type: "text", value: draft.inputs.join(", ") });
  names.addEventListener("change", () => { draft.inputs = names.value.split(",").map((name) => name.trim()).filter(Boolean); ask(0); });
  const constants = h("input", { type: "text", value: Object.entries(draft.constants).map(([name, value]) => `${name} = ${value}`).join(", ") });
  constants.addEventListener("change", () => {
    draft.constants = Object.fromEntries(constants.value.split(",").map((one) => one.split("=").map((side) => side.trim())).filter(([name, value]) => name && Number.isFinite(Number(value))).map(([name, value]) => [name, Number(value)]));
    ask(0);
  });
  const general = h("div", { class: "faults", id: "general-faults", role: "status" });
  const box = h("div", { class: "editor" }, field("Inputs", names, "by commas"), field("Constants", constants, "name = number, by commas"),
    part("states", "States", (name) => `d ${name}/dt`), part("definitions", "Definitions", (name) => name), part("outputs", "Outputs", (name) => name), general,
    h("div", { class: "actions" }, button("Apply the equations", commit, { class: "primary", id: "apply-model" })));
  return box;
}

const free = (key) => { for (let k = 1; ; k++) { const name = `${key === "states" ? "x" : key === "outputs" ? "y" : "f"}${k}`; if (!(name in draft[key])) return name; } };

function line(key, name, text, left) {
  const title = h("input", { type: "text", value: name, size: 6, class: "code left", "aria-label": `Name in ${key}` });
  title.addEventListener("change", () => {
    const next = title.value.trim();
    if (!next || next in draft[key]) { title.value = name; return; }
    draft[key] = Object.fromEntries(Object.entries(draft[key]).map(([each, value]) => [each === name ? next : each, value]));
    refreshed();
  });
  const control = h("textarea", { rows: 1, value: String(text), class: "code text", spellcheck: "false", autocomplete: "off", "aria-label": left(name), "aria-describedby": `fault-${key}-${name}` });
  control.addEventListener("input", () => { draft[key][name] = control.value; ask(200); });
  return h("div", { class: "equation", "data-line": `${key}/${name}` },
    h("div", { class: "equation-row" }, key === "states" ? h("span", { class: "der", "aria-hidden": "true" }, "d/dt") : null, title, h("span", { "aria-hidden": "true" }, "="), control,
      button("×", () => { delete draft[key][name]; refreshed(); }, { class: "bare", "aria-label": `Remove ${name}` })),
    h("div", { class: "formula" }), h("pre", { class: "fault", id: `fault-${key}-${name}`, role: "status" }));
}

function refreshed() { render(place); ask(0); }

function ask(delay) {
  clearTimeout(waiting);
  waiting = setTimeout(async () => {
    if (!draft) return;
    const answer = await attempt(() => call("POST", "/api/equations", { model: clean(draft) }));
    if (answer) { found = answer; tell(); }
  }, delay);
}

const clean = (model) => Object.fromEntries(Object.entries(model).filter(([key, value]) => !["kind", "parameters"].includes(key) && (Array.isArray(value) ? value.length : typeof value === "object" ? Object.keys(value).length : value)));

function tell() {
  for (const row of document.querySelectorAll("[data-line]")) {
    const [key, name] = row.dataset.line.split("/");
    const faults = found.line_faults.filter((one) => one.part === key && one.name === name);
    row.querySelector(".fault").textContent = faults.map((one) => one.says.replace(/^[^:]*: /, "")).join("\n");
    row.classList.toggle("wrong", faults.length > 0);
    const tree = found.formulas[key]?.[name];
    const formula = row.querySelector(".formula");
    fill(formula, tree && !faults.length ? math(tree) : null);
    const hidden = formula.scrollWidth > formula.clientWidth; // then keys must reach it, to scroll
    for (const [attribute, value] of [["tabindex", "0"], ["role", "group"], ["aria-label", `Formula of ${name}`]]) hidden ? formula.setAttribute(attribute, value) : formula.removeAttribute(attribute);
  }
  const general = document.getElementById("general-faults");
  const shown = new Set([...document.querySelectorAll("[data-line]")].map((row) => row.dataset.line));
  if (general) fill(general, found.line_faults.filter((one) => !shown.has(`${one.part}/${one.name}`)).map((one) => h("p", {}, one.says)));
  const apply_ = document.getElementById("apply-model");
  if (apply_) apply_.disabled = found.line_faults.length > 0;
}

async function commit() {
  const now = content().model, made = clean(draft), edits = [];
  for (const key of new Set([...Object.keys(now ?? {}), ...Object.keys(made)])) {
    if (key === "kind" || key === "parameters" || JSON.stringify(now?.[key]) === JSON.stringify(made[key])) continue;
    const same = now?.[key] && made[key] && !Array.isArray(now[key]) && typeof made[key] === "object" && JSON.stringify(Object.keys(now[key])) === JSON.stringify(Object.keys(made[key]));
    if (same) for (const [name, value] of Object.entries(made[key])) { if (now[key][name] !== value) edits.push({ path: ["model", key, name], value }); }
    else if (!(key === "outputs" && Array.isArray(now?.outputs) && JSON.stringify(drafted(now).outputs) === JSON.stringify(made.outputs))) edits.push({ path: ["model", key], value: made[key] ?? null });
  }
  const declared = Object.keys(content().parameters ?? {});
  for (const name of found.parameters.filter((each) => !declared.includes(each))) edits.push({ path: ["parameters", name], value: { start: 1 } });
  for (const name of declared.filter((each) => !found.parameters.includes(each))) edits.push({ path: ["parameters", name], value: null });
  if (edits.length) await edit(edits);
  toast(edits.length ? "The model was changed; compiling takes a moment." : "Nothing to change.");
}

function formulas() {
  const all = draft ? [] : described().equations ?? [];
  return all.length ? h("div", { class: "formulas" }, all.map((tree) => h("div", {}, math(tree)))) : null;
}

function fileText() {
  const area = h("textarea", { class: "code", rows: 18, spellcheck: "false", "aria-label": "The problem file", value: store.state?.text ?? "" });
  return h("details", { class: "fold" }, h("summary", {}, "The problem file as text"), area,
    h("div", { class: "actions" }, button("Apply the text", () => post("/api/text", { revision: store.state.revision, text: area.value }))));
}
