// What all charts share: the server gives traces and axes, colours and type come from the style
// sheet, so that a chart follows the theme. Plotly itself is loaded by the pages that draw.

import { all } from "./dom.js";

export const CONFIG = { displayModeBar: false, showAxisDragHandles: false, responsive: true, scrollZoom: false, doubleClick: "reset" };

const probe = document.createElement("span");
probe.hidden = true;
probe.style.forcedColorAdjust = "none";
document.body.append(probe);

/** On paper charts have the colours of the light theme. All are drawn at once: what comes later is not printed. */
export const paper = matchMedia("print");

function onColours(changed) {
  document.addEventListener("theme", changed);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  paper.addEventListener("change", changed);
}

/** What has been resolved, until the theme changes: to ask has the browser compute the page's styles anew. */
const resolved = new Map();
onColours(() => resolved.clear());

/** A colour of the style sheet as the current theme resolves it. */
export function colour(token) {
  if (!resolved.has(token)) {
    probe.style.color = `var(--${token})`;
    resolved.set(token, getComputedStyle(probe).color);
  }
  return resolved.get(token);
}

export function transparent(rgb, alpha) {
  return rgb.replace("rgb(", "rgba(").replace(")", `, ${alpha})`);
}

export function font(token = "ink-3") {
  return { family: getComputedStyle(document.body).fontFamily, size: 11, color: colour(token) };
}

/** A layout in the page's type and colours. */
export function dressed(layout) {
  const axis = { gridcolor: colour("line"), linecolor: colour("line-2"), zeroline: false, ticks: "", tickfont: font() };
  return {
    ...layout,
    font: font(),
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    hoverlabel: { bgcolor: colour("raised"), bordercolor: colour("line-2"), font: { ...font("ink"), size: 12 } },
    uirevision: "keep",
    xaxis: { ...layout.xaxis, ...axis },
    yaxis: { ...layout.yaxis, ...axis },
  };
}

/** A label at the right end of a line, in place of a legend. */
export function note(text, y, token, more = {}) {
  return { x: 1, xref: "paper", y, yref: "y", text, xanchor: "left", xshift: 6, showarrow: false, font: font(token), ...more };
}

/** With fewer offsets than these each has its own mark on the axis; before the first there is none. */
const FEW = 5;

export function markEach(axis, from, to) {
  const first = Math.max(0, from);
  if (to - from < FEW) axis.tickvals = Array.from({ length: Math.max(0, to + 1 - first) }, (_, step) => first + step);
}

/** The traces of a partition's positions by their names, in the page's colours. */
export function positionTraces(figure) {
  const trace = Object.fromEntries(figure.data.map((one) => [one.meta, one]));
  trace.stable.line.color = colour("committed-fill");
  trace.last.line.color = colour("ink");
  trace.last.fillcolor = transparent(colour("open-fill"), 0.16);
  return trace;
}

/** Bars in the colours of a transaction's state: of one that is open only their edge is strong. */
export function inkBars(marker, state) {
  const name = state.toLowerCase();
  const open = name === "open";
  marker.color = colour(`${name}-${open ? "soft" : "fill"}`);
  marker.line = { color: colour(`${name}-${name.endsWith("ing") ? "ink" : "fill"}`), width: open ? 1.5 : 1 };
  marker.pattern.fgcolor = colour("surface");
}

/** Says in a chart's place why there is none. */
export function fail(chart, text) {
  chart.classList.add("failed");
  chart.removeAttribute("aria-busy");
  chart.textContent = text;
}

/** Makes room for a chart that had failed. */
export function mend(chart) {
  if (!chart.classList.contains("failed")) return;
  chart.classList.remove("failed");
  chart.textContent = "";
}

/** Calls back when the colours have changed. */
export function onTheme(draw) {
  onColours(draw);
  paper.addEventListener("change", () => all(".main-svg").forEach(fit));
}

/** A chart is as wide as the screen's page is: the paper's style sheet draws it to its measure. */
function fit(svg) {
  if (paper.matches) svg.setAttribute("viewBox", `0 0 ${svg.getAttribute("width")} ${svg.getAttribute("height")}`);
  else svg.removeAttribute("viewBox");
}

/** The reader's zone, in which times are shown. */
export const zone = document.documentElement.dataset.zone ?? "UTC";
const clock = new Intl.DateTimeFormat("en-CA", {
  timeZone: zone, hourCycle: "h23", year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit",
});

/** A moment (milliseconds) moved so that plotly, which writes UTC, writes it in the reader's zone. */
export function shownTime(at) {
  if (zone === "UTC") return at;
  const part = Object.fromEntries(clock.formatToParts(at).map(({ type, value }) => [type, Number(value)]));
  return Date.UTC(part.year, part.month - 1, part.day, part.hour, part.minute, part.second);
}
