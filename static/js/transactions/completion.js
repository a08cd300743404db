// Completion of the query box: qualifiers, then their values. The pattern is ARIA's combobox with a
// list: arrows move, Enter and Tab take, Escape closes, and typing on never asks anybody.

import { all, h, one } from "../dom.js";

const MAX = 12;
const PAUSE_MS = 120;
const ASKED = new Set(["topic", "sub"]);
const input = one("#query");
const list = one("#query-options");
const qualifiers = JSON.parse(one("#qualifiers").textContent);
let shown = [];
let at = -1;
let asked = 0;

/** The term that the caret stands in: its text and where it is. */
function term() {
  const caret = input.selectionStart;
  const start = input.value.lastIndexOf(" ", caret - 1) + 1;
  const rest = input.value.slice(caret);
  const end = caret + (rest.includes(" ") ? rest.indexOf(" ") : rest.length);
  return { text: input.value.slice(start, caret), start, end };
}

async function valuesOf(name, part) {
  if (ASKED.has(name)) {
    const query = new URLSearchParams({ name, part });
    const answer = await fetch(`${input.dataset.suggestions}?${query}`, { headers: { Accept: "application/json" } });
    return answer.ok ? (await answer.json()).values : [];
  }
  const column = { owner: -3, client: -2 }[name];
  const seen = column ? all("tr[data-txn]").map((row) => all("td", row).at(column).textContent) : [];
  const known = qualifiers.find(([own]) => own === name)?.[2] ?? [];
  return [...new Set([...known, ...seen])].filter((value) => value !== "–" && value.toLowerCase().includes(part));
}

async function optionsFor(text) {
  const [, name, value] = text.match(/^([a-z]+):(.*)$/i) ?? [];
  if (name === undefined) {
    const part = text.toLowerCase();
    return qualifiers.filter(([own]) => own.startsWith(part)).map(([own, takes]) => ({ value: `${own}:`, hint: takes }));
  }
  const before = value.slice(0, value.lastIndexOf(",") + 1);
  const part = value.slice(before.length).toLowerCase();
  const values = await valuesOf(name.toLowerCase(), part);
  return values.filter((one) => one !== part).map((one) => ({ value: `${name}:${before}${/\s/.test(one) ? `"${one}"` : one}` }));
}

async function open() {
  const turn = ++asked;
  // The server is asked when typing rests, not with each key.
  if (ASKED.has(term().text.split(":")[0].toLowerCase())) await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  if (turn !== asked) return;
  const options = await optionsFor(term().text);
  if (turn !== asked || document.activeElement !== input) return;
  shown = options.slice(0, MAX);
  at = -1;
  list.replaceChildren(...shown.map(({ value, hint }, index) =>
    h("li", { role: "option", id: `query-option-${index}`, "aria-selected": "false" }, h("span", { class: "mono" }, value), h("span", { class: "quiet" }, hint ?? ""))));
  show(shown.length > 0);
}

function show(visible) {
  list.hidden = !visible;
  input.setAttribute("aria-expanded", String(visible));
  if (!visible) input.removeAttribute("aria-activedescendant");
}

function close() {
  asked += 1;
  show(false);
}

function move(step) {
  at = (at + step + shown.length) % shown.length;
  all("[role=option]", list).forEach((option, index) => option.setAttribute("aria-selected", String(index === at)));
  input.setAttribute("aria-activedescendant", `query-option-${at}`);
  list.children[at].scrollIntoView({ block: "nearest" });
}

function take(index) {
  const { start, end } = term();
  const { value } = shown[index];
  const whole = value.endsWith(":");
  const text = whole ? value : `${value} `;
  input.value = input.value.slice(0, start) + text + input.value.slice(end).trimStart();
  input.setSelectionRange(start + text.length, start + text.length);
  if (whole) open();
  else close();
}

function onKey(event) {
  if (list.hidden) {
    if (event.key === "ArrowDown") open();
    else if (event.key === "Escape") close();  // Also to what is still asked for.
    return;
  }
  if (event.key === "ArrowDown") move(1);
  else if (event.key === "ArrowUp") move(-1);
  else if (event.key === "Escape") close();
  else if ((event.key === "Enter" || event.key === "Tab") && at >= 0) take(at);
  else return;
  event.preventDefault();
}

input.addEventListener("input", open);
input.addEventListener("keydown", onKey);
input.addEventListener("blur", close);
list.addEventListener("mousedown", (event) => {
  event.preventDefault();
  const option = event.target.closest("[role=option]");
  if (option) take([...list.children].indexOf(option));
});
document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input, textarea, select, [contenteditable]");
  if (event.key !== "f" || typing || event.ctrlKey || event.metaKey || event.altKey || one("dialog[open]")) return;
  event.preventDefault();
  input.focus();
});
