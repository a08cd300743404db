// The page's live channel: one EventSource a tab, closed while the tab is hidden or updates are paused.
// When the stream cannot be opened, the page reads again every few seconds instead.
//
// Events: "delta" (detail: the frame's data), "tick", "resync" (read everything again),
// "fault" (detail: {code, message}), "state" (detail: {state, word}).

const POLL_MS = 5000;
const STALE_MS = 6000;
const FAILURES_BEFORE_POLLING = 3;
const MAX_BACKOFF_MS = 30000;
const WORDS = {
  connecting: "Connecting",
  live: "Live",
  stale: "Stale",
  polling: "Polling",
  reconnecting: "Reconnecting",
  paused: "Paused",
  ended: "Signed out",
};

class Live extends EventTarget {
  #source = null;
  #failures = 0;
  #poll = 0;
  #reopen = 0;
  #seen = null;
  #position;
  state = "connecting";

  constructor(channel, position) {
    super();
    this.address = `/live?ch=${encodeURIComponent(channel)}`;
    this.#position = position;
    document.addEventListener("visibilitychange", () => this.#visibility());
    addEventListener("pagehide", () => this.#close());
    addEventListener("pageshow", (event) => event.persisted && this.#resume());
    setInterval(() => this.#check(), 1000);
    this.#open();
  }

  /** Milliseconds since the page last heard from the server; null when it never has. */
  get age() {
    return this.#seen === null ? null : performance.now() - this.#seen;
  }

  /** Notes that data came from the server by another way than the stream. */
  seen() {
    this.#seen = performance.now();
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

  #visibility() {
    if (document.hidden) this.#close();
    else this.#resume();
  }

  #resume() {
    if (this.state === "paused" || this.state === "ended") return;
    this.#open();
  }

  #open() {
    if (this.#source || document.hidden) return;
    const source = new EventSource(this.address);
    this.#source = source;
    source.addEventListener("hello", (event) => this.#hello(event));
    source.addEventListener("delta", (event) => {
      this.#alive();
      this.#position = event.lastEventId;
      this.#emit("delta", JSON.parse(event.data));
    });
    source.addEventListener("tick", () => {
      this.#alive();
      this.#emit("tick");
    });
    source.addEventListener("resync", () => this.#emit("resync"));
    source.addEventListener("fault", (event) => this.#emit("fault", JSON.parse(event.data)));
    source.addEventListener("bye", (event) => this.#bye(JSON.parse(event.data).reason));
    source.addEventListener("error", () => this.#failed());
  }

  #close() {
    this.#source?.close();
    this.#source = null;
    clearInterval(this.#poll);
    clearTimeout(this.#reopen);
    this.#poll = this.#reopen = 0;
  }

  // What happened between the page's reading and the stream's first word is read again.
  #hello(event) {
    this.#failures = 0;
    clearInterval(this.#poll);
    this.#poll = 0;
    this.#alive();
    if (event.lastEventId !== this.#position) {
      this.#position = event.lastEventId;
      this.#emit("resync");
    }
  }

  #bye(reason) {
    this.#close();
    if (reason === "signed out") this.#become("ended");
    else this.#startPolling();
  }

  #failed() {
    this.#failures += 1;
    if (this.#failures >= FAILURES_BEFORE_POLLING) this.#startPolling();
    else if (!this.#poll) this.#become("reconnecting");
    // The browser tries again by itself, except after an answer that is no stream.
    if (this.#source?.readyState === EventSource.CLOSED) {
      this.#source = null;
      const pause = Math.min(MAX_BACKOFF_MS, 1000 * 2 ** this.#failures);
      this.#reopen = setTimeout(() => this.#open(), pause * (0.7 + 0.6 * Math.random()));
    }
  }

  #startPolling() {
    if (this.#poll) return;
    this.#become("polling");
    this.#poll = setInterval(() => this.#emit("resync"), POLL_MS);
  }

  #alive() {
    this.seen();
    this.#become("live");
  }

  #check() {
    if (this.state === "live" && this.age > STALE_MS) this.#become("stale");
    this.#emit("clock");
  }

  #become(state) {
    if (this.state === state) return;
    this.state = state;
    this.#emit("state", { state, word: WORDS[state] });
  }

  #emit(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}

const { channel, position } = document.body.dataset;

/** The page's channel; null on a page without one. */
export const live = channel ? new Live(channel, position) : null;
