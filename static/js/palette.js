// The search box, the command palette and the list of shortcuts.

import { one } from "./dom.js";
import { live } from "./live.js";
import { PACES, setPace, switchTheme } from "./preferences.js";

const COMMANDS = [
  ["Theme: light", () => switchTheme("light")],
  ["Theme: dark", () => switchTheme("dark")],
  ["Theme: as the system", () => switchTheme("system")],
  ["Pause or resume live updates", () => live?.toggle()],
  ...PACES.map((seconds) => [`Renew pages every ${seconds} s`, () => setPace(seconds)]),
  ["Keyboard shortcuts", openShortcuts],
  ["Sign out", () => one("form[action$='/logout']").requestSubmit()],
];

function commands(text) {
  const wanted = text.toLowerCase();
  return COMMANDS.filter(([title]) => title.toLowerCase().includes(wanted)).map(([title, run]) => ({
    kind: "Do", title, detail: "", run: () => {
      one("#palette").close();
      run();
    },
  }));
}

const loaded = {};

/** The finder of an input, made when it is first used. */
async function finder(input, list, options) {
  const { Finder } = await import("./finder.js");
  return (loaded[input] ??= new Finder(one(input), one(list), options));
}

export async function openPalette() {
  one("#palette").showModal();
  one("#palette-text").select();
  (await finder("#palette-text", "#palette-finds", { commands, takesFirst: true })).ask();
}

/** The dialog's text is a template until somebody asks, so that no page pays for it before. */
export function openShortcuts() {
  const dialog = one("#shortcuts");
  const text = one("template", dialog);
  text?.replaceWith(text.content);
  dialog.showModal();
}

export function startPalette() {
  const box = one("#q");
  box?.addEventListener("focus", async () => {
    const found = await finder("#q", "#finds");
    if (box.value && document.activeElement === box) found.ask();
  });
  box?.addEventListener("blur", () => loaded["#q"]?.close());
  one("[data-palette]")?.addEventListener("click", (event) => {
    event.preventDefault();
    openPalette();
  });
}
