// A colour for each answer that is in sight, the same in bars and timeline. Purple and pink are dashed: they may look
// like blue and like amber to those who see fewer colours.

const DASHES = [[], [], [10, 4], [], [10, 4]]; // blue, amber, purple, cyan, pink
const REST = DASHES.length; // all others are grey

export class Palette {
  #slots = new Map();

  /** The place of a name, which it keeps as long as it is in use; a new one gets a free place, or grey. */
  slot(name) {
    if (!this.#slots.has(name)) {
      const taken = new Set(this.#slots.values());
      const free = DASHES.findIndex((_, i) => !taken.has(i));
      if (free < 0) return REST;
      this.#slots.set(name, free);
    }
    return this.#slots.get(name);
  }

  /** The place of a name that has one; grey otherwise. */
  known(name) {
    return this.#slots.get(name) ?? REST;
  }

  /** Free the places of names that are out of sight. */
  keep(names) {
    for (const name of [...this.#slots.keys()]) if (!names.has(name)) this.#slots.delete(name);
  }

  clear() {
    this.#slots.clear();
  }
}

export const dash = (slot) => DASHES[slot] ?? [];

const inks = new Map(); // looked up once: asking the style for each line of each picture is slow
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => inks.clear());

/** A colour of the page's style, which may be light or dark. */
export function inkOf(name) {
  if (!inks.has(name)) inks.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
  return inks.get(name);
}
