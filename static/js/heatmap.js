// How long transactions took, as squares: a column for each span of time, a row for each doubling of
// the duration from one millisecond on, and percentiles as lines over them. Drawn on a canvas: the
// bundle of plotly that has heatmaps would not fit the page.

import { colour, font, shownTime, transparent } from "./chart.js";
import { h } from "./dom.js";
import { count, duration } from "./format.js";

const LEFT = 54;
const RIGHT = 92;
const TOP = 6;
const BOTTOM = 22;

const between = (row) => `${row ? duration(2 ** row) : "0"} to ${duration(2 ** (row + 1))}`;
const written = (at, from, to) => new Date(shownTime(at)).toISOString().slice(from, to).replace("T", " ");
const LINES = [["p99", "ink-2", 1, [2, 3]], ["p95", "ink-2", 1, []], ["p50", "ink", 2, []]];
const rowsOf = (span) => Object.entries(span).map(([row, number]) => [Number(row), number]);
const most = (span) => rowsOf(span).reduce((best, one) => (one[1] > best[1] ? one : best), [0, 0]);

/** Where everything lies on a canvas of that size; null when nothing ended. */
function frame(series, width, height) {
  const all = series.doublings.flatMap(rowsOf);
  if (!all.length) return null;
  const rows = all.map(([row]) => row);
  const low = Math.min(...rows);
  const high = Math.max(low + 3, ...rows);
  const since = series.since ?? series.at[0];
  const scale = (width - LEFT - RIGHT) / ((series.now ?? series.at.at(-1)) - since);
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
  labels(pen, series, at, width, height);
  const ink = colour("ink-2");
  series.doublings.forEach((span, index) => {
    for (const [row, number] of rowsOf(span)) {
      pen.fillStyle = transparent(ink, 0.08 + (0.42 * Math.log1p(number)) / Math.log1p(at.top));
      pen.fillRect(at.x(series.at[index]), at.y(row), Math.max(1, at.wide - 1), Math.max(1, at.tall - 1));
    }
  });
  LINES.forEach(([name, ...look], place) => line(pen, series, at, name, look, width, TOP + ((place + 0.5) * (height - TOP - BOTTOM)) / LINES.length));
}

/** A percentile through the middles of the spans in which something ended, named at its right. */
function line(pen, series, at, name, [token, wide, dash], width, labelled) {
  pen.strokeStyle = pen.fillStyle = colour(token);
  pen.lineWidth = wide;
  pen.setLineDash(dash);
  pen.beginPath();
  series[name].forEach((value, index) => value !== null && pen.lineTo(at.x(series.at[index]) + at.wide / 2, at.yOf(value)));
  pen.stroke();
  const newest = series[name].findLast((value) => value !== null);
  pen.textAlign = "left";
  pen.fillText(name, width - RIGHT + 6, labelled - 7);
  pen.fillText(duration(newest), width - RIGHT + 6, labelled + 7);
}

function labels(pen, series, at, width, height) {
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  const every = Math.ceil((at.high - at.low + 1) / 6);
  for (let row = at.low; row <= at.high; row += every) pen.fillText(row ? duration(2 ** row) : "0", LEFT - 6, at.y(row) + at.tall);
  pen.textAlign = "center";
  for (const part of [0.1, 0.37, 0.63, 0.9]) {
    const x = LEFT + part * (width - LEFT - RIGHT);
    pen.fillText(written(at.since + (x - LEFT) / at.scale, ...(series.range === "7d" ? [5, 10] : [11, 16])), x, height - 8);
  }
}

/** Says in the chart's heading what lies under the pointer. */
function point(element, canvas, series, at, event) {
  const box = canvas.getBoundingClientRect();
  const moment = at.since + (event.clientX - box.left - LEFT) / at.scale;
  const index = series.at.findIndex((start) => start <= moment && moment < start + series.width_s * 1000);
  const row = at.high - Math.floor((event.clientY - box.top - TOP) / at.tall);
  const number = series.doublings[index]?.[row];
  const says = element.closest("section").querySelector("header p");
  says.dataset.usual ??= says.textContent;
  says.textContent = number ? `${written(series.at[index], 5, 19)}: ${count(number)} took ${between(row)}` : says.dataset.usual;
}

/** The newest span with an end, in words. */
export function heatText(series) {
  const index = series.doublings.findLastIndex((span) => Object.keys(span).length);
  if (index < 0) return "Nothing has ended in this range.";
  const [row, number] = most(series.doublings[index]);
  const lines = LINES.map(([name]) => `${name} ${duration(series[name][index])}`);
  return `Newest: at ${written(series.at[index], 5, 19)} ${lines.join(", ")}; most took ${between(row)}, ${count(number)} of them.`;
}

/** The newest spans as a table. */
export function heatTable(series, rows) {
  const lines = series.doublings.map((span, index) => {
    const counted = rowsOf(span).sort(([a], [b]) => a - b).map(([row, number]) => `${between(row)}: ${count(number)}`);
    const lines = LINES.map(([name]) => h("td", { class: "right num" }, series[name][index] === null ? "–" : duration(series[name][index])));
    return h("tr", {}, h("td", { class: "num" }, written(series.at[index], 0, 19)), ...lines, h("td", { class: "num wrap" }, counted.join(", ") || "–"));
  });
  const head = h("tr", {}, h("th", { scope: "col" }, "From"), ...LINES.map(([name]) => h("th", { scope: "col", class: "right" }, name)), h("th", { scope: "col" }, "How many took how long"));
  return h("table", {}, h("thead", {}, head), h("tbody", {}, ...lines.slice(-rows).reverse()));
}
