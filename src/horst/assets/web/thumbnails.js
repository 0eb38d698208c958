// Recorded clips as thumbnails: the first frame, and the clip in a loop while it is hovered, focused or after a click.

import { request } from "./api.js";
import { make, moves } from "./dom.js";
import { splitRecording } from "./wire.js";

const SIZE = [104, 78]; // CSS pixels
const END_PAUSE = 0.6; // seconds at the end of a clip

export class Thumbnails {
  #known = new Map(); // by the id of the clip
  #observer = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) if (isIntersecting) this.#known.get(target.dataset.clip)?.load();
  });

  /** The thumbnail of a clip: a button that plays it. */
  of(label, clip, name) {
    let one = this.#known.get(clip.id);
    if (!one) {
      one = new Thumbnail(label, clip.id);
      this.#known.set(clip.id, one);
      this.#observer.observe(one.button);
    }
    one.button.ariaLabel = one.button.title = `Play ${name}, ${clip.seconds.toFixed(1)} s`;
    return one.button;
  }

  /** Forget all clips but these. */
  keep(ids) {
    this.#forget((one) => !ids.has(one.id));
  }

  /** Forget a clip, or with `id` null all clips of a label, before it is deleted. */
  forget(label, id) {
    this.#forget((one) => one.label === label && (id === null || one.id === id));
  }

  #forget(chosen) {
    for (const one of [...this.#known.values()].filter(chosen)) {
      this.#observer.unobserve(one.button);
      one.cancel();
      this.#known.delete(one.id);
    }
  }
}

class Thumbnail {
  #frames = null;
  #canceled = new AbortController();
  #playing = 0; // counts starts: an older loop ends
  #pinned = false;

  constructor(label, id) {
    this.label = label;
    this.id = id;
    this.path = `/api/recordings/${encodeURIComponent(label)}/${encodeURIComponent(id)}`;
    const [width, height] = SIZE.map((side) => 2 * side);
    this.canvas = make("canvas", { width, height });
    this.button = make("button", { type: "button", className: "thumb", data: { clip: id, key: `clip ${id}` } }, this.canvas);
    const start = () => moves() && this.play();
    const stop = () => this.#pinned || this.stop();
    this.button.addEventListener("pointerenter", start);
    this.button.addEventListener("pointerleave", stop);
    this.button.addEventListener("focus", start);
    this.button.addEventListener("blur", () => this.stop());
    this.button.addEventListener("click", () => {
      this.#pinned = !this.#pinned;
      if (this.#pinned) this.play();
      else this.stop();
    });
  }

  /** Load the clip and show its first frame. */
  load() {
    this.#frames ??= request(this.path, { signal: this.#canceled.signal })
      .then((answer) => answer.arrayBuffer())
      .then(async (buffer) => {
        const frames = splitRecording(buffer);
        await this.#draw(frames[0]);
        return frames;
      })
      .catch(() => (this.#frames = null)); // it was deleted, perhaps by another page; or the next look tries again
    return this.#frames;
  }

  /** End a request that has no answer yet. */
  cancel() {
    this.#canceled.abort();
  }

  async play() {
    if (this.button.dataset.playing) return;
    const turn = ++this.#playing;
    this.button.dataset.playing = "yes";
    const frames = await this.load();
    const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, 1000 * Math.max(0, seconds)));
    for (let i = 0; frames && turn === this.#playing; i = (i + 1) % frames.length) {
      await this.#draw(frames[i]);
      await pause(i + 1 < frames.length ? frames[i + 1].time - frames[i].time : END_PAUSE);
    }
  }

  async stop() {
    this.#playing++;
    this.#pinned = false;
    delete this.button.dataset.playing;
    const frames = await this.#frames;
    if (frames && !this.button.dataset.playing) this.#draw(frames[0]);
  }

  /** Draw a frame so that it fills the canvas, unless the clip was started or stopped while it was decoded. */
  async #draw({ picture }) {
    const turn = this.#playing;
    const image = await createImageBitmap(picture);
    if (turn !== this.#playing) return image.close();
    const { width, height } = this.canvas;
    const scale = Math.max(width / image.width, height / image.height);
    const [wide, tall] = [scale * image.width, scale * image.height];
    this.canvas.getContext("2d").drawImage(image, (width - wide) / 2, (height - tall) / 2, wide, tall);
    image.close();
  }
}
