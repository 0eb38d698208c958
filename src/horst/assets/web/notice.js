// One message above the video: an error, or what is ready.

import { $ } from "./dom.js";

let shownTopic = null;

/** A message of the server as a sentence. */
export function sentence(text) {
  const capitalized = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(capitalized) ? capitalized : `${capitalized}.`;
}

/** Show a message; `topic` allows to hide it later. */
export function showNotice(text, { bad = false, topic = null } = {}) {
  shownTopic = topic;
  $("notice-text").textContent = sentence(text);
  $("notice").dataset.kind = bad ? "bad" : "good";
  $("notice").hidden = false;
}

/** Hide the message, or only one of a topic. */
export function hideNotice(topic = null) {
  if (topic === null || topic === shownTopic) $("notice").hidden = true;
}

$("notice-close").addEventListener("click", () => hideNotice());
