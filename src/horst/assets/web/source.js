// The source of the video: a sample from the server, a file, or a camera.

import { request } from "./api.js";

const CAMERA_ERRORS = {
  NotAllowedError: "Camera access was denied. Allow it in the address bar, or play a sample.",
  NotFoundError: "No camera found. Connect one, or play a sample.",
  NotReadableError: "The camera does not start. Another program may be using it.",
  OverconstrainedError: "This camera is no longer available. Choose another one.",
};

export class Source {
  kind = null; // "sample", "camera" or "file"
  name = ""; // of the file or sample
  blob = null; // its contents
  #video;
  #address = null;
  #turn = 0;

  constructor(video) {
    this.#video = video;
  }

  get live() {
    return this.kind === "camera";
  }

  /** Whether the camera shows the user, who expects a mirror; a phone's other camera does not. */
  get mirrored() {
    return this.live && this.#video.srcObject?.getVideoTracks()[0]?.getSettings().facingMode !== "environment";
  }

  /** Load a sample without playing it. Returns false if another source was chosen meanwhile. */
  async sample(name) {
    const turn = ++this.#turn;
    const answer = await request(`/api/samples/${encodeURIComponent(name)}.mp4`);
    return this.#load("sample", await answer.blob(), turn, name);
  }

  async file(file) {
    const done = await this.#load("file", file, ++this.#turn, file.name.replace(/\.[^.]*$/, "")).catch(() => null);
    if (done === null) throw new Error(`This browser cannot play ${file.name}. Try an mp4 or webm file.`);
    return done;
  }

  async camera(id) {
    const turn = ++this.#turn;
    if (!navigator.mediaDevices) {
      throw new Error("Browsers allow cameras only on https pages and on this machine (127.0.0.1).");
    }
    let stream;
    try {
      const size = { width: { ideal: 640 }, height: { ideal: 480 } };
      stream = await navigator.mediaDevices.getUserMedia({ video: id ? { ...size, deviceId: { exact: id } } : size });
    } catch (error) {
      throw new Error(CAMERA_ERRORS[error.name] ?? `The camera does not start: ${error.message}.`);
    }
    if (turn !== this.#turn) {
      stream.getTracks().forEach((track) => track.stop());
      return false;
    }
    this.#clear();
    this.kind = "camera";
    this.#video.srcObject = stream;
    return true;
  }

  /** [id, name] of all cameras, the active one first. */
  async cameras() {
    const all = await navigator.mediaDevices.enumerateDevices();
    const used = this.#video.srcObject?.getVideoTracks()[0]?.getSettings().deviceId;
    const found = all.filter((one) => one.kind === "videoinput").map((one, i) => [one.deviceId, one.label || `camera ${i + 1}`]);
    return found.sort(([a], [b]) => (b === used) - (a === used));
  }

  async #load(kind, blob, turn, name) {
    if (turn !== this.#turn) return false;
    this.#clear();
    [this.kind, this.blob, this.name] = [kind, blob, name];
    this.#address = URL.createObjectURL(blob);
    const video = this.#video;
    await new Promise((resolve, reject) => {
      video.onloadeddata = resolve;
      video.onerror = () => reject(new Error("The browser cannot play this video."));
      video.src = this.#address;
    }).catch((error) => {
      if (turn === this.#turn) {
        this.#clear();
        this.#video.load(); // nothing of the video before stays
      }
      throw error;
    });
    return turn === this.#turn;
  }

  #clear() {
    [this.kind, this.blob, this.name] = [null, null, ""];
    this.#video.onloadeddata = this.#video.onerror = null;
    this.#video.srcObject?.getTracks().forEach((track) => track.stop());
    this.#video.srcObject = null;
    this.#video.removeAttribute("src");
    if (this.#address) URL.revokeObjectURL(this.#address);
    this.#address = null;
  }
}
