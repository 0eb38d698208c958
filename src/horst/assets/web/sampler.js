// Samples frames at a fixed rate in one size, as horst.streaming.FrameSampler does: the sample at a time is the
// frame that is shown then. So the server gets the same frames of a file as offline evaluation.

const SLACK = 0.001; // seconds: times of files are rounded
const GAP = 2; // seconds without a frame after which sampling restarts, as it does when the clock goes back

const canvasOf = (height, width) => Object.assign(document.createElement("canvas"), { height, width });

export class FrameSampler {
  #shown;
  #spare;
  #start = null;
  #count = 0;
  #last = 0;

  /** Calls `output(canvas, time)` for each sample; the canvas is valid until it returns. */
  constructor([height, width], fps, output) {
    this.#shown = canvasOf(height, width);
    this.#spare = canvasOf(height, width);
    this.fps = fps;
    this.output = output;
  }

  /** The next frame starts a new sequence. */
  reset() {
    this.#start = null;
  }

  push(video, time) {
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
    const next = this.#time(this.#count);
    if (time < next - SLACK) return;
    const newest = Math.floor((time - this.#start + SLACK) * this.fps);
    if (time > next + SLACK) this.output(before, next);
    if (time <= this.#time(newest) + SLACK) this.output(this.#shown, this.#time(newest));
    this.#count = newest + 1;
  }

  #time(number) {
    return this.#start + number / this.fps;
  }
}

/** The JPEG bytes of a canvas as it is now. */
export function jpeg(canvas) {
  return new Promise((resolve, reject) => {
    const done = (blob) => (blob ? resolve(blob.arrayBuffer()) : reject(new Error("The browser cannot encode JPEG images.")));
    canvas.toBlob(done, "image/jpeg", 0.85);
  });
}
