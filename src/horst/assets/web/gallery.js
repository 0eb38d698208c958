// The samples of the selected model as a row of thumbnails.

import { data, request } from "./api.js";
import { $, make } from "./dom.js";

export class Gallery {
  samples = [];
  #chosen = null;
  #turn = 0;
  #addresses = [];

  /** `choose(name)` is called for a click. */
  constructor(choose) {
    this.choose = choose;
  }

  /** The chosen sample; the first one by default. */
  get chosen() {
    return this.samples.find((one) => one.name === this.#chosen) ?? this.samples[0] ?? null;
  }

  /** The sample after the chosen one. */
  get next() {
    return this.samples[(this.samples.indexOf(this.chosen) + 1) % this.samples.length] ?? null;
  }

  /** List the samples of a model; returns whether the chosen one is among them. */
  async list(model) {
    const turn = ++this.#turn;
    const samples = await data(`/api/samples?model=${encodeURIComponent(model)}`);
    if (turn !== this.#turn) return true;
    this.samples = samples;
    this.#draw(turn);
    return samples.some((one) => one.name === this.#chosen);
  }

  /** Mark the sample that plays; null if none does. */
  mark(name) {
    this.#chosen = name ?? this.#chosen;
    for (const button of $("samples").querySelectorAll("button")) button.ariaPressed = String(button.dataset.name === name);
  }

  #draw(turn) {
    for (const address of this.#addresses.splice(0)) URL.revokeObjectURL(address);
    const items = this.samples.map(({ name, label }) => {
      const picture = make("img", { alt: "" });
      const button = make("button", { type: "button", title: label, data: { name }, aria: { pressed: "false" } }, picture, make("span", { className: "cut", textContent: label }));
      button.addEventListener("click", () => this.choose(name));
      return make("li", {}, button);
    });
    $("samples").replaceChildren(...items);
    this.#load(turn);
  }

  /** Load the first frames, one after the other: the server renders a sample when it is first requested. */
  async #load(turn) {
    for (const button of [...$("samples").querySelectorAll("button")]) {
      const answer = await request(`/api/samples/${encodeURIComponent(button.dataset.name)}.jpg`).catch(() => null);
      if (turn !== this.#turn) return;
      if (!answer) continue; // it was deleted
      const address = URL.createObjectURL(await answer.blob());
      this.#addresses.push(address);
      button.querySelector("img").src = address;
    }
  }
}
