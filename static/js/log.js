// The page of a partition's log: puts its parts together and feeds them from the live channel.

import { all, one, setText } from "./dom.js";
import { askJson, freshness } from "./freshness.js";
import { live } from "./live.js";
import { Charts } from "./log/charts.js";
import { Inspector, showEntries } from "./log/details.js";
import { Minimap } from "./log/minimap.js";
import { PartitionLog } from "./log/model.js";
import { Strip } from "./log/strip.js";
import { refreshAll } from "./regions.js";
import { showFigures } from "./shell.js";

const NAMES = { rc: "READ_COMMITTED", ru: "READ_UNCOMMITTED" };
const RESYNC_MS = 2000;

const element = one("#strip");
const { window: windowAddress, entry: entryAddress, transaction: transactionAddress } = element.dataset;
const links = {
  entry: (offset) => entryAddress.replace(/0$/, offset),
  transaction: (id) => transactionAddress.replace(/0:0$/, id),
};
let query = new URLSearchParams(location.search);
const log = new PartitionLog(JSON.parse(one("#window").textContent), element.dataset.iso);
const strip = new Strip(element, log);
const inspector = new Inspector(one("#inspector"), log, links);
const charts = new Charts(log);
const minimap = new Minimap(one("#minimap"), log, (offset) => goTo(offset, false));

/** The transaction that the panel above the log tells of. */
let holding = log.summary.blocker;

function showPositions() {
  const { last, stable, ongoing, aborted, blocker } = log.summary;
  one('[data-figure="held"]').classList.toggle("warn", last > stable);
  showFigures({ last, stable, held: last - stable, ongoing, aborted });
  minimap.draw();
  if (holding === blocker) return;
  holding = blocker;
  refreshAll();
}

function showAll() {
  strip.build();
  showPositions();
  showEntries(one("#entries"), log, links);
  charts.draw();
}

/* The stream */

const waiting = [];
let frame = 0;

function flush() {
  frame = 0;
  const stable = log.summary.stable;
  const changed = new Set();
  for (const delta of waiting.splice(0)) {
    const offsets = log.apply(delta);
    if (offsets === null) return resync();
    offsets.forEach((offset) => changed.add(offset));
  }
  if (!strip.update(changed) || !log.knowsStable) return resync();
  showPositions();
  inspector.update(changed);
  if (stable !== log.summary.stable || [...changed].some((offset) => Math.abs(offset - log.summary.stable) < 10)) {
    showEntries(one("#entries"), log, links);
  }
  charts.draw();
}

let resyncing = 0;
let lastRead = -RESYNC_MS;
/** The window that is being read: what gives it up, and the frames that have come since it was asked for. */
let reading = null;
/** The offset that is to have the focus when the window with it has been read, whoever reads it. */
let wanted = null;

/** Reads the window again, at most every two seconds however often it is asked for. */
function resync(now = false) {
  if (resyncing) return;
  resyncing = setTimeout(async () => {
    resyncing = 0;
    await readWindow().catch(() => {});
  }, now ? 0 : Math.max(0, lastRead + RESYNC_MS - performance.now()));
}

/**
 * One window at a time: a later question gives the earlier one up, whose answer would be of another place.
 * Frames may overtake an answer: those that it does not know of are applied to it again.
 */
async function readWindow() {
  lastRead = performance.now();
  reading?.abort.abort();
  const mine = reading = { abort: new AbortController(), frames: [] };
  const at = query.get("at");
  const address = at ? `${windowAddress}?at=${encodeURIComponent(at)}` : windowAddress;
  try {
    const read = await askJson(element, address, { headers: { Accept: "application/json" }, signal: mine.abort.signal });
    const { last, now } = read.summary;
    waiting.splice(0, Infinity, ...mine.frames.filter(({ summary }) => summary.last > last || summary.now > now));
    log.load(read);
    live.moveTo(read.seq);
    live.seen();
    showAll();
    if (waiting.length) flush();
    if (wanted !== null) strip.focus(wanted);
    wanted = null;
  } finally {
    if (reading === mine) reading = null;
  }
}

live.addEventListener("delta", ({ detail }) => {
  if (!detail.summary) return;
  waiting.push(detail);
  reading?.frames.push(detail);
  frame ||= requestAnimationFrame(flush);
});
live.addEventListener("tick", () => freshness.isFailing(element) && resync());
live.addEventListener("resync", () => resync());
document.body.addEventListener("aborted", () => resync(true));

/* What the reader chooses; it stands in the address, and going back leads to what was chosen before. */

function remember(isStep) {
  const text = query.toString();
  history[isStep ? "pushState" : "replaceState"](null, "", text ? `?${text}` : location.pathname);
}

function showIsolation(isolation) {
  log.isolation = isolation;
  one(`input[name="iso"][value="${isolation}"]`).checked = true;
  setText(one("#isolation-name"), NAMES[isolation]);
  strip.repaint();
  showEntries(one("#entries"), log, links);
}

function setIsolation(isolation) {
  if (isolation === "rc") query.delete("iso");
  else query.set("iso", isolation);
  remember(true);
  showIsolation(isolation);
}

async function showPlace(isFocused) {
  const at = query.get("at");
  one("#follow").hidden = at === null;
  one("#at").value = at ?? "";
  wanted = at !== null && isFocused ? Number(at) : null;
  try {
    await readWindow();
  } catch (error) {
    if (error.name !== "AbortError") wanted = null;  // Said by the page; else given up for a later reading.
  }
}

/** Moving along the line of the whole partition is one step, however long it is: it asks for no focus. */
async function goTo(offset, isFocused = true) {
  if (offset === null) query.delete("at");
  else query.set("at", offset);
  remember(isFocused);
  await showPlace(isFocused);
}

addEventListener("popstate", () => {
  query = new URLSearchParams(location.search);
  showIsolation(query.get("iso") ?? "rc");
  showPlace(false);
});
for (const input of all('input[name="iso"]')) input.addEventListener("change", () => setIsolation(input.value));
one("#follow").addEventListener("click", () => goTo(null));
one("#reading").addEventListener("submit", (event) => {
  if (/[-:]/.test(one("#at").value)) return;  // A moment: the server knows which offset was the last then.
  event.preventDefault();
  const digits = one("#at").value.replace(/\D/g, "");
  goTo(digits ? Number(digits) : null);
});
strip.addEventListener("inspect", ({ detail }) => inspector.show(detail));
strip.addEventListener("open", ({ detail }) => htmx.ajax("GET", links.entry(detail), { target: "#dialog", swap: "innerHTML" }));

showPositions();
showEntries(one("#entries"), log, links);
inspector.show(log.summary.stable + 1);
if (query.has("at")) strip.focus(Number(query.get("at")));
