// Plays the chosen source: the buttons below the video; files are repeated.

import { $, fill } from "./dom.js";
import { hideNotice, showNotice } from "./notice.js";

const END_PAUSE = 1500; // milliseconds at the end of a video, to read its last prediction

export class Player {
  #video;
  #source;
  #frames;
  #paused = false;
  #due = false; // starts when the server is ready
  #held = false; // paused because the server is behind
  #timer = 0;

  /** Callbacks: changed() for another source, reset() when a video restarts, running(yes), truth(action or null). */
  constructor(video, source, frames, on) {
    [this.#video, this.#source, this.#frames, this.on] = [video, source, frames, on];
    $("play-sample").addEventListener("click", () => this.sample());
    $("use-sample").addEventListener("click", () => this.sample());
    $("use-camera").addEventListener("click", () => this.camera());
    $("use-file").addEventListener("click", () => $("file").click());
    $("sample").addEventListener("change", () => this.sample());
    $("camera").addEventListener("change", () => this.camera($("camera").value));
    $("next-sample").addEventListener("click", () => {
      const select = $("sample");
      if (source.kind === "sample") select.selectedIndex = (select.selectedIndex + 1) % select.length;
      this.sample();
    });
    $("file").addEventListener("change", () => {
      const [file] = $("file").files;
      $("file").value = ""; // so that the same file can be chosen again
      if (file) this.file(file);
    });
    $("pause").addEventListener("click", () => this.#pause(!this.#paused));
    video.addEventListener("ended", () => {
      this.on.running(false);
      this.#timer = setTimeout(() => this.#restart(), END_PAUSE);
    });
    video.addEventListener("seeking", () => this.on.reset());
  }

  get running() {
    return this.#source.kind !== null && !this.#paused && !document.hidden;
  }

  /** The server is ready: start, or restart a video that was playing. */
  ready() {
    if (this.#source.kind === null || this.#paused) return;
    if (!this.#due && !this.#source.live) this.#restart();
    else if (this.#due) this.#play();
  }

  sample() {
    const { value } = $("sample");
    const action = this.#source.samples.find((one) => one.name === value)?.action ?? null;
    return this.#choose("sample", () => this.#source.sample(value), action);
  }

  file(file) {
    $("file-name").textContent = file.name;
    return this.#choose("file", () => this.#source.file(file));
  }

  async camera(id) {
    const done = await this.#choose("camera", () => this.#source.camera(id));
    if (done) {
      const found = await this.#source.cameras();
      fill($("camera"), found);
      if (found.length) $("camera").value = found[0][0];
    }
    return done;
  }

  /** Make sure that something plays: the camera by default. */
  async watch() {
    if (this.#source.kind === null) return this.camera();
    if (this.#paused) this.#pause(false);
    return true;
  }

  async #choose(kind, load, truth = null) {
    hideNotice();
    clearTimeout(this.#timer);
    this.#paused = false;
    try {
      if (!(await load())) return false;
    } catch (error) {
      showNotice(error.message, { bad: true });
      return false;
    }
    this.#due = true;
    this.#show(kind);
    this.on.truth(truth);
    this.on.changed();
    return true;
  }

  #show(kind) {
    $("welcome").hidden = true;
    for (const one of ["sample", "camera", "file"]) $(`use-${one}`).ariaPressed = String(one === kind);
    $("sample-field").hidden = $("next-sample").hidden = kind !== "sample";
    $("camera-field").hidden = kind !== "camera";
    $("file-name").hidden = kind !== "file";
    $("pause").disabled = $("reset").disabled = false;
    $("pause").textContent = this.#paused ? "Continue" : "Pause";
  }

  /** Wait for the server, or continue. */
  hold(yes) {
    if (yes === this.#held || this.#source.kind === null) return;
    this.#held = yes;
    if (this.#paused || this.#video.ended) return;
    if (yes) this.#video.pause();
    else this.#play();
  }

  async #play() {
    this.#held = this.#due = false;
    this.#frames.start(this.#source.live);
    try {
      await this.#video.play();
      this.on.running(true);
    } catch (error) {
      if (error.name !== "AbortError") showNotice("The browser blocks autoplay. Press Continue.", { bad: true });
    }
  }

  /** Play from the first frame; the seek resets the model. */
  #restart() {
    clearTimeout(this.#timer);
    this.#video.currentTime = 0;
    this.#play();
  }

  #pause(yes) {
    this.#paused = yes;
    clearTimeout(this.#timer);
    $("pause").textContent = yes ? "Continue" : "Pause";
    if (yes) {
      this.#video.pause();
      this.on.running(false);
    } else if (this.#video.ended) this.#restart();
    else this.#play();
  }
}
