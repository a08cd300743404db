// What every page has, put together. A page with a script of its own loads that instead, which imports this.

import { startCopying } from "./copying.js";
import { startDialogs } from "./dialogs.js";
import { all, one, setText } from "./dom.js";
import { count } from "./format.js";
import { startKeys } from "./keys.js";
import { live } from "./live.js";
import { startPalette } from "./palette.js";
import { startPreferences } from "./preferences.js";
import { retry, startRegions } from "./regions.js";
import { startStanding } from "./standing.js";

/** Until when what is sent counts as sent by mistake. */
let quietUntil = 0;

/** Writes a frame's figures into the elements that carry their names. */
export function showFigures(figures) {
  for (const [name, value] of Object.entries(figures)) {
    const text = typeof value === "string" ? value : count(value);
    all(`[data-figure="${name}"]`).forEach((element) => setText(element, text));
  }
}

/** How many alerts fire stands in the navigation and before the tab's title. */
function showFiring({ detail: { firing } }) {
  const badge = one("[data-firing]");
  if (!badge) return;
  badge.hidden = !firing;
  if (badge.firstChild.data !== String(firing)) badge.firstChild.data = firing;
  document.title = (firing ? `(${firing}) ` : "") + document.title.replace(/^\(\d+\) /, "");
}

/** A second Enter or click, while a form is on its way, would ask for the same once more. */
function sendOnce(event) {
  if (event.defaultPrevented || event.target.method !== "post") return;
  if (event.timeStamp < quietUntil) event.preventDefault();
  else quietUntil = event.timeStamp + 2000;
}

// Only where the browser trusts the connection; without it there is no card when the server is away.
addEventListener("load", () => navigator.serviceWorker?.register("/offline.js").catch(() => {}));

startPreferences();
startRegions();
startStanding();
startDialogs();
startPalette();
startKeys();
startCopying();
live?.addEventListener("delta", ({ detail }) => detail.figures && showFigures(detail.figures));
live?.addEventListener("alerts", showFiring);
document.addEventListener("submit", sendOnce);
document.addEventListener("click", (event) => event.target.closest("[data-retry]") && retry());
