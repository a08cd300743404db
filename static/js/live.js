// The page's live channel: one EventSource a tab, closed while the tab is hidden or updates are paused.
// While the stream cannot be opened, the page asks every few seconds where the channel stands.
//
// A page may be renewed less often than once a second (its pace): what comes in between waits for its turn.
//
// Ages are by the computer's clock, which goes on while it sleeps.
//
// Events: "delta" (detail: the frame's data), "tick", "resync" (read everything again), "alerts" (detail: {firing}),
// "state", "clock" (each second).

import { askJson, failure, freshness, GIVE_UP_MS } from "./freshness.js";

const POLL_MS = 5000;
const SILENT_MS = 6000;
const FAILURES_BEFORE_POLLING = 3;
const MAX_BACKOFF_MS = 30000;
/** More changes than these are not kept for a page's turn: it reads everything again then. */
const MOST_WAITING = 16;
/** How much earlier than its turn a frame may be. */
const EARLY_MS = 200;
const UPDATES = "updates";
/** What a stream's goodbye means, as an answer's status; after any other it is taken up again. */
const GOODBYES = { "signed out": 401, "not permitted": 403 };
const WORDS = {
  connecting: "Connecting",
  live: "Live",
  polling: "Polling",
  reconnecting: "Reconnecting",
  paused: "Paused",
};

/** So that a server that comes back is not asked by all tabs at once. */
const scattered = (milliseconds) => milliseconds * (0.7 + 0.6 * Math.random());

class Live extends EventTarget {
  #source = null;
  #failures = 0;
  #poll = 0;
  #reopen = 0;
  #opened = 0;
  #heard = Date.now();
  #seen = Date.now();
  #position;
  #pace;
  /** Frames that wait for the page's turn, the last position told, and when its last turn was. */
  #waiting = [];
  #told;
  #turn = -Infinity;
  state = "connecting";

  constructor(channel, position, pace) {
    super();
    this.#pace = pace;
    this.address = `/live?ch=${encodeURIComponent(channel)}`;
    this.#position = position;
    document.addEventListener("visibilitychange", () => this.#visibility());
    addEventListener("pagehide", () => this.#rest());
    addEventListener("pageshow", (event) => event.persisted && this.#resume());
    freshness.addEventListener("change", () => freshness.isRefused(UPDATES) && this.#source && this.#endStream());
    setInterval(() => this.#check(), 1000);
    this.#open();
  }

  /** Milliseconds between two renewals of the page. */
  get pace() {
    return this.#pace;
  }

  set pace(milliseconds) {
    this.#pace = milliseconds;
    this.#takeTurn();
  }

  /** Milliseconds since what the page shows was up to date. */
  get age() {
    return Date.now() - this.#seen;
  }

  get word() {
    return WORDS[this.state];
  }

  /** Notes that data came from the server by another way than the stream. */
  seen() {
    this.#seen = this.#heard = Date.now();
  }

  /** After a window was read again: the position that it stands for. */
  moveTo(position) {
    this.#position = position;
  }

  toggle() {
    if (this.state === "paused") {
      this.#become("connecting");
      this.#resume();
    } else {
      this.#close();
      this.#become("paused");
    }
  }

  /** Asks again now for all that is shown. */
  retry() {
    if (this.state === "paused") return this.toggle();
    if (this.state !== "live") {
      this.#close();
      this.#open();
    }
    this.#resync();
  }

  #visibility() {
    if (document.hidden) this.#rest();
    else this.#resume();
  }

  #rest() {
    this.#close();
    if (this.state !== "paused") this.#become("reconnecting");
  }

  #resume() {
    if (this.state === "paused") return;
    // Nobody asked while the tab was hidden; from now on silence counts.
    this.#heard = Date.now();
    this.#open();
  }

  #open() {
    if (this.#source || document.hidden) return;
    if (freshness.isRefused(UPDATES)) return this.#startPolling(0);
    const source = new EventSource(this.address);
    this.#source = source;
    this.#opened = Date.now();
    source.addEventListener("hello", (event) => this.#hello(event));
    source.addEventListener("delta", (event) => {
      this.#alive();
      this.#told = event.lastEventId;
      this.#waiting.push(JSON.parse(event.data));
      this.#takeTurn();
    });
    source.addEventListener("tick", () => {
      this.#alive();
      this.#takeTurn();
    });
    source.addEventListener("alerts", (event) => this.#emit("alerts", JSON.parse(event.data)));
    source.addEventListener("resync", () => this.#resync());
    source.addEventListener("fault", (event) => this.#fault(JSON.parse(event.data)));
    source.addEventListener("bye", (event) => this.#bye(JSON.parse(event.data).reason));
    source.addEventListener("error", () => this.#failed());
  }

  #closeStream() {
    this.#source?.close();
    this.#source = null;
  }

  /** What has come since the page's last turn, when it is due; what could not be kept is read again. */
  #takeTurn() {
    if (this.state !== "live") return;
    if (this.#waiting.length > MOST_WAITING) this.#waiting.length = MOST_WAITING + 1;
    if (performance.now() - this.#turn < this.#pace - EARLY_MS) return;
    const frames = this.#waiting;
    if (frames.length > MOST_WAITING) return this.#resync();
    this.#position = this.#told ?? this.#position;
    this.#beginTurn();
    frames.forEach((frame) => this.#emit("delta", frame));
    if (!frames.length) this.#emit("tick");
  }

  #beginTurn() {
    this.#waiting = [];
    this.#told = undefined;
    this.#turn = performance.now();
    this.#seen = this.#heard;
  }

  #resync() {
    this.#beginTurn();
    this.#emit("resync");
  }

  #close() {
    this.#waiting = [];
    this.#told = undefined;
    this.#closeStream();
    clearTimeout(this.#poll);
    clearTimeout(this.#reopen);
    this.#poll = this.#reopen = 0;
  }

  // What happened between the page's reading and the stream's first word is read again; a page that
  // does not say where it stands has its regions read when they are due.
  #hello(event) {
    this.#failures = 0;
    clearTimeout(this.#poll);
    this.#poll = 0;
    this.#alive();
    const known = this.#position;
    this.#position = event.lastEventId;
    if (!known) this.#emit("delta", {});
    else if (known !== this.#position) this.#resync();
    else this.seen();
  }

  // The stream lives, and what it reads does not.
  #fault({ status, message }) {
    this.#heard = Date.now();
    freshness.failed(UPDATES, failure(status, message));
  }

  #bye(reason) {
    if (reason in GOODBYES) {
      freshness.failed(UPDATES, failure(GOODBYES[reason]));
    } else {
      this.#failures += 1;
      this.#endStream();
      this.#reopenLater();
    }
  }

  #endStream() {
    this.#close();
    this.#startPolling();
  }

  #failed() {
    this.#failures += 1;
    // The browser tries again by itself, except after an answer that is no stream; a poll tells why.
    if (this.#source?.readyState === EventSource.CLOSED) {
      this.#source = null;
      this.#startPolling(0);
      this.#reopenLater();
    } else if (this.#failures >= FAILURES_BEFORE_POLLING) {
      this.#startPolling(0);
    } else if (!this.#poll) {
      this.#become("reconnecting");
    }
  }

  #reopenLater() {
    clearTimeout(this.#reopen);
    const pause = Math.min(MAX_BACKOFF_MS, 1000 * 2 ** this.#failures);
    this.#reopen = setTimeout(() => this.#open(), scattered(pause));
  }

  #startPolling(pause = scattered(POLL_MS)) {
    if (this.#poll) return;
    this.#become("polling");
    this.#poll = setTimeout(() => this.#ask(), pause);
  }

  async #ask() {
    const turn = this.#poll;
    try {
      const { position, change, firing } = await askJson(UPDATES, this.address);
      if (turn !== this.#poll) return;
      this.seen();
      if (Number.isInteger(firing)) this.#emit("alerts", { firing });
      const moved = position !== this.#position;
      this.#position = position;
      if (!moved) this.#emit("tick");
      else if (change?.figures) this.#emit("delta", change);
      else this.#emit("resync");
    } catch {
      // The page shows that it is stale; the next turn asks again.
    } finally {
      if (turn === this.#poll) this.#poll = setTimeout(() => this.#ask(), scattered(Math.max(POLL_MS, this.#pace)));
    }
  }

  #alive() {
    this.#heard = Date.now();
    freshness.heard(UPDATES);
    this.#become("live");
  }

  // A connection may be dead without anybody having closed it, one that is being made too: after a
  // sleep, behind a lost network.
  #check() {
    const heard = Date.now() - this.#heard;
    if (this.state !== "paused" && !document.hidden && !freshness.isFailing(UPDATES)) {
      if (heard > SILENT_MS + (this.#poll ? Math.max(POLL_MS, this.#pace) : 0)) {
        freshness.failed(UPDATES, failure(0, "Nothing has been heard from the server."));
      }
    }
    if (this.#source && Math.min(heard, Date.now() - this.#opened) > GIVE_UP_MS) {
      this.#closeStream();
      this.#failed();
      this.#open();
    }
    if (this.#waiting.length) this.#takeTurn();
    this.#emit("clock");
  }

  #become(state) {
    if (this.state === state) return;
    this.state = state;
    this.#emit("state");
  }

  #emit(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}

const { channel, position } = document.body.dataset;
const { pace } = document.documentElement.dataset;

/** The page's channel; null on a page without one. */
export const live = channel ? new Live(channel, position, Number(pace ?? 1) * 1000) : null;
