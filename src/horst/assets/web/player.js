// Plays the chosen source: the buttons below the video; files are repeated.

import { $, fill } from "./dom.js";
import { hideNotice, showNotice } from "./notice.js";

const END_PAUSE = 1500; // milliseconds at the end of a video, to read its last prediction

export class Player {
  #video;
  #source;
  #frames;
  #gallery;
  #paused = false;
  #due = false; // starts when the server is ready
  #held = false; // paused because the server is behind
  #timer = 0;

  /** Callbacks: changed() for another source, reset() when a video restarts, running(yes), sample(clip or null),
   * failed(reason) if nothing plays any more. */
  constructor(video, source, frames, gallery, on) {
    [this.#video, this.#source, this.#frames, this.#gallery, this.on] = [video, source, frames, gallery, on];
    gallery.choose = (name) => this.sample(name);
    $("play-sample").addEventListener("click", () => this.sample());
    $("use-sample").addEventListener("click", () => this.sample());
    $("use-camera").addEventListener("click", () => this.camera());
    $("use-file").addEventListener("click", () => $("file").click());
    $("camera").addEventListener("change", () => this.camera($("camera").value));
    $("next-sample").addEventListener("click", () => {
      this.sample((source.kind === "sample" ? gallery.next : gallery.chosen)?.name);
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

  /** Play a sample; by default the one that was chosen last, or the first. */
  async sample(name = this.#gallery.chosen?.name) {
    const clip = this.#gallery.samples.find((one) => one.name === name);
    if (clip) return this.#choose("sample", () => this.#source.sample(name), clip);
    showNotice("This model has no samples: use the webcam or a file.");
    return false;
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

  async #choose(kind, load, clip = null) {
    hideNotice();
    clearTimeout(this.#timer);
    this.#paused = false;
    try {
      if (!(await load())) return false;
    } catch (error) {
      if (this.#source.kind === null) this.#fail(kind);
      else if (this.#video.ended) this.#restart();
      showNotice(error.message, { bad: true });
      return false;
    }
    this.#due = true;
    this.#gallery.mark(clip?.name ?? null);
    this.#show(kind);
    this.on.sample(clip);
    this.on.changed();
    return true;
  }

  /** Nothing plays: nothing of the video before stays. */
  #fail(kind) {
    this.#frames.stop();
    this.#due = this.#held = false;
    this.#gallery.mark(null);
    this.#show(null);
    this.on.running(false);
    this.on.sample(null);
    this.on.failed({ sample: "sample not available", camera: "camera not available", file: "file not playable" }[kind]);
  }

  #show(kind) {
    $("welcome").hidden = kind !== null;
    // Only what is shown is mirrored. The frames that are sent and recorded are those of the camera, so that left and
    // right mean the same to the model as in files.
    for (const id of ["stage", "strip"]) $(id).classList.toggle("mirrored", this.#source.mirrored);
    for (const one of ["sample", "camera", "file"]) $(`use-${one}`).ariaPressed = String(one === kind);
    $("next-sample").hidden = kind === "camera" || kind === "file";
    $("download-video").hidden = kind !== "sample" && kind !== "file";
    $("camera-field").hidden = kind !== "camera";
    $("file-name").hidden = kind !== "file";
    $("pause").disabled = $("reset").disabled = kind === null;
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
