// The page: a source of frames, the connection to the server, and the views of the predictions.

import { Answer } from "./answer.js";
import { data } from "./api.js";
import { Bars } from "./bars.js";
import { Connection } from "./connection.js";
import { $, fill, percent } from "./dom.js";
import { floatVideo } from "./float.js";
import { Frames } from "./frames.js";
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
let sampler = null;
let waiting = []; // frames of a file that wait until they may be sent
let generation = 0; // counts resets: answers to frames from before the last one are ignored

const connection = new Connection({
  state: (kind, text) => {
    $("connection").dataset.state = kind;
    $("connection").textContent = text;
  },
  ready: (message) => {
    hideNotice("connection");
    sampler = new FrameSampler(message.size, message.fps, send);
    clear();
    strip.clear(message.order, message.size);
    player.ready();
  },
  answer: receive,
  error: (text, busy) => (busy && training.running) || showNotice(text, { bad: true, topic: "connection" }), // expected then
  active: () => player.running,
});

const player = new Player(video, source, frames, {
  changed: () => connection.open(streamOptions()),
  reset,
  running: (yes) => (timeline.running = yes),
  truth: (action) => (answer.truth = action),
});

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
  answer.show(prediction.top);
  meter.add(sent.at, prediction.age);
  if (!prediction.attention) return;
  const attention = decodeAttention(prediction.attention);
  const newest = attention.times.findLastIndex((one) => one !== null);
  overlay.show(newest < 0 || attention.even ? null : attention.maps[newest]);
  strip.show(attention, prediction.time, 1 / connection.ready.fps);
}

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

async function listModels(chosen = null) {
  const models = await data("/api/models");
  fill($("model"), models.map((one) => [one.name, one.finetuned ? `${one.name} (trained here)` : one.title || one.name]));
  if (chosen) $("model").value = chosen;
}

const teach = new TeachPanel(frames, { size: () => connection.ready?.size ?? [112, 112], watch: () => player.watch() });
const training = new Training(async (name) => {
  await listModels(name);
  showNotice(`The model ${name} is ready and selected.`);
  connection.open(streamOptions());
});

$("model").addEventListener("change", () => source.kind && connection.open(streamOptions()));
$("reset").addEventListener("click", reset);
$("reset-policy").value = settings.reset;
$("reset-policy").addEventListener("change", () => {
  settings.reset = $("reset-policy").value;
  if (source.kind) connection.open(streamOptions());
});
function showThreshold() {
  answer.threshold = settings.threshold;
  $("threshold").value = 100 * settings.threshold;
  $("threshold-value").textContent = percent(settings.threshold);
}
$("threshold").addEventListener("input", () => {
  settings.threshold = Number($("threshold").value) / 100;
  showThreshold();
});
showThreshold();
overlay.visible = $("show-heat").checked = settings.heat;
$("show-heat").addEventListener("change", () => (overlay.visible = settings.heat = $("show-heat").checked));
floatVideo(() => source.kind !== null);
listenToKeys(() => teach.toggle());
timeline.draw();
strip.clear(8);

async function start() {
  takeTokenFromUrl();
  try {
    const info = await data("/api/info");
    $("about").textContent = `horst ${info.version}`;
    await listModels(info.model);
    fill($("sample"), (await source.list()).map((one) => [one.name, one.label]));
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
