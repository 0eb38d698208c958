// The top classes as bars that can be read: rows change places at most once per second, numbers four times.

import { $, make, percent } from "./dom.js";

const MAX_BARS = 5;
const SORT = 1000; // milliseconds between two changes of the order
const NUMBER = 250; // milliseconds between two changes of the numbers

export class Bars {
  #rows = new Map();
  #list = $("bars");
  #order = [];
  #sorted = 0;
  #written = 0;

  constructor(palette) {
    this.palette = palette;
  }

  show(top) {
    const now = performance.now();
    if (!this.#order.length || now - this.#sorted >= SORT) {
      this.#sorted = now;
      this.#sort(top.slice(0, MAX_BARS).map((one) => one.name));
    }
    const write = now - this.#written >= NUMBER;
    if (write) this.#written = now;
    const chances = new Map(top.map((one) => [one.name, one.probability]));
    for (const name of this.#order) {
      const row = this.#rows.get(name);
      const chance = chances.get(name) ?? 0; // it is not in the top any more
      row.item.className = `c${this.palette.known(name)}`;
      row.fill.style.transform = `scaleX(${chance})`;
      if (write || !row.value.textContent) row.value.textContent = percent(chance);
    }
  }

  clear() {
    for (const row of this.#rows.values()) clearTimeout(row.leaving); // else it would remove a later row of that name
    this.#rows.clear();
    this.#order = [];
    this.#list.replaceChildren();
  }

  #sort(names) {
    this.#order = names;
    names.forEach((name, rank) => {
      const row = this.#rows.get(name) ?? this.#add(name, rank);
      clearTimeout(row.leaving);
      row.leaving = 0;
      row.item.style.transform = `translateY(${100 * rank}%)`;
      row.item.style.opacity = "1";
      row.item.toggleAttribute("data-lead", rank === 0);
      row.item.ariaHidden = null;
      row.item.ariaPosInSet = String(rank + 1);
    });
    for (const [name, row] of this.#rows) if (!names.includes(name) && !row.leaving) this.#leave(name, row);
  }

  #add(name, rank) {
    const fill = make("span", { className: "fill" });
    const value = make("span", { className: "value" });
    const line = make("span", { className: "line" }, make("span", { className: "name cut", textContent: name, title: name }), value);
    const item = make("li", {}, line, make("span", { className: "track" }, fill));
    item.style.transform = `translateY(${100 * (rank + 0.4)}%)`;
    item.style.opacity = "0";
    fill.style.transform = "scaleX(0)";
    this.#list.append(item);
    item.getBoundingClientRect(); // so that the transition starts there
    const row = { item, fill, value, leaving: 0 };
    this.#rows.set(name, row);
    return row;
  }

  #leave(name, row) {
    row.item.style.opacity = "0";
    row.item.ariaHidden = "true";
    row.item.removeAttribute("data-lead");
    row.leaving = setTimeout(() => {
      row.item.remove();
      this.#rows.delete(name);
    }, 300);
  }
}
