// Building elements. Text goes in as text: keys and names come from users.

const ICONS = document.body.dataset.icons;
const SVG = "http://www.w3.org/2000/svg";

export const one = (selector, root = document) => root.querySelector(selector);
export const all = (selector, root = document) => [...root.querySelectorAll(selector)];

/** An element with attributes (`class`, `data-x`, …; null is left out) and children. */
export function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

/** An icon of the sprite. */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "i");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `${ICONS}#${name}`);
  svg.append(use);
  return svg;
}

/** A transaction's state as a badge; the counterpart of the template tag `state`. */
export function badge(state) {
  const word = state === "NONE" ? "No transaction" : state[0] + state.slice(1).toLowerCase();
  return h("span", { class: "st", "data-st": state }, icon(state), word);
}

/** Sets an element's text when it differs, so that nothing is repainted for nothing. */
export function setText(element, text) {
  if (element && element.textContent !== text) element.textContent = text;
}

/** Says something to assistive technology, politely. */
export function announce(text) {
  setText(one("#say"), text);
}
