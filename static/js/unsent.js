// What somebody typed into a form that was not taken, because their session had ended or they had signed in again since:
// this tab keeps it, and it stands in the form again when they are back. Of another user it is dropped.

import { all, h, one } from "./dom.js";

const KEY = "unsent";
/** Characters; a tab keeps five million. */
const MOST = 1_000_000;
const WHO = one(".user b")?.textContent;
const PAGE = location.pathname + location.search;
const SAYS = "What you typed was not sent, because you were signed out. Look at it, and send it again.";

const isTyped = ({ name, type }) => name && !["hidden", "password", "file", "submit", "button", "fieldset"].includes(type);
const isChoice = ({ type }) => type === "checkbox" || type === "radio";
const typedIn = (form) => [...form.elements].filter(isTyped);
const pathOf = (form) => new URL(form.getAttribute("hx-post") ?? form.action, location.href).pathname;

/** `opened`: the address of the dialog that the form is in; `isSure`: it is known not to have been taken. */
function keep(form, isSure) {
  const typed = typedIn(form).map(({ name, value, checked }) => ({ name, value, checked }));
  if (!typed.length) return;
  const opened = form.closest("dialog")?.dataset.from;
  const kept = JSON.stringify({ who: WHO, page: PAGE, path: pathOf(form), opened, isSure, typed });
  if (kept.length < MOST) sessionStorage.setItem(KEY, kept);
}

function fillIn(form, typed) {
  for (const field of typedIn(form)) {
    const found = typed.find(({ name, value }) => name === field.name && (!isChoice(field) || value === field.value));
    if (found) Object.assign(field, isChoice(field) ? { checked: found.checked } : { value: found.value });
  }
  const button = one("[type=submit]", form);
  (button.closest(".buttons") ?? button).before(h("p", { class: "err", role: "alert" }, SAYS));
}

/** The server leads back to `#unsent` from a page's form; after any other page it has been taken. */
async function giveBack() {
  const kept = JSON.parse(sessionStorage.getItem(KEY));
  sessionStorage.removeItem(KEY);
  const isBack = location.hash === "#unsent";
  if (isBack) history.replaceState(null, "", PAGE);
  if (kept?.who !== WHO || kept.page !== PAGE || !(kept.isSure || isBack)) return;
  if (kept.opened) await htmx.ajax("GET", kept.opened, { target: "#dialog", swap: "innerHTML" });
  const form = all("form[method=post]").find((each) => pathOf(each) === kept.path);
  if (form) fillIn(form, kept.typed);
}

document.addEventListener("submit", ({ target, defaultPrevented }) => {
  if (!defaultPrevented && target.method === "post") keep(target, false);
});
// Before htmx makes the page anew, where the answer asks for that.
document.addEventListener("htmx:response:error", ({ detail: { ctx } }) => {
  const form = ctx.sourceElement?.closest("form[hx-post]");
  if (form && (ctx.response.status === 401 || ctx.response.headers.get("HX-Refresh"))) keep(form, true);
});
one("#dialog").addEventListener("close", () => sessionStorage.removeItem(KEY));
giveBack();
