// One transaction: its timeline as a chart, drawn again when it has moved on.

import { colour, CONFIG, dressed, fail, font, inkBars, mend, onTheme, transparent } from "./chart.js";
import { announce, badge, h, one, setText } from "./dom.js";
import { askJson, freshness } from "./freshness.js";
import { live } from "./live.js";
import "./shell.js";

const EVERY_MS = 2000;
/** While it is open its bars grow, whether anything happens or not. */
const GROWING_MS = 10000;
/** Below so many pixels a lane is named by the last part of its name. */
const NARROW = 560;
const chart = one("#timeline");
const idle = one("[data-idle]");
const IDLE = "timeline-idle";
const state = () => one("#region .st")?.textContent;
let told = state();
let figure = null;
let due = 0;
let revision = 0;
let asked = 0;
/** Whether anything has happened since the last question. */
let changed = false;

/** The end of a name, which tells partitions apart: a longer one would leave the bars no room. */
const ending = (name, most) => (name.length > most ? `…${name.slice(1 - most)}` : name);

function draw() {
  if (!figure || document.hidden) return;
  const layout = dressed(figure.layout);
  layout.yaxis.tickfont = { ...font("ink-2"), family: getComputedStyle(one(".mono")).fontFamily };
  layout.yaxis.categoryorder = "array";
  layout.yaxis.categoryarray = [...figure.lanes].reverse();
  const isNarrow = chart.clientWidth < NARROW;
  layout.yaxis.tickvals = figure.lanes;
  layout.yaxis.ticktext = figure.lanes.map((lane) => (isNarrow ? ending(lane.split("/").at(-1), 24) : ending(lane, 56)));
  if (isNarrow) layout.xaxis.nticks = 4;
  layout.datarevision = revision += 1;
  idle.hidden = !figure.idle.length && !idle.control.checked;
  if (idle.control.checked) {
    layout.shapes = figure.idle.map(([x0, x1]) => ({ type: "rect", x0, x1, yref: "paper", y0: 0, y1: 1, layer: "above", line: { width: 1, dash: "dot", color: colour("ink-3") }, fillcolor: transparent(colour("surface"), 0.75) }));
    layout.annotations = figure.idle.map(([x0, x1, took]) => ({ x: (x0 + x1) / 2, yref: "paper", y: 1, yanchor: "bottom", text: `nothing for ${took}`, showarrow: false, font: font("ink-3") }));
    if (figure.idle.length) layout.margin = { ...layout.margin, t: 24 };
  }
  for (const trace of figure.data) {
    if (trace.meta === "marks") {
      trace.marker.color = trace.marker.line.color = colour("ink");
      continue;
    }
    inkBars(trace.marker, trace.meta);
  }
  one("svg[width='1']", chart)?.remove();
  // Plotly takes the height of its box when the window changes, and an automatic one is none then.
  chart.style.height = `${figure.layout.height}px`;
  Plotly.react(chart, figure.data, layout, CONFIG);
  chart.removeAttribute("aria-busy");
  const words = figure.data.flatMap((trace) => trace.y.map((lane, at) => `${lane} ${trace.customdata[at]}`));
  setText(one("#timeline-text"), words.join("; "));
}

async function read({ now = false } = {}) {
  if (!chart || (!now && performance.now() < due)) return;
  due = performance.now() + EVERY_MS;
  changed = false;
  const mine = (asked += 1);
  try {
    const found = await askJson(chart, chart.dataset.figureAt + (idle.control.checked ? "?idle=hidden" : ""));
    if (mine !== asked) return;  // A later question may have been another.
    figure = found;
  } catch (error) {
    if (figure) return;
    fail(chart, `The timeline could not be loaded. ${error.message}`);
    return;
  }
  mend(chart);
  const phases = figure.phases.map(([state, took]) => h("li", {}, badge(state), h("span", { class: "num" }, took)));
  one("#phases").replaceChildren(...phases);
  draw();
}

function chooseIdle() {
  try {
    localStorage.setItem(IDLE, idle.control.checked ? "hidden" : "");
  } catch {
    // Storage is refused in some private windows: the choice lasts as long as the page.
  }
  read({ now: true });
}

if (idle) {
  try {
    idle.control.checked = localStorage.getItem(IDLE) === "hidden";
  } catch {
    // As above.
  }
  idle.addEventListener("change", chooseIdle);
}
read();
onTheme(draw);
live?.addEventListener("delta", () => {
  changed = true;
  read();
});
live?.addEventListener("tick", () => (changed || freshness.isFailing(chart) || performance.now() > due - EVERY_MS + GROWING_MS) && read());
live?.addEventListener("resync", () => read({ now: freshness.isFailing(chart) }));
// Who cannot see the badge change waits for just that.
document.addEventListener("htmx:after:swap", () => {
  const now = state();
  if (!now || now === told) return;
  told = now;
  announce(`The transaction is ${now.toLowerCase()}`);
});
document.addEventListener("keydown", ({ key }) => {
  const menu = key === "Escape" && one("details.menu[open]");
  if (!menu) return;
  menu.open = false;
  one("summary", menu).focus();
});
document.addEventListener("click", (event) => {
  const menu = one("details.menu[open]");
  const isChosen = event.target.closest("[data-copy]") && menu?.contains(event.target);
  if (!menu || (menu.contains(event.target) && !isChosen)) return;
  menu.open = false;
  if (isChosen) one("summary", menu).focus();  // With the menu the choice is gone.
});
