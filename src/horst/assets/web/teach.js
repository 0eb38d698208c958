// The panel to collect clips of actions: recorded from the video, or from files.

import { data, request } from "./api.js";
import { Deletions } from "./deletions.js";
import { $, make } from "./dom.js";
import { showNotice } from "./notice.js";
import { Recorder } from "./recorder.js";
import { revealVideo } from "./reveal.js";
import { Thumbnails } from "./thumbnails.js";

const HOLD = 350; // milliseconds after which a click becomes a hold
const NOTHING = "nothing"; // horst.finetune.NOTHING: a label that every model has
const NOTHING_HELP = "Idle, other movements, empty scene. Optional, but recommended.";

const clipsOf = (count) => (count === 1 ? "1 clip" : `${count} clips`);

/** A button with an accessible name, and a key to restore its focus after a redraw. */
const buttonOf = (className, text, name, key) =>
  make("button", { type: "button", className, textContent: text, title: name, data: { key }, aria: { label: name } });

export class TeachPanel {
  #labels = [];
  #empty = []; // labels without clips
  #current = null;
  #uploading = null; // the label whose files are being sent
  #newest = null; // the last request of the list
  #thumbnails = new Thumbnails();

  /** `watch()` starts the camera if nothing plays; `changed()` is called for new or deleted clips. */
  constructor(frames, { watch, changed }) {
    this.recorder = new Recorder(frames);
    this.watch = watch;
    this.changed = changed;
    this.deletions = new Deletions({
      undone: () => this.#draw(),
      deleting: (label, clip) => this.#thumbnails.forget(label, clip), // its request would find nothing
      deleted: (label, clip) => this.#deleted(label, clip),
    });
    $("label-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#add($("label-name").value.trim());
    });
    document.addEventListener("keydown", (event) => event.key === "Escape" && this.recorder.stop(true));
  }

  refresh() {
    const asked = (async () => {
      const { labels } = await data("/api/recordings");
      if (asked !== this.#newest) return this.#newest; // an older list may have clips that were deleted since
      this.#labels = labels;
      this.#draw();
    })();
    return (this.#newest = asked);
  }

  /** Record the selected action, or stop recording. */
  toggle() {
    if (this.recorder.on) this.recorder.stop();
    else if (this.#current === null) showNotice("Add an action first, under “Teach your own actions”.");
    else this.#record(this.#current, false);
  }

  async #add(label) {
    if (!label) return;
    $("label-name").value = "";
    await this.deletions.flush(label);
    if (!this.#all().some((one) => one.label === label)) this.#empty.push(label);
    this.#current = label;
    this.#draw();
  }

  /** The labels that are shown, with their clips; "nothing" is the last. */
  #all() {
    const known = new Set(this.#labels.map((one) => one.label));
    const empty = [...this.#empty, NOTHING].filter((label) => !known.has(label));
    const all = [...this.#labels, ...empty.map((label) => ({ label, clips: [] }))];
    const shown = all.filter(({ label }) => label === NOTHING || !this.deletions.has(label));
    const kept = shown.map(({ label, clips }) => ({ label, clips: clips.filter((clip) => !this.deletions.has(label, clip.id)) }));
    return kept.sort((a, b) => (a.label === NOTHING) - (b.label === NOTHING));
  }

  async #record(label, hold) {
    this.#current = label;
    this.#mark();
    let scrollBack = null;
    try {
      if (!(await this.watch())) return;
      scrollBack = revealVideo();
      this.#mark(label);
      const clip = hold ? await this.recorder.whileHeld() : await this.recorder.afterCountdown();
      if (clip) await this.#store(label, "", clip);
    } catch (error) {
      showNotice(error.message, { bad: true });
    } finally {
      scrollBack?.();
      this.#mark();
    }
  }

  /** Send video files, one after the other. */
  async #upload(label, files) {
    if (this.#uploading !== null) return;
    this.#uploading = label;
    this.#current = label;
    const failed = [];
    for (const [i, file] of files.entries()) {
      this.#mark(null, `Adding ${i + 1} of ${files.length}`);
      try {
        await this.#store(label, "/video", file);
      } catch (error) {
        failed.push(`${file.name}: ${error.message}`);
        if (error.code === "full") break;
      }
    }
    this.#uploading = null;
    this.#mark();
    if (failed.length) showNotice(failed.join(" · "), { bad: true });
  }

  async #store(label, kind, body) {
    await this.deletions.flush(label); // or the new clip would be deleted with the label
    await request(`/api/recordings/${encodeURIComponent(label)}${kind}`, { method: "POST", body });
    await this.refresh();
    this.changed();
  }

  #remove(label, clip, name) {
    this.deletions.add(label, clip, name);
    if (clip === null && this.#current === label) this.#current = null;
    this.#draw();
  }

  async #deleted(label, clip) {
    if (clip === null) this.#empty = this.#empty.filter((one) => one !== label);
    else if (!this.#empty.includes(label)) this.#empty.push(label); // it remains after its last clip
    await this.refresh().catch(() => null); // the page is left, or the next request reports it
    this.changed();
  }

  #draw() {
    const all = this.#all();
    this.#current ??= all.find(({ label }) => label !== NOTHING)?.label ?? null;
    const focused = document.activeElement?.closest?.("#labels") ? document.activeElement.dataset.key : null;
    this.#thumbnails.keep(new Set(this.#labels.flatMap(({ clips }) => clips.map((clip) => clip.id))));
    $("labels").replaceChildren(...all.map((one) => this.#row(one)));
    const again = focused && document.querySelector(`#labels [data-key="${CSS.escape(focused)}"]`);
    if (focused) (again ?? $("undo").querySelector("li:last-child button") ?? $("label-name")).focus(); // it was deleted
    this.#mark();
  }

  #row({ label, clips }) {
    const record = buttonOf("record", "Record", `Record ${label}`, `record ${label}`);
    this.#listen(record, label);
    const add = buttonOf("add", "Add files", `Add video files of ${label}`, `add ${label}`);
    const files = make("input", { type: "file", accept: "video/*", multiple: true, hidden: true, aria: { label: `Video files of ${label}` } });
    add.addEventListener("click", () => files.click());
    files.addEventListener("change", () => this.#upload(label, [...files.files]));
    const name = make("span", { className: "name" }, label, make("span", { textContent: clipsOf(clips.length) }));
    const row = make("li", { data: { label } }, name, record, add, files);
    if (label === NOTHING) name.append(make("small", { textContent: NOTHING_HELP }));
    else {
      const remove = buttonOf("plain", "×", `Remove ${label} and its clips`, `remove ${label}`);
      remove.addEventListener("click", () => this.#remove(label, null, `${label}, ${clipsOf(clips.length)}`));
      row.append(remove);
    }
    const thumbs = clips.map((clip, i) => {
      const title = `clip ${i + 1} of ${label}`;
      const away = buttonOf("plain", "×", `Delete ${title}`, `${label} ${clip.id}`);
      away.addEventListener("click", () => this.#remove(label, clip.id, title));
      return make("li", {}, this.#thumbnails.of(label, clip, title), away);
    });
    row.append(make("ul", { className: "clips" }, ...thumbs));
    this.#acceptFiles(row, label);
    return row;
  }

  /** Files can be dropped on a row. */
  #acceptFiles(row, label) {
    const mark = (on) => (event) => {
      event.preventDefault(); // or the browser opens the file
      row.toggleAttribute("data-drop", on);
    };
    row.addEventListener("dragover", mark(true));
    row.addEventListener("dragleave", mark(false));
    row.addEventListener("drop", (event) => {
      mark(false)(event);
      if (event.dataTransfer.files.length) this.#upload(label, [...event.dataTransfer.files]);
    });
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

  /** Show which action is selected, is recorded, or gets files. */
  #mark(recording = null, adding = "Adding") {
    for (const item of $("labels").children) {
      const { label } = item.dataset;
      item.toggleAttribute("aria-current", false);
      if (label === this.#current) item.setAttribute("aria-current", "true");
      const button = item.querySelector(".record");
      button.toggleAttribute("data-on", label === recording);
      button.textContent = label === recording ? "Stop" : "Record";
      const add = item.querySelector(".add");
      add.disabled = this.#uploading !== null;
      add.textContent = label === this.#uploading ? adding : "Add files";
    }
  }
}
