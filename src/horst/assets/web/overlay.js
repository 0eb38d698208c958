// The newest map of attention over the video. It glides from one map to the next where motion is welcome.

import { $, moves } from "./dom.js";
import { paint } from "./heat.js";

const STRENGTH = 0.42; // how far the hottest place hides the video
const PICTURE = 40; // milliseconds between two pictures
const GLIDE = 0.35; // the part of the way that is gone in one of them

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

  /** The map to show from now on; null for none. */
  show(map) {
    this.#goal = map;
    if (map === null || this.#shown?.levels.length !== map.levels.length || !moves()) {
      this.#shown = map && { ...map, levels: map.levels.slice() };
      this.#draw();
    } else if (!this.#moving) {
      this.#moving = true;
      setTimeout(() => this.#step(), PICTURE);
    }
  }

  #step() {
    this.#moving = false;
    if (!this.#goal || !this.#shown) return;
    let rest = 0;
    this.#shown.levels.forEach((level, i) => {
      const way = this.#goal.levels[i] - level;
      this.#shown.levels[i] = level + GLIDE * way;
      rest = Math.max(rest, Math.abs(way));
    });
    this.#draw();
    if (rest > 0.01) {
      this.#moving = true;
      setTimeout(() => this.#step(), PICTURE);
    }
  }

  #draw() {
    const { videoWidth, videoHeight } = this.video;
    const wide = 224;
    const tall = videoWidth ? Math.round((wide * videoHeight) / videoWidth) : wide; // fits as the video itself does
    if (this.#canvas.width !== wide || this.#canvas.height !== tall) [this.#canvas.width, this.#canvas.height] = [wide, tall];
    const context = this.#canvas.getContext("2d");
    context.clearRect(0, 0, wide, tall);
    if (!this.#shown || this.#canvas.hidden) return;
    paint(this.#small, this.#shown, (level) => STRENGTH * level * level);
    context.imageSmoothingQuality = "high";
    context.drawImage(this.#small, 0, 0, wide, tall);
  }
}
