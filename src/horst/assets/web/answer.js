// The predicted class in large letters, and as an announcement for screen readers.

import { $, percent } from "./dom.js";

const PAUSE = 3000; // milliseconds between two announcements

export class Answer {
  threshold = 0;
  truth = null; // the class of the sample, if known
  #last = 0;
  #announced = "";

  show(tasks) {
    const top = tasks.action ?? Object.values(tasks)[0];
    const { name, probability } = top[0];
    const confident = probability >= this.threshold;
    const answer = $("answer");
    answer.textContent = confident ? name : "not sure";
    answer.classList.toggle("quiet", !confident);
    answer.classList.toggle("right", confident && name === this.truth);
    const parts = Object.entries(tasks).filter(([task]) => task !== "action" && tasks.action);
    $("parts").textContent = parts.map(([task, best]) => `${task}: ${best[0].name} ${percent(best[0].probability)}`).join(" · ");
    this.#announce(confident ? `${name}, ${percent(probability)}` : "not sure", confident ? name : "");
  }

  clear(text = "no prediction yet") {
    $("answer").textContent = text;
    $("answer").className = "answer quiet";
    $("parts").textContent = "";
    this.#announced = "";
  }

  #announce(text, name) {
    const now = performance.now();
    if (name === this.#announced || now - this.#last < PAUSE) return;
    [this.#announced, this.#last] = [name, now];
    $("announcement").textContent = text;
  }
}
