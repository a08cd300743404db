// A partition's positions through time: the chart, the slider over its points, and the replay.

import { colour, CONFIG, dressed, fail, markEach, mend, note, onTheme, positionTraces, shownTime } from "./chart.js";
import { all, h, one, setText } from "./dom.js";
import { count, position } from "./format.js";
import { failureOf } from "./freshness.js";
import "./shell.js";

const [AT, LAST, STABLE, EXACT, HOLDER, ENDED] = [0, 1, 2, 3, 4, 5];
const REPLAY_MS = 12000;
const MIN_FRAME_MS = 80;
const AGAIN_MS = 10000;

const chart = one("#history");
const slider = one("#moment");
const play = one("#play");
const links = chart.dataset;
let points = [];
let figure = null;
let timer = 0;

const stamp = (ms) => new Date(shownTime(ms)).toISOString().replace("T", " ").slice(0, 19);
const link = (id) => h("a", { href: links.transaction.replace(/0:0$/, id) }, id);

function event(point) {
  if (point[ENDED]) return ["end of ", link(point[ENDED])];
  return [point[EXACT] ? "–" : "sampled"];
}

function shapes(point) {
  return [{ type: "line", xref: "x", yref: "paper", x0: shownTime(point[AT]), x1: shownTime(point[AT]), y0: 0, y1: 1, line: { color: colour("focus"), width: 1.5 } }];
}

function draw() {
  if (!figure || !window.Plotly) return;
  const trace = positionTraces(figure);
  trace.stable.x = trace.last.x = points.map((point) => shownTime(point[AT]));
  trace.stable.y = points.map((point) => point[STABLE]);
  trace.last.y = points.map((point) => point[LAST]);
  const layout = dressed(figure.layout);
  const end = points.at(-1);
  markEach(layout.yaxis, points[0][STABLE], end[LAST]);
  layout.annotations = [note("Last position", end[LAST], "ink")];
  const close = (end[LAST] - end[STABLE]) / Math.max(1, end[LAST] - points[0][STABLE]) < 0.08;
  layout.annotations.push(note("Stable position", end[STABLE], "committed-ink", { yshift: close ? -13 : 0 }));
  layout.shapes = shapes(points[slider.value]);
  chart.removeAttribute("aria-busy");
  return Plotly.react(chart, figure.data, layout, CONFIG);
}

/** Shows a point everywhere: readout, line in the chart, address. */
function show(index) {
  const point = points[index];
  slider.value = index;
  const held = point[LAST] - point[STABLE];
  slider.setAttribute("aria-valuetext", `${stamp(point[AT])}, stable ${position(point[STABLE])}, ${count(held)} held back`);
  const readout = one("#readout");
  if (readout) {
    const read = (name) => one(`[data-read="${name}"]`);
    setText(read("at"), stamp(point[AT]));
    setText(read("stable"), position(point[STABLE]));
    setText(read("last"), position(point[LAST]));
    setText(read("held"), count(held));
    read("holder").replaceChildren(point[HOLDER] ? link(point[HOLDER]) : held > 0 ? "not recorded" : "nobody");
    read("ended").replaceChildren(...event(point));
    read("log").href = `${links.log}?at=${Math.max(0, point[STABLE])}`;
  }
  if (figure && chart.data) Plotly.relayout(chart, { shapes: shapes(point) });
}

function remember() {
  const query = new URLSearchParams(location.search);
  query.set("at", points[slider.value][AT]);
  history.replaceState(null, "", `?${query}`);
}

function stop() {
  clearTimeout(timer);
  timer = 0;
  play.setAttribute("aria-pressed", "false");
  setText(play, "Replay");
  remember();
}

function step() {
  const next = Number(slider.value) + 1;
  if (next >= points.length) return stop();
  show(next);
  timer = setTimeout(step, Math.max(MIN_FRAME_MS, REPLAY_MS / points.length));
}

function replay() {
  if (timer) return stop();
  if (Number(slider.value) >= points.length - 1) show(0);
  play.setAttribute("aria-pressed", "true");
  setText(play, "Pause");
  timer = setTimeout(step, 0);
}

function move(by) {
  if (timer) stop();
  show(Math.min(points.length - 1, Math.max(0, Number(slider.value) + by)));
  remember();
}

function list() {
  const rows = [...points].reverse().slice(0, 100).map((point) => h("tr", {},
    h("td", { class: "num" }, stamp(point[AT])),
    h("td", { class: "right num" }, position(point[STABLE])),
    h("td", { class: "right num" }, position(point[LAST])),
    h("td", { class: "right num" }, count(point[LAST] - point[STABLE])),
    h("td", {}, ...event(point))));
  one("#points tbody").replaceChildren(...rows);
  setText(one("#points-count"), points.length > rows.length ? `The last ${rows.length} of ${points.length}` : `${points.length}`);
}

/** The point that stood at a moment. */
function at(ms) {
  const after = points.findIndex((point) => point[AT] > ms);
  return after < 0 ? points.length - 1 : Math.max(0, after - 1);
}

async function load() {
  try {
    const answer = await fetch(links.points, { headers: { Accept: "application/json" } });
    if (!answer.ok) throw new Error((await failureOf(answer)).message);
    ({ points, figure } = await answer.json());
  } catch (error) {
    fail(chart, `The history cannot be read now.${one(".fault") ? "" : ` ${error.message}`}`);
    setText(one("#points-count"), "Not read");
    setTimeout(load, AGAIN_MS);
    return;
  }
  mend(chart);
  slider.max = points.length - 1;
  const wanted = new URLSearchParams(location.search).get("at");
  slider.value = wanted ? at(Number(wanted)) : points.length - 1;
  for (const control of [slider, play, one("#earlier"), one("#later")]) control.disabled = false;
  list();
  await draw();
  show(Number(slider.value));
}

all("[data-without-script]").forEach((button) => button.remove());
for (const input of all('input[name="range"]')) {
  input.addEventListener("change", () => location.assign(`?range=${input.value}`));
}
slider.addEventListener("input", () => {
  if (timer) stop();
  show(Number(slider.value));
});
slider.addEventListener("change", remember);
play.addEventListener("click", replay);
one("#earlier").addEventListener("click", () => move(-1));
one("#later").addEventListener("click", () => move(1));
onTheme(draw);
setText(one("#points-count"), "Loading");
load();
