// What the overview's charts have in common, drawn by plotly or on a canvas, so that the eye finds the
// same moment in the same place of each: margins, times below, and labels where the lines end.

import { font, note, shownTime } from "./chart.js";
import { duration } from "./format.js";

export const MARGIN = { l: 62, r: 122, t: 10, b: 26 };
/** How tall a label of two lines is. */
export const LABEL = 29;
const MINUTE = 60_000;
const DAY = 1440 * MINUTE;
const STEPS = [1, 5, 15, 30, 60, 120, 360, 720, 1440, 2880].map((minutes) => minutes * MINUTE);
const MOST_STEPS = 4.5;

/** Of a moment in the reader's zone. */
export const written = (shown, from = 0, to = 19) => new Date(shown).toISOString().slice(from, to).replace("T", " ");

/** From when to when the charts reach, in the reader's zone. */
export const rangeOf = (series) => [series.since ?? series.at[0], series.now ?? series.at.at(-1)].map(shownTime);

/** The moments below a chart with their texts. The last have no room beside what stands at the end. */
export function ticksOf(series) {
  const [from, to] = rangeOf(series);
  const step = STEPS.find((length) => (to - from) / length <= MOST_STEPS) ?? STEPS.at(-1);
  const ticks = [];
  for (let at = Math.ceil(from / step) * step; at < to - (to - from) * 0.08; at += step) {
    ticks.push({ at, text: step < DAY ? written(at, 11, 16) : written(at, 5, 10) });
  }
  return ticks;
}

/** What while the values at the lines' ends are of: a span of the series. */
export function whileOf(series, index) {
  const isFine = series.width_s < 60;
  return `${duration(series.width_s * 1000)} from ${written(shownTime(series.at[index]), 11, isFine ? 19 : 16)}`;
}

/** The middles of labels, from the top down, as near to where they should be as none covers another. */
export function spread(wanted, tall, top, bottom) {
  const middles = [...wanted];
  let least = top + tall / 2;
  for (let index = 0; index < middles.length; index += 1) {
    middles[index] = Math.max(middles[index], least);
    least = middles[index] + tall;
  }
  let most = bottom - tall / 2;
  for (let index = middles.length - 1; index >= 0; index -= 1) {
    middles[index] = Math.min(middles[index], most);
    most = middles[index] - tall;
  }
  return middles;
}

/** The axis of times of a plotly chart. */
export function timeAxis(series) {
  const ticks = ticksOf(series);
  return {
    range: rangeOf(series), tickmode: "array", tickvals: ticks.map(({ at }) => at), ticktext: ticks.map(({ text }) => text),
    hoverformat: "%Y-%m-%d %H:%M:%S",
  };
}

/** Labels ({text, at: value, token}, from the top down) at the right of a plotly chart whose axis ends
 * at `most`, and below them what while they are of. */
export function endNotes(labels, most, height, span) {
  const tall = height - MARGIN.t - MARGIN.b;
  const middles = spread(labels.map(({ at }) => tall * (1 - at / most)), LABEL, 0, tall);
  const notes = labels.map(({ text, token }, index) => note(text, 1 - middles[index] / tall, token, { align: "left", yref: "paper", yanchor: "middle" }));
  return [...notes, note(span, 0, "ink-3", { yref: "paper", yanchor: "top", yshift: -3, font: font() })];
}
