// How up to date the page is: the live button, and the notice of what could not be read again.

import { announce, h, icon, one, setText } from "./dom.js";
import { duration } from "./format.js";
import { freshness } from "./freshness.js";
import { live } from "./live.js";

const NOTICES = { 401: "You are signed out", 403: "Not permitted any more", 404: "Not there any more" };
const clockTime = new Intl.DateTimeFormat("en-GB", {
  timeZone: document.documentElement.dataset.zone, hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short",
});

/** The page's state in a word: what fails goes before what the channel is. */
function standing() {
  const worst = freshness.worst;
  if (live?.state === "paused" || !worst) return { state: live?.state, word: live?.word, age: live?.age };
  const isOut = worst.status === 401;
  return { state: isOut ? "ended" : "stale", word: isOut ? "Signed out" : "Stale", age: Date.now() - worst.since };
}

const ago = (milliseconds) => `${duration(milliseconds)} ago`;

function showAge() {
  const button = one("[data-live]");
  const { state, age } = standing();
  const text = state === "live" && age < 1950 ? "now" : ago(age);
  if (button && live) setText(one(".age", button), state === "paused" || state === "connecting" ? "" : text);
  const worst = freshness.worst;
  if (worst) setText(one("[data-notice=age]"), `${clockTime.format(worst.since)} (${ago(Date.now() - worst.since)})`);
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
  if (!document.hidden && !(first && state === "live")) announce(`Updates: ${word}`);
  showAge();
}

/** Leads back here. */
export function signInAddress() {
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

export function startStanding() {
  one("[data-live]")?.addEventListener("click", () => live.toggle());
  live?.addEventListener("state", showState);
  live?.addEventListener("clock", showAge);
  freshness.addEventListener("change", showState);
  freshness.addEventListener("admitted", startAgain);
  if (live || !again(document)) return;
  again(document).after(" This page asks again by itself every ten seconds.");
  setTimeout(askAgain, AGAIN_MS);
}
