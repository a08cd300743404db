// Rows hold still for who points at one, or is in one by the keyboard: what stands in them is renewed,
// and what came, went or changed places waits until they leave the table.

import { all, h, one, setText } from "./dom.js";

const HELD = matchMedia("(hover: hover)").matches
  ? "tbody tr:hover, tbody tr:focus-within"
  : "tbody tr:focus-within";
/** What gives a region its shape: rows, and whatever comes and goes above them. */
const SHAPE = "tbody tr[id], section, .notice, .fault, .empty, .blocker";

/** What says how all of it stands: no row, and told at once. */
const STANDING = ".verdict, .figures";

const shape = (root) => all(SHAPE, root).map((part) => part.id || part.className || part.getAttribute("aria-labelledby"));
const isHeld = (region) => one(HELD, region) !== null;

/** Renews the cells of a row, but for the one that has the focus. */
function renew(row, fresh) {
  if (row.cells.length !== fresh.cells.length) return;
  row.className = fresh.className;
  for (const [at, cell] of [...row.cells].entries()) {
    const next = fresh.cells[at];
    // What htmx knows of is marked by it, and a button must not be replaced under a click.
    const what = one("[hx-get]", cell) ? "textContent" : "innerHTML";
    if (cell.contains(document.activeElement) || cell[what] === next[what]) continue;
    cell.replaceChildren(...next.cloneNode(true).childNodes);
    htmx.process(cell);
  }
}

/** In no less room than before, so that no row moves up. */
function renewStanding(region, fragment) {
  const fresh = all(STANDING, fragment);
  for (const [at, part] of all(STANDING, region).entries()) {
    if (!fresh[at] || part.contains(document.activeElement)) continue;
    fresh[at].style.minHeight = `${part.getBoundingClientRect().height}px`;
    part.replaceWith(fresh[at]);
  }
}

function tell(added, gone) {
  const some = [added && `${added} new`, gone && `${gone} gone`].filter(Boolean).join(", ") || "another order";
  if (!one("#waits")) one("#main").append(h("p", { class: "waits num", id: "waits" }));
  setText(one("#waits"), `Rows hold still while you are in the table: ${some}`);
  one("#waits").hidden = false;
}

function settle() {
  if (!one("[data-waiting]")) one("#waits")?.setAttribute("hidden", "");
}

/** Before a region is read anew: whether it has to keep its shape, and has been renewed in place. */
function hold(event) {
  const { ctx: { sourceElement: region }, tasks: [task] } = event.detail;
  if (region?.dataset.region === undefined || task?.target !== region) return;
  delete region.dataset.waiting;
  const before = shape(region), after = shape(task.fragment);
  if (!isHeld(region) || before.join() === after.join()) {
    return settle();
  }
  event.preventDefault();
  region.dataset.waiting = "";
  const fresh = new Map(all("tbody tr[id]", task.fragment).map((row) => [row.id, row]));
  const known = all("tbody tr[id]", region);
  for (const row of known) {
    row.toggleAttribute("data-gone", !fresh.has(row.id));
    if (fresh.has(row.id)) renew(row, fresh.get(row.id));
  }
  renewStanding(region, task.fragment);
  const names = new Set(known.map((row) => row.id));
  tell([...fresh.keys()].filter((id) => !names.has(id)).length, known.filter((row) => !fresh.has(row.id)).length);
}

/** Whoever has left a table that waits sees it as it is. */
function release() {
  for (const region of all("[data-waiting]")) {
    if (isHeld(region)) continue;
    delete region.dataset.waiting;
    htmx.trigger(region, "refresh");
    settle();
  }
}

export function startSteadyRows() {
  document.body.addEventListener("htmx:before:swap", hold);
  for (const leaving of ["pointerover", "focusin"]) document.addEventListener(leaving, release);
  for (const leaving of ["focusout", "pointerleave"]) {
    document.documentElement.addEventListener(leaving, () => requestAnimationFrame(release));
  }
}
