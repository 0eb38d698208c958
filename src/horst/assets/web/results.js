// The result of training: how many held-out clips of each action were right, what the others were taken for, advice.

import { $, make, percent } from "./dom.js";

/** `labels` and `advice` as in the state of training. */
export function showResults({ labels = [], advice = [] }) {
  $("results").hidden = !labels.length && !advice.length;
  $("result-rows").replaceChildren(...labels.map(rowOf));
  $("result-rows").parentElement.hidden = !labels.length;
  $("advice").replaceChildren(...advice.map((text) => make("li", { textContent: text })));
}

function rowOf({ label, clips, correct, confused }) {
  const fill = make("span", { className: "fill" });
  fill.style.transform = `scaleX(${correct / clips})`;
  const wrong = Object.entries(confused).map(([other, count]) => `${count} taken for “${other}”`);
  const value = make("td", { className: "value", textContent: `${correct} of ${clips}`, title: percent(correct / clips) });
  const bar = make("td", {}, make("span", { className: "track" }, fill), make("small", { textContent: wrong.join(", ") }));
  return make("tr", {}, make("th", { scope: "row", textContent: label }), bar, value);
}
