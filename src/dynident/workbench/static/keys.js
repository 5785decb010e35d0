// Keys: everything that the mouse does has a key; inside a field only those with Ctrl.
import { dialog, h } from "./elements.js";
import { changed, go, records, STEPS, store, undo } from "./store.js";

export const KEYS = [["1 … 6", "go to a step"], ["Ctrl + S", "save the problem file"], ["Ctrl + Enter", "fit"], ["Ctrl + .", "stop, and keep the best point"],
  ["Ctrl + Z, Ctrl + Y", "undo, redo"], ["← →", "on a slider: 1 % (with Shift 10 %)"], ["[ ]", "previous, next record"], ["Home", "show the whole record"],
  ["?", "this list"]];

export function help() {
  dialog("Keyboard", h("table", { class: "plain" }, h("tbody", {}, KEYS.map(([key, says]) => h("tr", {}, h("th", { scope: "row" }, h("kbd", {}, key)), h("td", {}, says))))),
    () => []);
}

export function start(actions) {
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input:not([type=range]), textarea, select, dialog");
    const control = event.ctrlKey || event.metaKey;
    const run = (doing) => { event.preventDefault(); doing(); };
    if (control && event.key === "s") run(() => actions.save());
    else if (control && event.key === "Enter") run(() => actions.fit());
    else if (control && event.key === ".") run(() => actions.stop());
    else if (control && !typing && event.key === "z") run(() => undo(true));
    else if (control && !typing && event.key === "y") run(() => undo(false));
    else if (typing || control || event.altKey) return;
    else if (/^[1-6]$/.test(event.key)) run(() => go(STEPS[Number(event.key) - 1]));
    else if (event.key === "?") run(help);
    else if ((event.key === "[" || event.key === "]") && records().length) run(() => {
      store.record = (store.record + (event.key === "]" ? 1 : records().length - 1)) % records().length;
      store.range = null;
      changed("record");
    });
    else if (event.key === "Home" && event.target.type !== "range") run(() => { store.range = null; changed("range"); });
  });
}
