// The strip: a grid with one cell for each offset. Arrow keys move, Enter opens, pointing inspects.

import { all, h, one, setText } from "../dom.js";
import { count } from "../format.js";
import { paint, rowFrom } from "./cells.js";
import { TXN } from "./model.js";

export class Strip extends EventTarget {
  #pinned = null;
  #flag = h("span", { class: "flag num" });
  #selected = null;
  /** The transaction whose entries are marked. */
  #marked = null;

  /** Events: "inspect" (detail: offset) and "open" (detail: offset). */
  constructor(element, log) {
    super();
    this.element = element;
    this.log = log;
    this.grid = one("#grid", element);
    this.grid.addEventListener("pointerover", (event) => this.#point(event));
    this.grid.addEventListener("pointerleave", () => this.#restore());
    this.grid.addEventListener("keydown", (event) => this.#key(event));
    this.grid.addEventListener("click", (event) => this.#click(event));
    this.grid.addEventListener("focusin", (event) => this.#focused(event));
    this.build();
  }

  /** Draws everything anew. */
  build() {
    const { base, rows, columns } = this.log;
    const focused = this.grid.contains(document.activeElement) ? Number(document.activeElement.dataset.offset) : null;
    this.#pinned = null;
    this.grid.replaceChildren(...Array.from({ length: rows }, (_, row) => rowFrom(this.log, base + row * columns)));
    this.#pin();
    this.#placeFlag();
    this.#makeReachable();
    this.#cell(this.#selected)?.setAttribute("aria-selected", "true");
    this.#highlight(this.#marked);
    if (focused !== null) this.focus(focused);
  }

  /** Whether an entry is to be seen. */
  shows(offset) {
    return this.#cell(offset) !== null && this.log.entries.has(offset);
  }

  /** Nothing is selected any more, and no transaction marked. */
  release() {
    this.#selected = null;
    this.#highlight(null);
  }

  /** Draws what a frame changed; the log has taken it already. */
  update(changed) {
    const moved = this.log.follow();
    if (moved >= this.log.rows) return this.build();
    for (let row = 0; row < moved; row += 1) this.#addRow();
    if (!this.#pin()) return false;
    for (const offset of changed) this.#repaint(offset);
    this.#placeFlag();
    this.#makeReachable();
    return true;
  }

  /** Paints every cell again: the isolation level has changed. */
  repaint() {
    this.element.dataset.iso = this.log.isolation;
    this.#cells().forEach((cell) => paint(this.log, cell));
  }

  /** Moves the focus to an offset; false when the strip does not show it. */
  focus(offset) {
    const isShown = this.shows(offset);
    if (isShown) this.#cell(offset).focus({ preventScroll: false });
    return isShown;
  }

  #addRow() {
    one(".cells-row:not(.pinned)", this.grid).remove();
    const last = all(".cells-row", this.grid).at(-1);
    const base = last ? Number(last.dataset.base) + this.log.columns : this.log.base;
    this.grid.append(rowFrom(this.log, base));
  }

  #repaint(offset) {
    const cell = this.#cell(offset);
    if (!cell) return;
    const arrived = cell.classList.contains("future");
    paint(this.log, cell);
    if (arrived && !cell.classList.contains("future")) cell.classList.add("new");
  }

  // Keeps the row with the stable position in sight when the end of the log has moved on. False
  // when its entries are not known.
  #pin() {
    const { base, columns, fenceRow: fence, summary } = this.log;
    const wanted = this.log.following && fence < base && summary.stable < summary.last ? fence : null;
    if (wanted !== this.#pinned) {
      this.grid.classList.toggle("pinning", wanted !== null && base - wanted > columns);
      all(".pinned, .gap", this.grid).forEach((row) => row.remove());
      this.#pinned = null;
      if (wanted === null) return true;
      if (!this.log.entries.has(Math.max(wanted, summary.start))) return false;
      this.#pinned = wanted;
      const row = rowFrom(this.log, wanted);
      row.classList.add("pinned");
      const text = h("span", { role: "gridcell" });
      this.grid.prepend(row, h("div", { class: "gap num", role: "row" }, h("span"), text));
    }
    if (wanted !== null) this.#sayGap(base - wanted - columns);
    return true;
  }

  #sayGap(hidden) {
    const gap = one(".gap", this.grid);
    gap.hidden = hidden <= 0;
    setText(gap.lastChild, `${count(hidden)} entries not shown, all held back`);
  }

  #placeFlag() {
    const { columns, summary } = this.log;
    const cell = this.#cell(summary.stable + 1);
    if (!cell) return this.#flag.remove();
    const share = (Number(cell.dataset.offset) % columns) / columns;
    setText(this.#flag, summary.stable < 0 ? "none readable yet" : `stable ${count(summary.stable)}`);
    this.#flag.style.left = share > 0.9 ? "auto" : `calc(${share * 100}% - 1px)`;
    this.#flag.style.right = share > 0.9 ? `${100 - share * 100}%` : "auto";
    if (this.#flag.parentElement !== cell.parentElement) cell.parentElement.append(this.#flag);
  }

  // Exactly one cell takes part in the tab order, none while there is no entry.
  #makeReachable() {
    if (one('.cell[tabindex="0"]:not([aria-hidden])', this.grid)) return;
    all('.cell[tabindex="0"]', this.grid).forEach((cell) => cell.setAttribute("tabindex", "-1"));
    const stable = one(`.cell[data-offset="${this.log.summary.stable + 1}"]:not([aria-hidden])`, this.grid);
    (stable ?? one(".cell:not([aria-hidden])", this.grid))?.setAttribute("tabindex", "0");
  }

  #focused(event) {
    const cell = event.target.closest(".cell");
    if (!cell) return;
    all('.cell[tabindex="0"]', this.grid).forEach((other) => other.setAttribute("tabindex", "-1"));
    cell.setAttribute("tabindex", "0");
    this.#inspect(Number(cell.dataset.offset));
  }

  #point(event) {
    const cell = event.target.closest(".cell");
    if (cell && this.log.entries.has(Number(cell.dataset.offset))) this.#inspect(Number(cell.dataset.offset));
  }

  #restore() {
    if (this.#selected === null) this.#highlight(null);
    else this.#inspect(this.#selected);
  }

  #click(event) {
    const cell = event.target.closest(".cell");
    if (!cell || !this.log.entries.has(Number(cell.dataset.offset))) return;
    this.#select(cell);
    cell.focus();
  }

  #select(cell) {
    all("[aria-selected]", this.grid).forEach((other) => other.removeAttribute("aria-selected"));
    cell.setAttribute("aria-selected", "true");
    this.#selected = Number(cell.dataset.offset);
  }

  #key(event) {
    const cell = event.target.closest(".cell");
    if (!cell) return;
    const offset = Number(cell.dataset.offset);
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.log.columns, ArrowUp: -this.log.columns }[event.key];
    const shown = this.#cells().filter((other) => !other.hasAttribute("aria-hidden"));
    if (step) this.#cell(offset + step)?.matches(":not([aria-hidden])") && this.focus(offset + step);
    else if (event.key === "Home") shown[0]?.focus();
    else if (event.key === "End") shown.at(-1)?.focus();
    else if (event.key === "Enter") this.#open(cell);
    else if (event.key === "Escape") this.#highlight(null);
    else return;
    event.preventDefault();
  }

  #open(cell) {
    this.#select(cell);
    this.dispatchEvent(new CustomEvent("open", { detail: this.#selected }));
  }

  #inspect(offset) {
    this.#highlight(this.log.entries.get(offset)?.[TXN] ?? null);
    this.dispatchEvent(new CustomEvent("inspect", { detail: offset }));
  }

  #highlight(txn) {
    this.#marked = txn;
    this.element.classList.toggle("highlight", txn !== null);
    for (const cell of this.#cells()) {
      const entry = this.log.entries.get(Number(cell.dataset.offset));
      cell.classList.toggle("same", txn !== null && entry?.[TXN] === txn);
    }
  }

  #cell(offset) {
    return one(`.cell[data-offset="${offset}"]`, this.grid);
  }

  #cells() {
    return all(".cell", this.grid);
  }
}
