// What has come for a page and is not shown yet. It waits for the page's turn, so that the page is renewed no more
// often than its reader wants (its pace).

/** More changes than these are not kept: the page reads everything again then. */
const MOST = 16;
/** How much earlier than its turn a change may be. */
const EARLY_MS = 200;

export class Turns {
  #waiting = [];
  #last = -Infinity;
  /** The channel's position after the newest change that waits. */
  position;

  /** `pace`: milliseconds between two turns. */
  constructor(pace) {
    this.pace = pace;
  }

  get isDue() {
    return performance.now() - this.#last >= this.pace - EARLY_MS;
  }

  get isAwaited() {
    return this.#waiting.length > 0;
  }

  keep(change, position) {
    this.position = position;
    if (this.#waiting.length <= MOST) this.#waiting.push(change);
  }

  /** Begins a turn, with the changes since the last one; null when they were too many to keep. */
  begin() {
    const changes = this.#waiting.length > MOST ? null : this.#waiting;
    this.forget();
    this.#last = performance.now();
    return changes;
  }

  forget() {
    this.#waiting = [];
    this.position = undefined;
  }
}
