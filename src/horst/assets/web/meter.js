// How fast it is: from a frame's capture to its answer on this page, and answers a second.

import { $ } from "./dom.js";

const MANY = 15;
const WHILE = 3000; // milliseconds

export class Meter {
  #trips = [];
  #answers = [];

  constructor() {
    setInterval(() => this.#show(), 500);
  }

  add(sentAt, age) {
    const now = performance.now();
    this.#trips = [...this.#trips, now - sentAt].slice(-MANY);
    this.#answers.push(now);
    $("age").textContent = age;
  }

  clear() {
    this.#trips = [];
    this.#answers = [];
    $("age").textContent = "–";
    this.#show();
  }

  #show() {
    const now = performance.now();
    this.#answers = this.#answers.filter((at) => now - at < WHILE);
    const sorted = this.#trips.toSorted((a, b) => a - b);
    $("latency").textContent = sorted.length ? `${Math.round(sorted[sorted.length >> 1])} ms` : "–";
    const span = now - (this.#answers[0] ?? now);
    $("rate").textContent = span > 400 ? ((1000 * (this.#answers.length - 0.5)) / span).toFixed(1) : this.#trips.length ? "0" : "–";
  }
}
