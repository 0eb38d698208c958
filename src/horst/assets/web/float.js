// The video moves to the corner of the window while clips are recorded further down the page.

import { $ } from "./dom.js";

/** `playing()`: whether there is a video. */
export function floatVideo(playing) {
  const seen = new Map();
  const observer = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) seen.set(entry.target.id, entry.isIntersecting);
      $("stage").classList.toggle("floating", playing() && seen.get("teach") && !seen.get("place"));
    },
    { rootMargin: "-48px" },
  );
  observer.observe($("place"));
  observer.observe($("teach"));
}
