// Training a model on the recorded clips: form, progress and result.

import { data, request } from "./api.js";
import { $, percent } from "./dom.js";
import { sentence } from "./notice.js";

const INTERVAL = 700; // milliseconds between two status requests

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
      if (target.name === "how") $("minutes").value = target.value === "scratch" ? 3 : 1; // the minimum of each
    });
    $("cancel").addEventListener("click", () => this.#run(() => request("/api/teach", { method: "DELETE" })));
  }

  /** Get the status: training may be running already. */
  async update() {
    clearTimeout(this.#timer);
    const state = await data("/api/teach");
    const before = this.running;
    this.running = state.state === "running";
    this.#show(state, before);
    if (this.running) this.#timer = setTimeout(() => this.#run(() => null), INTERVAL);
    if (before && state.state === "done") this.done(state.model);
  }

  #start() {
    const how = new FormData($("train-form")).get("how");
    const options = { name: $("model-name").value.trim(), how, minutes: Number($("minutes").value) };
    this.#run(async () => {
      await request("/api/teach", { method: "POST", json: options });
      this.running = true;
    });
  }

  async #run(work) {
    try {
      await work();
      await this.update();
    } catch (error) {
      this.#text(sentence(error.message), true);
      if (this.running) this.#timer = setTimeout(() => this.#run(() => null), 3 * INTERVAL);
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
      if (epochs) facts.push(`epoch ${epoch} of ${epochs}`);
      if (typeof loss === "number") facts.push(`loss ${loss.toFixed(2)}`);
      if (typeof accuracy === "number") facts.push(`accuracy ${percent(accuracy)}`);
      this.#text(facts.length > 1 ? facts.join(" · ") : message || facts[0]);
    } else if (state === "done" && before) {
      const result = typeof accuracy === "number" ? `Accuracy on held-out clips: ${percent(accuracy)}.` : sentence(message);
      this.#text(`${model} is ready. ${result}`);
    } else if (state === "failed") this.#text(sentence(message || "training failed"), true);
    else if (before) this.#text(sentence(message || "training cancelled"));
  }

  #text(text, bad = false) {
    $("train-text").textContent = text;
    $("train-text").dataset.kind = bad ? "bad" : "good";
  }
}
