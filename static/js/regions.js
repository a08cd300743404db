// Regions of server-rendered HTML that are read again when the page's channel says that something
// changed (`data-region`), at most every `data-every` seconds; with `data-always` also when it did
// not, because ages grow. htmx morphs them, so focus and scrolling stay. One that could not be read
// keeps what it shows, says so, and is tried again.

import { all, one } from "./dom.js";
import { failure, freshness } from "./freshness.js";
import { live } from "./live.js";

const FAILING_MS = 5000;
const UNANSWERED_MS = 10000;
const read = new WeakMap();
const asked = new WeakMap();
let changed = false;

function refresh(region) {
  const now = performance.now();
  read.set(region, now);
  if (!asked.has(region)) asked.set(region, now);
  htmx.trigger(region, "refresh");
}

/** Reads every region again now. */
export function refreshAll() {
  all("[data-region]").forEach(refresh);
  changed = false;
}

function refreshDue() {
  let waiting = false;
  for (const region of all("[data-region]")) {
    const failing = freshness.isFailing(region);
    if (!changed && !failing && region.dataset.always === undefined) continue;
    const every = Number(region.dataset.every) * 1000 - 100;
    if (performance.now() - (read.get(region) ?? 0) >= (failing ? Math.max(every, FAILING_MS) : every)) refresh(region);
    else waiting = true;
  }
  changed = changed && waiting;
}

/** A question that hangs is no answer, even while the stream lives. */
function noticeUnanswered() {
  for (const region of all("[data-region]")) {
    if (performance.now() - (asked.get(region) ?? Infinity) > UNANSWERED_MS) freshness.failed(region, failure(0, "The server has not answered yet."));
  }
}

/** What the server said in place of a region: the text of its fault, without the link to try again. */
export function saidIn(html) {
  const parsed = document.createElement("template");
  parsed.innerHTML = html ?? "";
  const fault = parsed.content.querySelector(".fault [data-says]");
  return fault?.textContent.trim() ?? "";
}

function finished({ detail: { ctx } }) {
  const region = ctx?.sourceElement;
  const status = ctx?.response?.status ?? 0;
  if (!status && ctx?.request?.signal?.aborted && ctx.request.signal.reason !== "timeout") return;
  if (region?.dataset?.region === undefined) {
    if (status && status < 400) live?.seen();
    return;
  }
  asked.delete(region);
  if (status && status < 400) {
    region.removeAttribute("aria-busy");
    live?.seen();
    freshness.read(region);
  } else {
    freshness.failed(region, failure(status, saidIn(ctx.text), ctx.response?.headers.get("X-Request-ID") ?? ""));
  }
}

/** A region that the reader has paged through is read again at the place where it stands. */
function notePlace({ detail: { ctx } }) {
  const { target, request, response } = ctx ?? {};
  if (target?.dataset?.region === undefined || request?.method !== "GET" || !response?.raw.ok) return;
  if (target.getAttribute("hx-get") !== request.action) target.setAttribute("hx-get", request.action);
}

const placeOf = ({ sourceElement }) => sourceElement.getAttribute("hx-get");

function noteAsked({ detail: { ctx } }) {
  ctx.place = placeOf(ctx);
}

/** An answer of the place where a region stood before the reader paged on is too late. */
function noteFocus(event) {
  const { ctx } = event.detail;
  ctx.hadFocus = ctx.target?.contains(document.activeElement);
  if (ctx.place === placeOf(ctx)) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  refresh(ctx.sourceElement);
}

/** What stands below a region that keeps its room stands still when that becomes shorter, until the window is another. */
function keepRoom() {
  const regions = all("[data-keeps-room]");
  const room = new ResizeObserver((entries) => entries.forEach(({ target, contentRect }) => {
    target.style.minHeight = `${contentRect.height}px`;
  }));
  regions.forEach((region) => room.observe(region));
  addEventListener("resize", () => regions.forEach((region) => region.style.removeProperty("min-height")));
}

/** The focus goes to what was read again, in place of what is gone from it, or soon will be. */
export function focusOn(part) {
  part.tabIndex = -1;
  part.focus({ preventScroll: true });
}

function keepFocus({ detail: { ctx } }) {
  if (ctx?.hadFocus && !ctx.isForDialog && document.activeElement === document.body) focusOn(ctx.target);
}

/** Without a channel nobody else asks again. */
export function retry() {
  if (live) live.retry();
  else refreshAll();
}

export function startRegions() {
  // Where there are rows, or may be some; the largest page, a log's, reads none again.
  if (one("[data-region] :is(table, .empty)")) import("./steady.js").then(({ startSteadyRows }) => startSteadyRows());
  keepRoom();
  // Not by htmx's own "load": it would ask, and might be refused, before anybody here listens.
  addEventListener("DOMContentLoaded", () => all("[data-region][aria-busy]").forEach(refresh));
  live?.addEventListener("delta", () => {
    changed = true;
    refreshDue();
  });
  live?.addEventListener("tick", refreshDue);
  live?.addEventListener("clock", noticeUnanswered);
  live?.addEventListener("resync", refreshAll);
  document.body.addEventListener("htmx:finally:request", finished);
  document.body.addEventListener("htmx:after:swap", notePlace);
  document.body.addEventListener("htmx:config:request", noteAsked);
  document.body.addEventListener("htmx:before:swap", noteFocus);
  document.body.addEventListener("htmx:after:swap", keepFocus);
  document.body.addEventListener("aborted", refreshAll);
  document.body.addEventListener("changed", refreshAll);
}
