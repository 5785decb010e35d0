// Records: which files, which column is what, which part is fitted and which part judges the fit.
import { button, dialog, field, fill, h, number, select, toast } from "./elements.js";
import { attempt, changed, content, described, edit, post, records, store } from "./store.js";
import { call } from "./api.js";

const ROLES = [["time", "time"], ["input", "input"], ["output", "output"], ["ignore", "ignore"]];

export async function files() {
  const found = await attempt(() => call("GET", "/api/files"));
  if (found) { store.files = found.files; changed("files"); }
}

const isProblem = (name) => /\.(toml|ya?ml)$/.test(name);

export function render(place) {
  if (!store.state?.file) { fill(place, h("h2", { tabindex: -1 }, "Open"), opening()); return; }
  const all = records();
  const states = described().states ?? [];
  fill(place, h("h2", { tabindex: -1 }, "Records"),
    all.length ? h("div", { class: "cards" }, all.map((record, k) => card(record, k, all, states))) : h("p", { class: "hint" }, "No record yet."),
    adding(),
    h("details", { class: "fold" }, h("summary", {}, "Open another problem"), opening()));
}

function opening() {
  const problems = store.files.filter(isProblem), data = store.files.filter((name) => !isProblem(name));
  const list = (title, names) => names.length ? [h("h3", {}, title), h("ul", { class: "files" }, names.map((name) => h("li", {},
    button(name, () => open(name), { class: "file-name" }))))] : null;
  return h("div", {}, list("Problem files", problems), list("Records", data),
    store.files.length ? null : h("p", { class: "hint" }, "There is no problem file and no record in this folder."),
    h("h3", {}, "Nothing at hand?"), button("Open the demo: a servo axis with friction", () => open(null), { class: "primary" }));
}

async function open(name) {
  if (store.state.dirty && store.state.file && !confirm("What is open has changes that are not saved. Go on and lose them?")) return;
  const found = await post(name === null ? "/api/demo" : "/api/open", name === null ? {} : { file: name });
  if (found) { await files(); toast(`${found.file} is open.`); }
}

function card(record, k, all, states) {
  const at = [record.kind, record.place];
  const table = content()[record.kind]?.[at[1]] ?? {};
  const other = record.kind === "experiment" ? "validation" : "experiment";
  const fits = all.filter((one) => one.kind === "experiment").length;
  const swap = () => edit([{ path: [other, "+"], value: table }, { path: at, value: null }]);
  const chosen = k === store.record;
  const facts = record.readable ? `${record.samples.toLocaleString("en")} samples, ${number(record.from, 4)} to ${number(record.to, 4)} s` : "cannot be read; see the fault below";
  return h("article", { class: `card ${chosen ? "chosen" : ""}` },
    h("div", { class: "card-head" }, button(record.name || record.file, () => { store.record = k; store.range = null; changed("record", "step"); },
      { class: "card-name", "aria-pressed": chosen ? "true" : "false" }), h("span", { class: `tag ${record.kind}` }, record.kind === "experiment" ? "fit" : "validation")),
    h("p", { class: "hint" }, `${record.file}: ${facts}`, record.window ? `, window ${record.window.map((v) => number(v, 4)).join(" to ")} s` : ""),
    record.notes?.map((note) => h("p", { class: "hint" }, note)),
    chosen ? h("div", {},
      h("div", { class: "actions" }, button("Columns, units, noise …", () => columnsDialog(record, at, table)),
        record.kind === "experiment" && fits < 2 ? null : button(record.kind === "experiment" ? "Use for validation" : "Use for the fit", swap),
        button("Remove", () => edit([{ path: at, value: null }]), { class: "quiet" })),
      record.readable ? windows(record, at) : null,
      states.length ? initial(at, table, states) : null) : null);
}

function windows(record, at) {
  const pick = (kind) => () => { store.pick = store.pick === kind ? null : kind; store.range = null; changed("pick", "step"); };
  return h("div", { class: "actions", role: "group", "aria-label": "Windows" },
    button(record.kind === "experiment" ? "Pick the part to fit" : "Pick the part", pick("fit"), { "aria-pressed": store.pick === "fit" ? "true" : "false" }),
    record.kind === "experiment" ? button("Pick a part to validate on", pick("validation"), { "aria-pressed": store.pick === "validation" ? "true" : "false" }) : null,
    record.window ? button("Use all of it", () => edit([{ path: [...at, "window"], value: null }]), { class: "quiet" }) : null);
}

function initial(at, table, states) {
  return h("details", { class: "fold" }, h("summary", {}, "Known initial state"),
    h("p", { class: "hint" }, "What is left empty is estimated."),
    h("div", { class: "grid" }, states.map((state) => {
      const control = h("input", { type: "number", step: "any", placeholder: "estimated", value: table.initial?.[state] ?? "" });
      control.addEventListener("change", () => edit([{ path: [...at, "initial", state], value: control.value === "" ? null : Number(control.value) }]));
      return field(`${state}(0)`, control);
    })));
}

function adding() {
  const data = store.files.filter((name) => !isProblem(name));
  if (!data.length) return null;
  return field("Add a record", select([["", "choose a file …"], ...data.map((name) => [name, name])], "", (name) => name && added(name)),
    "From this folder; it is read where it lies.");
}

async function added(name) {
  const guess = await post("/api/preview", { file: name });
  if (!guess) return;
  const like = content().experiment?.[0];
  const known = new Map();
  if (like) for (const [role, signals] of [["input", like.inputs], ["output", like.outputs]])
    for (const [signal, it] of entries(signals)) known.set(columnOf(it, signal), { role, signal, it });
  roles(name, guess, known, like, (table) => edit([{ path: [like ? "validation" : "experiment", "+"], value: table }]));
}

const entries = (signals) => (Array.isArray(signals) ? signals.map((name) => [name, name]) : Object.entries(signals ?? {}));
const columnOf = (it, signal) => (typeof it === "object" && it !== null ? it.column ?? signal : it);

async function columnsDialog(record, at, table) {
  const guess = await post("/api/preview", { file: inFolder(record.file) });
  if (!guess) return;
  const known = new Map();
  for (const [role, signals] of [["input", table.inputs], ["output", table.outputs]])
    for (const [signal, it] of entries(signals)) known.set(columnOf(it, signal), { role, signal, it });
  roles(record.file, guess, known, table, (made) => edit(differences(at, table, made)));
}

// The problem file may lie in a folder of its own below the one that is open.
function inFolder(file) {
  return store.files.find((name) => name === file) ?? store.files.find((name) => name.endsWith(`/${file}`)) ?? file;
}

// Only what changed, so that comments beside the rest stay.
function differences(at, before, after) {
  const edits = [];
  for (const key of ["time", "inputs", "outputs", "units"]) {
    const [old, made] = [before[key], after[key]];
    if (JSON.stringify(old) === JSON.stringify(made)) continue;
    if (key === "outputs" && old && made && !Array.isArray(old) && JSON.stringify(Object.keys(old)) === JSON.stringify(Object.keys(made))) {
      for (const [name, it] of Object.entries(made)) if (JSON.stringify(old[name]) !== JSON.stringify(it)) {
        const fine = typeof old[name] === "object" && old[name].column === it.column;
        edits.push(fine ? { path: [...at, key, name, "gaussian"], value: it.gaussian ?? null } : { path: [...at, key, name], value: it });
      }
    } else edits.push({ path: [...at, key], value: made ?? null });
  }
  return edits;
}

function roles(file, guess, known, like, done) {
  const lines = guess.columns.map((column, k) => {
    const id = guess.headed ? column.name : k;
    const was = known.get(id);
    const plain = column.name.replace(/[^A-Za-z0-9_]+/g, "_").replace(/^[^A-Za-z]+/, "") || `y${k}`;
    const isTime = like?.time !== undefined ? like.time === id : column.role === "time";
    const noise = was?.it?.gaussian;
    return { id, column, role: select(ROLES, isTime ? "time" : was?.role ?? (known.size ? "ignore" : column.role), () => {}, { "aria-label": `Role of ${column.name}` }),
      name: h("input", { type: "text", value: was?.signal ?? plain, size: 10, "aria-label": `Name of ${column.name}` }),
      unit: h("input", { type: "text", value: like?.units?.[was?.signal ?? plain] ?? "", placeholder: column.unit || "–", size: 6, "aria-label": `Unit of ${column.name}` }),
      noise: h("input", { type: "number", step: "any", min: 0, value: typeof noise === "number" ? noise : "", placeholder: "estimated", "aria-label": `Standard deviation of the noise of ${column.name}` }), was };
  });
  const head = (title, part) => h("tr", {}, h("th", { scope: "row" }, title), lines.map((line) => h("td", {}, part(line))));
  dialog(`Columns of ${file}`, [
    guess.notes.map((note) => h("p", { class: "hint" }, note)),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "First rows of the file" }, h("table", { class: "preview" },
      h("thead", {}, h("tr", {}, h("th", {}, "column"), lines.map((line) => h("th", { scope: "col" }, line.column.name, line.column.unit ? ` [${line.column.unit}]` : "")))),
      h("tbody", {}, head("role", (line) => line.role), head("name", (line) => line.name), head("unit", (line) => line.unit), head("noise std", (line) => line.noise),
        guess.rows.map((row, k) => h("tr", { class: "sample" }, h("th", { scope: "row" }, String(k + 1)), lines.map((_, j) => h("td", {}, row[j] ?? "")))))))],
  (close) => button("Use these columns", () => {
    const made = { file: file.split("/").pop(), ...(like?.name && !store.files.length ? { name: like.name } : {}), inputs: {}, outputs: {}, units: {} };
    for (const line of lines) {
      const name = line.name.value.trim();
      if (line.role.value === "time") made.time = line.id;
      if (line.role.value === "input") made.inputs[name] = line.was?.it && typeof line.was.it === "object" ? line.was.it : line.id;
      if (line.role.value === "output") made.outputs[name] = { column: line.id, ...(line.noise.value ? { gaussian: Number(line.noise.value) } : {}) };
      if (line.unit.value.trim() && line.role.value !== "ignore") made.units[line.role.value === "time" ? "time" : name] = line.unit.value.trim();
    }
    if (!Object.keys(made.outputs).length) { toast("Name at least one output.", "bad"); return; }
    if (Array.isArray(like?.inputs) && Object.entries(made.inputs).every(([name, column]) => name === column)) made.inputs = Object.keys(made.inputs);
    for (const key of ["inputs", "units"]) if (!Object.keys(made[key]).length) delete made[key];
    close();
    done(made);
  }, { class: "primary" }));
}
