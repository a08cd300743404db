// The keys that work on every page.

import { all, one } from "./dom.js";
import { live } from "./live.js";
import { openPalette, openShortcuts } from "./palette.js";

const GO = {
  o: "/", t: "/transactions", p: "/topics", s: "/subscriptions", c: "/coordinators", a: "/alerts", l: "/audit", e: "/settings",
};
const GO_MS = 1200;

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

export function startKeys() {
  document.addEventListener("keydown", onKey);
}
