// Training a model of the recorded actions: its form, its progress, and its end.

import { data, request } from "./api.js";
import { $, percent } from "./dom.js";
import { sentence } from "./notice.js";

const EVERY = 700; // milliseconds between two looks

export class Training {
  #timer = 0;
  running = false;

  /** `done(name)` is called when a model is ready. */
  constructor(done) {
    this.done = done;
    $("train-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#start();
    });
    $("train-form").addEventListener("change", ({ target }) => {
      if (target.name === "how") $("minutes").value = target.value === "scratch" ? 3 : 1; // what each needs at least
    });
    $("cancel").addEventListener("click", () => this.#ask(() => request("/api/teach", { method: "DELETE" })));
  }

  /** Look how it stands: it may run already. */
  async look() {
    clearTimeout(this.#timer);
    const state = await data("/api/teach");
    const before = this.running;
    this.running = state.state === "running";
    this.#show(state, before);
    if (this.running) this.#timer = setTimeout(() => this.#ask(() => null), EVERY);
    if (before && state.state === "done") this.done(state.model);
  }

  #start() {
    const how = new FormData($("train-form")).get("how");
    const wish = { name: $("taught-name").value.trim(), how, minutes: Number($("minutes").value) };
    this.#ask(async () => {
      await request("/api/teach", { method: "POST", json: wish });
      this.running = true;
    });
  }

  async #ask(work) {
    try {
      await work();
      await this.look();
    } catch (error) {
      this.#text(sentence(error.message), true);
      if (this.running) this.#timer = setTimeout(() => this.#ask(() => null), 3 * EVERY);
    }
  }

  #show({ state, progress, epoch, epochs, loss, accuracy, model, message }, before) {
    const running = state === "running";
    $("train").disabled = running;
    $("cancel").hidden = !running;
    $("progress").hidden = !running;
    $("progress").value = progress ?? 0;
    if (running) {
      const facts = [percent(progress ?? 0)];
      if (epochs) facts.push(`round ${epoch} of ${epochs}`);
      if (typeof loss === "number") facts.push(`loss ${loss.toFixed(2)}`);
      if (typeof accuracy === "number") facts.push(`right ${percent(accuracy)}`);
      this.#text(facts.length > 1 ? facts.join(" · ") : message || facts[0]);
    } else if (state === "done" && before) {
      const known = typeof accuracy === "number" ? `It names ${percent(accuracy)} of the clips that it was not shown.` : sentence(message);
      this.#text(`${model} is ready and in use. ${known}`);
    } else if (state === "failed") this.#text(sentence(message || "training failed"), true);
    else if (before) this.#text(sentence(message || "training was cancelled"));
  }

  #text(text, bad = false) {
    $("train-text").textContent = text;
    $("train-text").dataset.kind = bad ? "bad" : "good";
  }
}
