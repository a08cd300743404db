// Runs before the first paint, so that a chosen theme does not flash. What a user has chosen comes with
// the page; this browser remembers it for the pages that know no user, such as the login.
(function () {
  const root = document.documentElement;
  const own = root.dataset.ownTheme;
  try {
    if (own) localStorage.setItem("theme", own);
    const chosen = own ?? localStorage.getItem("theme");
    if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
  } catch {
    // Storage is refused in some private windows: the system's theme holds.
  }
  try {
    Intl.DateTimeFormat("en", { timeZone: root.dataset.zone });
  } catch {
    delete root.dataset.zone;  // A zone that is younger than the browser.
  }
  if (!CSS.supports("color", "light-dark(red, red)")) import("./plain.js");
})();
