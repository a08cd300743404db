// Copy buttons. What came of it stands over the button for a while, so that nothing moves.

import { announce, one } from "./dom.js";

const SHOWN_MS = 2000;
const waiting = new WeakMap();

/** Over plain HTTP from another machine a browser has no clipboard, but copies what is selected. */
function copyByHand(text, dialog) {
  const before = document.activeElement;
  const field = Object.assign(document.createElement("textarea"), { value: text, readOnly: true });
  (dialog ?? document.body).append(field);  // Behind a dialog nothing can be selected.
  field.focus({ preventScroll: true });
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  before?.focus({ preventScroll: true });
  return done;
}

function tell(place, text) {
  place.dataset.told = text;
  announce(text);
  clearTimeout(waiting.get(place));
  waiting.set(place, setTimeout(() => {
    delete place.dataset.told;
    announce("");  // The next time it is news again.
  }, SHOWN_MS));
}

async function copy(event) {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const text = button.dataset.copy;
  const copied = await navigator.clipboard?.writeText(text).then(() => true, () => false);
  const done = copied || copyByHand(text, button.closest("dialog"));
  // A menu closes with the choice; what opens it stays in sight.
  const menu = button.closest("details");
  tell(menu?.matches(".menu") ? one("summary", menu) : button, done ? "Copied" : "Not copied");
}

export function startCopying() {
  document.addEventListener("click", copy);
}
