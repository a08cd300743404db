// Suggestions under the search box, and the command palette (Ctrl or Cmd with K): one list, moved
// through by arrows, for what the server finds and for what this page can do. Loaded when first used.

import { announce, h } from "./dom.js";

const PAUSE_MS = 120;

async function suggestions(text) {
  const answer = await fetch(`/search/suggest?q=${encodeURIComponent(text)}`, { headers: { Accept: "application/json" } });
  if (!answer.ok) throw new Error(String(answer.status));
  return (await answer.json()).items;
}

/**
 * An input with a list below it; `commands(text)` are entries that run instead of leading away. Where nothing has been
 * chosen Enter is the form's around the input; with `takesFirst` it takes the first find, and searches where there is none.
 */
export class Finder {
  #input;
  #list;
  #commands;
  #takesFirst;
  #isAsking = false;
  #isEntered = false;
  #timer = 0;
  #asked = 0;
  #active = -1;
  #items = [];

  constructor(input, list, { commands = () => [], takesFirst = false } = {}) {
    this.#input = input;
    this.#list = list;
    this.#commands = commands;
    this.#takesFirst = takesFirst;
    input.setAttribute("role", "combobox");
    input.setAttribute("aria-controls", list.id);
    input.setAttribute("aria-autocomplete", "list");
    input.setAttribute("aria-expanded", "false");
    input.addEventListener("input", () => this.ask());
    input.addEventListener("keydown", (event) => this.#onKey(event));
    list.addEventListener("pointerdown", (event) => event.preventDefault());
    list.addEventListener("click", (event) => {
      const row = event.target.closest("[role=option]");
      if (row) this.#go(Number(row.dataset.index));
    });
  }

  ask() {
    const mine = this.#forget();
    const text = this.#input.value.trim();
    this.#active = -1;
    this.#show(this.#commands(text));
    this.#isAsking = true;
    this.#timer = setTimeout(() => this.#read(text, mine), PAUSE_MS);
  }

  close() {
    this.#forget();
    this.#show([]);
  }

  /** What was asked for before counts no more, however late it is answered. */
  #forget() {
    clearTimeout(this.#timer);
    this.#isAsking = this.#isEntered = false;
    return (this.#asked += 1);
  }

  async #read(text, mine) {
    // Without an answer typing goes on without suggestions; Enter asks the server anyway.
    const found = await suggestions(text).catch(() => null);
    if (mine !== this.#asked) return;
    const items = [...(found ?? []), ...this.#commands(text)];
    this.#show(items);
    this.#isAsking = false;
    if (this.#isEntered && document.activeElement === this.#input) this.#enter();
    if (text && found) announce(items.length ? `${items.length} suggestions` : "Nothing found");
  }

  /** What is chosen stays so where it is still there: the server may answer after somebody has chosen. */
  #show(items) {
    const chosen = this.#items[this.#active];
    this.#items = items;
    this.#active = -1;
    this.#input.removeAttribute("aria-activedescendant");
    this.#input.setAttribute("aria-expanded", String(items.length > 0));
    this.#list.hidden = !items.length;
    this.#list.replaceChildren(...items.map((item, index) =>
      h("li", { role: "option", id: `${this.#list.id}-${index}`, "data-index": index, "aria-selected": "false" },
        h("span", { class: "kind" }, item.kind), h("b", { class: item.kind === "Page" || item.run ? "" : "mono" }, item.title), h("span", { class: "quiet" }, item.detail))));
    const place = chosen ? items.findIndex(({ kind, title }) => kind === chosen.kind && title === chosen.title) : -1;
    if (place >= 0) this.#choose(place);
  }

  #move(step) {
    const { length } = this.#items;
    if (length) this.#choose(this.#active < 0 && step < 0 ? length - 1 : (this.#active + step + length) % length);
  }

  #choose(index) {
    this.#list.children[this.#active]?.setAttribute("aria-selected", "false");
    this.#active = index;
    const row = this.#list.children[this.#active];
    row.setAttribute("aria-selected", "true");
    row.scrollIntoView({ block: "nearest" });
    this.#input.setAttribute("aria-activedescendant", row.id);
  }

  #go(index) {
    const item = this.#items[index];
    if (item.run) item.run();
    else location.assign(item.address);
  }

  /** The server's finds come before commands: who was quicker than its answer gets what it puts first. */
  #enter() {
    const text = this.#input.value.trim();
    if (this.#active >= 0) this.#go(this.#active);
    else if (!text) return;
    else if (this.#isAsking) this.#isEntered = true;
    else if (this.#items.length) this.#go(0);
    else location.assign(`/search?q=${encodeURIComponent(text)}`);
  }

  #onKey(event) {
    if (event.key === "ArrowDown") this.#move(1);
    else if (event.key === "ArrowUp") this.#move(-1);
    else if (event.key === "Enter" && (this.#takesFirst || this.#active >= 0)) this.#enter();
    else if (event.key === "Escape" && !this.#list.hidden && !this.#input.closest("dialog")) this.close();
    else return;
    event.preventDefault();
  }
}
