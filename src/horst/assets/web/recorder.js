// Records a clip of the video: three seconds after a countdown, or as long as a button is held.

import { $ } from "./dom.js";
import { FrameSampler, jpeg } from "./sampler.js";
import { joinRecording, joinFrame } from "./wire.js";

const SECONDS = 3;
const MAX_SECONDS = 10;
const MIN_SECONDS = 0.5; // shorter clips are accidental
const FPS = 12;
const SIDE = 384; // pixels of the longer side, as the server stores them

/** Height and width of recorded frames: those of the video, or smaller with the same aspect ratio. */
function sizeOf({ videoWidth, videoHeight }) {
  const scale = Math.min(1, SIDE / Math.max(videoWidth, videoHeight, 1));
  return [videoHeight, videoWidth].map((side) => Math.max(1, Math.round(scale * side)));
}

const lengthOf = (pictures) => (pictures.length ? pictures.at(-1).time - pictures[0].time : 0);

export class Recorder {
  on = false;
  #frames;
  #ending = null;

  constructor(frames) {
    this.#frames = frames;
  }

  /** A clip in the server's format, or null if it was cancelled. Throws if it is too short. */
  async afterCountdown() {
    return this.#record(3, SECONDS);
  }

  async whileHeld() {
    return this.#record(0, MAX_SECONDS);
  }

  /** End the clip; with `drop` it is discarded. */
  stop(drop = false) {
    this.#ending?.(drop);
  }

  async #record(count, seconds) {
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
    let stopListening = null;
    try {
      for (let left = count; left > 0 && !ended; left--) {
        $("countdown").textContent = left;
        $("countdown").hidden = false;
        await pause(800);
      }
      $("countdown").hidden = true;
      if (ended) return null; // nothing recorded yet
      let sampler = null;
      const keep = (canvas, time) => {
        pictures.push({ time, bytes: jpeg(canvas) });
        $("recording").textContent = `recording ${lengthOf(pictures).toFixed(1)} s`;
      };
      stopListening = this.#frames.listen((video, time) => {
        sampler ??= new FrameSampler(sizeOf(video), FPS, keep);
        sampler.push(video, time);
      });
      $("recording").textContent = "recording";
      $("recording").hidden = false;
      await pause(1000 * seconds);
    } finally {
      stopListening?.();
      $("recording").hidden = $("countdown").hidden = true;
      this.#ending = null;
      this.on = false;
    }
    if (ended === "dropped") return null;
    if (lengthOf(pictures) < MIN_SECONDS) throw new Error(`The clip was shorter than ${MIN_SECONDS} s and is not kept.`);
    const bytes = await Promise.all(pictures.map((one) => one.bytes));
    return joinRecording(bytes.map((picture, i) => joinFrame(i, pictures[i].time, picture)));
  }
}
