// Charts are drawn without this script. It reads values where the pointer is, shows a stretch of the horizontal axis alone,
// copies the command, and opens folded charts before printing. Text from the data is only ever set as text.
(() => {
  "use strict";
  const UNITS = 30000, SVG = "http://www.w3.org/2000/svg", ROOM = 0.06, NEAR = 18;
  const numbers = (text) => text.split(" ").map(Number);

  // Corners of a path of the kinds that the page holds (M m l h v H V z), in units of the square.
  const corners = (d) => {
    const found = [];
    let x = 0, y = 0, kind = "", held = [];
    for (const token of d.match(/[A-Za-z]|-?\d+/g) ?? []) {
      if (/[A-Za-z]/.test(token)) { kind = token; held = []; continue; }
      held.push(Number(token));
      if (kind === "h") x += held[0];
      else if (kind === "v") y += held[0];
      else if (kind === "H") x = held[0];
      else if (kind === "V") y = held[0];
      else if (held.length < 2) continue;
      else if (kind === "M") [x, y] = held;
      else { x += held[0]; y += held[1]; }
      if (!(kind === "h" && held[0] === 0)) found.push([x, y]);
      held = [];
    }
    return found;
  };

  const read = (path) => {
    const all = corners(path.getAttribute("d"));
    if (!path.classList.contains("bars")) return all;
    const tops = [];
    for (let k = 0; k + 3 < all.length; k += 4) tops.push([(all[k + 1][0] + all[k + 2][0]) / 2, all[k + 1][1]]);
    return tops;
  };

  const written = (value) => {
    const size = Math.abs(value);
    return size === 0 ? "0" : size >= 1e5 || size < 1e-3 ? value.toExponential(3) : String(Number(value.toPrecision(4)));
  };

  const ticks = (low, high, most) => {
    const raw = (high - low) / most, power = 10 ** Math.floor(Math.log10(raw));
    let step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw * (1 - 1e-9));
    while (Math.floor(high / step) - Math.ceil(low / step) < 1) step /= 2; // a scale needs two numbers
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k <= high / step + 1e-9; k += 1) {
      found.push([k * step, (k * step).toFixed(Math.max(0, Math.min(12, -Math.floor(Math.log10(step) + 1e-9)))).replace("-", "−")]);
    }
    return found;
  };

  const made = (name, attributes, text) => {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    return element;
  };

  class Panel {
    constructor(element) {
      this.plot = element.querySelector(".plot");
      this.square = element.querySelector(".curves");
      this.grid = element.querySelector(".grid path");
      this.axis = element.querySelector(".yaxis");
      this.out = element.querySelector(".readout");
      this.y = numbers(this.plot.dataset.y);
      this.scale = this.plot.dataset.scale;
      this.view = [0, 0, UNITS, UNITS];
      this.paths = [...this.square.querySelectorAll("path")];
    }
    get curves() { // read when first asked for: a page may hold a hundred thousand points
      this.found ??= this.paths.filter((p) => p.dataset.name !== undefined).map((path) => ({
        name: path.dataset.name, labels: path.dataset.labels?.split("\n"), points: read(path) }));
      return this.found;
    }
    value(units) {
      const at = this.y[1] - (units / UNITS) * (this.y[1] - this.y[0]);
      return this.scale === "log" ? 10 ** at : at;
    }
    show(from, to) {
      let top = 0, height = UNITS;
      if (this.scale === "linear" && to - from < UNITS) {
        const inside = this.curves.flatMap((c) => c.points.filter((p) => p[0] >= from && p[0] <= to).map((p) => p[1]));
        if (inside.length > 1) {
          const low = inside.reduce((a, b) => Math.min(a, b)), high = inside.reduce((a, b) => Math.max(a, b));
          const room = ROOM * (high - low) || 60;
          top = low - room; height = high - low + 2 * room;
        }
      }
      this.view = [from, top, to - from, height];
      this.square.setAttribute("viewBox", this.view.join(" "));
    }
    lines(across) {
      const kept = this.grid.getAttribute("d").match(/M0 [\d.]+H100/g) ?? []; // other scales keep their own
      let lines = kept.join("");
      if (this.scale === "linear") {
        const [, top, , height] = this.view;
        const high = this.value(top), low = this.value(top + height);
        this.axis.replaceChildren();
        lines = "";
        for (const [at, text] of ticks(low, high, Math.max(3, Math.floor(this.plot.clientHeight / 38)))) {
          const place = (100 * (high - at)) / (high - low);
          this.axis.append(made("text", { x: "100%", y: `${place}%`, dx: -6, dy: "0.32em" }, text));
          lines += `M0 ${place.toFixed(2)}H100`;
        }
      }
      this.grid.setAttribute("d", lines + across.map(([place]) => `M${place.toFixed(2)} 0V100`).join(""));
    }
    tell(share, x, y) { // what the curves say at this share of the width
      const at = this.view[0] + share * this.view[2], wide = this.view[2] / this.plot.clientWidth;
      const said = [];
      for (const { name, labels, points } of this.curves) {
        let best = -1, away = Infinity;
        points.forEach((point, k) => {
          const across = (point[0] - at) / wide;
          const distance = labels ? Math.hypot(across, (point[1] - this.view[1]) / this.view[3] * this.plot.clientHeight - y) : Math.abs(across);
          if (distance < away) { away = distance; best = k; }
        });
        if (best < 0 || away > (labels ? NEAR : 0.03 * this.plot.clientWidth + NEAR)) continue;
        const value = written(this.value(points[best][1]));
        said.push(labels ? `${labels[best]} ${value}` : `${name} ${value}`);
      }
      this.out.textContent = said.join("   ");
    }
  }

  class Chart {
    constructor(figure) {
      this.figure = figure;
      this.frame = figure.querySelector(".panels");
      this.x = numbers(this.frame.dataset.x);
      this.offset = Number(this.frame.dataset.offset ?? 0);
      this.axis = figure.querySelector(".xaxis");
      this.first = [...this.axis.childNodes];
      this.whole = figure.querySelector(".whole");
      this.panels = [...figure.querySelectorAll(".panel")].map((element) => new Panel(element));
      this.kept = this.panels.map((p) => [[...p.axis.childNodes], p.grid.getAttribute("d")]);
      this.pointer = this.panels.map((p) => p.plot.appendChild(made("line", { class: "pointer", y1: 0, y2: "100%", x1: -9, x2: -9 })));
      this.chosen = this.panels.map((p) => p.plot.appendChild(made("rect", { class: "chosen", y: 0, height: "100%", x: 0, width: 0 })));
      for (const panel of this.panels) {
        panel.plot.addEventListener("pointermove", (event) => this.move(event, panel));
        panel.plot.addEventListener("pointerleave", () => this.leave());
        if (this.whole) {
          panel.plot.addEventListener("pointerdown", (event) => this.press(event, panel));
          panel.plot.addEventListener("pointerup", (event) => this.release(event, panel));
          panel.plot.addEventListener("dblclick", () => this.reset());
        }
      }
      this.whole?.addEventListener("click", () => this.reset());
    }
    share(event, panel) {
      const box = panel.plot.getBoundingClientRect();
      return [Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)), event.clientY - box.top];
    }
    across(share) {
      const [from, , wide] = this.panels[0].view;
      return this.x[0] - this.offset + ((from + share * wide) / UNITS) * (this.x[1] - this.x[0]);
    }
    move(event, panel) {
      const [share, y] = this.share(event, panel), place = `${100 * share}%`;
      this.pointer.forEach((line) => { line.setAttribute("x1", place); line.setAttribute("x2", place); });
      this.panels.forEach((each) => each.tell(share, 0, each === panel ? y : -1e9));
      if (!this.frame.dataset.dated) {
        const out = this.panels[0].out;
        out.textContent = `${this.frame.dataset.across} ${written(this.across(share))}   ${out.textContent}`;
      }
      if (this.from !== undefined) {
        this.chosen.forEach((rect) => {
          rect.setAttribute("x", `${100 * Math.min(share, this.from)}%`);
          rect.setAttribute("width", `${100 * Math.abs(share - this.from)}%`);
        });
      }
    }
    leave() {
      this.pointer.forEach((line) => { line.setAttribute("x1", -9); line.setAttribute("x2", -9); });
      this.panels.forEach((panel) => { panel.out.textContent = ""; });
    }
    press(event, panel) {
      if (event.button !== 0 || event.pointerType === "touch") return; // a finger scrolls the page
      [this.from] = this.share(event, panel);
      panel.plot.setPointerCapture(event.pointerId);
      event.preventDefault();
    }
    release(event, panel) {
      if (this.from === undefined) return;
      const [share] = this.share(event, panel), from = Math.min(share, this.from), to = Math.max(share, this.from);
      this.from = undefined;
      this.chosen.forEach((rect) => rect.setAttribute("width", 0));
      const [begin, , wide] = this.panels[0].view;
      if ((to - from) * panel.plot.clientWidth > 6) this.zoom(begin + from * wide, begin + to * wide);
    }
    zoom(from, to) {
      if (to - from < 4) return;
      this.panels.forEach((panel) => panel.show(from, to));
      const low = this.across(0), high = this.across(1);
      const marks = ticks(low, high, 6).map(([at, text]) => [(100 * (at - low)) / (high - low), text]);
      this.axis.replaceChildren(...marks.map(([place, text], k) => made("text", { x: `${place}%`, y: 15, class: k % 2 ? "even" : "" }, text)));
      this.panels.forEach((panel) => panel.lines(marks));
      this.whole.hidden = false;
    }
    reset() {
      this.axis.replaceChildren(...this.first);
      this.panels.forEach((panel, k) => {
        panel.show(0, UNITS);
        panel.axis.replaceChildren(...this.kept[k][0]);
        panel.grid.setAttribute("d", this.kept[k][1]);
      });
      if (this.whole) this.whole.hidden = true;
    }
  }

  for (const figure of document.querySelectorAll("figure.chart")) {
    figure.addEventListener("pointerenter", () => { figure.chart ??= new Chart(figure); }, { once: true });
  }

  for (const button of document.querySelectorAll("button.copy")) {
    button.addEventListener("click", async () => {
      const code = button.parentElement.querySelector("code");
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(code); // to be copied by hand where the browser does not allow it
        button.textContent = "Selected";
      }
    });
  }

  const opened = [];
  addEventListener("beforeprint", () => {
    for (const fold of document.querySelectorAll("details:not([open]):has(figure)")) { fold.open = true; opened.push(fold); }
  });
  addEventListener("afterprint", () => { for (const fold of opened.splice(0)) fold.open = false; });
})();
