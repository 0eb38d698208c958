// Records a clip from what is shown: after 3, 2, 1 for three seconds, or as long as a button is held.

import { $ } from "./dom.js";
import { Tap, jpeg } from "./tap.js";
import { joined, packed } from "./wire.js";

const SECONDS = 3;
const LONGEST = 10;
const LEAST = 0.5; // a shorter clip was a slip of the finger
const FPS = 12;

export class Recorder {
  on = false;
  #frames;
  #ending = null;

  constructor(frames) {
    this.#frames = frames;
  }

  /** A clip as the server takes it, or null where it was given up or too short. */
  async counted(size) {
    return this.#record(size, 3, SECONDS);
  }

  async held(size) {
    return this.#record(size, 0, LONGEST);
  }

  /** End the clip; it is kept unless `drop`. */
  stop(drop = false) {
    this.#ending?.(drop);
  }

  async #record(size, count, seconds) {
    if (this.on) return null;
    this.on = true;
    let ended = null;
    const pause = (milliseconds) =>
      new Promise((resolve) => {
        const timer = setTimeout(resolve, milliseconds);
        this.#ending = (drop) => {
          ended ??= drop ? "dropped" : "stopped";
          clearTimeout(timer);
          resolve();
        };
      });
    const pictures = [];
    let deaf = null;
    try {
      for (let left = count; left > 0 && !ended; left--) {
        $("countdown").textContent = left;
        $("countdown").hidden = false;
        await pause(800);
      }
      $("countdown").hidden = true;
      if (ended) return null; // nothing was recorded yet
      const tap = new Tap(size, FPS, (canvas, time) => pictures.push({ time, bytes: jpeg(canvas) }));
      deaf = this.#frames.listen((video, time) => tap.see(video, time));
      $("recording").hidden = false;
      await pause(1000 * seconds);
    } finally {
      deaf?.();
      $("recording").hidden = $("countdown").hidden = true;
      this.#ending = null;
      this.on = false;
    }
    const length = pictures.length ? pictures.at(-1).time - pictures[0].time : 0;
    if (ended === "dropped" || length < LEAST) return null;
    const bytes = await Promise.all(pictures.map((one) => one.bytes));
    return joined(bytes.map((picture, i) => packed(i, pictures[i].time, picture)));
  }
}
