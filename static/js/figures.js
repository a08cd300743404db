// The charts of what the job `metrics` has computed. They are read once: a run replaces figures
// every few minutes at most, and a page that is read again shows them.

import { colour, CONFIG, dressed, fail, font, note, onTheme, paper, shownTime, transparent } from "./chart.js";
import { all, h, one, setText } from "./dom.js";
import { count, duration, UNITS } from "./format.js";
import "./shell.js";

const section = one("#charts");
const words = { messages: "Messages", held_ms: "Held back", committed: "Committed", aborted: "Aborted" };
const inks = { messages: "open", held_ms: "aborted", committed: "committed", aborted: "aborted" };
const ranks = { p50: "ink-3", p95: "ink-2", p99: "ink" };
let series = null;

const rank = (column) => column.slice(-3);
const word = (column) => words[column] ?? rank(column);
const text = (column, value) => (value === null ? "–" : column in words && column !== "held_ms" ? count(value) : duration(value));
const ink = (column) => (column in inks ? `${inks[column]}-ink` : ranks[rank(column)]);

/** Amounts of time are drawn in the largest unit that fits; percentiles in seconds; counts as they are. */
function unitOf(name) {
  if (name !== "amount") return [1000, " s"];
  if (columns(name)[0] !== "held_ms") return [1, ""];
  const most = Math.max(...series.held_ms);
  const [size, word] = UNITS.find(([size]) => most >= size) ?? UNITS.at(-1);
  return [size, ` ${word}`];
}

const columns = (name) => [...new Set(series.figures[name].data.map((trace) => trace.meta))];
// The last point only says where the newest period ends.
const newest = (column) => series[column].slice(0, -1).findLast((value) => value !== null) ?? null;

/** The values after which nothing is known, where a line ends. */
const ends = (values) => values.map((value, index) => ((values[index + 1] ?? null) === null ? value : null));

function filled(trace, unit) {
  const column = trace.meta;
  const points = trace.mode === "markers";
  const values = points ? ends(series[column]) : series[column];
  trace.x = series.at.map((at) => shownTime(at));
  trace.y = values.map((value) => (value === null ? null : value / unit));
  trace.customdata = values.map((value) => `${word(column)} ${text(column, value)}`);
  if (points) trace.marker.color = colour(ink(column));
  else trace.line.color = colour(ink(column));
  if (column in inks) trace.fillcolor = transparent(colour(`${inks[column]}-fill`), 0.5);
  return trace;
}

async function draw(name) {
  const figure = series.figures[name];
  const layout = dressed(figure.layout);
  const [unit, suffix] = unitOf(name);
  layout.yaxis.ticksuffix = suffix;
  const days = (series.at.at(-1) - series.at[0]) / 86_400_000;
  layout.xaxis.tickformat = days > 4 ? "%b %-d" : days > 1 ? "%b %-d %H:%M" : "%H:%M";
  if (days > 1 && days <= 4) layout.xaxis.nticks = 3;
  layout.xaxis.hoverformat = "%Y-%m-%d %H:%M";
  layout.annotations = columns(name).map((column, index, found) => note(`${word(column)}<br>${text(column, newest(column))}`, 0, ink(column), {
    align: "left", yref: "paper", y: (index + 0.5) / found.length,
  }));
  if (columns(name).every((column) => newest(column) === null)) {
    layout.annotations = [{ text: "Nothing was measured.", xref: "paper", yref: "paper", x: 0.5, y: 0.5, showarrow: false, font: font("ink-3") }];
    layout.yaxis.showticklabels = false;
  }
  await Plotly.react(one(`#${name}`), figure.data.map((trace) => filled(trace, unit)), layout, CONFIG);
  one(`#${name}`).removeAttribute("aria-busy");
}

function describe(name) {
  setText(one(`#${name}-text`), `Newest: ${columns(name).map((column) => `${word(column)} ${text(column, newest(column))}`).join(", ")}.`);
  const details = one(`[data-values="${name}"]`);
  if (details.open) one(".scroll", details).replaceChildren(table(name));
}

function table(name) {
  const head = h("tr", {}, h("th", { scope: "col" }, "From"), ...columns(name).map((column) => h("th", { scope: "col", class: "right" }, word(column))));
  const rows = series.at.slice(0, -1).map((at, index) => h("tr", {},
    h("td", { class: "num" }, new Date(shownTime(at)).toISOString().slice(0, 16).replace("T", " ")),
    ...columns(name).map((column) => h("td", { class: "right num" }, text(column, series[column][index])))));
  return h("table", {}, h("thead", {}, head), h("tbody", {}, ...rows.reverse()));
}

async function drawAll() {
  for (const name of Object.keys(series.figures)) {
    describe(name);
    const drawn = draw(name);
    if (!paper.matches) await drawn;
  }
}

async function read() {
  try {
    const answer = await fetch(section.dataset.charts, { headers: { Accept: "application/json" } });
    if (!answer.ok) throw new Error(`The server answered ${answer.status}.`);
    series = await answer.json();
  } catch (error) {
    for (const chart of all(".chart", section)) fail(chart, `The chart could not be loaded. ${error.message}`);
    return;
  }
  all("[data-values]", section).forEach((details) => details.addEventListener("toggle", () => describe(details.dataset.values)));
  onTheme(drawAll);
  await drawAll();
}

if (section) read();
