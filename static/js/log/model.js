// The part of a partition's log that the page knows: entries, transactions, positions.
//
// An entry is [offset, kind, txn, key, publishMs, bytes] with kind "m" message, "c" commit marker,
// "a" abort marker; a transaction is [state, first, last, messages, owner, openedMs, timeoutMs].

export const OFFSET = 0, KIND = 1, TXN = 2, KEY = 3, BYTES = 5;
export const STATE = 0, FIRST = 1, LAST = 2, MESSAGES = 3;

const ENDED_BY = { c: "COMMITTED", a: "ABORTED" };
const HISTORY_POINTS = 300;
/** The table begins so many entries before the stable position, or before the offset that was gone to. */
const TABLE_BEFORE = 3;
export const TABLE_ROWS = 9;
/** So many entries before the row of the stable position are kept for the table. */
const KEPT_BEFORE = 12;
/** Entries outside of what is shown, and ended transactions, are forgotten when there are so many. */
const FORGET_AT = 512;

export class PartitionLog {
  constructor(window, isolation) {
    this.isolation = isolation;
    this.load(window);
  }

  /** Forgets everything and takes what a window says. */
  load(window) {
    this.columns = window.columns;
    this.rows = window.rows;
    this.base = window.base;
    this.at = window.at;  // The offset that was gone to; null at the end of the log.
    this.summary = window.summary;
    this.entries = new Map(window.entries.map((entry) => [entry[OFFSET], entry]));
    this.txns = new Map(Object.entries(window.txns));
    this.ongoing = window.txns;
    this.history = window.history;
    this.#remember(this.summary);  // Samples end before now: the charts must not show less than the figures.
  }

  /** The first offset that the strip has no place for. */
  get end() {
    return this.base + this.rows * this.columns;
  }

  /** As `end`, or the end of the log where that comes before. */
  get shownEnd() {
    return Math.min(this.end, this.summary.last + 1);
  }

  get following() {
    return this.at === null;
  }

  /** The first offset of the table of entries. */
  get tableFrom() {
    const { last, stable, start } = this.summary;
    if (this.following) return Math.min(stable - TABLE_BEFORE, last - TABLE_ROWS + 1);
    return Math.max(Math.min(this.at - TABLE_BEFORE, this.shownEnd - TABLE_ROWS), this.base, start);
  }

  /** Whether the strip has a place for a part of what a transaction spans. */
  isInSight(txn) {
    return this.following || (txn[FIRST] < this.end && this.spanEnd(txn) >= this.base);
  }

  /** Where a transaction's span ends: while it is open it goes on with the log. */
  spanEnd(txn) {
    return txn[STATE] === "OPEN" ? this.summary.last : txn[LAST];
  }

  /** The first offset of the row in which the stable position stands. */
  get fenceRow() {
    return Math.floor((this.summary.stable + 1) / this.columns) * this.columns;
  }

  /** Whether the entry is known at which readers stand; it may have been forgotten before they came there. */
  get knowsStable() {
    const { last, stable, start } = this.summary;
    const offset = Math.min(stable + 1, last);
    return offset < Math.max(0, start) || this.entries.has(offset);
  }

  /**
   * Takes a frame. Returns the offsets whose look may have changed, or null when entries in
   * between are missing and a window must be read.
   */
  apply(frame) {
    const known = this.summary.last;
    if (frame.from > known + 1 || frame.summary.last < known) return null;
    const changed = this.#applyTxns(frame.txns);
    this.ongoing = frame.txns;
    for (const entry of frame.entries) {
      if (entry[OFFSET] > known) this.#append(entry, changed);
    }
    this.#moveStable(frame.summary, changed);
    this.#remember(frame.summary);
    if (this.entries.size > this.rows * this.columns + FORGET_AT || this.txns.size > FORGET_AT) this.#prune();
    return changed;
  }

  /** "NONE" or the state of the entry's transaction. */
  stateOf(entry) {
    return entry[TXN] === null ? "NONE" : (this.txns.get(entry[TXN])?.[STATE] ?? "OPEN");
  }

  /** What a reader gets of an entry: "delivered", "held" or "filtered". */
  reading(entry) {
    if (entry[KIND] !== "m") return "filtered";
    if (this.isolation === "ru") return "delivered";
    if (entry[OFFSET] > this.summary.stable) return "held";
    return this.stateOf(entry) === "ABORTED" ? "filtered" : "delivered";
  }

  /** Why, in words. */
  reason(entry) {
    if (entry[KIND] !== "m") return "Control record, never delivered";
    const reading = this.reading(entry);
    if (reading === "delivered") return "Delivered";
    return reading === "held" ? "Held back: at or past the first unfinished transaction" : "Filtered: its transaction aborted";
  }

  /** Moves the strip's rows down until the end of the log has a place; returns by how many rows. */
  follow() {
    let moved = 0;
    while (this.following && this.summary.last >= this.end) {
      this.base += this.columns;
      moved += 1;
    }
    if (moved) this.#prune();
    return moved;
  }

  #applyTxns(txns) {
    const changed = new Set();
    for (const [id, txn] of Object.entries(txns)) {
      if (this.txns.get(id)?.[STATE] !== txn[STATE]) this.#touch(id, changed);
      this.txns.set(id, txn);
    }
    return changed;
  }

  #append(entry, changed) {
    const [offset, kind, id] = entry;
    this.entries.set(offset, entry);
    changed.add(offset);
    if (id === null) return;
    const txn = this.txns.get(id) ?? ["OPEN", offset, offset, 0, null, null, null];
    this.txns.set(id, txn);
    txn[LAST] = Math.max(txn[LAST], offset);
    if (ENDED_BY[kind]) {
      txn[STATE] = ENDED_BY[kind];
      this.#touch(id, changed);
    }
  }

  #touch(id, changed) {
    for (const entry of this.entries.values()) if (entry[TXN] === id) changed.add(entry[OFFSET]);
  }

  #moveStable(summary, changed) {
    const from = Math.min(this.summary.stable, summary.stable);
    const to = Math.max(this.summary.stable, summary.stable) + 1;
    this.summary = summary;
    if (from + 1 === to) return;
    for (const offset of this.entries.keys()) if (offset >= from && offset < to) changed.add(offset);
    changed.add(to);  // Before it the fence stands, also where nothing is yet.
  }

  #remember({ now, last, stable }) {
    this.history.push([now, last, stable]);
    if (this.history.length > HISTORY_POINTS) this.history.shift();
  }

  // Kept are the entries of the strip (and of what will move into it when it follows the end), and those
  // around the stable position; of transactions those that the last frame named or that have such an entry.
  #prune() {
    const fence = this.fenceRow;
    const kept = (offset) =>
      (offset >= this.base && (this.following || offset < this.end)) || (offset >= fence - KEPT_BEFORE && offset < fence + this.columns);
    const seen = new Set();
    for (const [offset, entry] of this.entries) {
      if (!kept(offset)) this.entries.delete(offset);
      else if (entry[TXN] !== null) seen.add(entry[TXN]);
    }
    for (const id of this.txns.keys()) if (!seen.has(id) && !(id in this.ongoing)) this.txns.delete(id);
  }
}

export const ENDED = new Set(["COMMITTED", "ABORTED"]);
