// For browsers without `light-dark()` (Safari before 17.5): each colour of tokens.css gets the one of its two
// values that the theme asks for.

const root = document.documentElement;
const dark = matchMedia("(prefers-color-scheme: dark)");
const TOKENS = /\/tokens\b[^/]*\.css$/;
/** A call of light-dark(), whose arguments may have parentheses of their own. */
const PAIR = /light-dark\(((?:[^(),]|\([^)]*\))+),\s*((?:[^(),]|\([^)]*\))+)\)/g;

function paint() {
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : dark.matches;
  const { cssRules } = [...document.styleSheets].find(({ href }) => TOKENS.test(href));
  const { style } = [...cssRules].find(({ selectorText }) => selectorText === ":root");
  for (const name of style) {
    const value = style.getPropertyValue(name);
    if (value.includes("light-dark(")) root.style.setProperty(name, value.replace(PAIR, isDark ? "$2" : "$1"));
  }
}

addEventListener("load", paint);
if (document.readyState === "complete") paint();
document.addEventListener("theme", paint);
dark.addEventListener("change", paint);
