// Probabilities over the last ten seconds, the top class, and resets of the model.

import { $, make, moves } from "./dom.js";
import { dash, inkOf } from "./palette.js";

const SPAN = 10; // seconds
const MIN_PROBABILITY = 0.2; // classes that are never above are not drawn
const LINES = 5;
const INTERVAL = 45; // milliseconds between two redraws
const SIDE = 38; // pixels for the numbers on the left
const EDGE = { top: 8, bottom: 30, right: 10 };

export class Timeline {
  #canvas = $("timeline");
  #legend = $("legend");
  #points = [];
  #named = "";
  #running = false;
  #now = 0;
  #drawn = 0;
  #stopped = null;
  #lag = 0;

  constructor(palette) {
    this.palette = palette;
    new ResizeObserver(() => this.draw()).observe(this.#canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  /** Seconds of a clock that stops while the video is paused. */
  get clock() {
    return (this.#stopped ?? performance.now() / 1000) - this.#lag;
  }

  set running(yes) {
    if (yes === this.#running) return;
    this.#running = yes;
    if (!yes) {
      this.#stopped = performance.now() / 1000;
    } else {
      if (this.#stopped !== null) this.#lag += performance.now() / 1000 - this.#stopped;
      this.#stopped = null;
      this.#roll();
    }
  }

  /** Add a prediction at a time of `clock`; `first`: the first one after a reset. */
  add(time, top, first) {
    this.#points.push({ time, probabilities: new Map(top.map((one) => [one.name, one.probability])), lead: top[0].name, first });
    this.#points = this.#points.filter((point) => point.time > time - SPAN - 1);
    const names = this.#names();
    this.palette.keep(new Set(names));
    names.forEach((name) => this.palette.slot(name));
    if (!moves()) this.draw();
  }

  clear() {
    this.#points = [];
    this.palette.clear();
    this.draw();
  }

  #names() {
    const best = new Map();
    for (const { probabilities } of this.#points) {
      for (const [name, probability] of probabilities) if (probability > (best.get(name) ?? MIN_PROBABILITY)) best.set(name, probability);
    }
    return [...best.entries()].sort(([, a], [, b]) => b - a).slice(0, LINES).map(([name]) => name);
  }

  #roll() {
    if (!this.#running) return;
    if (moves() && performance.now() - this.#drawn > INTERVAL) this.draw();
    requestAnimationFrame(() => this.#roll());
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this.#canvas;
    const scale = devicePixelRatio || 1;
    const [wide, tall] = [Math.round(width * scale), Math.round(height * scale)];
    if (!wide || !tall) return;
    if (this.#canvas.width !== wide || this.#canvas.height !== tall) [this.#canvas.width, this.#canvas.height] = [wide, tall];
    const pen = this.#canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    this.#now = this.clock;
    this.#drawn = performance.now();
    const x = (time) => SIDE + ((time - this.#now + SPAN) / SPAN) * (width - SIDE - EDGE.right);
    const y = (probability) => EDGE.top + (1 - probability) * (height - EDGE.top - EDGE.bottom);
    this.#drawGrid(pen, x, y, width, height);
    pen.save();
    pen.beginPath();
    pen.rect(SIDE, 0, width - SIDE, height);
    pen.clip();
    const names = this.#names();
    this.#drawResets(pen, x, y);
    for (const name of names.toReversed()) this.#drawLine(pen, x, y, name);
    this.#drawLead(pen, x, y(0) + 4);
    pen.restore();
    this.#drawLegend(names);
  }

  #drawGrid(pen, x, y, width, height) {
    pen.font = '11px system-ui, "DejaVu Sans", sans-serif';
    pen.lineWidth = 1;
    pen.strokeStyle = inkOf("line");
    pen.fillStyle = inkOf("soft");
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    for (const probability of [0, 0.5, 1]) {
      const at = Math.round(y(probability)) + 0.5;
      pen.beginPath();
      pen.moveTo(SIDE, at);
      pen.lineTo(width - EDGE.right, at);
      pen.stroke();
      pen.fillText(`${100 * probability}%`, SIDE - 6, at);
    }
    pen.textBaseline = "alphabetic";
    for (let back = 0; back <= SPAN; back += width < 480 ? 5 : 2) {
      pen.textAlign = back === 0 ? "right" : back === SPAN ? "left" : "center";
      pen.fillText(back === 0 ? "now" : `−${back} s`, x(this.#now - back), height - 4);
    }
  }

  #drawResets(pen, x, y) {
    pen.strokeStyle = inkOf("axis");
    pen.lineWidth = 1;
    pen.setLineDash([2, 3]);
    for (const { first, time } of this.#points) {
      if (!first) continue;
      const at = Math.round(x(time)) + 0.5;
      pen.beginPath();
      pen.moveTo(at, y(1));
      pen.lineTo(at, y(0));
      pen.stroke();
    }
    pen.setLineDash([]);
  }

  #drawLine(pen, x, y, name) {
    const slot = this.palette.known(name);
    pen.strokeStyle = inkOf(`s${slot}`);
    pen.lineWidth = name === this.#points.at(-1)?.lead ? 3 : 2;
    pen.lineJoin = "round";
    pen.setLineDash(dash(slot));
    pen.beginPath();
    let before = null;
    for (const point of this.#points) {
      const place = [x(point.time), y(point.probabilities.get(name) ?? 0)];
      if (before === null || point.first || point.time - before > 1) pen.moveTo(...place);
      else pen.lineTo(...place);
      before = point.time;
    }
    pen.stroke();
    pen.setLineDash([]);
  }

  #drawLead(pen, x, top) {
    this.#points.forEach(({ time, lead }, i) => {
      const end = Math.min(this.#points[i + 1]?.time ?? this.#now, time + 0.6);
      pen.fillStyle = inkOf(`s${this.palette.known(lead)}`);
      pen.fillRect(x(time), top, Math.max(1, x(end) - x(time) + 0.5), 5);
    });
  }

  #drawLegend(names) {
    const named = names.map((name) => `${name}\t${this.palette.known(name)}\t${inkOf("s0")}`).join("\n");
    if (named === this.#named) return;
    this.#named = named;
    this.#legend.replaceChildren(
      ...names.map((name) => {
        const key = make("canvas", { width: 52, height: 20 });
        const pen = key.getContext("2d");
        const slot = this.palette.known(name);
        pen.strokeStyle = inkOf(`s${slot}`);
        pen.lineWidth = 4;
        pen.setLineDash(dash(slot).map((length) => 2 * length));
        pen.moveTo(0, 10);
        pen.lineTo(52, 10);
        pen.stroke();
        return make("li", {}, key, make("span", { textContent: name }));
      }),
    );
  }
}
