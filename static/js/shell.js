// What every page has: theme, live button, dialogs, keyboard, copy buttons, live regions.
// A page with a script of its own loads that instead, which imports this.

import { all, announce, icon, one, setText } from "./dom.js";
import { count } from "./format.js";
import { live } from "./live.js";
import { startRegions } from "./regions.js";

const THEMES = ["system", "light", "dark"];
const GO = {
  o: "/", t: "/transactions", p: "/topics", s: "/subscriptions", c: "/coordinators", a: "/alerts", l: "/audit", e: "/settings",
};
const GO_MS = 1200;

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
  keepTheme(next);
}

/** With the user, so that it holds on every browser; a failure leaves it to this one. */
function keepTheme(next) {
  const headers = JSON.parse(document.body.getAttribute("hx-headers:inherited") ?? "{}");
  if (document.documentElement.dataset.ownTheme === undefined) return;
  fetch("/settings/theme", { method: "POST", headers, body: new URLSearchParams({ theme: next }) }).catch(() => {});
}

/* Live button */

function showLive() {
  const button = one("[data-live]");
  if (!button || !live) return;
  const seconds = live.age === null ? null : live.age / 1000;
  const age = seconds === null ? "" : seconds < 1.95 ? "1 s tick" : `${Math.round(seconds)} s ago`;
  setText(one(".age", button), live.state === "paused" ? "" : age);
}

function showLiveState({ state, word }) {
  const button = one("[data-live]");
  button.dataset.state = state;
  button.setAttribute("aria-pressed", String(state === "paused"));
  const label = one("b", button);
  const first = label.textContent === "Connecting";
  setText(label, word);
  if (!(first && state === "live")) announce(`Updates: ${word}`);
  showLive();
}

/** Writes a frame's figures into the elements that carry their names. */
export function showFigures(figures) {
  for (const [name, value] of Object.entries(figures)) {
    const text = typeof value === "string" ? value : count(value);
    all(`[data-figure="${name}"]`).forEach((element) => setText(element, text));
  }
}

/* Dialogs: the content is loaded into #dialog, which stands outside every live region. */

function openLoaded(event) {
  const dialog = one("#dialog");
  if (event.detail.ctx?.target !== dialog || !dialog.childElementCount) return;
  if (!dialog.open) dialog.showModal();
  one("textarea, input:not([type=hidden])", dialog)?.focus();
}

function closeFrom(event) {
  const dialog = event.target.closest("[data-close]")?.closest("dialog");
  if (!dialog) return;
  event.preventDefault();
  dialog.close();
}

// A dialog that cannot be loaded becomes a page, which says why.
function openAsPage(event) {
  const { sourceElement, target } = event.detail.ctx ?? {};
  const address = sourceElement?.getAttribute("hx-get");
  if (target === one("#dialog") && address) location.assign(address);
}

/* Search box and command palette */

const COMMANDS = [
  ["Theme: light", () => switchTheme("light")],
  ["Theme: dark", () => switchTheme("dark")],
  ["Theme: as the system", () => switchTheme("system")],
  ["Pause or resume live updates", () => live?.toggle()],
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
live?.addEventListener("state", (event) => showLiveState(event.detail));
live?.addEventListener("clock", showLive);
live?.addEventListener("delta", ({ detail }) => detail.figures && showFigures(detail.figures));
document.body.addEventListener("htmx:after:swap", openLoaded);
document.body.addEventListener("htmx:response:error", openAsPage);
document.body.addEventListener("aborted", () => {
  one("#dialog").close();
  announce("The transaction is aborting");
});
document.addEventListener("click", closeFrom);
document.addEventListener("click", copy);
document.addEventListener("keydown", onKey);
const box = one("#q");
box?.addEventListener("focus", async () => {
  const found = await finder("#q", "#finds");
  if (box.value) found.ask();
});
box?.addEventListener("blur", () => loaded["#q"]?.close());
one("[data-palette]")?.addEventListener("click", (event) => {
  event.preventDefault();
  openPalette();
});
