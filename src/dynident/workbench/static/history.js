// History: the start, points kept by hand, fits; a click shows one again, and nothing is lost.
import { button, copied, fill, h, number } from "./elements.js";
import { changed, store } from "./store.js";
import { load } from "./trust.js";

export function choose(id) {
  store.shown = id;
  if (id) load(id);
  changed("shown", "step");
}

export function render() {
  const place = document.getElementById("history");
  if (!store.state?.file) { fill(place); return; }
  const compare = (one) => button(store.kept?.label === one.label ? "◉" : "○", () => { store.kept = store.kept?.label === one.label ? null : one; changed("kept"); },
    { class: "bare pin", "aria-pressed": store.kept?.label === one.label ? "true" : "false", "aria-label": `Dashed curve of ${one.label}`, title: "draw it dashed, to compare" });
  fill(place, h("h2", { id: "history-title" }, "History"), h("ul", { class: "chips", "aria-labelledby": "history-title" },
    h("li", { class: "pair" }, button("start values", () => choose(null), { class: "chip", "aria-pressed": store.shown ? "false" : "true" }), store.shown ? compare({ label: "start", values: { ...store.values } }) : null),
    store.state.kept.map((one) => h("li", { class: "pair" }, h("span", { class: "chip still" }, one.label), compare(one))),
    store.state.results.map((one) => h("li", { class: "pair" }, button([one.label, one.grade ? h("span", { class: "small-grade" }, one.grade) : null, one.interrupted ? " stopped" : one.converged ? "" : " not converged"],
      () => choose(one.id), { class: "chip", "aria-pressed": store.shown === one.id ? "true" : "false", title: `cost ${number(one.cost, 5)}` }), compare(one)))));
}

export function elsewhere() {
  const place = document.getElementById("elsewhere");
  const found = store.state?.commands;
  if (!found?.shell) { fill(place); return; }
  const part = (title, text) => h("div", {}, h("div", { class: "copy-head" }, h("h3", {}, title), button("Copy", () => copied(text, title), { class: "quiet small", "aria-label": `Copy ${title.toLowerCase()}` })), h("pre", { tabindex: 0, "aria-label": title }, text));
  const opened = place.querySelector("details")?.open ?? false;
  fill(place, h("details", { class: "fold", open: opened }, h("summary", {}, "The same on the command line and in Python"), found.save_first ? h("p", { class: "hint" }, "Save first: the file on disk is not what the page shows.") : null,
    h("div", { class: "two" }, part("The same on the command line", found.shell), part("The same in Python", found.python))));
}
