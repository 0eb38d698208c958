// The past frames and their attention: brightness is the temporal weight, colour the spatial weight.
// The page keeps small copies of the frames that it sent, and finds them by their times.

import { $, make, percent } from "./dom.js";
import { paint } from "./heat.js";

const MAX_KEPT = 64;
const MIN_BRIGHTNESS = 0.3; // of a frame without weight

export class Strip {
  #list = $("strip");
  #cells = [];
  #kept = [];
  #size = [112, 112];
  #heat = document.createElement("canvas");

  /** Keep a copy of a frame that is sent. */
  keep(time, canvas) {
    const copy = this.#kept.length < MAX_KEPT ? document.createElement("canvas") : this.#kept.shift().copy;
    if (copy.width !== canvas.width || copy.height !== canvas.height) [copy.width, copy.height] = [canvas.width, canvas.height];
    copy.getContext("2d").drawImage(canvas, 0, 0);
    this.#kept.push({ time, copy });
  }

  /** Show `count` empty cells: the number of frames that the model keeps. */
  clear(count = this.#cells.length, size = this.#size) {
    this.#kept = [];
    this.#size = size;
    const [height, width] = size;
    this.#cells = Array.from({ length: count }, () => {
      const picture = make("canvas", { width, height });
      const bar = make("i");
      const share = make("b");
      const age = make("span");
      const note = make("span", { className: "note" }, share, age);
      return { picture, bar, share, age, item: make("li", {}, picture, make("span", { className: "weight" }, bar), note) };
    });
    this.#list.replaceChildren(...this.#cells.map((cell) => cell.item));
  }

  /** Attention of a prediction at `now`, in seconds; `step`: seconds between frames. */
  show({ temporal, times, maps, even }, now, step) {
    if (this.#cells.length !== times.length) this.#resize(times.length);
    const most = Math.max(...temporal.filter((_, i) => times[i] !== null), 1e-6);
    this.#cells.forEach((cell, i) => {
      const frame = times[i] === null ? null : this.#find(times[i], step);
      const pen = cell.picture.getContext("2d");
      const { width, height } = cell.picture;
      pen.globalAlpha = 1;
      pen.clearRect(0, 0, width, height);
      cell.bar.style.transform = `scaleX(${times[i] === null ? 0 : temporal[i]})`;
      cell.share.hidden = times[i] === null;
      cell.share.textContent = times[i] === null ? "" : percent(temporal[i]);
      cell.age.textContent = times[i] === null ? "no frame yet" : `−${Math.max(0, now - times[i]).toFixed(1)} s`;
      if (!frame) return;
      pen.drawImage(frame, 0, 0, width, height);
      if (!even) {
        paint(this.#heat, maps[i], (level) => 0.12 + 0.58 * level);
        pen.imageSmoothingQuality = "high";
        pen.drawImage(this.#heat, 0, 0, width, height);
      }
      pen.globalAlpha = (1 - MIN_BRIGHTNESS) * (1 - temporal[i] / most);
      pen.fillStyle = "#000";
      pen.fillRect(0, 0, width, height);
    });
  }

  #resize(count) {
    const kept = this.#kept;
    this.clear(count);
    this.#kept = kept;
  }

  #find(time, step) {
    let best = null;
    for (const one of this.#kept) if (best === null || Math.abs(one.time - time) <= Math.abs(best.time - time)) best = one;
    // If frames were skipped, the model got an earlier one again.
    return best && Math.abs(best.time - time) <= 2.5 * step ? best.copy : null;
  }
}
