// The cells of the strip, one for each offset: how an entry looks, and what it is called.

import { h } from "../dom.js";
import { count } from "../format.js";
import { KIND, OFFSET, TXN } from "./model.js";

const KINDS = { m: "message", c: "commit marker", a: "abort marker" };
const READINGS = { delivered: "delivered", held: "held back", filtered: "filtered" };

/** A row of cells from an offset on. */
export function rowFrom(log, base) {
  const cells = h("div", { class: "cells", role: "presentation" });
  for (let column = 0; column < log.columns; column += 1) {
    const cell = h("span", { class: "cell", role: "gridcell", tabindex: "-1", "data-offset": base + column });
    paint(log, cell);
    cells.append(cell);
  }
  const heading = h("span", { class: "off num mono", role: "rowheader" }, count(base));
  return h("div", { class: "cells-row", role: "row", "data-base": base }, heading, cells);
}

/** Shows in a cell what the log knows of its offset. A cell without an entry is hidden from screen readers. */
export function paint(log, cell) {
  const offset = Number(cell.dataset.offset);
  const entry = log.entries.get(offset);
  cell.classList.toggle("fence", offset === log.summary.stable + 1);
  cell.classList.toggle("future", !entry && offset > log.summary.last);
  cell.classList.toggle("missing", !entry && offset <= log.summary.last);
  if (!entry) {
    cell.setAttribute("aria-hidden", "true");
    for (const name of ["st", "k", "v"]) delete cell.dataset[name];
    return;
  }
  cell.removeAttribute("aria-hidden");
  const look = { st: log.stateOf(entry), k: entry[KIND], v: log.reading(entry) };
  for (const [name, value] of Object.entries(look)) if (cell.dataset[name] !== value) cell.dataset[name] = value;
  cell.setAttribute("aria-label", label(log, entry));
}

function label(log, entry) {
  const txn = entry[TXN] === null ? "no transaction" : `transaction ${entry[TXN]} ${log.stateOf(entry).toLowerCase()}`;
  return `Offset ${entry[OFFSET]}, ${KINDS[entry[KIND]]}, ${txn}, ${READINGS[log.reading(entry)]}`;
}
