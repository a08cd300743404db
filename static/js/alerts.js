// The pages of alerts: what an operator has done shows at once.

import { announce, one } from "./dom.js";
import { refreshAll } from "./regions.js";
import "./shell.js";

document.body.addEventListener("alerted", () => {
  one("#dialog").close();
  announce("Done");
  refreshAll();
});
