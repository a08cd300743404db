// The whole partition on a line: where its segments begin, what readers may pass, what has ended and
// what is undecided, and where the strip is. Moving along it moves the strip.

import { one, setText } from "../dom.js";
import { count, position } from "../format.js";
import { FIRST, LAST, STATE } from "./model.js";

const WIDTH = 1000;
/** Keys that are held down move on before the strip follows. */
const SETTLED_MS = 150;
const UNDECIDED = new Set(["OPEN", "COMMITTING", "ABORTING"]);

export class Minimap {
  /** @param go called with an offset, or with null for the end. */
  constructor(element, log, go) {
    this.log = log;
    this.range = one("input", element);
    this.last = one(".end", element);
    this.shapes = Object.fromEntries(["read", "held", "committed", "aborted", "undecided", "segments", "window"].map((name) => [name, one(`.${name}`, element)]));
    this.segments = element.dataset.segments.split(" ").filter(Boolean).map(Number);
    this.ended = element.dataset.ended.split(" ").filter(Boolean).map((text) => [...text.split(":").map(parseFloat), text.endsWith("a")]);
    let timer = 0;
    this.range.addEventListener("change", () => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        const offset = Number(this.range.value);
        go(offset + Number(this.range.step) > Number(this.range.max) ? null : offset);
      }, SETTLED_MS);
    });
    this.range.addEventListener("input", () => this.#say(Number(this.range.value)));
  }

  draw() {
    const { start, last, stable } = this.log.summary;
    const scale = WIDTH / Math.max(1, last + 1 - start);
    const x = (offset) => Math.round((Math.min(Math.max(offset, start), last + 1) - start) * scale * 10) / 10;
    const bar = (from, to, least = 0, top = 0) => {
      const width = Math.max(x(to) - x(from), least);
      const left = Math.min(x(from), WIDTH - width);
      return `M${left} ${top}h${width}V12h${-width}z`;
    };
    const { read, held, committed, aborted, undecided, segments, window } = this.shapes;
    // Below what readers may pass: a transaction of few messages that took long goes over many others'.
    const ended = (outcome) => this.ended.filter(([, marker, isAborted]) => isAborted === outcome && marker >= start).map(([first, marker]) => bar(first, marker + 1, 1, 6)).join("");
    committed.setAttribute("d", ended(false));
    aborted.setAttribute("d", ended(true));
    read.setAttribute("d", bar(start, stable + 1));
    held.setAttribute("d", bar(stable + 1, last + 1));
    const open = [...this.log.txns.values()].filter((txn) => UNDECIDED.has(txn[STATE]));
    undecided.setAttribute("d", open.map((txn) => bar(txn[FIRST], txn[LAST] + 1, 2)).join(""));
    segments.setAttribute("d", this.segments.map((offset) => `M${x(offset)} 0v12`).join(""));
    window.setAttribute("d", bar(this.log.base, this.log.end, 6));
    setText(this.last, position(last));
    if (document.activeElement === this.range) return;
    this.range.min = start;
    this.range.max = Math.max(start, last);
    this.range.value = this.log.following ? last : this.log.base;
    this.#say(Number(this.range.value));
  }

  #say(offset) {
    this.range.setAttribute("aria-valuetext", `offset ${count(offset)} of ${position(this.log.summary.last)}`);
  }
}
