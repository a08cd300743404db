// The profile: offers the browser's own time zone.

import { one } from "./dom.js";
import "./shell.js";

const button = one("[data-own-zone]");
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const field = one("#id_zone");
if (zone && zone !== field.value) {
  one("span", button).textContent = zone;
  button.hidden = false;
  button.addEventListener("click", () => {
    field.value = zone;
    field.focus();
  });
}
