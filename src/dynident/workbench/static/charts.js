// Charts: small ones beside the forms: the cost of a search, correlations, profiles, a planned input.
import { h, number } from "./elements.js";
import { colour } from "./plots.js";

const font = "11px system-ui, sans-serif";
const axis = () => ({ stroke: () => colour("quiet"), grid: { stroke: () => colour("line"), width: 1 }, ticks: { show: false }, font,
  values: (u, marks) => marks.map((mark) => (mark === null ? "" : number(mark, 3))) });

// Lines over a common axis; `series` are {label, values, colour, dash, width}.
export function lineChart(name, x, series, options = {}) {
  const box = h("div", { class: "chart", role: "img", "aria-label": name });
  requestAnimationFrame(() => {
    if (!box.isConnected) return;
    box.chart = new uPlot({
      width: Math.max(180, box.clientWidth), height: options.height ?? 150, legend: { show: false }, cursor: { show: false }, padding: [8, 8, 0, 0],
      scales: { x: { time: false }, y: options.log ? { distr: 3 } : {} },
      axes: [{ ...axis(), size: 30, label: options.across, labelSize: 14, labelFont: font }, { ...axis(), size: 56 }],
      series: [{}, ...series.map((one) => ({ stroke: () => colour(one.colour), width: one.width ?? 1.6, dash: one.dash, points: { show: Boolean(one.points), size: 5 } }))],
    }, [Array.from(x), ...series.map((one) => Array.from(one.values))], box);
  });
  box.update = (newX, values) => box.chart?.setData([newX, ...values]);
  return box;
}

// Bars at lags with the band that noise keeps.
export function barChart(name, values, band, first = 0) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  const make = (tag, props) => { const node = document.createElementNS(space, tag); Object.entries(props).forEach(([k, v]) => node.setAttribute(k, v)); svg.append(node); return node; };
  svg.setAttribute("viewBox", "0 0 320 90");
  svg.setAttribute("class", "bars");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", name);
  svg.setAttribute("preserveAspectRatio", "none");
  const top = Math.max(0.2, Math.abs(band) * 1.6, ...values.slice(first).map((value) => Math.abs(value ?? 0)));
  const y = (value) => 45 - 40 * Math.max(-1, Math.min(1, value / top));
  make("rect", { x: 0, width: 320, y: y(band), height: Math.max(0, y(-band) - y(band)), class: "band" });
  make("line", { x1: 0, x2: 320, y1: 45, y2: 45, class: "zero" });
  const step = 320 / (values.length - first);
  values.slice(first).forEach((value, k) => {
    const high = Math.min(y(value ?? 0), 45), low = Math.max(y(value ?? 0), 45);
    make("rect", { x: (k + 0.2) * step, width: 0.6 * step, y: high, height: Math.max(0.6, low - high), class: Math.abs(value ?? 0) > band ? "out" : "in" });
  });
  return svg;
}
