// Training a model on the recorded clips: form, progress and result.

import { data, request } from "./api.js";
import { $, percent } from "./dom.js";
import { sentence } from "./notice.js";
import { showResults } from "./results.js";

const INTERVAL = 700; // milliseconds between two status requests

export class Training {
  #timer = 0;
  running = false;

  /** `prepare()` is awaited before training starts; `done(name)` is called when a model is ready. */
  constructor({ prepare, done }) {
    this.prepare = prepare;
    this.done = done;
    $("train-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#start();
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
    const options = { name: $("model-name").value.trim() };
    this.#run(async () => {
      await this.prepare();
      try {
        await request("/api/teach", { method: "POST", json: options });
      } catch (error) {
        if (error.code !== "exists") throw error;
        if (!(await askToReplace(options.name))) return;
        await request("/api/teach", { method: "POST", json: { ...options, overwrite: true } });
      }
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

  #show(status, before) {
    const { state, progress, accuracy, model, message } = status;
    const running = state === "running";
    $("train").hidden = running;
    $("cancel").hidden = $("progress").hidden = !running;
    $("progress").value = progress ?? 0;
    showResults(state === "done" ? status : {});
    if (running) this.#text(`${percent(progress)} · ${message}`);
    else if (state === "done") {
      const result = typeof accuracy === "number" ? `Accuracy on held-out clips: ${percent(accuracy)}.` : "";
      this.#text(`${model} is ready. ${result}`);
    } else if (state === "failed") this.#text(sentence(message || "training failed"), true);
    else if (before) this.#text(sentence(message || "training cancelled"));
  }

  #text(text, bad = false) {
    $("train-text").textContent = text;
    $("train-text").dataset.kind = bad ? "bad" : "good";
  }
}

/** Whether the user wants to replace a model. */
function askToReplace(name) {
  const dialog = $("replace");
  $("replace-title").textContent = `Replace the model ${name}?`;
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue === "replace"), { once: true }));
}
