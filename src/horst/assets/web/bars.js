// The top classes as animated bars: a class keeps its row, which moves to its new rank.

import { $, make, percent } from "./dom.js";

const MAX_BARS = 5;

export class Bars {
  #rows = new Map();
  #list = $("bars");

  constructor(palette) {
    this.palette = palette;
  }

  show(top) {
    const shown = top.slice(0, MAX_BARS);
    const names = new Set(shown.map((one) => one.name));
    shown.forEach(({ name, probability }, rank) => {
      const row = this.#rows.get(name) ?? this.#add(name, rank);
      clearTimeout(row.leaving);
      row.leaving = 0;
      row.item.className = `c${this.palette.known(name)}`;
      row.item.style.transform = `translateY(${100 * rank}%)`;
      row.item.style.opacity = "1";
      row.item.toggleAttribute("data-lead", rank === 0);
      row.fill.style.transform = `scaleX(${probability})`;
      row.value.textContent = percent(probability);
      row.item.ariaHidden = null;
      row.item.ariaPosInSet = String(rank + 1);
    });
    for (const [name, row] of this.#rows) if (!names.has(name) && !row.leaving) this.#leave(name, row);
  }

  clear() {
    this.#rows.clear();
    this.#list.replaceChildren();
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
