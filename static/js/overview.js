// The overview's charts: rates, unfinished transactions, durations, the oldest. The server samples
// every few seconds, so the charts read again every ten; figures and tables come by the channel.

import { colour, CONFIG, dressed, font, note, onTheme, shownTime, transparent } from "./chart.js";
import { all, h, one, setText } from "./dom.js";
import { brief } from "./format.js";
import { live } from "./live.js";
import "./shell.js";

const EVERY_MS = 10_000;
const TABLE_ROWS = 60;
const section = one("#trends");
const rate = (value) => `${value.toFixed(1)} /s`;
const shown = {
  throughput: { columns: ["committed", "aborted"], text: rate },
  live: { columns: ["open", "committing", "aborting"], text: String },
  durations: { columns: ["p50", "p95", "p99"], text: brief },
  oldest: { columns: ["oldest"], text: brief },
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
  return {};
}

function bands(figure) {
  for (const trace of figure.data) {
    trace.y = series[trace.meta];
    trace.customdata = series[trace.meta].map((value) => (value === null ? "" : brief(value)));
    trace.line.color = colour(trace.meta === "p50" ? "ink" : "ink-3");
    trace.line.dash = trace.meta === "p99" ? "dot" : "solid";
    trace.fillcolor = transparent(colour("none-fill"), trace.meta === "p95" ? 0.22 : 0.1);
    trace.connectgaps = true;
  }
  return {};
}

function age(figure) {
  const [trace] = figure.data;
  trace.y = series.oldest.map((value) => (value === null ? null : value / 1000));
  trace.customdata = series.oldest.map((value) => (value === null ? "" : brief(value)));
  trace.line.color = colour("open-fill");
  trace.fillcolor = transparent(colour("open-fill"), 0.16);
  return { yaxis: { ticksuffix: " s" } };
}

const fill = { throughput: ended, live: stacked, durations: bands, oldest: age };

/** Labels at the right end of the lines, pushed apart where they would meet. */
function endLabels(name, yaxis) {
  const { columns, text } = shown[name];
  const labels = [];
  let height = 0;
  for (const column of columns) {
    const value = newest(column);
    if (value === null) continue;
    height += name === "live" || name === "throughput" ? value : 0;
    const at = name === "live" || name === "throughput" ? height - value / 2 : name === "oldest" ? value / 1000 : value;
    labels.push({ column, text: text(value), at: yaxis.type === "log" ? Math.log10(Math.max(1, at)) : at });
  }
  // Stacked from the bottom: open lies on what aborts and commits.
  return labels.map(({ column, text: value, at }, index) => note(`${word(column)}<br>${value}`, labels.length > 1 ? 0.5 : at, ink(column), {
    align: "left",
    ...(labels.length > 1 ? { yref: "paper", y: 1 - (index + 0.5) / labels.length } : {}),
  }));
}

const word = (column) => ({ committed: "Committed", aborted: "Aborted", open: "Open", committing: "Committing", aborting: "Aborting", oldest: "Oldest" })[column] ?? column;
const ink = (column) => (/^(p\d|oldest)/.test(column) ? (column === "oldest" ? "open-ink" : "ink-2") : `${column}-ink`);

function layoutOf(name) {
  const figure = figures[name];
  const more = fill[name](figure);
  for (const trace of figure.data) trace.x = series.at.map((at) => shownTime(at));
  const layout = dressed(figure.layout);
  layout.yaxis = { ...layout.yaxis, ...more.yaxis };
  layout.xaxis.range = [series.at[0], (series.now ?? series.at.at(-1)) + series.width_s * 1000].map(shownTime);
  layout.xaxis.tickformat = series.range === "7d" ? "%b %-d" : "%H:%M";
  layout.xaxis.hoverformat = "%Y-%m-%d %H:%M:%S";
  layout.annotations = endLabels(name, layout.yaxis);
  layout.datarevision = due;
  return layout;
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
    if (!visible.has(name)) continue;
    await Plotly.react(one(`#${name}`), figures[name].data, layoutOf(name), CONFIG);
    one(`#${name}`).removeAttribute("aria-busy");
    await new Promise((resolve) => setTimeout(resolve, 0));
  }
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

async function json(address) {
  const answer = await fetch(address, { headers: { Accept: "application/json" } });
  if (!answer.ok) throw new Error(`The server answered ${answer.status}.`);
  return answer.json();
}

async function read({ now = false } = {}) {
  if (busy || (!now && performance.now() < due)) return;
  busy = true;
  due = performance.now() + EVERY_MS;
  try {
    figures ??= await json(section.dataset.figures);
    series = await json(section.dataset.trends);
    one("#trends-empty").hidden = series.at.length > 0;
    await draw();
  } catch (error) {
    if (!series) for (const chart of all(".chart", section)) failed(chart, error);
  } finally {
    busy = false;
  }
}

function failed(chart, error) {
  chart.classList.add("failed");
  chart.removeAttribute("aria-busy");
  chart.textContent = `The chart could not be loaded. ${error.message}`;
}

all(".chart", section).forEach((chart) => watcher.observe(chart));
all("[data-values]", section).forEach((details) => details.addEventListener("toggle", () => series && describe(details.dataset.values)));
onTheme(draw);
for (const event of ["delta", "tick", "resync"]) live?.addEventListener(event, () => read());
document.body.addEventListener("htmx:after:swap", () => {
  const title = one("[data-title]")?.dataset.title;
  if (title) document.title = title;
});
read({ now: true });
