// Deletions that can be undone: the server deletes after a few seconds, or when the page is left.

import { request } from "./api.js";
import { $, make } from "./dom.js";
import { showNotice } from "./notice.js";

const SECONDS = 6;

export class Deletions {
  #pending = new Set();

  /** Callbacks: undone(), and deleting(label, clip) and deleted(label, clip), before and after the request. */
  constructor(on) {
    this.on = on;
    addEventListener("pagehide", () => this.flush());
  }

  /** Delete a clip, or with `clip` null a label and all of its clips, in a few seconds. */
  add(label, clip, name) {
    const undo = make("button", { type: "button", textContent: "Undo", aria: { label: `Undo: ${name}` } });
    const text = make("span", { className: "cut", textContent: name });
    const one = { label, clip, item: make("li", {}, make("span", { textContent: "Deleted." }), undo, text), done: null };
    one.timer = setTimeout(() => this.#delete(one), 1000 * SECONDS);
    undo.addEventListener("click", () => {
      clearTimeout(one.timer);
      this.#pending.delete(one);
      one.item.remove();
      this.on.undone();
    });
    this.#pending.add(one);
    $("undo").append(one.item);
  }

  /** Whether a clip, or with `clip` null a label, is to be deleted. */
  has(label, clip = null) {
    return [...this.#pending].some((one) => one.label === label && (one.clip === null || one.clip === clip));
  }

  /** Delete all now, or those of a label. */
  async flush(label = null) {
    await Promise.all([...this.#pending].filter((one) => label === null || one.label === label).map((one) => this.#delete(one)));
  }

  #delete(one) {
    clearTimeout(one.timer);
    one.item.remove();
    return (one.done ??= this.#request(one));
  }

  async #request(one) {
    const path = `/api/recordings/${encodeURIComponent(one.label)}${one.clip === null ? "" : `/${encodeURIComponent(one.clip)}`}`;
    this.on.deleting(one.label, one.clip);
    try {
      await request(path, { method: "DELETE", keepalive: true }); // it outlives the page
    } catch (error) {
      if (error.status !== 404) { // 404: it had no clips, or is gone already
        showNotice(error.message, { bad: true });
        this.#pending.delete(one); // the server still has it: show it again
      }
    }
    await this.on.deleted(one.label, one.clip); // it is hidden until the page has the list without it
    this.#pending.delete(one);
  }
}
