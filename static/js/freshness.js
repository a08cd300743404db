// Whether what the page shows could be read again: which parts could not, since when, and why. Whoever
// reads for the page tells it here, so that one place decides what the page says of itself.
//
// A part is an element that is read again, or the name of something that is ("updates": the channel).
// A failure is {status, message, request}; status 0: no answer came.
// Events: "change", and "admitted" when the server answers again after it had ended the session, or
// refused the part.

/** After so long without an answer a connection counts as dead, and another is made. */
export const GIVE_UP_MS = 20000;
const SAYS = {
  0: "The server cannot be reached.",
  401: "Your session has ended.",
  403: "Your account may not do or see this any more.",
  404: "What this page is about is not there any more.",
  500: "The server failed, and has logged it.",
  502: "The server behind the proxy does not answer.",
  504: "The server behind the proxy does not answer in time.",
};

/** A failure from a status and what the server said; its request is named where it can be looked up. */
export function failure(status, said = "", request = "") {
  const message = said || SAYS[status] || `The server answered ${status}.`;
  return { status, message, request: status >= 500 ? request : "" };
}

class Freshness extends EventTarget {
  #read = new Map();
  #failing = new Map();

  /** The part was read, or proved to be up to date, by an answer of the server to a question. */
  read(part) {
    if (this.isRefused(part)) this.dispatchEvent(new Event("admitted"));
    this.heard(part);
  }

  /** The part is up to date, as a stream says that was opened before. */
  heard(part) {
    this.#read.set(part, Date.now());
    if (!this.#failing.delete(part)) return;
    if (part instanceof Element) delete part.dataset.stale;
    this.#changed();
  }

  failed(part, why) {
    const known = this.#failing.get(part);
    if (known?.status === why.status && known.message === why.message) return;
    this.#failing.set(part, why);
    if (part instanceof Element) part.dataset.stale = "";
    this.#changed();
  }

  isFailing(part) {
    return this.#failing.has(part);
  }

  get isSignedOut() {
    return [...this.#failing.values()].some(({ status }) => status === 401);
  }

  /** Whether the part is not for the person at the browser: they are signed out, or may not read it. */
  isRefused(part) {
    return this.isSignedOut || this.#failing.get(part)?.status === 403;
  }

  /** The failure to show, and when what is shown was read; null when none is. */
  get worst() {
    for (const part of this.#failing.keys()) {
      if (part instanceof Element && !part.isConnected) this.#failing.delete(part);
    }
    if (!this.#failing.size) return null;
    const found = [...this.#failing.values()];
    const worst = found.find(({ status }) => status === 401) ?? found.find(({ status }) => status === 0) ?? found[0];
    const since = Math.min(...[...this.#failing.keys()].map((part) => this.#read.get(part) ?? performance.timeOrigin));
    return { ...worst, since, whole: this.#failing.has("updates") };
  }

  #changed() {
    this.dispatchEvent(new Event("change"));
  }
}

export const freshness = new Freshness();

/** What an answer that is no success says of itself. */
export async function failureOf(answer) {
  const request = answer.headers.get("X-Request-ID") ?? "";
  const isJson = answer.headers.get("Content-Type")?.startsWith("application/json");
  const said = isJson ? (await answer.json().catch(() => ({}))).message : "";
  return failure(answer.status, said, request);
}

/**
 * Asks for a part of the page. What fails is shown, and thrown as an error with the same words; what
 * a `signal` of its own has given up is thrown as an AbortError and says nothing. Nor does what a reader `wrote`
 * that is refused (400): the error is `isRefused`, and what is shown is as fresh as before.
 */
export async function ask(part, address, { headers = { Accept: "application/json" }, signal = AbortSignal.timeout(GIVE_UP_MS), wrote = false } = {}) {
  let answer = null;
  try {
    answer = await fetch(address, { headers, signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
  }
  if (answer?.ok) return answer;
  const why = answer ? await failureOf(answer) : failure(0);
  const isRefused = wrote && why.status === 400;
  if (!isRefused) freshness.failed(part, why);
  throw Object.assign(new Error(why.message), { isRefused });
}

/** The JSON of an address; the part is up to date then. */
export async function askJson(part, address, options) {
  const found = await (await ask(part, address, options)).json();
  freshness.read(part);
  return found;
}
