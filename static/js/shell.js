// What every page has: theme, live button, dialogs, keyboard, copy buttons, live regions.
// A page with a script of its own loads that instead, which imports this.

import { all, announce, h, icon, one, setText } from "./dom.js";
import { count } from "./format.js";
import { failure, freshness } from "./freshness.js";
import { live } from "./live.js";
import { retry, saidIn, startRegions } from "./regions.js";

const THEMES = ["system", "light", "dark"];
const GO = {
  o: "/", t: "/transactions", p: "/topics", s: "/subscriptions", c: "/coordinators", a: "/alerts", l: "/audit", e: "/settings",
};
const GO_MS = 1200;
const PACES = [1, 2, 5, 10, 30, 60];

/* Theme */

function theme() {
  return document.documentElement.dataset.theme ?? "system";
}

function showTheme() {
  const button = one("[data-theme-switch]");
  const name = theme();
  button.replaceChildren(icon(name), Object.assign(document.createElement("span"), {
    className: "vh",
    textContent: `Theme: ${name}. Switch`,
  }));
  button.title = `Theme: ${name}`;
}

function switchTheme(next = THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length]) {
  if (next === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  try {
    if (next === "system") localStorage.removeItem("theme");
    else localStorage.setItem("theme", next);
  } catch {
    // Storage is refused in some private windows: the choice lasts as long as the page.
  }
  showTheme();
  document.dispatchEvent(new Event("theme"));
  keep("theme", next);
}

/** With the user, so that it holds on every browser; a failure leaves it to this one. */
function keep(name, value) {
  const headers = JSON.parse(document.body.getAttribute("hx-headers:inherited") ?? "{}");
  if (document.documentElement.dataset.ownTheme === undefined) return;
  const body = new URLSearchParams({ [name]: value });
  fetch(`/settings/${name}`, { method: "POST", headers, body, keepalive: true }).catch(() => {});  // Also when one leaves at once.
}

/* Live button, and the notice of what could not be read again */

const NOTICES = { 401: "You are signed out", 403: "Not permitted any more", 404: "Not there any more" };
const clockTime = new Intl.DateTimeFormat("en-GB", {
  timeZone: document.documentElement.dataset.zone, hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short",
});

/** The page's state in a word: what fails goes before what the channel is. */
function standing() {
  const worst = freshness.worst;
  if (live?.state === "paused" || !worst) return { state: live?.state, word: live?.word, age: live?.age };
  const isOut = worst.status === 401;
  return { state: isOut ? "ended" : "stale", word: isOut ? "Signed out" : "Stale", age: performance.now() - worst.since };
}

function ago(milliseconds) {
  const seconds = Math.round(milliseconds / 1000);
  return seconds < 100 ? `${seconds} s` : `${Math.round(seconds / 60)} min`;
}

function showAge() {
  const button = one("[data-live]");
  const { state, age } = standing();
  const text = state === "live" && age < 1950 ? "now" : `${ago(age)} ago`;
  if (button && live) setText(one(".age", button), state === "paused" || state === "connecting" ? "" : text);
  const worst = freshness.worst;
  if (worst) setText(one("[data-notice=age]"), `${clockTime.format(performance.timeOrigin + worst.since)} (${ago(performance.now() - worst.since)} ago)`);
}

function showState() {
  showNotice();
  const button = one("[data-live]");
  if (!button || !live) return;
  const { state, word } = standing();
  if (button.dataset.state === state) return;
  button.dataset.state = state;
  button.setAttribute("aria-pressed", String(state === "paused"));
  const label = one("b", button);
  const first = label.textContent === "Connecting";
  setText(label, word);
  if (!(first && state === "live")) announce(`Updates: ${word}`);
  showAge();
}

function setPace(seconds) {
  const select = one("[data-pace-switch]");
  if (!live) return announce("This page has no live updates");
  select.value = String(seconds);
  live.pace = seconds * 1000;
  keep("pace", seconds);
}

/** Leads back here. */
function signInAddress() {
  return `${one("#stale").dataset.login}?next=${encodeURIComponent(location.pathname + location.search)}`;
}

/** Made when it is first needed, so that no page pays for it before. */
function makeNotice(notice) {
  const retry = h("button", { class: "btn", type: "button", "data-retry": "" }, "Try again");
  const signIn = h("a", { class: "btn primary", "data-sign-in": "" }, "Sign in");
  const age = h("span", { class: "num", "data-notice": "age" });
  const text = h("div", {}, h("b", { "data-notice": "title" }), " ", h("span", { "data-notice": "why" }), " ", h("span", { class: "quiet" }, "Shown as read at ", age, "."));
  notice.append(icon("warning"), text, retry, signIn);
}

/** Says what is stale, why and since when; shown in the same place on every page. */
function showNotice() {
  const notice = one("#stale");
  const worst = freshness.worst;
  notice.hidden = !worst;
  if (!worst) return;
  if (!notice.childElementCount) makeNotice(notice);
  const title = NOTICES[worst.status] ?? (worst.whole ? "This page is not up to date" : "A part of this page is not up to date");
  setText(one("[data-notice=title]", notice), title);
  setText(one("[data-notice=why]", notice), worst.message + (worst.request ? ` Request ${worst.request}.` : ""));
  one("[data-retry]", notice).hidden = worst.status === 401;
  const signIn = one("[data-sign-in]", notice);
  signIn.hidden = worst.status !== 401;
  signIn.href = signInAddress();
  showAge();
  announce(`${title}. ${worst.message}`);
}

/** Rights, name and the forms' token may be another's now: the page is made anew, but under no dialog. */
function startAgain() {
  const dialog = one("dialog[open]");
  if (dialog) dialog.addEventListener("close", () => location.reload(), { once: true });
  else location.reload();
}

/** Writes a frame's figures into the elements that carry their names. */
export function showFigures(figures) {
  for (const [name, value] of Object.entries(figures)) {
    const text = typeof value === "string" ? value : count(value);
    all(`[data-figure="${name}"]`).forEach((element) => setText(element, text));
  }
}

/* Dialogs: the content is loaded into #dialog, which stands outside every live region. */

/** Whether an answer is the dialog's, asked before the swap: it may replace the very form that asked. */
function noteDialog({ detail: { ctx } }) {
  if (ctx) ctx.isForDialog = one("#dialog").contains(ctx.target);
}

/** Opens what was loaded into the dialog. Focus goes to what is to be put right, else to what is to be
 * filled in, else to the way out: with what it was on it would be gone. */
function openLoaded({ detail: { ctx } }) {
  const dialog = one("#dialog");
  if (!ctx?.isForDialog || !dialog.childElementCount) return;
  const isKept = dialog.open && dialog.contains(document.activeElement);
  if (!dialog.open && ctx.target === dialog && ctx.response?.raw.ok) dialog.showModal();
  if (!dialog.open || isKept) return;
  const field = one("[aria-invalid=true]", dialog) ?? one("textarea, input:not([type=hidden])", dialog);
  (field ?? one("[data-close]", dialog))?.focus();
}

function closeFrom(event) {
  const dialog = event.target.closest("[data-close]")?.closest("dialog");
  if (!dialog) return;
  event.preventDefault();
  dialog.close();
}

/* What somebody asked for and did not get is said where they asked for it. */

function faultOf({ status, message, request }, again) {
  const text = h("div", {}, h("b", {}, "That did not work"), message, request ? h("span", { class: "quiet" }, ` Request ${request}.`) : "");
  if (status === 401) text.append(" ", h("a", { class: "btn small", href: signInAddress() }, "Sign in"));
  else if (again) text.append(again);
  return h("div", { class: "fault", role: "alert" }, icon("warning"), text);
}

function tryAgain(run) {
  const button = h("button", { class: "btn small", type: "button" }, "Try again");
  button.addEventListener("click", run);
  return button;
}

/** A dialog that the server refuses becomes a page, which says why. */
function refusedDialog(ctx, why) {
  const dialog = one("#dialog");
  const address = ctx.sourceElement?.getAttribute("hx-get");
  if (why.status && address) return location.assign(address);
  const close = h("button", { class: "btn", type: "button", "data-close": "" }, "Close");
  dialog.replaceChildren(h("div", { class: "inner" }, h("h2", { id: "dialog-title" }, "This cannot be opened now"), faultOf(why), h("div", { class: "buttons" }, close)));
  if (!dialog.open) dialog.showModal();
}

function refused({ detail: { ctx } }) {
  const { sourceElement: source, target, request, response, text } = ctx ?? {};
  const status = response?.status ?? 0;
  const isRegion = source?.dataset?.region !== undefined;
  if (!source || (isRegion && !source.ariaBusy) || (status && status < 400)) return;
  if (!status && request?.signal?.aborted && request.signal.reason !== "timeout") return;
  const why = failure(status, saidIn(text), response?.headers.get("X-Request-ID") ?? "");
  const form = source.closest("form[hx-post]");
  if (target === one("#dialog")) return refusedDialog(ctx, why);
  if (form?.isConnected && request.method !== "GET") {
    one(".fault", form)?.remove();
    if (!ctx.swap || ctx.swap === "none" || !status) one(".buttons", form)?.before(faultOf(why));
  } else if (target?.isConnected && request?.method === "GET") {
    const again = () => (isRegion ? htmx.trigger(target, "refresh") : htmx.ajax("GET", request.action, { target, swap: "innerHTML" }));
    target.replaceChildren(faultOf(why, tryAgain(again)));
  }
}

/* What could not be read when the page was: where there is no channel nobody else asks for it again. */

const AGAIN_MS = 10000;
const again = (root) => one(".fault [data-again]", root);

/** Asks for the page until it has no such fault any more, and makes it anew then. */
async function askAgain() {
  const isInUse = document.hidden || document.activeElement.matches("input, textarea, select");
  const answer = isInUse ? null : await fetch(location.href).catch(() => null);
  const page = document.createElement("template");
  page.innerHTML = (await answer?.text().catch(() => "")) ?? "";
  if (!answer || answer.status >= 500 || again(page.content)) setTimeout(askAgain, AGAIN_MS);
  else startAgain();
}

/* Search box and command palette */

const COMMANDS = [
  ["Theme: light", () => switchTheme("light")],
  ["Theme: dark", () => switchTheme("dark")],
  ["Theme: as the system", () => switchTheme("system")],
  ["Pause or resume live updates", () => live?.toggle()],
  ...PACES.map((seconds) => [`Renew pages every ${seconds} s`, () => setPace(seconds)]),
  ["Keyboard shortcuts", openShortcuts],
  ["Sign out", () => one("form[action$='/logout']").requestSubmit()],
];

function commands(text) {
  const wanted = text.toLowerCase();
  return COMMANDS.filter(([title]) => title.toLowerCase().includes(wanted)).map(([title, run]) => ({
    kind: "Do", title, detail: "", run: () => {
      one("#palette").close();
      run();
    },
  }));
}

const loaded = {};

/** The finder of an input, made when it is first used. */
async function finder(input, list, options) {
  const { Finder } = await import("./finder.js");
  return (loaded[input] ??= new Finder(one(input), one(list), options));
}

async function openPalette() {
  one("#palette").showModal();
  one("#palette-text").select();
  (await finder("#palette-text", "#palette-finds", { commands })).ask();
}

/* Keyboard */

/** The dialog's text is a template until somebody asks, so that no page pays for it before. */
function openShortcuts() {
  const dialog = one("#shortcuts");
  const text = one("template", dialog);
  text?.replaceWith(text.content);
  dialog.showModal();
}

/** Focuses the link or button of the next row of the page's tables. */
function moveRow(step) {
  const rows = all("main tbody tr").filter((row) => one("a, button", row) && row.offsetParent);
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const row = rows[at < 0 ? (step > 0 ? 0 : rows.length - 1) : at + step];
  if (row) one("a, button", row).focus();
}

let goUntil = 0;

function onKey(event) {
  if ((event.metaKey || event.ctrlKey) && event.key === "k" && !one("dialog[open]")) {
    event.preventDefault();
    openPalette();
    return;
  }
  if (event.metaKey || event.ctrlKey || event.altKey) return;
  if (event.target.matches("input, textarea, select, [contenteditable]") || one("dialog[open]")) return;
  if (performance.now() < goUntil && GO[event.key]) location.assign(GO[event.key]);
  else if (event.key === "g") goUntil = performance.now() + GO_MS;
  else if (event.key === "/") one(".search input").focus();
  else if (event.key === "r") live?.toggle();
  else if (event.key === "j") moveRow(1);
  else if (event.key === "k") moveRow(-1);
  else if (event.key === "?") openShortcuts();
  else return;
  event.preventDefault();
}

/** Over plain HTTP from another machine a browser has no clipboard, but copies what is selected. */
function copyByHand(button) {
  const field = Object.assign(document.createElement("textarea"), { value: button.dataset.copy, readOnly: true });
  button.after(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  button.focus();
  return done;
}

async function copy(event) {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const copied = await navigator.clipboard?.writeText(button.dataset.copy).then(() => true, () => false);
  const done = copied || copyByHand(button);
  announce(done ? "Copied" : "The browser refused to copy");
  if (done) button.title = "Copied";
}

// Only where the browser trusts the connection; without it there is no card when the server is away.
addEventListener("load", () => navigator.serviceWorker?.register("/offline.js").catch(() => {}));

showTheme();
startRegions();
one("[data-theme-switch]").addEventListener("click", () => switchTheme());
one("[data-live]")?.addEventListener("click", () => live.toggle());
one("[data-pace-switch]")?.addEventListener("change", ({ target }) => setPace(Number(target.value)));
live?.addEventListener("state", showState);
live?.addEventListener("clock", showAge);
freshness.addEventListener("change", showState);
freshness.addEventListener("admitted", startAgain);
live?.addEventListener("delta", ({ detail }) => detail.figures && showFigures(detail.figures));
document.addEventListener("htmx:before:swap", noteDialog);
document.addEventListener("htmx:after:swap", openLoaded);  // At the document too, of a form that is gone.
document.body.addEventListener("htmx:finally:request", refused);
document.body.addEventListener("aborted", () => {
  one("#dialog").close();
  announce("The transaction is aborting");
});
document.addEventListener("click", closeFrom);
document.addEventListener("click", copy);
document.addEventListener("click", (event) => event.target.closest("[data-retry]") && retry());
document.addEventListener("keydown", onKey);
if (!live && again(document)) {
  again(document).after(" This page asks again by itself every ten seconds.");
  setTimeout(askAgain, AGAIN_MS);
}
const box = one("#q");
box?.addEventListener("focus", async () => {
  const found = await finder("#q", "#finds");
  if (box.value && document.activeElement === box) found.ask();
});
box?.addEventListener("blur", () => loaded["#q"]?.close());
one("[data-palette]")?.addEventListener("click", (event) => {
  event.preventDefault();
  openPalette();
});
