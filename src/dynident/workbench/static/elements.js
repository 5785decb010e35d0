// Elements: the page is built node by node; texts from files never become markup.
const MATH = "http://www.w3.org/1998/Math/MathML";
const MATH_NAMES = new Set(["math", "mrow", "mi", "mn", "mo", "mfrac", "msup", "msub", "msqrt", "mover"]);

export function h(name, props = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "class") node.className = value;
    else if (key === "value" || key === "checked" || key === "disabled" || key === "hidden" || key === "open" || key === "selected")
      node[key] = value;
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  node.append(...children.flat(4).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export function math(tree) {
  if (!Array.isArray(tree)) return document.createTextNode(String(tree));
  const [name, ...children] = tree;
  const node = document.createElementNS(MATH, MATH_NAMES.has(name) ? name : "mrow");
  if (name === "math") node.setAttribute("displaystyle", "true");
  node.append(...children.map(math));
  return node;
}

export function fill(node, ...children) {
  node.replaceChildren(...children.flat(4).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export const button = (label, onclick, props = {}) => h("button", { type: "button", onclick, ...props }, label);

let serial = 0;
export function field(label, control, hint = "") {
  control.id ||= `field-${++serial}`;
  const note = hint ? h("span", { class: "hint", id: `${control.id}-hint` }, hint) : null;
  if (note) control.setAttribute("aria-describedby", note.id);
  return h("div", { class: "field" }, h("label", { for: control.id }, label), control, note);
}

export function select(options, chosen, onchange, props = {}) {
  return h("select", { ...props, onchange: (event) => onchange(event.target.value) },
    options.map(([value, text]) => h("option", { value, selected: value === chosen }, text)));
}

export function number(value, digits = 6) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "string") return value === "inf" ? "∞" : value === "-inf" ? "−∞" : value;
  if (!Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  const text = size >= 1e6 || size < 1e-3 ? value.toExponential(Math.max(0, digits - 1)).replace(/\.?0+e/, "e").replace("e+", "e")
    : String(Number(value.toPrecision(digits)));
  return text.replace(/^-/, "−");
}

export const percent = (value) => (value === null || value === undefined ? "–"
  : `${(value >= 99 ? value.toFixed(2) : value.toFixed(1)).replace(/^-/, "−")} %`);

export function say(text) {
  document.getElementById("spoken").textContent = text;
}

export function toast(text, kind = "") {
  const note = h("div", { class: `toast ${kind}` }, text, button("×", () => note.remove(), { "aria-label": "Dismiss", class: "bare" }));
  document.getElementById("toasts").append(note);
  setTimeout(() => note.remove(), kind === "bad" ? 12000 : 5000);
}

export async function copied(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    toast(`${what} copied.`);
  } catch {
    toast("The browser does not allow copying here; select the text.", "bad");
  }
}

export function dialog(title, content, actions) {
  const box = h("dialog", { "aria-labelledby": "dialog-title" });
  const close = () => { box.close(); box.remove(); };
  box.append(h("form", { method: "dialog", class: "sheet", onsubmit: (event) => event.preventDefault() },
    h("h2", { id: "dialog-title" }, title), h("div", { class: "sheet-body" }, content),
    h("div", { class: "actions" }, actions(close), button("Close", close))));
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  box.showModal();
  return close;
}
