// The two charts of the log page. The server gives traces and axes; data comes from the log and
// colours from the style sheet. Drawn at most once a frame, only in sight, each in a task of its own, and on a
// slow machine less often.

import { colour, CONFIG, dressed, fail, font, inkBars, markEach, mend, note, onTheme, paper, positionTraces, shownTime, zone } from "../chart.js";
import { all, h, one, setText } from "../dom.js";
import { count, position } from "../format.js";
import { ENDED, FIRST, LAST, STATE } from "./model.js";

const MAX_SPANS = 11;
/** How often they are drawn: so often that a twentieth of the time goes into it. */
const EVERY_MS = 1000;
const EVERY_MS_SLOW = 5000;
const SHARE = 1 / 20;
const YOUNG_MS = 30_000;
/** With fewer rows than these they are no wider. */
const LANES = 6;
const TABLE_ROWS = 60;

function positionsFigure(figure, log) {
  const history = log.history;
  const trace = positionTraces(figure);
  trace.stable.x = trace.last.x = history.map(([now]) => shownTime(now));
  trace.stable.y = history.map(([, , stable]) => stable);
  trace.last.y = history.map(([, last]) => last);
  trace.stable.mode = trace.last.mode = history.length > 1 ? "lines" : "markers";  // Of one point there is no line.
  const layout = dressed(figure.layout);
  const [now, last, stable] = history.at(-1);
  // A young page has little to show, and must not show it enlarged.
  const since = Math.min(history[0][0], now - YOUNG_MS);
  layout.xaxis.range = [shownTime(since), shownTime(now)];
  markEach(layout.yaxis, history[0][2], last);
  const share = (last - stable) / Math.max(1, last - history[0][2]);
  layout.annotations = [note("Last position", last, "ink"), note("Stable position", stable, "committed-ink", { yshift: share < 0.08 ? -13 : 0 })];
  if (share > 0.3) layout.annotations.push(note(`held back<br>${count(last - stable)}`, (last + stable) / 2, "open-ink", { align: "left" }));
  return layout;
}

/** Unfinished transactions first, then those that ended last; the lowest first offset on top. Only those in sight. */
function spanRows(log) {
  const spans = [...log.txns].filter(([, txn]) => txn[FIRST] !== null && log.isInSight(txn));
  const unfinished = spans.filter(([, txn]) => !ENDED.has(txn[STATE])).slice(0, MAX_SPANS);
  const ended = spans.filter(([, txn]) => ENDED.has(txn[STATE])).sort((a, b) => b[1][LAST] - a[1][LAST]);
  return [...unfinished, ...ended.slice(0, MAX_SPANS - unfinished.length)].sort((a, b) => b[1][FIRST] - a[1][FIRST]);
}

function spansFigure(figure, log) {
  const rows = spanRows(log);
  const { stable } = log.summary;
  for (const trace of figure.data) {
    const state = trace.meta;
    const own = rows.filter(([, txn]) => txn[STATE] === state);
    trace.y = own.map(([id]) => id);
    trace.base = own.map(([, txn]) => txn[FIRST] - 0.5);
    trace.x = own.map(([, txn]) => log.spanEnd(txn) - txn[FIRST] + 1);
    trace.customdata = own.map(([, txn]) => [txn[FIRST], log.spanEnd(txn)]);
    inkBars(trace.marker, state);
  }
  const layout = dressed(figure.layout);
  layout.yaxis.tickfont = { ...font(), family: getComputedStyle(one(".mono")).fontFamily };
  layout.yaxis.categoryorder = "array";
  layout.yaxis.categoryarray = rows.map(([id]) => id);
  layout.yaxis.range = [rows.length - Math.max(rows.length, LANES) - 0.5, rows.length - 0.5];
  const first = log.following ? rows.at(-1)[1][FIRST] : log.base;
  markEach(layout.xaxis, first, log.following ? log.summary.last : log.shownEnd - 1);
  if (!log.following) layout.xaxis.range = [first - 0.5, log.shownEnd - 0.5];
  layout.uirevision = `at ${log.at}`;  // Elsewhere in the log nothing has been enlarged yet.
  Object.assign(layout, stableMark(log, stable + 0.5));
  return layout;
}

/** The line up to which readers get; where it is out of sight, only on which side it is. */
function stableMark(log, fence) {
  const { stable } = log.summary;
  const label = { y: 1, yref: "paper", yanchor: "bottom", showarrow: false, font: font("ink") };
  if (!log.following && fence > log.shownEnd) {
    return { annotations: [{ ...label, x: 1, xref: "paper", xanchor: "right", text: `stable position ${count(stable)} →` }] };
  }
  if (!log.following && fence < log.base - 1) {
    return { annotations: [{ ...label, x: 0, xref: "paper", xanchor: "left", text: stable < 0 ? "← none readable yet" : `← stable position ${count(stable)}` }] };
  }
  const line = { type: "line", xref: "x", yref: "paper", x0: fence, x1: fence, y0: 0, y1: 1, line: { color: colour("ink"), width: 1.5 } };
  const text = stable < 0 ? "none readable yet" : `stable ${count(stable)}`;
  return { shapes: [line], annotations: [{ ...label, x: fence, xref: "x", xanchor: "left", xshift: -2, text }] };
}

/** Why there is nothing to draw; null when there is. */
function lacking(log, element) {
  if (log.summary.last < 0) return "Nothing has been produced to this partition yet.";
  if (element.id === "positions" || spanRows(log).length) return null;
  return log.following ? "No transaction has written here of late." : "No transaction has an entry among these offsets.";
}

/** What the charts draw, as tables: headings, and rows whose last cells are numbers. */
const TABLES = {
  positions: (log) => ({
    headings: [`At (${zone})`, "Stable position", "Last position", "Held back"],
    rows: log.history.slice(-TABLE_ROWS).reverse().map(([now, last, stable]) => [
      h("td", { class: "num" }, new Date(shownTime(now)).toISOString().slice(11, 19)),
      ...[position(stable), position(last), count(last - stable)].map(number),
    ]),
  }),
  spans: (log) => ({
    headings: ["Transaction", "State", "First offset", "Last offset"],
    rows: spanRows(log).reverse().map(([id, txn]) => [
      h("th", { scope: "row", class: "mono" }, id),
      h("td", {}, txn[STATE][0] + txn[STATE].slice(1).toLowerCase()),
      ...[txn[FIRST], txn[LAST]].map(count).map(number),
    ]),
  }),
};

const number = (text) => h("td", { class: "right num" }, text);

function tableOf({ headings, rows }) {
  const head = headings.map((text, place) => h("th", { scope: "col", class: rows[0]?.[place].classList.contains("right") ? "right" : null }, text));
  return h("table", {}, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...rows.map((cells) => h("tr", {}, ...cells))));
}

export class Charts {
  #figures = null;
  #visible = true;
  #drawing = false;
  #next = 0;
  #later = 0;
  #revision = 0;

  constructor(log) {
    this.log = log;
    this.positions = one("#positions");
    this.spans = one("#spans");
    new IntersectionObserver((seen) => {
      this.#visible = seen.some((one) => one.isIntersecting);
      this.draw();
    }, { rootMargin: "120px" }).observe(this.positions);
    onTheme(() => this.draw({ now: true }));
    for (const details of all("[data-values]")) details.addEventListener("toggle", () => this.#tabulate(details));
    this.#load();
  }

  async #load() {
    try {
      const answer = await fetch(this.positions.dataset.figures, { headers: { Accept: "application/json" } });
      if (!answer.ok) throw new Error(`The server answered ${answer.status}.`);
      this.#figures = await answer.json();
    } catch (error) {
      for (const chart of [this.positions, this.spans]) fail(chart, `The chart could not be loaded. ${error.message}`);
      setTimeout(() => this.#load(), EVERY_MS_SLOW);
      return;
    }
    this.draw({ now: true });
  }

  async draw({ now = false } = {}) {
    const early = !now && performance.now() < this.#next;
    if (early || this.#drawing) this.#drawLater();
    const waits = early || this.#drawing || !this.#visible || document.hidden;
    if (!this.#figures || (waits && !paper.matches)) return;
    this.#drawing = true;
    const started = performance.now();
    let took = 0;
    for (const [element, figure, fill] of [[this.positions, this.#figures.positions, positionsFigure], [this.spans, this.#figures.spans, spansFigure]]) {
      if (!paper.matches) await new Promise((resolve) => setTimeout(resolve, 0));
      took += this.#react(element, figure, fill);
    }
    this.#next = started + Math.min(Math.max(EVERY_MS, took / SHARE), EVERY_MS_SLOW) - 100;
    this.#drawing = false;
    this.#describe();
  }

  /** What comes too early is drawn when its time has come: nothing may come after it. */
  #drawLater() {
    const pause = this.#drawing ? EVERY_MS : this.#next - performance.now();
    this.#later ||= setTimeout(() => {
      this.#later = 0;
      this.draw();
    }, pause);
  }

  /** Draws one of them, before it returns; answers how many milliseconds that took. */
  #react(element, figure, fill) {
    const started = performance.now();
    const why = lacking(this.log, element);
    if (why !== null) {
      if (element.data) Plotly.purge(element);
      fail(element, why);
      return 0;
    }
    mend(element);
    const layout = fill(figure, this.log);
    layout.datarevision = this.#revision += 1;
    Plotly.react(element, figure.data, layout, CONFIG);
    element.removeAttribute("aria-busy");
    return performance.now() - started;
  }

  #describe() {
    const { last, stable } = this.log.summary;
    setText(one("#spans-scope"), this.log.following ? "First to last entry in this partition" : `Offsets ${count(this.log.base)} to ${count(this.log.shownEnd - 1)}`);
    setText(one("#positions-text"), `Last position ${position(last)}, stable position ${position(stable)}, ${count(last - stable)} offsets held back.`);
    const rows = spanRows(this.log).map(([id, txn]) => `${id} ${txn[STATE].toLowerCase()} from ${count(txn[FIRST])} to ${count(txn[LAST])}`);
    setText(one("#spans-text"), rows.join("; ") || lacking(this.log, this.spans));
    for (const details of all("[data-values]")) this.#tabulate(details);
  }

  #tabulate(details) {
    if (details.open) one(".scroll", details).replaceChildren(tableOf(TABLES[details.dataset.values](this.log)));
  }
}
