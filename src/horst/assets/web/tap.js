// Takes frames at a fixed rate in the model's size. At a tick it takes the frame that is shown then, the last one that
// began at the tick or before it, and gives it the tick's time: so the server sees a file as offline evaluation does.

const SLACK = 0.001; // seconds: times of files are rounded
const GAP = 2; // after a longer silence, or when the clock goes back, ticks count anew

const canvasOf = (height, width) => Object.assign(document.createElement("canvas"), { height, width });

export class Tap {
  #shown;
  #spare;
  #start = null;
  #count = 0;
  #last = 0;

  /** `take(canvas, time)` gets what is taken; the canvas is its to read until it returns. */
  constructor([height, width], fps, take) {
    this.#shown = canvasOf(height, width);
    this.#spare = canvasOf(height, width);
    this.fps = fps;
    this.take = take;
  }

  /** The next frame is a first one. */
  afresh() {
    this.#start = null;
  }

  see(video, time) {
    const { width, height } = this.#spare;
    const context = this.#spare.getContext("2d", { alpha: false });
    context.imageSmoothingQuality = "high";
    context.drawImage(video, 0, 0, width, height); // stretched, as videos are in training
    [this.#shown, this.#spare] = [this.#spare, this.#shown];
    const before = this.#spare;
    if (this.#start === null || time < this.#last || time - this.#last > GAP) {
      this.#start = time;
      this.#count = 0;
    }
    this.#last = time;
    const next = this.#tick(this.#count);
    if (time < next - SLACK) return;
    const newest = Math.floor((time - this.#start + SLACK) * this.fps);
    if (time > next + SLACK) this.take(before, next);
    if (time <= this.#tick(newest) + SLACK) this.take(this.#shown, this.#tick(newest));
    this.#count = newest + 1;
  }

  #tick(number) {
    return this.#start + number / this.fps;
  }
}

/** The JPEG bytes of a canvas as it is now. */
export function jpeg(canvas) {
  return new Promise((resolve, reject) => {
    const done = (blob) => (blob ? resolve(blob.arrayBuffer()) : reject(new Error("The browser cannot write JPEG pictures.")));
    canvas.toBlob(done, "image/jpeg", 0.85);
  });
}
