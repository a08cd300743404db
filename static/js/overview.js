// The overview's charts: rates, unfinished transactions, durations, the oldest. The server samples
// every few seconds, so the charts read again every ten; figures and tables come by the channel.

import { colour, CONFIG, dressed, fail, mend, note, onTheme, paper, shownTime, transparent } from "./chart.js";
import { all, h, one, setText } from "./dom.js";
import { duration, rate, UNITS } from "./format.js";
import { askJson, freshness } from "./freshness.js";
import { drawHeatmap, heatTable, heatText } from "./heatmap.js";
import { live } from "./live.js";
import "./shell.js";

const EVERY_MS = 10_000;
const TABLE_ROWS = 60;
const section = one("#trends");
const shown = {
  throughput: { columns: ["committed", "aborted"], text: rate },
  live: { columns: ["open", "committing", "aborting"], text: String },
  oldest: { columns: ["oldest"], text: duration },
};
let figures = null;
let series = null;
let due = 0;
let busy = false;

const newest = (column) => series[column].findLast((value) => value !== null) ?? null;

/* Data and colours of each chart */

function ended(figure) {
  for (const trace of figure.data) {
    trace.y = series[trace.meta];
    trace.line.color = trace.fillcolor = colour(`${trace.meta}-fill`);
    trace.fillpattern.fgcolor = colour("surface");
  }
  return {};
}

function stacked(figure) {
  for (const trace of figure.data) {
    trace.y = series[trace.meta];
    trace.line.color = colour(`${trace.meta}-ink`);
    trace.fillcolor = colour(`${trace.meta}-soft`);
  }
  const most = Math.max(...series.at.map((_, index) => shown.live.columns.reduce((sum, column) => sum + series[column][index], 0)));
  return { yaxis: { range: [0, Math.max(4, most * 1.08)] } };  // Whole numbers on the axis.
}

const mostAge = () => Math.max(series.timeout, ...series.oldest);
/** The largest unit of which the axis of ages has a few. */
const unit = () => UNITS.find(([ms]) => mostAge() >= 3 * ms) ?? UNITS.at(-1);

function age(figure) {
  const [trace] = figure.data;
  const [ms, name] = unit();
  trace.y = series.oldest.map((value) => (value === null ? null : value / ms));
  trace.customdata = series.oldest.map((value) => (value === null ? "" : duration(value)));
  trace.line.color = colour("open-fill");
  trace.fillcolor = transparent(colour("open-fill"), 0.16);
  return { yaxis: { ticksuffix: ` ${name}`, range: [0, (mostAge() / ms) * 1.15] } };
}

const fill = { throughput: ended, live: stacked, oldest: age };

/** Labels at the right end of the lines, pushed apart where they would meet. */
function endLabels(name) {
  const { columns, text } = shown[name];
  const labels = [];
  let height = 0;
  for (const column of columns) {
    const value = newest(column);
    if (value === null) continue;
    height += value;
    labels.push({ column, text: text(value), at: name === "oldest" ? value / unit()[0] : height - value / 2 });
  }
  // Stacked from the bottom: open lies on what aborts and commits.
  return labels.map(({ column, text: value, at }, index) => note(`${word(column)}<br>${value}`, labels.length > 1 ? 0.5 : at, ink(column), {
    align: "left",
    ...(labels.length > 1 ? { yref: "paper", y: 1 - (index + 0.5) / labels.length } : {}),
  }));
}

const word = (column) => ({ committed: "Committed", aborted: "Aborted", open: "Open", committing: "Committing", aborting: "Aborting", oldest: "Oldest" })[column] ?? column;
const ink = (column) => (column === "oldest" ? "open-ink" : `${column}-ink`);

function layoutOf(name) {
  const figure = figures[name];
  const more = fill[name](figure);
  for (const trace of figure.data) trace.x = series.at.map((at) => shownTime(at));
  const layout = dressed(figure.layout);
  layout.yaxis = { ...layout.yaxis, ...more.yaxis };
  layout.xaxis.range = [series.since ?? series.at[0], series.now ?? series.at.at(-1)].map(shownTime);
  layout.xaxis.tickformat = series.range === "7d" ? "%b %-d" : "%H:%M";
  layout.xaxis.hoverformat = "%Y-%m-%d %H:%M:%S";
  layout.annotations = endLabels(name);
  if (name === "oldest") drawTimeout(layout);
  layout.datarevision = due;
  return layout;
}

/** A line at the timeout of transactions that ask for none. */
function drawTimeout(layout) {
  const y = series.timeout / unit()[0];
  layout.shapes = [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: y, y1: y, line: { color: colour("aborted-ink"), width: 1, dash: "dash" } }];
  layout.annotations.push(note(`Timeout ${duration(series.timeout)}`, y, "aborted-ink", { x: 0, xshift: 4, yshift: 8 }));
}

/* Drawing: only what is in sight, one chart a task */

const visible = new Set();
const watcher = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (isIntersecting) visible.add(target.id);
    else visible.delete(target.id);
  }
  draw();
}, { rootMargin: "160px" });

async function draw() {
  if (!figures || !series?.at.length || document.hidden) return;
  for (const name of Object.keys(shown)) {
    describe(name);
    if (!visible.has(name) && !paper.matches) continue;
    const drawn = Plotly.react(one(`#${name}`), figures[name].data, layoutOf(name), CONFIG);
    one(`#${name}`).removeAttribute("aria-busy");
    if (paper.matches) continue;
    await drawn;
    await new Promise((resolve) => setTimeout(resolve, 0));
  }
  if (visible.has("durations") || paper.matches) drawHeatmap(one("#durations"), series);
  describeHeat();
}

function describeHeat() {
  setText(one("#durations-text"), heatText(series));
  const details = one('[data-values="durations"]');
  if (details.open) one(".scroll", details).replaceChildren(heatTable(series, TABLE_ROWS));
}

function describe(name) {
  const { columns, text } = shown[name];
  const now = columns.map((column) => `${word(column)} ${newest(column) === null ? "unknown" : text(newest(column))}`);
  setText(one(`#${name}-text`), `Newest: ${now.join(", ")}.`);
  const details = one(`[data-values="${name}"]`);
  if (details.open) table(details, name);
}

function table(details, name) {
  const { columns, text } = shown[name];
  const head = h("tr", {}, h("th", { scope: "col" }, "From"), ...columns.map((column) => h("th", { scope: "col", class: "right" }, word(column))));
  const rows = series.at.map((at, index) => h("tr", {},
    h("td", { class: "num" }, new Date(shownTime(at)).toISOString().slice(0, 19).replace("T", " ")),
    ...columns.map((column) => h("td", { class: "right num" }, series[column][index] === null ? "–" : text(series[column][index])))));
  const body = h("table", {}, h("thead", {}, head), h("tbody", {}, ...rows.slice(-TABLE_ROWS).reverse()));
  one(".scroll", details).replaceChildren(body);
}

/* Reading */

async function read({ now = false } = {}) {
  if (busy || (!now && performance.now() < due)) return;
  busy = true;
  due = performance.now() + EVERY_MS;
  try {
    figures ??= await askJson(section, section.dataset.figures);
    series = await askJson(section, section.dataset.trends);
    one("#trends-empty").hidden = series.at.length > 0;
    all(".chart", section).forEach(mend);
    await draw();
  } catch (error) {
    if (!series) for (const chart of all(".chart", section)) fail(chart, `The chart could not be loaded. ${error.message}`);
  } finally {
    busy = false;
  }
}

all(".chart", section).forEach((chart) => watcher.observe(chart));
all("[data-values]", section).forEach((details) => details.addEventListener("toggle", () => {
  if (!series) return;
  if (details.dataset.values === "durations") describeHeat();
  else describe(details.dataset.values);
}));
onTheme(draw);
addEventListener("resize", draw);  // Plotly sees to its own charts.
for (const event of ["delta", "tick"]) live?.addEventListener(event, () => read());
live?.addEventListener("resync", () => read({ now: freshness.isFailing(section) }));
document.body.addEventListener("htmx:after:swap", () => {
  const title = one("[data-title]")?.dataset.title;
  if (title) document.title = title;
});
read({ now: true });
