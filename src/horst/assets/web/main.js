// The page: a source of frames, the connection to the server, and the views of the predictions.

import { Answer } from "./answer.js";
import { data } from "./api.js";
import { Bars } from "./bars.js";
import { Connection } from "./connection.js";
import { $, fill, percent } from "./dom.js";
import { listenToDownloads } from "./downloads.js";
import { Frames } from "./frames.js";
import { Gallery } from "./gallery.js";
import { listenToKeys } from "./keys.js";
import { Meter } from "./meter.js";
import { hideNotice, showNotice } from "./notice.js";
import { Overlay } from "./overlay.js";
import { Palette } from "./palette.js";
import { Player } from "./player.js";
import { FrameSampler, jpeg } from "./sampler.js";
import { settings } from "./settings.js";
import { Source } from "./source.js";
import { Strip } from "./strip.js";
import { TeachPanel } from "./teach.js";
import { Timeline } from "./timeline.js";
import { takeTokenFromUrl } from "./token.js";
import { Training } from "./training.js";
import { decodeAttention } from "./wire.js";

const TOP = 10; // more than the bars show: lines of the timeline continue below rank 5

const video = $("video");
const frames = new Frames(video);
const source = new Source(video);
const palette = new Palette();
const [bars, timeline, strip, meter, answer] = [new Bars(palette), new Timeline(palette), new Strip(), new Meter(), new Answer()];
const overlay = new Overlay(video);
const gallery = new Gallery();
let models = new Map(); // by name
let sample = null; // the sample that plays
let sampler = null;
let waiting = []; // frames of a file that wait until they may be sent
let generation = 0; // counts resets: answers to frames from before the last one are ignored

const connection = new Connection({
  state: (kind, text) => {
    if (kind === "lost") clear(); // old predictions would look like new ones
    showState(kind, text);
  },
  ready: (message) => {
    hideNotice("connection");
    sampler = new FrameSampler(message.size, message.fps, send);
    clear();
    strip.clear(message.order, message.size);
    $("attention").hidden = $("heat-field").hidden = message.order === 0; // a model without attention
    showThreshold(Object.values(message.tasks)[0]);
    player.ready();
  },
  answer: receive,
  error: (text, busy) => (busy && training.running) || showNotice(text, { bad: true, topic: "connection" }), // expected then
  active: () => player.running,
});

const player = new Player(video, source, frames, gallery, {
  changed: () => {
    showHint();
    connection.open(streamOptions());
  },
  reset,
  running: (yes) => (timeline.running = yes),
  sample: (clip) => {
    sample = clip;
    $("truth").textContent = clip?.action ? `Sample: ${clip.label}` : "";
  },
  failed: (reason) => {
    connection.close();
    clear();
    showHint();
    showState("off", reason);
  },
});

function showState(kind, text) {
  $("connection").dataset.state = kind;
  $("connection").textContent = text;
}

frames.listen((video, time) => {
  connection.wake();
  sampler?.push(video, time);
});

/** The options of the message "start". */
function streamOptions() {
  const chosen = settings.reset === "auto" ? (source.live ? "every:3" : "never") : settings.reset;
  const [policy, seconds = 3] = chosen.split(":");
  return { model: $("model").value || null, reset: policy, seconds: Number(seconds), top: TOP, attention: true };
}

/** Send a sample. Late frames follow the rule of the server: those of a camera are skipped, those of a file wait. */
function send(canvas, time) {
  if (connection.ready === null || (source.live && !connection.room)) return;
  strip.keep(time, canvas);
  waiting.push([time, jpeg(canvas), { clock: timeline.clock, generation }]);
  sendWaiting();
}

/** Send waiting frames while there is room; the video pauses until all are sent. */
function sendWaiting() {
  while (waiting.length && connection.room) connection.send(...waiting.shift());
  player.hold(waiting.length > 0);
}

/** Show an answer of the server; `sent` is what `send` noted about its frame. */
function receive({ status, prediction, message }, sent) {
  sendWaiting();
  if (status === "rejected") showNotice(message, { bad: true, topic: "connection" });
  if (!prediction || sent.generation !== generation) return;
  const top = prediction.top.action ?? Object.values(prediction.top)[0];
  timeline.add(sent.clock, top, prediction.age === 1);
  bars.show(top);
  const truth = truthAt(prediction.time);
  answer.show(prediction.top, { truth, horizon: prediction.horizon, several: Boolean(prediction.horizons) });
  if (sample?.next.length) $("truth").textContent = truth ? `True next action: ${truth}` : "";
  meter.add(sent.at, prediction.age);
  if (!prediction.attention) return;
  const attention = decodeAttention(prediction.attention);
  const newest = attention.times.findLastIndex((one) => one !== null);
  overlay.show(newest < 0 || attention.even ? null : attention.maps[newest]);
  strip.show(attention, prediction.time, 1 / connection.ready.fps);
}

/** The class of the sample at a time in seconds: its action, or the one that starts next. */
const truthAt = (time) => sample?.action ?? sample?.next.find((one) => one.seconds > time)?.action ?? null;

/** The model forgets all frames, and so does the page. */
function reset() {
  generation++;
  waiting = [];
  connection.reset();
  sampler?.reset();
  overlay.show(null);
  strip.clear();
}

/** Forget everything that is shown: another stream begins. */
function clear() {
  generation++;
  waiting = [];
  bars.clear();
  timeline.clear();
  answer.clear();
  meter.clear();
  overlay.show(null);
  strip.clear();
}

/** A model of synthetic clips is not for a camera: say so. */
function showHint() {
  $("synthetic").hidden = !(models.get($("model").value)?.synthetic && (source.kind === "camera" || source.kind === "file"));
}

async function listModels(chosen = null) {
  const all = await data("/api/models");
  models = new Map(all.map((one) => [one.name, one]));
  fill($("model"), all.map((one) => [one.name, modelTitle(one)]));
  if (chosen) $("model").value = chosen;
}

function modelTitle(one) {
  if (one.error) return `${one.name} (not available)`;
  return one.finetuned ? `${one.name} (trained here)` : one.title || one.name;
}

/** Another model is selected. */
async function changeModel() {
  const about = models.get($("model").value);
  $("downloads").hidden = $("samples-note").hidden = !about?.finetuned;
  showHint();
  showThreshold(Object.values(about?.tasks ?? {})[0]);
  try {
    const known = await gallery.list($("model").value);
    if (source.kind === "sample" && !known && gallery.chosen) return player.sample();
  } catch (error) {
    showNotice(error.message, { bad: true });
  }
  gallery.mark(source.kind === "sample" ? sample?.name : null);
  if (source.kind) connection.open(streamOptions());
}

const teach = new TeachPanel(frames, {
  watch: () => player.watch(),
  changed: () => models.get($("model").value)?.finetuned && gallery.list($("model").value).catch(() => null),
});
const training = new Training({
  prepare: () => teach.deletions.flush(), // deleted clips are not trained on
  done: async (name) => {
    await listModels(name);
    showNotice(`The model ${name} is ready and selected.`);
    changeModel();
  },
});

$("model").addEventListener("change", changeModel);
$("go-teach").addEventListener("click", () => {
  $("teach").scrollIntoView({ block: "nearest" });
  $("label-name").focus();
});
$("reset").addEventListener("click", reset);
$("reset-policy").value = settings.reset;
$("reset-policy").addEventListener("change", () => {
  settings.reset = $("reset-policy").value;
  if (source.kind) connection.open(streamOptions());
});

/** The minimum confidence: the user's, or one that fits the number of labels. */
function showThreshold(labels = 0) {
  const value = settings.confidence ?? Math.max(0.2, Math.min(0.5, 1.5 / labels));
  answer.threshold = value;
  $("threshold").value = Math.round(100 * value);
  $("threshold").setAttribute("aria-valuetext", percent(value));
  $("threshold-value").textContent = percent(value);
}
$("threshold").addEventListener("input", () => {
  settings.confidence = Number($("threshold").value) / 100;
  showThreshold();
});
overlay.visible = $("show-heat").checked = settings.heat;
$("show-heat").addEventListener("change", () => (overlay.visible = settings.heat = $("show-heat").checked));
listenToDownloads(source, () => $("model").value);
listenToKeys(() => teach.toggle());
timeline.draw();
strip.clear(8);

async function start() {
  takeTokenFromUrl();
  try {
    const info = await data("/api/info");
    $("about").textContent = `horst ${info.version}`;
    await listModels(info.model);
    await changeModel();
    $("connection").textContent = "ready";
  } catch (error) {
    showNotice(error.message, { bad: true });
    $("connection").textContent = "not connected";
    return;
  }
  try {
    await teach.refresh();
    await training.update();
  } catch (error) {
    $("teach").hidden = error.status === 404; // a server without finetuning
    if (error.status !== 404) showNotice(error.message, { bad: true });
  }
}

start();
