// One entry spelled out under the strip, and the table of entries around the place that is looked at.

import { badge, h, icon, one, setText } from "../dom.js";
import { count, size } from "../format.js";
import { BYTES, KEY, KIND, OFFSET, TABLE_ROWS, TXN } from "./model.js";

const KINDS = { m: "Message", c: "Commit marker", a: "Abort marker" };

function result(log, entry) {
  const reading = log.reading(entry);
  return h("span", { class: `result ${reading}` }, icon(reading), log.reason(entry));
}

function pair(name, ...value) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, ...value));
}

export class Inspector {
  #offset = null;
  #empty;

  constructor(element, log, links) {
    this.element = element;
    this.#empty = [...element.childNodes];
    this.log = log;
    this.links = links;
  }

  show(offset) {
    const entry = this.log.entries.get(offset);
    if (!entry) return;
    this.#offset = offset;
    const mono = (text) => h("span", { class: "mono num" }, text);
    const list = h(
      "dl",
      {},
      pair("Offset", mono(count(offset))),
      pair("Transaction", entry[TXN] === null ? mono("none") : h("a", { class: "mono", href: this.links.transaction(entry[TXN]) }, entry[TXN])),
      pair("State", badge(this.log.stateOf(entry))),
      entry[KIND] === "m" ? pair("Key", h("span", { class: "mono clipped" }, entry[KEY] ?? "–")) : pair("Record", KINDS[entry[KIND]].toLowerCase()),
      h("div", {}, h("dt", { class: "vh" }, "A reader gets"), h("dd", {}, result(this.log, entry))),
    );
    this.element.replaceChildren(list);
  }

  get offset() {
    return this.#offset;
  }

  clear() {
    this.#offset = null;
    this.element.replaceChildren(...this.#empty);
  }

  /** Shows the same entry again when it is among those that changed. */
  update(changed) {
    if (this.#offset !== null && changed.has(this.#offset)) this.show(this.#offset);
  }
}

/** Fills the table with the entries around the offset that was gone to, or around the stable position. */
export function showEntries(table, log, links) {
  const from = log.tableFrom;
  const rows = [];
  for (let offset = from; offset < from + TABLE_ROWS; offset += 1) {
    const entry = log.entries.get(offset);
    if (entry) rows.push(entryRow(log, entry, links));
  }
  if (!rows.length) rows.push(h("tr", {}, h("td", { colspan: "7", class: "quiet" }, "No entries yet: nothing has been produced to this partition.")));
  one("tbody", table).replaceChildren(...rows);
  setText(one("#h-entries"), `Entries around ${log.following ? "the stable position" : `offset ${count(log.at)}`}`);
}

function entryRow(log, entry, links) {
  const offset = h("a", { class: "mono num", href: links.entry(entry[OFFSET]), "hx-get": links.entry(entry[OFFSET]), "hx-target": "#dialog" }, count(entry[OFFSET]));
  const txn = entry[TXN] === null ? "–" : h("a", { href: links.transaction(entry[TXN]) }, entry[TXN]);
  const row = h(
    "tr",
    {},
    h("th", { scope: "row" }, offset),
    h("td", {}, KINDS[entry[KIND]]),
    h("td", { class: "mono clipped" }, entry[KEY] ?? "–"),
    h("td", { class: "mono" }, txn),
    h("td", {}, badge(log.stateOf(entry))),
    h("td", {}, result(log, entry)),
    h("td", { class: "right num" }, entry[KIND] === "m" ? size(entry[BYTES]) : "–"),
  );
  htmx.process(row);
  return row;
}
