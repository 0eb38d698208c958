// Frames of a <video> as they are shown, with their times in seconds: of the file, or of this machine's clock for a camera.

export class Frames {
  #video;
  #live = false;
  #listeners = new Set();
  #round = 0;

  constructor(video) {
    this.#video = video;
  }

  /** Call `listener(video, time)` for every frame; returns a function that stops it. */
  listen(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Start; `live`: a camera, whose frames have no time of their own. */
  start(live) {
    this.#live = live;
    const video = this.#video;
    this.#next(++this.#round);
    // The first frame of a video is shown before it plays, without a callback.
    const first = !live && video.currentTime === 0 && video.readyState >= 2 && !video.seeking;
    if (first) for (const listener of [...this.#listeners]) listener(video, 0);
  }

  stop() {
    this.#round++;
  }

  #next(round) {
    const video = this.#video;
    const seen = (time) => {
      if (round !== this.#round) return;
      if (video.videoWidth && !video.seeking) for (const listener of [...this.#listeners]) listener(video, time);
      this.#next(round);
    };
    const now = () => performance.now() / 1000;
    if ("requestVideoFrameCallback" in video) {
      video.requestVideoFrameCallback((_, about) => seen(this.#live ? now() : about.mediaTime));
    } else {
      const before = video.currentTime;
      const look = () => {
        if (round !== this.#round) return;
        if (video.currentTime === before) requestAnimationFrame(look);
        else seen(this.#live ? now() : video.currentTime);
      };
      requestAnimationFrame(look);
    }
  }
}
