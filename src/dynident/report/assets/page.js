// Draws the charts from the data beside them, in the colours that the page has at this moment.
(() => {
  "use strict";
  const root = document.documentElement;
  const charts = [...document.querySelectorAll("figure.chart")];
  const PAPER_WIDTH = 670; // pixels between the margins of a printed page

  const coloured = (value, style) => {
    if (typeof value === "string") {
      return value.startsWith("var(--") ? style.getPropertyValue(value.slice(4, -1)).trim() : value;
    }
    if (Array.isArray(value)) {
      return value.some((inner) => inner && typeof inner !== "number") ? value.map((inner) => coloured(inner, style)) : value;
    }
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, coloured(inner, style)]));
    }
    return value;
  };

  const common = {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", hovermode: "closest", dragmode: "zoom",
    margin: { t: 52, r: 12, b: 44, l: 58 }, font: { size: 12, color: "var(--quiet)", family: getComputedStyle(document.body).fontFamily },
    legend: { orientation: "h", x: 1, xanchor: "right", y: 1, yanchor: "bottom", bgcolor: "rgba(0,0,0,0)" },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: "var(--quiet)", activecolor: "var(--fitted)" },
    hoverlabel: { bgcolor: "var(--panel)", bordercolor: "var(--line)", font: { color: "var(--ink)" } },
  };
  // The buttons are listed, as the library's own choice holds one that sends the chart to a server.
  const config = {
    responsive: true, displaylogo: false, plotlyServerURL: "",
    modeBarButtons: [["zoom2d", "pan2d", "resetScale2d", "toImage"]],
  };

  const draw = (chart, width) => {
    chart.figure ??= JSON.parse(chart.querySelector("script").textContent);
    const style = getComputedStyle(root);
    const layout = coloured({ ...common, ...chart.figure.layout, ...(width ? { width } : {}) }, style);
    chart.drawn = true;
    return Plotly.react(chart, coloured(chart.figure.data, style), layout, config);
  };

  const near = new IntersectionObserver((entries) => entries.forEach((entry) => {
    if (entry.isIntersecting) { near.unobserve(entry.target); draw(entry.target); }
  }), { rootMargin: "1200px" });
  charts.forEach((chart) => near.observe(chart));

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.filter((c) => c.drawn).forEach((c) => draw(c)));
  addEventListener("beforeprint", () => {
    root.dataset.paper = "";
    charts.forEach((chart) => draw(chart, Math.min(PAPER_WIDTH, chart.clientWidth || PAPER_WIDTH)));
  });
  addEventListener("afterprint", () => { delete root.dataset.paper; charts.forEach((chart) => draw(chart)); });
})();
