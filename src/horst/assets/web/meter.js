// Latency from a frame's capture to its prediction on this page, and predictions per second.

import { $ } from "./dom.js";

const MAX_SAMPLES = 15; // for the median latency
const WINDOW = 3000; // milliseconds, for the rate

export class Meter {
  #latencies = [];
  #answers = [];

  constructor() {
    setInterval(() => this.#show(), 500);
  }

  add(sentAt, age) {
    const now = performance.now();
    this.#latencies = [...this.#latencies, now - sentAt].slice(-MAX_SAMPLES);
    this.#answers.push(now);
    $("age").textContent = age;
  }

  clear() {
    this.#latencies = [];
    this.#answers = [];
    $("age").textContent = "–";
    this.#show();
  }

  #show() {
    const now = performance.now();
    this.#answers = this.#answers.filter((at) => now - at < WINDOW);
    const sorted = this.#latencies.toSorted((a, b) => a - b);
    $("latency").textContent = sorted.length ? `${Math.round(sorted[sorted.length >> 1])} ms` : "–";
    const span = now - (this.#answers[0] ?? now);
    $("rate").textContent = span > 400 ? ((1000 * (this.#answers.length - 0.5)) / span).toFixed(1) : this.#latencies.length ? "0" : "–";
  }
}
