// The video follows to the corner while clips are recorded far below it: nobody should record unseen.

import { $ } from "./dom.js";

/** `watching()` tells whether there is anything to see. */
export function floatWhileTeaching(watching) {
  const seen = new Map();
  const observer = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) seen.set(entry.target.id, entry.isIntersecting);
      $("stage").classList.toggle("floating", watching() && seen.get("teach") && !seen.get("place"));
    },
    { rootMargin: "-48px" },
  );
  observer.observe($("place"));
  observer.observe($("teach"));
}
