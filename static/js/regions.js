// Regions of server-rendered HTML that are read again when the page's channel says that something
// changed (`data-region`), at most every `data-every` seconds; with `data-always` also when it did
// not, because ages grow. htmx morphs them, so focus and scrolling stay.

import { all } from "./dom.js";
import { live } from "./live.js";

const read = new WeakMap();
let changed = false;

function refresh(region) {
  read.set(region, performance.now());
  htmx.trigger(region, "refresh");
}

/** Reads every region again now. */
export function refreshAll() {
  all("[data-region]").forEach(refresh);
  changed = false;
}

function refreshDue() {
  let waiting = false;
  for (const region of all("[data-region]")) {
    if (!changed && region.dataset.always === undefined) continue;
    const age = performance.now() - (read.get(region) ?? 0);
    if (age >= Number(region.dataset.every) * 1000 - 100) refresh(region);
    else waiting = true;
  }
  changed = changed && waiting;
}

export function startRegions() {
  live?.addEventListener("delta", () => {
    changed = true;
    refreshDue();
  });
  live?.addEventListener("tick", refreshDue);
  live?.addEventListener("resync", refreshAll);
  document.body.addEventListener("htmx:after:swap", () => live?.seen());
  document.body.addEventListener("aborted", refreshAll);
  document.body.addEventListener("changed", refreshAll);
}
