// The panel to record clips of actions.

import { data, request } from "./api.js";
import { $, make } from "./dom.js";
import { showNotice } from "./notice.js";
import { Recorder } from "./recorder.js";

const HOLD = 350; // milliseconds after which a click becomes a hold

const clipsOf = (count) => (count === 1 ? "1 clip" : `${count} clips`);

/** A button with an accessible name, and a key to restore its focus after a redraw. */
const buttonOf = (className, text, name, key) =>
  make("button", { type: "button", className, textContent: text, title: name, data: { key }, aria: { label: name } });

export class TeachPanel {
  #labels = [];
  #empty = []; // labels without clips
  #current = null;

  /** `size()`: size of recorded frames; `watch()` starts the camera if nothing plays. */
  constructor(frames, { size, watch }) {
    this.recorder = new Recorder(frames);
    this.size = size;
    this.watch = watch;
    $("label-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#add($("label-name").value.trim());
    });
    document.addEventListener("keydown", (event) => event.key === "Escape" && this.recorder.stop(true));
  }

  async refresh() {
    this.#labels = (await data("/api/recordings")).labels;
    this.#draw();
  }

  /** Record the selected action, or stop recording. */
  toggle() {
    if (this.recorder.on) this.recorder.stop();
    else if (this.#current === null) showNotice("Add an action first, under “Teach your own actions”.");
    else this.#record(this.#current, false);
  }

  #add(label) {
    if (!label) return;
    if (!this.#all().some((one) => one.label === label)) this.#empty.push(label);
    this.#current = label;
    $("label-name").value = "";
    this.#draw();
  }

  #all() {
    const known = new Set(this.#labels.map((one) => one.label));
    return [...this.#labels, ...this.#empty.filter((label) => !known.has(label)).map((label) => ({ label, clips: [] }))];
  }

  async #record(label, hold) {
    this.#current = label;
    this.#mark();
    try {
      if (!(await this.watch())) return;
      this.#mark(label);
      const clip = hold ? await this.recorder.whileHeld(this.size()) : await this.recorder.afterCountdown(this.size());
      if (clip) await request(`/api/recordings/${encodeURIComponent(label)}`, { method: "POST", body: clip });
      await this.refresh();
    } catch (error) {
      showNotice(error.message, { bad: true });
    } finally {
      this.#mark();
    }
  }

  async #remove(label, clip) {
    try {
      const path = `/api/recordings/${encodeURIComponent(label)}`;
      if (clip !== null) await request(`${path}/${encodeURIComponent(clip)}`, { method: "DELETE" });
      else if (this.#labels.some((one) => one.label === label)) await request(path, { method: "DELETE" });
      if (clip === null) {
        this.#empty = this.#empty.filter((name) => name !== label);
        if (this.#current === label) this.#current = null;
      } else if (!this.#empty.includes(label)) this.#empty.push(label); // it remains after its last clip
      await this.refresh();
    } catch (error) {
      showNotice(error.message, { bad: true });
    }
  }

  #draw() {
    const all = this.#all();
    this.#current ??= all[0]?.label ?? null;
    $("record-help").hidden = all.length === 0;
    const focused = document.activeElement?.closest?.("#labels") ? document.activeElement.dataset.key : null;
    $("labels").replaceChildren(...all.map((one) => this.#row(one)));
    if (focused) (document.querySelector(`#labels [data-key="${CSS.escape(focused)}"]`) ?? $("label-name")).focus();
    this.#mark();
  }

  #row({ label, clips }) {
    const record = buttonOf("record", "Record", `Record ${label}`, `record ${label}`);
    this.#listen(record, label);
    const remove = buttonOf("plain", "×", `Remove ${label} and its clips`, `remove ${label}`);
    remove.addEventListener("click", () => this.#remove(label, null));
    const name = make("span", { className: "name" }, label, make("span", { textContent: clipsOf(clips.length) }));
    const chips = clips.map((clip, i) => {
      const away = buttonOf("plain", "×", `Delete clip ${i + 1} of ${label}`, `${label} ${clip.id}`);
      away.addEventListener("click", () => this.#remove(label, clip.id));
      return make("li", {}, `${clip.seconds.toFixed(1)} s`, away);
    });
    return make("li", { data: { label } }, name, record, remove, make("ul", { className: "clips" }, ...chips));
  }

  /** A click records after a countdown, a hold records until it ends. */
  #listen(button, label) {
    let timer = 0;
    let held = false;
    button.addEventListener("pointerdown", (event) => {
      if (event.button || this.recorder.on) return;
      held = false;
      button.setPointerCapture(event.pointerId); // the hold continues if the button or the pointer moves
      timer = setTimeout(() => {
        held = true;
        this.#record(label, true);
      }, HOLD);
    });
    for (const kind of ["pointerup", "pointercancel"]) {
      button.addEventListener(kind, () => {
        clearTimeout(timer);
        if (held && this.recorder.on) this.recorder.stop();
      });
    }
    button.addEventListener("contextmenu", (event) => event.preventDefault()); // long touches open it
    button.addEventListener("click", () => {
      if (held) held = false;
      else if (this.recorder.on) this.recorder.stop();
      else this.#record(label, false);
    });
  }

  #mark(recording = null) {
    for (const item of $("labels").children) {
      const { label } = item.dataset;
      item.toggleAttribute("aria-current", false);
      if (label === this.#current) item.setAttribute("aria-current", "true");
      const button = item.querySelector(".record");
      button.toggleAttribute("data-on", label === recording);
      button.textContent = label === recording ? "Stop" : "Record";
    }
  }
}
