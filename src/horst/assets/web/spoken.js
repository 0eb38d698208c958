// The answer in words, large on the page, and now and then to those who listen to it.

import { $, percent } from "./dom.js";

const PAUSE = 3000; // milliseconds between two announcements

export class Spoken {
  threshold = 0;
  truth = null; // the name of the action that is shown, where that is known
  #last = 0;
  #told = "";

  show(tasks) {
    const top = tasks.action ?? Object.values(tasks)[0];
    const { name, probability } = top[0];
    const sure = probability >= this.threshold;
    const answer = $("answer");
    answer.textContent = sure ? name : "not sure";
    answer.classList.toggle("quiet", !sure);
    answer.classList.toggle("right", sure && name === this.truth);
    const parts = Object.entries(tasks).filter(([task]) => task !== "action" && tasks.action);
    $("parts").textContent = parts.map(([task, best]) => `${task}: ${best[0].name} ${percent(best[0].probability)}`).join(" · ");
    this.#tell(sure ? `${name}, ${percent(probability)}` : "not sure", sure ? name : "");
  }

  clear(text = "nothing yet") {
    $("answer").textContent = text;
    $("answer").className = "answer quiet";
    $("parts").textContent = "";
    this.#told = "";
  }

  #tell(text, name) {
    const now = performance.now();
    if (name === this.#told || now - this.#last < PAUSE) return;
    [this.#told, this.#last] = [name, now];
    $("spoken").textContent = text;
  }
}
