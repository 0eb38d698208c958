// Nobody records blind: the video is scrolled into view while a clip is recorded.

import { $ } from "./dom.js";

/** Scroll the video into view if it is not; returns a function that scrolls back. */
export function revealVideo() {
  const { top, bottom } = $("stage").getBoundingClientRect();
  if (top >= 0 && bottom <= innerHeight) return () => null;
  const before = scrollY;
  $("stage").scrollIntoView({ block: "center" });
  return () => scrollTo({ top: before });
}
