// The list of transactions: rows stay where they are and change in place; new ones wait behind a
// count until the reader asks for them.

import { all, one, setText } from "./dom.js";
import { count } from "./format.js";
import { live } from "./live.js";
import "./shell.js";
import "./transactions/completion.js";
import { keepSelected } from "./transactions/selection.js";

const EVERY_MS = 3000;
const body = one("[data-rows]");
const issued = one("#list").dataset.issued;
let due = 0;
let reading = false;

function showNewer(figures) {
  const newer = issued ? figures.issued - Number(issued) : 0;
  if (!(newer > 0)) return;
  setText(one("[data-newer]"), count(newer));
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
    const answer = await fetch(`${body.dataset.rows}?${query}`, { headers: { "HX-Request": "true" } });
    if (!answer.ok) return;
    const parsed = document.createElement("template");
    parsed.innerHTML = await answer.text();
    for (const row of all("tr[data-txn]", parsed.content)) {
      const old = document.getElementById(row.id);
      if (!old || old.contains(document.activeElement)) continue;
      keepSelected(old, row);
      old.replaceWith(row);
    }
    live?.seen();
  } finally {
    reading = false;
  }
}

live?.addEventListener("delta", ({ detail }) => detail.figures && showNewer(detail.figures));
live?.addEventListener("delta", readRows);
live?.addEventListener("tick", readRows);
live?.addEventListener("resync", readRows);
for (const change of ["aborted", "changed"]) {
  document.body.addEventListener(change, () => {
    due = 0;
    readRows();
  });
}
