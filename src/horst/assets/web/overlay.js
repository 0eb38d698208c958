// The newest attention map over the video, with a smooth transition unless reduced motion is preferred.

import { $, moves } from "./dom.js";
import { paint } from "./heat.js";

const OPACITY = 0.42; // of the largest weight
const INTERVAL = 40; // milliseconds between two redraws
const STEP = 0.35; // part of the difference that each redraw covers

export class Overlay {
  #canvas = $("heat");
  #small = document.createElement("canvas");
  #goal = null;
  #shown = null;
  #moving = false;

  constructor(video) {
    this.video = video;
  }

  set visible(yes) {
    this.#canvas.hidden = !yes;
  }

  /** Show a map; null for none. */
  show(map) {
    this.#goal = map;
    if (map === null || this.#shown?.levels.length !== map.levels.length || !moves()) {
      this.#shown = map && { ...map, levels: map.levels.slice() };
      this.#draw();
    } else if (!this.#moving) {
      this.#moving = true;
      setTimeout(() => this.#step(), INTERVAL);
    }
  }

  #step() {
    this.#moving = false;
    if (!this.#goal || !this.#shown) return;
    let rest = 0;
    this.#shown.levels.forEach((level, i) => {
      const way = this.#goal.levels[i] - level;
      this.#shown.levels[i] = level + STEP * way;
      rest = Math.max(rest, Math.abs(way));
    });
    this.#draw();
    if (rest > 0.01) {
      this.#moving = true;
      setTimeout(() => this.#step(), INTERVAL);
    }
  }

  #draw() {
    const { videoWidth, videoHeight } = this.video;
    const wide = 224;
    const tall = videoWidth ? Math.round((wide * videoHeight) / videoWidth) : wide; // the same aspect ratio as the video
    if (this.#canvas.width !== wide || this.#canvas.height !== tall) [this.#canvas.width, this.#canvas.height] = [wide, tall];
    const context = this.#canvas.getContext("2d");
    context.clearRect(0, 0, wide, tall);
    if (!this.#shown || this.#canvas.hidden) return;
    paint(this.#small, this.#shown, (level) => OPACITY * level * level);
    context.imageSmoothingQuality = "high";
    context.drawImage(this.#small, 0, 0, wide, tall);
  }
}
