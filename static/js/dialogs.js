// Dialogs, and what somebody asked for and did not get. A dialog's content is loaded into #dialog,
// which stands outside every live region.

import { announce, h, icon, one } from "./dom.js";
import { failure } from "./freshness.js";
import { focusOn, saidIn } from "./regions.js";
import { signInAddress } from "./standing.js";

let awaited = null;

/** What was asked for last is opened, and takes the place of no dialog that somebody is in already. */
function askForOne({ detail: { ctx } }) {
  const dialog = one("#dialog");
  if (ctx.target !== dialog) return;
  awaited?.abort();
  awaited = ctx.request;
  if (dialog.open) awaited.abort();
}

/** Whether an answer is the dialog's, asked before the swap: it may replace the very form that asked. */
function noteDialog({ detail: { ctx } }) {
  if (ctx) ctx.isForDialog = one("#dialog").contains(ctx.target);
}

/** Opens what was loaded into the dialog. Focus goes to what is to be put right, else to what is to be
 * filled in, else to the way out: with what it was on it would be gone. */
function openLoaded({ detail: { ctx } }) {
  const dialog = one("#dialog");
  if (!ctx?.isForDialog || !dialog.childElementCount) return;
  const isKept = dialog.open && dialog.contains(document.activeElement);
  if (!dialog.open && ctx.target === dialog && ctx.response?.raw.ok) {
    dialog.dataset.from = ctx.request.action;
    import("./unsent.js");
    dialog.showModal();
  }
  if (!dialog.open || isKept) return;
  const field = one("[aria-invalid=true]", dialog) ?? one("textarea, input:not([type=hidden])", dialog);
  (field ?? one("[data-close]", dialog))?.focus();
  // What is typed goes on a text that stands there.
  if (field?.type === "text") field.setSelectionRange(999, 999);
}

function closeFrom(event) {
  const dialog = event.target.closest("[data-close]")?.closest("dialog");
  if (!dialog) return;
  event.preventDefault();
  dialog.close();
}

/** When a dialog closes its opener may be gone. */
function keepPlace() {
  if (!one(":focus:not(dialog *)")) one("#main").focus({ preventScroll: true });
}

/* What somebody asked for and did not get is said where they asked for it. */

function faultOf({ status, message, request }, again) {
  const text = h("div", {}, h("b", {}, "That did not work"), message, request ? h("span", { class: "quiet" }, ` Request ${request}.`) : "");
  if (status === 401) text.append(" ", h("a", { class: "btn small", href: signInAddress() }, "Sign in"));
  else if (again) text.append(again);
  return h("div", { class: "fault", role: "alert" }, icon("warning"), text);
}

function tryAgain(run) {
  const button = h("button", { class: "btn small", type: "button" }, "Try again");
  button.addEventListener("click", run);
  return button;
}

/** A dialog that the server refuses becomes a page, which says why. */
function refusedDialog(ctx, why) {
  const dialog = one("#dialog");
  const address = ctx.sourceElement?.getAttribute("hx-get");
  if (why.status && address) return location.assign(address);
  const close = h("button", { class: "btn", type: "button", "data-close": "" }, "Close");
  dialog.replaceChildren(h("div", { class: "inner" }, h("h2", { id: "dialog-title" }, "This cannot be opened now"), faultOf(why), h("div", { class: "buttons" }, close)));
  if (!dialog.open) dialog.showModal();
}

function refused({ detail: { ctx } }) {
  const { sourceElement: source, target, request, response, text } = ctx ?? {};
  const status = response?.status ?? 0;
  const isRegion = source?.dataset?.region !== undefined;
  if (!source || (isRegion && !source.ariaBusy) || (status && status < 400)) return;
  if (!status && request?.signal?.aborted && request.signal.reason !== "timeout") return;
  const why = failure(status, saidIn(text), response?.headers.get("X-Request-ID") ?? "");
  const form = source.closest("form[hx-post]");
  if (target === one("#dialog")) return refusedDialog(ctx, why);
  if (form?.isConnected && request.method !== "GET") {
    one(".fault", form)?.remove();
    if (!ctx.swap || ctx.swap === "none" || !status) one(".buttons", form)?.before(faultOf(why));
  } else if (target?.isConnected && request?.method === "GET") {
    const again = () => (isRegion ? htmx.trigger(target, "refresh") : htmx.ajax("GET", request.action, { target, swap: "innerHTML" }));
    target.replaceChildren(faultOf(why, tryAgain(again)));
  }
}

export function startDialogs() {
  // Of a form that the server has sent back.
  one("[aria-invalid=true]")?.focus();
  if (sessionStorage.unsent || one("main form[method=post]")) import("./unsent.js");
  document.addEventListener("htmx:before:request", askForOne);
  document.addEventListener("htmx:before:swap", noteDialog);
  document.addEventListener("htmx:after:swap", openLoaded);  // At the document too, of a form that is gone.
  document.body.addEventListener("htmx:finally:request", refused);
  document.body.addEventListener("aborted", () => {
    one("#dialog").close();
    const region = one("[data-region]:has(tbody :focus)");
    // Rows hold still for who is in one, and this one is to go.
    if (region) focusOn(region);
    announce("The transaction is aborting");
  });
  one("#dialog").addEventListener("close", keepPlace);
  document.addEventListener("click", closeFrom);
}
