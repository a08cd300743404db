// The list of transactions: rows stay where they are and change in place; new ones wait behind a
// count until the reader asks for them.

import { all, one, setText } from "./dom.js";
import { count } from "./format.js";
import { ask, freshness } from "./freshness.js";
import { live } from "./live.js";
import "./shell.js";
import "./transactions/completion.js";
import { keepSelected, showSelected } from "./transactions/selection.js";

const EVERY_MS = 3000;
const body = one("[data-rows]");
const { issued, opened } = one("#list").dataset;
let due = 0;
let reading = false;

/** What everybody has opened is counted; of an owner's own, the newest are told with their moments. Whatever
 * the page has not is newer: one that was being opened when it was read may bear an earlier moment than all it has. */
function newerThan(frame) {
  if (issued) return [frame.figures.issued - Number(issued), ""];
  const told = opened === undefined ? [] : (frame.opened ?? []);
  const known = (opened ?? "").split(" ").filter(Boolean).map(Number);
  const newer = told.filter((moment) => !known.includes(moment)).length;
  return [newer, known.length && newer === told.length ? "+" : ""];
}

function showNewer(frame) {
  const [newer, more] = newerThan(frame);
  if (!(newer > 0)) return;
  setText(one("[data-newer]"), count(newer) + more);
  one("#newer")?.removeAttribute("hidden");
}

/** Replaces the rows that could still change by what they are now. */
async function readRows() {
  const ids = all("tr[data-moving]", body ?? document).map((row) => row.dataset.txn);
  if (!body || !ids.length || reading || performance.now() < due) return;
  reading = true;
  due = performance.now() + EVERY_MS;
  try {
    const query = new URLSearchParams(ids.map((id) => ["id", id]));
    const answer = await ask(body, `${body.dataset.rows}?${query}`, { headers: { "HX-Request": "true" } });
    const parsed = document.createElement("template");
    parsed.innerHTML = await answer.text();
    for (const row of all("tr[data-txn]", parsed.content)) {
      const old = document.getElementById(row.id);
      if (!old) continue;
      // Under the focus a row stays as it is, as long as what can be done with it is the same.
      const isHeld = old.contains(document.activeElement);
      if (isHeld && !one("input", old) === !one("input", row) && row.dataset.moving !== undefined) continue;
      keepSelected(old, row);
      old.replaceWith(row);
      if (isHeld) one("a", row).focus();
    }
    showSelected();
    freshness.read(body);
    live?.seen();
  } catch {
    // The page shows that its rows are stale; the next tick asks again.
  } finally {
    reading = false;
  }
}

function readNow() {
  due = 0;
  readRows();
}

live?.addEventListener("delta", ({ detail }) => detail.figures && showNewer(detail));
live?.addEventListener("delta", readRows);
live?.addEventListener("tick", readRows);
live?.addEventListener("resync", readNow);
for (const change of ["aborted", "changed"]) document.body.addEventListener(change, readNow);
