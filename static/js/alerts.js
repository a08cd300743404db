// The pages of alerts: what an operator has done shows at once.

import { announce, one } from "./dom.js";
import { refreshAll } from "./regions.js";
import "./shell.js";

/** The tab's title says how many alerts fire. */
function showCount() {
  const loud = one("[data-loud]")?.dataset.loud;
  if (loud === undefined) return;
  const title = document.title.replace(/^\(\d+\) /, "");
  document.title = loud === "0" ? title : `(${loud}) ${title}`;
}

document.body.addEventListener("htmx:after:swap", showCount);
document.body.addEventListener("alerted", () => {
  one("#dialog").close();
  announce("Done");
  refreshAll();
});
