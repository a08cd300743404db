// The page of a partition's log: puts its parts together and feeds them from the live channel.

import { all, one, setText } from "./dom.js";
import { position } from "./format.js";
import { askJson, freshness } from "./freshness.js";
import { live } from "./live.js";
import { Charts } from "./log/charts.js";
import { Inspector, showEntries } from "./log/details.js";
import { Minimap } from "./log/minimap.js";
import { PartitionLog, TABLE_ROWS } from "./log/model.js";
import { Place } from "./log/place.js";
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
const place = new Place(one("#reading"), (written) => goTo(written));
const minimap = new Minimap(one("#minimap"), log, (offset) => goTo(offset, { isStep: false }));

/** The transaction that the panel above the log tells of. */
let holding = log.summary.blocker;

function showPositions() {
  const { last, stable, ongoing, aborted, blocker } = log.summary;
  one('[data-figure="held"]').classList.toggle("warn", last > stable);
  showFigures({ last: position(last), stable: position(stable), held: last - stable, ongoing, aborted });
  minimap.draw();
  place.showEdges(log.summary);
  if (holding === blocker) return;
  holding = blocker;
  refreshAll();
}

function showAll() {
  strip.build();
  showPositions();
  showEntries(one("#entries"), log, links);
  letGo();
  inspector.show(inspector.offset);
  charts.draw({ now: true });
}

/** What is told of an entry goes when the entry does. */
function letGo() {
  if (inspector.offset === null || strip.shows(inspector.offset)) return;
  inspector.clear();
  strip.release();
}

/* The stream */

const waiting = [];
let frame = 0;

function flush() {
  frame = 0;
  const from = log.tableFrom;
  const changed = new Set();
  for (const delta of waiting.splice(0)) {
    const offsets = log.apply(delta);
    if (offsets === null) return resync();
    offsets.forEach((offset) => changed.add(offset));
  }
  if (!strip.update(changed) || !log.knowsStable) return resync();
  showPositions();
  inspector.update(changed);
  letGo();
  const isInTable = (offset) => offset >= log.tableFrom && offset < log.tableFrom + TABLE_ROWS;
  if (from !== log.tableFrom || [...changed].some(isInTable)) showEntries(one("#entries"), log, links);
  charts.draw();
}

let resyncing = 0;
let lastRead = -RESYNC_MS;
/** The window that is being read: what gives it up, and the frames that have come since it was asked for. */
let reading = null;
/**
 * Where the reader wants to be until a window of it has been read, whoever reads it: the place as it
 * was written (null: the end), whether it is a step back to which leads, and whether it gets the focus.
 */
let move = null;

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
  const at = move ? move.at : log.at;
  const address = at === null ? windowAddress : `${windowAddress}?at=${encodeURIComponent(at)}`;
  try {
    const read = await askJson(element, address, { signal: mine.abort.signal, wrote: move !== null });
    const { last, now } = read.summary;
    waiting.splice(0, Infinity, ...mine.frames.filter(({ summary }) => summary.last > last || summary.now > now));
    log.load(read);
    live.moveTo(read.seq);
    live.seen();
    showAll();
    if (waiting.length) flush();
    if (move) arrive(read);
  } catch (error) {
    if (!error.isRefused || reading !== mine) throw error;
    refuse(error.message);
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

async function goTo(at, { isStep = true, isFocused = isStep } = {}) {
  move = { at, isStep, isFocused };
  try {
    await readWindow();
  } catch (error) {
    if (move && error.name !== "AbortError") move.isFocused = false;  // Said by the page, which comes there later.
  }
}

/** The address has the offset of a moment, and nothing for what is past the end: the end is followed. */
function arrive(read) {
  const { at, isStep, isFocused } = move;
  move = null;
  if (log.following) query.delete("at");
  else query.set("at", log.at);
  remember(isStep);
  place.show(read, at);
  if (isFocused) strip.focus(log.at);
}

/** What was written is no place: all stays where it is. */
function refuse(why) {
  place.refuse(why, move.at);
  move = null;
}

addEventListener("popstate", () => {
  query = new URLSearchParams(location.search);
  showIsolation(query.get("iso") ?? "rc");
  goTo(query.get("at"), { isStep: false });
});
for (const input of all('input[name="iso"]')) input.addEventListener("change", () => setIsolation(input.value));
strip.addEventListener("inspect", ({ detail }) => inspector.show(detail));
strip.addEventListener("open", ({ detail }) => htmx.ajax("GET", links.entry(detail), { target: "#dialog", swap: "innerHTML" }));

showPositions();
showEntries(one("#entries"), log, links);
inspector.show(log.at ?? log.summary.stable + 1);
if (log.following) query.delete("at");  // What is written there is no place, or past the end.
else strip.focus(log.at);
