// Where in the log the reader is: the field, what is said below it, the way back to the end, and the
// offsets that are suggested for a file.

import { all, one, setText } from "../dom.js";
import { count } from "../format.js";

export class Place {
  /** @param go called with what was written, or with null for the end. */
  constructor(form, go) {
    this.field = one("#at", form);
    this.follow = one("#follow", form);
    this.error = one("#at-error", form);
    this.follow.addEventListener("click", () => go(null));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      go(this.field.value.trim() || null);
    });
  }

  /** Tells of the window that was gone to. Where it is elsewhere, what was written stays and is explained. */
  show({ at, missed, export: suggested }, written) {
    this.#say("");
    this.field.value = missed ? written : at ?? "";
    this.follow.hidden = at === null;
    for (const note of all("[data-missed]")) note.hidden = note.dataset.missed !== missed;
    const [from, to] = suggested ?? ["", ""];
    one("#export-from").defaultValue = from;  // What a reader has typed there stays.
    one("#export-to").defaultValue = to;
  }

  /** Where the log begins and ends now, in what is said of a place outside of it. */
  showEdges(summary) {
    for (const edge of all("[data-edge]")) setText(edge, count(summary[edge.dataset.edge]));
  }

  /** Says why what was written is no place. */
  refuse(why, written) {
    this.field.value = written;
    this.#say(why);
  }

  #say(why) {
    setText(this.error, why);
    if (why) this.field.setAttribute("aria-invalid", "true");
    else this.field.removeAttribute("aria-invalid");
  }
}
