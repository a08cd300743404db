// How long transactions took, as squares: a column for each span of time, a row for each doubling of
// the duration from one millisecond on, and percentiles as lines over them. Drawn on a canvas: the
// bundle of plotly that has heatmaps would not fit the page.

import { colour, font, transparent } from "./chart.js";
import { h } from "./dom.js";
import { count, duration } from "./format.js";
import { LABEL, MARGIN, rangeOf, spread, ticksOf, whileOf, written } from "./trend_frame.js";

const { l: LEFT, r: RIGHT, t: TOP, b: BOTTOM } = MARGIN;
/** Where the middle of the times below the axis is. */
const BELOW = BOTTOM - 11;
/** Durations that the axis may name. */
const MARKS = [1, 10, 100, 1000, 10_000, 60_000, 600_000, 3_600_000, 36_000_000, 86_400_000];

const between = (row) => `${row ? duration(2 ** row) : "0"} to ${duration(2 ** (row + 1))}`;
const LINES = [["p99", "ink-2", 1, [2, 3]], ["p95", "ink-2", 1, []], ["p50", "ink", 2, []]];
const rowsOf = (span) => Object.entries(span).map(([row, number]) => [Number(row), number]);
const most = (span) => rowsOf(span).reduce((best, one) => (one[1] > best[1] ? one : best), [0, 0]);

/** The newest span in which something ended. */
const newestOf = (series) => series.doublings.findLastIndex((span) => Object.keys(span).length);

/** Where everything lies on a canvas of that size; null when nothing ended. */
function frame(series, width, height) {
  const all = series.doublings.flatMap(rowsOf);
  if (!all.length) return null;
  const rows = all.map(([row]) => row);
  const low = Math.min(...rows);
  const high = Math.max(low + 3, ...rows);
  const [since, now] = rangeOf(series);
  const scale = (width - LEFT - RIGHT) / (now - since);
  return {
    low, high, since, scale,
    top: Math.max(...all.map(([, number]) => number)),
    wide: Math.max(1, series.width_s * 1000 * scale),
    tall: (height - TOP - BOTTOM) / (high - low + 1),
    x: (at) => LEFT + (at - since) * scale,
    // Of a duration: where it lies within its row counts too.
    yOf: (milliseconds) => TOP + ((high + 1 - Math.log2(Math.max(1, milliseconds))) * (height - TOP - BOTTOM)) / (high - low + 1),
    y: (row) => TOP + ((high - row) * (height - TOP - BOTTOM)) / (high - low + 1),
  };
}

/** Draws into a chart's element, at the size that it has now. */
export function drawHeatmap(element, series) {
  const canvas = element.querySelector("canvas") ?? element.appendChild(h("canvas", { class: "heat" }));
  element.removeAttribute("aria-busy");
  const { width, height } = element.getBoundingClientRect();
  const ratio = devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  const { family, size, color } = font();
  pen.font = `${size}px ${family}`;
  const at = frame(series, width, height);
  canvas.onpointermove = at && ((event) => point(element, canvas, series, at, event));
  pen.fillStyle = color;
  if (!at) {
    pen.fillText("Nothing has ended in this range.", LEFT, height / 2);
    return;
  }
  labels(pen, series, at, height);
  const ink = colour("ink-2");
  series.doublings.forEach((span, index) => {
    for (const [row, number] of rowsOf(span)) {
      pen.fillStyle = transparent(ink, 0.08 + (0.42 * Math.log1p(number)) / Math.log1p(at.top));
      pen.fillRect(at.x(series.shown[index]), at.y(row), Math.max(1, at.wide - 1), Math.max(1, at.tall - 1));
    }
  });
  LINES.forEach(([name, ...look]) => line(pen, series, at, name, look));
  ends(pen, series, at, width, height);
}

/** A percentile through the middles of the spans in which something ended. */
function line(pen, series, at, name, [token, wide, dash]) {
  pen.strokeStyle = colour(token);
  pen.lineWidth = wide;
  pen.setLineDash(dash);
  pen.beginPath();
  series[name].forEach((value, index) => value !== null && pen.lineTo(at.x(series.shown[index]) + at.wide / 2, at.yOf(value)));
  pen.stroke();
}

/** The lines' names and newest values, where they end. */
function ends(pen, series, at, width, height) {
  const last = newestOf(series);
  const newest = LINES.map(([name]) => series[name][last]);
  const middles = spread(newest.map(at.yOf), LABEL, TOP, height - BOTTOM);
  pen.textAlign = "left";
  LINES.forEach(([name, token], place) => {
    pen.fillStyle = colour(token);
    pen.fillText(name, width - RIGHT + 8, middles[place] - 7);
    pen.fillText(duration(newest[place]), width - RIGHT + 8, middles[place] + 7);
  });
  pen.fillStyle = font().color;
  pen.fillText(whileOf(series, last), width - RIGHT + 8, height - BELOW);
}

function labels(pen, series, at, height) {
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  for (const mark of MARKS) {
    const y = at.yOf(mark);
    if (y >= TOP && y <= height - BOTTOM) pen.fillText(duration(mark), LEFT - 6, y);
  }
  pen.textAlign = "center";
  for (const { at: moment, text } of ticksOf(series)) pen.fillText(text, at.x(moment), height - BELOW);
}

/** Says in the chart's heading what lies under the pointer. */
function point(element, canvas, series, at, event) {
  const box = canvas.getBoundingClientRect();
  const moment = at.since + (event.clientX - box.left - LEFT) / at.scale;
  const index = series.shown.findIndex((start) => start <= moment && moment < start + series.width_s * 1000);
  const row = at.high - Math.floor((event.clientY - box.top - TOP) / at.tall);
  const number = series.doublings[index]?.[row];
  const says = element.closest("section").querySelector("header p");
  says.dataset.usual ??= says.textContent;
  says.textContent = number ? `${written(series.shown[index], 5, 19)}: ${count(number)} took ${between(row)}` : says.dataset.usual;
}

/** The newest span with an end, in words. */
export function heatText(series) {
  const index = newestOf(series);
  if (index < 0) return "Nothing has ended in this range.";
  const [row, number] = most(series.doublings[index]);
  const lines = LINES.map(([name]) => `${name} ${duration(series[name][index])}`);
  return `Newest, ${whileOf(series, index)}: ${lines.join(", ")}; most took ${between(row)}, ${count(number)} of them.`;
}

/** The newest spans as a table. */
export function heatTable(series, rows) {
  const lines = series.doublings.map((span, index) => {
    const counted = rowsOf(span).sort(([a], [b]) => a - b).map(([row, number]) => `${between(row)}: ${count(number)}`);
    const lines = LINES.map(([name]) => h("td", { class: "right num" }, series[name][index] === null ? "–" : duration(series[name][index])));
    return h("tr", {}, h("td", { class: "num" }, written(series.shown[index])), ...lines, h("td", { class: "num wrap" }, counted.join(", ") || "–"));
  });
  const head = h("tr", {}, h("th", { scope: "col" }, "From"), ...LINES.map(([name]) => h("th", { scope: "col", class: "right" }, name)), h("th", { scope: "col" }, "How many took how long"));
  return h("table", {}, h("thead", {}, head), h("tbody", {}, ...lines.slice(-rows).reverse()));
}
