// Keyboard shortcuts, listed by "?". They are inactive in text fields and can be disabled.

import { $, make } from "./dom.js";
import { settings } from "./settings.js";

/** [key, description, id of the button that it clicks] */
const KEYS = [
  ["S", "play a sample", "use-sample"],
  ["W", "use the webcam", "use-camera"],
  ["F", "open a file", "use-file"],
  ["N", "next sample", "next-sample"],
  ["P", "pause or continue", "pause"],
  ["X", "reset: the model forgets all frames", "reset"],
  ["A", "show or hide attention", "show-heat"],
];

/** `record` is called for R. */
export function listenToKeys(record) {
  const others = [
    ["R", "record the selected action; again to stop"],
    ["Esc", "cancel recording"],
    ["?", "show this list"],
  ];
  const row = ([key, text]) => [make("dt", {}, make("kbd", { textContent: key })), make("dd", { textContent: text })];
  const rows = [...KEYS, ...others].flatMap(row);
  $("key-list").replaceChildren(...rows);
  $("help").addEventListener("click", () => $("keys").showModal());
  $("keys-on").checked = settings.keys;
  $("keys-on").addEventListener("change", () => (settings.keys = $("keys-on").checked));
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || document.querySelector("dialog[open]")) return;
    if (event.target.matches("select, textarea, input:not([type=checkbox], [type=radio], [type=range])")) return;
    if (event.key === "?") $("keys").showModal();
    if (!settings.keys) return;
    const pressed = event.key.toUpperCase();
    if (pressed === "R") record();
    const button = $(KEYS.find(([key]) => key === pressed)?.[2]);
    if (button && !button.disabled && !button.hidden) button.click();
  });
}
