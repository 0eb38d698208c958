// One plain sentence above the video: what went wrong, or what is ready, and what to do.

import { $ } from "./dom.js";

let about = null;

/** Words of the server as a sentence. */
export function sentence(text) {
  const whole = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(whole) ? whole : `${whole}.`;
}

/** Show a sentence; `topic` lets the one who said it take it back. */
export function say(text, { bad = false, topic = null } = {}) {
  about = topic;
  $("notice-text").textContent = sentence(text);
  $("notice").dataset.kind = bad ? "bad" : "good";
  $("notice").hidden = false;
}

/** Take a sentence back: any, or the one of a topic. */
export function unsay(topic = null) {
  if (topic === null || topic === about) $("notice").hidden = true;
}

$("notice-close").addEventListener("click", () => unsay());
