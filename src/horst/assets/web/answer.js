// The predicted class in large letters with its probability, and as an announcement for screen readers.
// It can be read: the class changes only when another one leads, the number at most four times per second.

import { $, percent } from "./dom.js";

const PAUSE = 3000; // milliseconds between two announcements
const NUMBER = 250; // milliseconds between two changes of the number

export class Answer {
  #threshold = 0;
  #leader = null;
  #sure = false;
  #written = 0;
  #last = 0;
  #announced = "";

  set threshold(value) {
    this.#threshold = value;
    this.#leader = null; // the next prediction decides again
  }

  /** `truth`: the class that is right, if known; `horizon`: seconds ahead, 0 for the current action. */
  show(tasks, { truth = null, horizon = 0, several = false } = {}) {
    const top = tasks.action ?? Object.values(tasks)[0];
    const { name, probability } = top[0];
    const confident = probability >= this.#threshold;
    if (name !== this.#leader || (confident && !this.#sure)) this.#change(name, confident);
    $("answer").classList.toggle("right", this.#sure && name === truth);
    const now = performance.now();
    if (now - this.#written >= NUMBER) {
      this.#written = now;
      $("chance").textContent = this.#sure ? percent(probability) : "";
    }
    $("when").textContent = horizon ? `Next, ${several ? "in" : "within"} ${horizon} s:` : "";
    const parts = Object.entries(tasks).filter(([task]) => task !== "action" && tasks.action);
    $("parts").textContent = parts.map(([task, best]) => `${task}: ${best[0].name}`).join(" · ");
    this.#announce(this.#sure ? `${name}, ${percent(probability)}` : "not sure", this.#sure ? name : "");
  }

  clear(text = "no prediction yet") {
    this.#leader = null;
    this.#sure = false;
    this.#written = 0;
    $("answer").textContent = text;
    $("answer").className = "answer quiet";
    for (const id of ["chance", "when", "parts", "announcement"]) $(id).textContent = "";
    this.#announced = "";
  }

  #change(name, confident) {
    [this.#leader, this.#sure, this.#written] = [name, confident, 0];
    $("answer").textContent = confident ? name : "not sure";
    $("answer").classList.toggle("quiet", !confident);
  }

  #announce(text, name) {
    const now = performance.now();
    if (name === this.#announced || now - this.#last < PAUSE) return;
    [this.#announced, this.#last] = [name, now];
    $("announcement").textContent = text;
  }
}
