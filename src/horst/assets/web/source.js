// Where the video comes from: a sample of the server, a file, or a camera; and what to say where that fails.

import { data, request } from "./api.js";

const REFUSED = {
  NotAllowedError: "The camera was refused. Allow it beside the address of this page, or play a sample.",
  NotFoundError: "No camera was found. Plug one in, or play a sample.",
  NotReadableError: "The camera does not start: another program may be using it.",
  OverconstrainedError: "That camera is gone. Choose another one.",
};

export class Source {
  kind = null; // "sample", "camera" or "file"
  samples = [];
  #video;
  #address = null;
  #wish = 0;

  constructor(video) {
    this.#video = video;
  }

  get live() {
    return this.kind === "camera";
  }

  async list() {
    this.samples = await data("/api/samples");
    return this.samples;
  }

  /** Load a sample; it is not played yet. False where something else was chosen meanwhile. */
  async sample(name) {
    const wish = ++this.#wish;
    const answer = await request(`/api/samples/${encodeURIComponent(name)}.mp4`);
    return this.#load("sample", await answer.blob(), wish);
  }

  async file(file) {
    const done = await this.#load("file", file, ++this.#wish).catch(() => null);
    if (done === null) throw new Error(`This browser cannot play ${file.name}. An mp4 or webm file will do.`);
    return done;
  }

  async camera(id) {
    const wish = ++this.#wish;
    if (!navigator.mediaDevices) {
      throw new Error("Browsers give a camera only to pages at https or at this very machine (127.0.0.1).");
    }
    let stream;
    try {
      const size = { width: { ideal: 640 }, height: { ideal: 480 } };
      stream = await navigator.mediaDevices.getUserMedia({ video: id ? { ...size, deviceId: { exact: id } } : size });
    } catch (error) {
      throw new Error(REFUSED[error.name] ?? `The camera does not start: ${error.message}.`);
    }
    if (wish !== this.#wish) {
      stream.getTracks().forEach((track) => track.stop());
      return false;
    }
    this.#clear();
    this.kind = "camera";
    this.#video.srcObject = stream;
    return true;
  }

  /** [id, name] of all cameras, the one in use first. */
  async cameras() {
    const all = await navigator.mediaDevices.enumerateDevices();
    const used = this.#video.srcObject?.getVideoTracks()[0]?.getSettings().deviceId;
    const found = all.filter((one) => one.kind === "videoinput").map((one, i) => [one.deviceId, one.label || `camera ${i + 1}`]);
    return found.sort(([a], [b]) => (b === used) - (a === used));
  }

  async #load(kind, blob, wish) {
    if (wish !== this.#wish) return false;
    this.#clear();
    this.kind = kind;
    this.#address = URL.createObjectURL(blob);
    const video = this.#video;
    await new Promise((resolve, reject) => {
      video.onloadeddata = resolve;
      video.onerror = () => reject(new Error("The browser cannot play this video."));
      video.src = this.#address;
    }).catch((error) => {
      if (wish === this.#wish) this.kind = null;
      throw error;
    });
    return wish === this.#wish;
  }

  #clear() {
    this.#video.srcObject?.getTracks().forEach((track) => track.stop());
    this.#video.srcObject = null;
    this.#video.removeAttribute("src");
    if (this.#address) URL.revokeObjectURL(this.#address);
    this.#address = null;
  }
}
