// Runs before the first paint, so that a chosen theme does not flash. "system" is the absence of a choice.
(function () {
  try {
    const chosen = localStorage.getItem("theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch {
    // Storage is refused in some private windows: the system's theme holds.
  }
})();
