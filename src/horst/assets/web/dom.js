// Helpers for elements of the page.

export const $ = (id) => document.getElementById(id);

/** An element with properties and children; `data` and `aria` are attributes of these kinds. */
export function make(tag, { data = {}, aria = {}, ...properties } = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  for (const [name, value] of Object.entries(data)) element.dataset[name] = value;
  for (const [name, value] of Object.entries(aria)) element.setAttribute(`aria-${name}`, value);
  element.append(...children);
  return element;
}

/** Fill a <select>, and keep the selected value if it still exists. */
export function fill(select, options) {
  const chosen = select.value;
  select.replaceChildren(...options.map(([value, text]) => make("option", { value, textContent: text })));
  if (options.some(([value]) => value === chosen)) select.value = chosen;
}

const still = matchMedia("(prefers-reduced-motion: reduce)");

/** Whether animations are welcome. */
export const moves = () => !still.matches;

export const percent = (part) => `${Math.round(100 * part)}%`;
