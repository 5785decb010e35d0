// App: connects, keeps the page and the server together, and puts the parts in their places.
import { connect, events, Refusal } from "./api.js";
import { button, fill, h, percent, say, toast } from "./elements.js";
import * as design from "./design.js";
import * as fitting from "./fit.js";
import * as history from "./history.js";
import * as keys from "./keys.js";
import * as model from "./model.js";
import * as plots from "./plots.js";
import * as recordStep from "./records.js";
import * as sliders from "./sliders.js";
import * as trust from "./trust.js";
import { changed, current, described, go, post, quantities, refresh, STEPS, store, TITLES, undo, watch } from "./store.js";

const forms = { records: recordStep, model, parameters: sliders, fit: fitting, trust, design };
const at = (id) => document.getElementById(id);

function bar() {
  const state = store.state;
  document.body.dataset.step = store.step;
  fill(at("file"), state?.file ? [state.file, state.dirty ? h("span", { class: "dirty" }, " • not saved") : null] : "workbench");
  document.title = `${state?.dirty ? "• " : ""}${state?.file ?? "workbench"} – dynident`;
  fill(at("steps"), STEPS.map((step, k) => h("li", {}, button([h("span", { class: "count" }, String(k + 1)), TITLES[step]], () => go(step), { "aria-current": store.step === step ? "step" : undefined, disabled: !state?.file && k > 0 }))));
  fill(at("tools"), button("↶", () => undo(true), { "aria-label": "Undo", title: "Undo (Ctrl+Z)", disabled: !state?.undo, class: "bare" }), button("↷", () => undo(false), { "aria-label": "Redo", title: "Redo (Ctrl+Y)", disabled: !state?.redo, class: "bare" }),
    button("Save", save, { class: "primary", disabled: !state?.file || !state.dirty, title: "Ctrl+S" }), button("Tab", tab, { class: "bare", "aria-label": "A link for another tab", title: "A link for another tab" }), button("?", keys.help, { class: "bare", "aria-label": "Keyboard" }));
}

async function tab() {
  const found = await post("/api/link");
  if (found) window.open(found.link, "_blank", "noopener");
}

export async function save() {
  if (!store.state?.file) return;
  const found = await post("/api/save", {}, (error) => { if (!error.facts.stale) return false; changed("banner"); return true; });
  if (found) toast(`${found.file} is saved.`);
}

function banner() {
  const place = at("banner"), state = store.state;
  const code = state?.code;
  const parts = store.gone === "server" ? [h("p", {}, "This page is not connected: the server does not answer. What was saved is on disk; what was not is in this page as long as it stays open. It connects again by itself when `dynident open` runs on the same port.")]
    : store.gone === "key" ? [h("p", {}, "This page belongs to a run of `dynident open` that has ended. Open the link that the terminal shows.")]
      : state?.stale ? [h("p", {}, `${state.file} was changed on disk by another program.`), button("Load it again", () => post("/api/reload")), button("Save mine over it", () => post("/api/save", { force: true }))]
        : code ? [h("p", {}, `This problem wants to run native code of the FMU ${code.file} (${code.bytes.toLocaleString("en")} bytes, SHA-256 ${code.sha256.slice(0, 16)}…) on this machine, with all the rights that you have.`), button("I trust whoever made it: run it", () => post("/api/consent", { sha256: code.sha256 }))]
          : null;
  place.hidden = !parts;
  if (parts) fill(place, parts);
}

let signature = "";
function form() {
  const place = at("form"), step = forms[store.step];
  const mark = JSON.stringify([store.step, store.shown, Boolean(store.job), quantities().map(({ start, ...rest }) => rest), described().faults]);
  if (store.step === "parameters" && mark === signature && place.querySelector(".sliders")) { sliders.follow(); return; }
  signature = mark;
  const tags = "button, input, select, textarea, summary";
  const inside = [...place.querySelectorAll(tags)];
  const index = inside.indexOf(document.activeElement);
  const opened = [...place.querySelectorAll("details")].map((one) => [one.querySelector("summary").textContent, one.open]);
  const scrolled = place.scrollTop;
  step.render(place);
  for (const one of place.querySelectorAll("details")) { const before = opened.find(([title]) => title === one.querySelector("summary").textContent); if (before) one.open = before[1]; }
  faults(place);
  place.scrollTop = scrolled;
  const again = [...place.querySelectorAll(tags)][index];
  if (index >= 0 && again && again.tagName === inside[index].tagName) again.focus({ preventScroll: true });
}

function faults(place) {
  const all = described().faults ?? [];
  if (!all.length || !store.state?.file || store.state.code) return;
  place.append(h("section", { class: "problems", role: "alert" }, h("h3", {}, all.length === 1 ? "One thing is missing or wrong" : `${all.length} things are missing or wrong`),
    h("ul", {}, all.slice(0, 12).map((one) => h("li", {}, h("pre", {}, one))))));
}

function strip() {
  const place = at("verdict"), shown = current(), found = shown ? store.details[shown.id] : null;
  const running = store.job?.kind === "fit";
  place.className = "strip";
  if (!store.state?.file) { fill(place); place.hidden = true; return; }
  place.hidden = false;
  if (running) { place.classList.add("running"); fill(place, h("span", { class: "icon", "aria-hidden": "true" }, "◌"), h("p", {}, h("strong", {}, "Fitting … "), "The curve and the sliders follow the search."), button("Stop, keep the best", fitting.stop, { class: "danger" })); return; }
  if (found) {
    place.classList.add(found.verdict.colour);
    const fresh = shown.fresh;
    if (!fresh) place.classList.add("earlier");
    fill(place, trust.grade(found.verdict), h("div", {}, h("p", {}, fresh ? null : h("em", {}, "For an earlier state of the problem. "), found.interrupted || shown.interrupted ? h("em", {}, "Stopped: the best point so far. ") : null, found.verdict.says),
      found.validations.map((one) => one.verdict ? h("p", { class: "second" }, `Validation, ${one.record}: [${one.verdict.grade}] ${one.verdict.says}`) : null),
      found.converged ? null : h("p", { class: "second" }, found.ended)), store.step === "trust" ? null : button("Why?", () => go("trust"), { "aria-label": "Why? Go to Trust" }));
    return;
  }
  const curve = store.curve;
  const fits = curve?.fit && !curve.old ? Object.entries(curve.fit).map(([name, value]) => `${name} ${percent(value)}`).join(", ") : "";
  fill(place, h("span", { class: "icon", "aria-hidden": "true" }, "○"), h("p", {}, h("strong", {}, shown ? `${shown.label}. ` : "Not fitted. "), fits ? `Fit at the ${shown ? "fitted" : "start"} values: ${fits}.` : described().quantities ? "" : "The problem is not complete yet; the steps above lead through it."),
    described().quantities && store.step !== "fit" ? button("Fit", fitting.fit, { class: "primary", title: "Ctrl+Enter" }) : null);
}

function ended({ state, job, answer }) {
  store.job = state === "running" ? job : null;
  if (state === "running") { changed("state"); return; }
  const progressed = store.progress;
  store.progress = null;
  if (state === "failed") { store.fitAfter = false; toast(answer.faults.join(" "), "bad"); }
  if (state === "stopped" && !answer.details) toast(answer.stopped ?? "Stopped.");
  if (answer.details) { store.details[job.result] = answer.details; }
  if (answer.check) { store.check = answer.check; store.checkedAt = job.revision; }
  if (answer.profile) trust.profiled(job.result, answer.profile);
  if (answer.plan) store.plan = answer.plan;
  if (answer.comparison) store.comparison = answer.comparison;
  const follow = answer.check?.ok && store.fitAfter;
  if (answer.check && !answer.check.ok) store.fitAfter = false;
  attemptRefresh().then(() => {
    if (answer.details && job.kind === "fit") { store.shown = job.result; say(`${state === "stopped" ? "Stopped. " : ""}${answer.details.verdict.says}`); }
    if (progressed) changed("progress");
    changed("shown", "step", "details", "values");
    if (follow) fitting.reallyFit();
  });
}

const attemptRefresh = () => refresh().catch((error) => { if (!(error instanceof Refusal)) throw error; });

let due = null;
function heard(event) {
  if (event.event === "progress") fitting.told(event.says);
  else if (event.event === "job") ended(event);
  else if (event.event === "worker") toast(event.says, "bad");
  else if (!due) due = setTimeout(() => { due = null; if (event.revision !== store.state?.revision || event.event !== "changed") attemptRefresh(); }, 60);
}

async function begin() {
  watch(["state", "step", "files", "details", "shown", "trace", "kept", "job"], form);
  watch(["values"], () => { if (store.step === "parameters") sliders.follow(); });
  watch(["progress"], () => { if (store.step === "parameters") sliders.follow(); });
  watch(["state", "step", "curve", "details", "shown", "progress"], strip);
  watch(["state", "step"], bar);
  watch(["state", "banner", "gone"], banner);
  watch(["state", "curve", "record", "view", "range", "pick", "kept", "shown"], plots.toolbar);
  watch(["state", "shown", "kept"], history.render);
  watch(["state"], history.elsewhere);
  keys.start({ save, fit: fitting.fit, stop: fitting.stop });
  bar();
  plots.start();
  try {
    await connect();
    await recordStep.files();
    await refresh();
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    fill(at("stack"), h("div", { class: "welcome" }, h("h2", {}, "Not connected"), h("p", {}, error.message)));
    at("banner").hidden = false;
    fill(at("banner"), h("p", {}, error.message));
    return;
  }
  const last = store.state.results.at(-1);
  if (last?.fresh) { store.shown = last.id; trust.load(last.id); changed("shown"); }
  if (store.state.file && described().quantities) go("parameters");
  else if (store.state.file && !described().content?.model) go("records");
  events(store.state.events, heard, (gone) => { if (store.gone === gone) return; const back = store.gone && !gone; store.gone = gone; changed("gone"); if (back) attemptRefresh(); });
}

begin();
