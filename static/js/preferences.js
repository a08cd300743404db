// What a user chooses for all pages: the theme, and how often pages are renewed. It is kept with the user.

import { announce, icon, one } from "./dom.js";
import { live } from "./live.js";

const THEMES = ["system", "light", "dark"];
export const PACES = [1, 2, 5, 10, 30, 60];

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

export function switchTheme(next = THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length]) {
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

export function setPace(seconds) {
  const select = one("[data-pace-switch]");
  if (!live) return announce("This page has no live updates");
  select.value = String(seconds);
  live.pace = seconds * 1000;
  keep("pace", seconds);
}

export function startPreferences() {
  showTheme();
  one("[data-theme-switch]").addEventListener("click", () => switchTheme());
  one("[data-pace-switch]")?.addEventListener("change", ({ target }) => setPace(Number(target.value)));
}
