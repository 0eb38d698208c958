// A colour for each visible class, the same in bars and timeline. Purple and pink are dashed: with colour blindness they
// may look like blue and amber.

const DASHES = [[], [], [10, 4], [], [10, 4]]; // blue, amber, purple, cyan, pink
const GREY = DASHES.length; // all others

export class Palette {
  #slots = new Map();

  /** The colour of a class, which it keeps while it is visible; a new one gets a free colour, or grey. */
  slot(name) {
    if (!this.#slots.has(name)) {
      const taken = new Set(this.#slots.values());
      const free = DASHES.findIndex((_, i) => !taken.has(i));
      if (free < 0) return GREY;
      this.#slots.set(name, free);
    }
    return this.#slots.get(name);
  }

  /** The colour of a class that has one; grey otherwise. */
  known(name) {
    return this.#slots.get(name) ?? GREY;
  }

  /** Free the colours of classes that are no longer visible. */
  keep(names) {
    for (const name of [...this.#slots.keys()]) if (!names.has(name)) this.#slots.delete(name);
  }

  clear() {
    this.#slots.clear();
  }
}

export const dash = (slot) => DASHES[slot] ?? [];

const inks = new Map(); // cached: computing styles for each line is slow
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => inks.clear());

/** A colour of the page's light or dark style. */
export function inkOf(name) {
  if (!inks.has(name)) inks.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
  return inks.get(name);
}
