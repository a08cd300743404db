// The overview's charts: rates, unfinished transactions, durations, the oldest. The server samples
// every few seconds, so the charts read again every ten; figures and tables come by the channel.

import { colour, CONFIG, dressed, fail, mend, note, onTheme, paper, shownTime, transparent } from "./chart.js";
import { all, h, one, setText } from "./dom.js";
import { count, duration, rate, UNITS } from "./format.js";
import { askJson, freshness } from "./freshness.js";
import { drawHeatmap, heatTable, heatText } from "./heatmap.js";
import { live } from "./live.js";
import "./shell.js";
import { endNotes, MARGIN, timeAxis, whileOf, written } from "./trend_frame.js";

const EVERY_MS = 10_000;
const TABLE_ROWS = 60;
const section = one("#trends");
/** What is stacked from the top down. */
const shown = {
  throughput: { columns: ["aborted", "committed"], text: rate },
  live: { columns: ["open", "committing", "aborting"], text: count },
  oldest: { columns: ["oldest"], text: duration },
};
let figures = null;
let series = null;
let due = 0;
let busy = false;

/** The newest span in which somebody looked. */
const end = () => Math.max(0, series.open.findLastIndex((value) => value !== null));
const newest = (column) => series[column][end()] ?? null;

/* Data and colours of each chart, and how far its axis reaches */

const stackOf = (name) => series.at.map((_, index) => shown[name].columns.reduce((sum, column) => sum + series[column][index], 0));

function ended(figure) {
  for (const trace of figure.data) {
    trace.y = series[trace.meta];
    trace.line.color = trace.fillcolor = colour(`${trace.meta}-fill`);
    trace.fillpattern.fgcolor = colour("surface");
  }
  return Math.max(1, ...stackOf("throughput")) * 1.08;
}

function stacked(figure) {
  for (const trace of figure.data) {
    trace.y = series[trace.meta];
    trace.line.color = colour(`${trace.meta}-ink`);
    trace.fillcolor = colour(`${trace.meta}-soft`);
  }
  return Math.max(4, Math.max(...stackOf("live")) * 1.08);  // Whole numbers on the axis.
}

const mostAge = () => Math.max(series.timeout, ...series.oldest);
/** The largest unit of which the axis of ages has a few. */
const unit = () => UNITS.find(([ms]) => mostAge() >= 3 * ms) ?? UNITS.at(-1);

function age(figure) {
  const [trace] = figure.data;
  const [ms] = unit();
  trace.y = series.oldest.map((value) => (value === null ? null : value / ms));
  trace.customdata = series.oldest.map((value) => (value === null ? "" : duration(value)));
  trace.line.color = colour("open-fill");
  trace.fillcolor = transparent(colour("open-fill"), 0.16);
  return (mostAge() / ms) * 1.15;
}

const fill = { throughput: ended, live: stacked, oldest: age };

/** What stands at the end of each line, from the top down: what is stacked, in the middle of its layer. */
function endLabels(name) {
  const { columns, text } = shown[name];
  const labels = [];
  let height = 0;
  for (const column of columns.toReversed()) {
    const value = newest(column);
    if (value === null) continue;
    labels.unshift({ text: `${word(column)}<br>${text(value)}`, token: ink(column), at: name === "oldest" ? value / unit()[0] : height + value / 2 });
    height += value;
  }
  return labels;
}

const word = (column) => ({ committed: "Committed", aborted: "Aborted", open: "Open", committing: "Committing", aborting: "Aborting", oldest: "Oldest" })[column] ?? column;
const ink = (column) => (column === "oldest" ? "open-ink" : `${column}-ink`);

function layoutOf(name) {
  const figure = figures[name];
  const most = fill[name](figure);
  for (const trace of figure.data) trace.x = series.shown;
  const layout = dressed(figure.layout);
  layout.margin = MARGIN;
  layout.yaxis.range = [0, most];
  if (name === "oldest") layout.yaxis.ticksuffix = ` ${unit()[1]}`;
  Object.assign(layout.xaxis, timeAxis(series));
  layout.annotations = endNotes(endLabels(name), most, one(`#${name}`).clientHeight, whileOf(series, end()));
  if (name === "oldest") drawTimeout(layout);
  if (name === "live") layout.shapes = gaps();
  layout.datarevision = due;
  return layout;
}

/** What covers a stack where nobody looked: plotly lets it fall to zero there. */
function gaps() {
  const isGap = (index) => series.open[index] === null;
  const cover = { type: "rect", yref: "paper", y0: 0, y1: 1, fillcolor: colour("surface"), line: { width: 0 } };
  const starts = [...series.at.keys()].filter((index) => isGap(index) && !isGap(index - 1));
  return starts.map((from) => {
    const to = series.open.findIndex((value, index) => index > from && value !== null);
    return { ...cover, x0: series.shown[from], x1: series.shown.at(to) };
  });
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
  setText(one(`#${name}-text`), `Newest, ${whileOf(series, end())}: ${now.join(", ")}.`);
  const details = one(`[data-values="${name}"]`);
  if (details.open) table(details, name);
}

function table(details, name) {
  const { columns, text } = shown[name];
  const head = h("tr", {}, h("th", { scope: "col" }, "From"), ...columns.map((column) => h("th", { scope: "col", class: "right" }, word(column))));
  const rows = series.at.map((_, index) => h("tr", {},
    h("td", { class: "num" }, written(series.shown[index])),
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
    series.shown = series.at.map(shownTime);
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
  if (!series?.at.length) return;
  if (details.dataset.values === "durations") describeHeat();
  else describe(details.dataset.values);
}));
onTheme(draw);
addEventListener("resize", draw);  // Plotly sees to its own charts.
for (const event of ["delta", "tick"]) live?.addEventListener(event, () => read());
live?.addEventListener("resync", () => read({ now: freshness.isFailing(section) }));
read({ now: true });
