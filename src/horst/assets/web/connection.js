// The WebSocket to the server: frames up, answers down. It comes back by itself, later and later, and says so.

import { request } from "./api.js";
import { sentence } from "./notice.js";
import { token } from "./token.js";
import { packed } from "./wire.js";

const WAITS = [0.5, 1, 2, 4, 8]; // seconds until the next try
const IN_FLIGHT = 3; // frames without an answer: more would only make the answers late
const SILENCE = 10; // seconds without an answer that is due: the connection is taken for dead

export class Connection {
  ready = null;
  #socket = null;
  #options = null;
  #tries = 0;
  #timer = 0;
  #number = 0;
  #sent = new Map();
  #order = Promise.resolve();
  #heard = 0;
  #busy = "";

  /** Called: state(kind, text), ready(message), answer(message, sent), trouble(text, busy), active() whether frames flow. */
  constructor(on) {
    this.on = on;
    setInterval(() => this.#watch(), 1000);
  }

  /** Connect with these options of the message "start"; a stream that runs is left. */
  open(options) {
    this.#options = options;
    this.#tries = 0;
    this.#connect();
  }

  close() {
    this.#options = null;
    this.#leave();
    this.on.state("off", "not connected");
  }

  /** Connect again where the server ended a stream that rested. */
  wake() {
    if (this.#options && !this.#socket && !this.#timer) this.#connect();
  }

  /** Whether one more frame may be sent. */
  get room() {
    return this.ready !== null && this.#sent.size < IN_FLIGHT;
  }

  /** Send a frame; `picture` is a promise of its bytes. */
  send(time, picture, about = {}) {
    const number = this.#number++ >>> 0;
    const socket = this.#socket;
    if (this.#sent.size === 0) this.#heard = performance.now();
    this.#sent.set(number, { ...about, time, at: performance.now() });
    this.#inOrder(async () => {
      const bytes = packed(number, time, await picture);
      if (socket === this.#socket && socket?.readyState === WebSocket.OPEN) socket.send(bytes);
    });
  }

  /** The model forgets what it has seen. */
  reset() {
    const socket = this.#socket;
    if (this.ready === null) return;
    this.#inOrder(() => {
      if (socket === this.#socket && socket?.readyState === WebSocket.OPEN) socket.send('{"type":"reset"}');
    });
  }

  #inOrder(work) {
    this.#order = this.#order.then(work).catch((error) => this.on.trouble(error.message));
  }

  #connect() {
    this.#leave();
    this.on.state("waiting", "connecting");
    const address = new URL("/ws", location.href);
    address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    address.hash = "";
    if (token()) address.searchParams.set("token", token());
    const socket = new WebSocket(address);
    this.#socket = socket;
    this.#busy = "";
    socket.onopen = () => socket.send(JSON.stringify({ type: "start", ...this.#options }));
    socket.onmessage = (event) => this.#hear(JSON.parse(event.data));
    socket.onclose = (event) => this.#lost(event);
  }

  /** Let go of the socket without a word to anybody. */
  #leave() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    const socket = this.#socket;
    this.#socket = null;
    this.ready = null;
    this.#sent.clear();
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    if (socket.readyState === WebSocket.OPEN) socket.send('{"type":"stop"}');
    socket.close();
  }

  #hear(message) {
    this.#heard = performance.now();
    if (message.type === "ready") {
      this.#tries = 0;
      this.ready = message;
      this.on.state("live", "connected");
      this.on.ready(message);
    } else if (message.type === "answer") {
      const sent = this.#sent.get(message.frame);
      this.#sent.delete(message.frame);
      if (sent) this.on.answer(message, sent);
    } else if (message.type === "busy") {
      this.#busy = message.message || "The server has no room for another stream.";
    } else if (message.type === "error" && message.code !== "idle") {
      this.on.trouble(message.message);
    }
  }

  #lost({ code }) {
    const known = this.ready !== null;
    this.#leave();
    if (known && !this.on.active()) {
      this.on.state("off", "resting");
      return;
    }
    const wait = Math.max(this.#busy ? 3 : 0, WAITS[Math.min(this.#tries, WAITS.length - 1)]) * (0.9 + 0.2 * Math.random());
    this.#tries++;
    if (this.#busy) this.on.trouble(`${sentence(this.#busy)} Trying again by itself.`, true);
    this.#again(wait, this.#busy ? "server is busy" : "connection lost");
    if (!known && !this.#busy && code === 1006) this.#ask();
  }

  /** A refused handshake does not say why: a request does, and asks for a token that is missing. */
  async #ask() {
    const before = token();
    await request("/api/info").catch(() => null); // the server may be down: the next try will tell
    if (token() !== before && this.#options) this.#connect();
  }

  #again(seconds, why) {
    this.on.state(this.#busy ? "waiting" : "lost", `${why}, again in ${Math.ceil(seconds)} s`);
    const step = Math.min(1, seconds);
    this.#timer = setTimeout(() => (seconds > 1 ? this.#again(seconds - step, why) : this.#connect()), 1000 * step);
  }

  #watch() {
    if (this.#sent.size && performance.now() - this.#heard > 1000 * SILENCE) this.#socket?.close();
  }
}
