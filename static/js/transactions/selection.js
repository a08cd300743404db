// Selecting transactions to abort them together. The boxes are a form's, which works without this.

import { all, one, setText } from "../dom.js";
import { count } from "../format.js";

const form = one("#selection");
const bar = one("#selectbar");
const everything = one('[name="all"]', form ?? document);
const page = one("[data-select-page]");
const wider = one("[data-select-all]");
let matching = null;

const boxes = () => all('input[name="id"]', form);
const selected = () => boxes().filter((box) => box.checked);

/** A row that was read again is as selected as it was. */
export function keepSelected(old, row) {
  const [before, now] = [old, row].map((one) => one.querySelector('input[name="id"]'));
  if (before && now) now.checked = before.checked;
}

function freeze(all) {
  if (everything) everything.disabled = !all;
}

/** What the bar says of the boxes as they are now; a transaction that has ended has none. */
export function showSelected() {
  if (form && page) show();
}

function show() {
  const chosen = selected().length;
  const open = boxes().length;
  const whole = everything && !everything.disabled;
  bar.hidden = chosen === 0;
  page.checked = chosen > 0 && chosen === open;
  page.indeterminate = chosen > 0 && chosen < open;
  setText(one("[data-selected]"), whole ? `All ${matching ? `${matching} ` : ""}open matching selected` : `${count(chosen)} selected`);
  wider.hidden = whole || chosen < open || form.dataset.more === undefined;
  if (!wider.hidden) offer();
}

/** Tells how many there are beyond this page; asked once, when somebody has selected all of it. */
async function offer() {
  if (matching === null) {
    matching = "";
    setText(wider, "Select all open that match");
    const answer = await fetch(form.dataset.count, { headers: { Accept: "application/json" } }).catch(() => null);
    const found = answer?.ok ? await answer.json() : null;
    matching = found && (found.count > found.limit ? `${count(found.limit)}+` : count(found.count));
    if (found) show();
  } else if (matching) {
    setText(wider, `Select all ${matching} open that match`);
  }
}

if (form && page) {
  form.addEventListener("change", (event) => {
    if (event.target === page) boxes().forEach((box) => (box.checked = page.checked));
    freeze(false);
    show();
  });
  wider.addEventListener("click", () => {
    freeze(true);
    show();
  });
  one("[data-select-none]").addEventListener("click", () => {
    boxes().forEach((box) => (box.checked = false));
    freeze(false);
    show();
    page.focus();
  });
  show();
}
