// The page: a source of frames, the connection to the server, and the views of its answers.

import { data } from "./api.js";
import { Bars } from "./bars.js";
import { Connection } from "./connection.js";
import { $, fill, percent } from "./dom.js";
import { floatWhileTeaching } from "./float.js";
import { Frames } from "./frames.js";
import { listenToKeys } from "./keys.js";
import { Meter } from "./meter.js";
import { say, unsay } from "./notice.js";
import { Overlay } from "./overlay.js";
import { Palette } from "./palette.js";
import { Player } from "./player.js";
import { settings } from "./settings.js";
import { Source } from "./source.js";
import { Spoken } from "./spoken.js";
import { Strip } from "./strip.js";
import { Tap, jpeg } from "./tap.js";
import { TeachPanel } from "./teach.js";
import { Timeline } from "./timeline.js";
import { takeFromAddress } from "./token.js";
import { Training } from "./training.js";
import { unpacked } from "./wire.js";

const TOP = 10; // more than are shown as bars: lines of the timeline go on below the fifth place

const video = $("video");
const frames = new Frames(video);
const source = new Source(video);
const palette = new Palette();
const [bars, timeline, strip, meter, spoken] = [new Bars(palette), new Timeline(palette), new Strip(), new Meter(), new Spoken()];
const overlay = new Overlay(video);
let tap = null;
let waiting = []; // frames of a file for which there is no room yet
let since = 0; // answers to frames from before the last new start are not shown

const connection = new Connection({
  state: (kind, text) => {
    $("connection").dataset.state = kind;
    $("connection").textContent = text;
  },
  ready: (message) => {
    unsay("connection");
    tap = new Tap(message.size, message.fps, send);
    clear();
    strip.clear(message.order, message.size);
    player.ready();
  },
  answer: hear,
  trouble: (text, busy) => (busy && training.running) || say(text, { bad: true, topic: "connection" }), // it explains itself
  active: () => player.running,
});

const player = new Player(video, source, frames, {
  changed: () => connection.open(wishes()),
  afresh,
  running: (yes) => (timeline.running = yes),
  truth: (action) => (spoken.truth = action),
});

frames.listen((picture, time) => {
  connection.wake();
  tap?.see(picture, time);
});

/** The message "start" for what is chosen. */
function wishes() {
  const chosen = settings.restarts === "auto" ? (source.live ? "every:3" : "never") : settings.restarts;
  const [restarts, seconds = 3] = chosen.split(":");
  return { model: $("model").value || null, restarts, seconds: Number(seconds), states: 3, top: TOP, threshold: 0, attention: true };
}

/** A camera's frame is left out where the server is behind; a file waits until there is room. */
function send(canvas, time) {
  if (connection.ready === null || (source.live && !connection.room)) return;
  strip.keep(time, canvas);
  waiting.push([time, jpeg(canvas), { clock: timeline.clock, since }]);
  pass();
}

/** Send what waits as far as there is room, and let the video go on when nothing waits. */
function pass() {
  while (waiting.length && connection.room) connection.send(...waiting.shift());
  player.hold(waiting.length > 0);
}

function hear({ status, prediction, message }, sent) {
  pass();
  if (status === "refused") say(message, { bad: true, topic: "connection" });
  if (!prediction || sent.since !== since) return;
  const top = prediction.top.action ?? Object.values(prediction.top)[0];
  timeline.add(sent.clock, top, prediction.age === 1);
  bars.show(top);
  spoken.show(prediction.top);
  meter.add(sent.at, prediction.age);
  if (!prediction.attention) return;
  const attention = unpacked(prediction.attention);
  const newest = attention.times.findLastIndex((one) => one !== null);
  overlay.show(newest < 0 || attention.even ? null : attention.maps[newest]);
  strip.show(attention, prediction.time, 1 / connection.ready.fps);
}

/** The model forgets; so does the page. */
function afresh() {
  since++;
  waiting = [];
  connection.reset();
  tap?.afresh();
  overlay.show(null);
  strip.clear();
}

function clear() {
  since++;
  waiting = [];
  bars.clear();
  timeline.clear();
  spoken.clear();
  meter.clear();
  overlay.show(null);
  strip.clear();
}

async function listModels(chosen = null) {
  const models = await data("/api/models");
  fill($("model"), models.map((one) => [one.name, one.taught ? `${one.name} (taught here)` : one.title || one.name]));
  if (chosen) $("model").value = chosen;
}

const teach = new TeachPanel(frames, { size: () => connection.ready?.size ?? [112, 112], watch: () => player.watch() });
const training = new Training(async (name) => {
  await listModels(name);
  say(`The model ${name} is ready. It is chosen above, and answers from now on.`);
  connection.open(wishes());
});

$("model").addEventListener("change", () => source.kind && connection.open(wishes()));
$("afresh").addEventListener("click", afresh);
$("restarts").value = settings.restarts;
$("restarts").addEventListener("change", () => {
  settings.restarts = $("restarts").value;
  if (source.kind) connection.open(wishes());
});
function showThreshold() {
  spoken.threshold = settings.threshold;
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
floatWhileTeaching(() => source.kind !== null);
listenToKeys(() => teach.toggle());
timeline.draw();
strip.clear(8);

async function begin() {
  takeFromAddress();
  try {
    const info = await data("/api/info");
    $("about").textContent = `horst ${info.version}`;
    await listModels(info.model);
    fill($("sample"), (await source.list()).map((one) => [one.name, one.label]));
    $("connection").textContent = "ready";
  } catch (error) {
    say(error.message, { bad: true });
    $("connection").textContent = "not connected";
    return;
  }
  try {
    await teach.refresh();
    await training.look();
  } catch (error) {
    $("teach").hidden = error.status === 404; // a server that does not teach
    if (error.status !== 404) say(error.message, { bad: true });
  }
}

begin();
