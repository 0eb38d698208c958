// The WebSocket to the server: sends frames, receives answers, and reconnects after growing pauses.

import { data, request } from "./api.js";
import { sentence } from "./notice.js";
import { token } from "./token.js";
import { joinFrame } from "./wire.js";

const RETRY_SECONDS = [0.5, 1, 2, 4, 8];
const MAX_IN_FLIGHT = 3; // frames without an answer: more would only add latency
const BUSY_SECONDS = 3; // before another attempt at a full server
const TIMEOUT = 10; // seconds without an expected answer after which the connection is closed

export class Connection {
  ready = null;
  #socket = null;
  #options = null;
  #tries = 0;
  #timer = 0;
  #number = 0;
  #sent = new Map();
  #order = Promise.resolve();
  #received = 0;
  #busy = "";

  /** Callbacks: state(kind, text), ready(message), answer(message, sent), error(text, busy), active(): are frames sent? */
  constructor(on) {
    this.on = on;
    setInterval(() => this.#watch(), 1000);
  }

  /** Connect with these options of the message "start"; an open stream is closed. */
  open(options) {
    this.#options = options;
    this.#tries = 0;
    this.#connect();
  }

  close() {
    this.#options = null;
    this.#disconnect();
    this.on.state("off", "not connected");
  }

  /** Reconnect if the server closed an idle stream. */
  wake() {
    if (this.#options && !this.#socket && !this.#timer) this.#connect();
  }

  /** Whether another frame may be sent. */
  get room() {
    return this.ready !== null && this.#sent.size < MAX_IN_FLIGHT;
  }

  /** Send a frame; `picture` is a promise of its bytes. */
  send(time, picture, about = {}) {
    const number = this.#number++ >>> 0;
    const socket = this.#socket;
    if (this.#sent.size === 0) this.#received = performance.now();
    this.#sent.set(number, { ...about, time, at: performance.now() });
    this.#inOrder(async () => {
      const bytes = joinFrame(number, time, await picture);
      if (socket === this.#socket && socket?.readyState === WebSocket.OPEN) socket.send(bytes);
    });
  }

  /** The model forgets all frames. */
  reset() {
    const socket = this.#socket;
    if (this.ready === null) return;
    this.#inOrder(() => {
      if (socket === this.#socket && socket?.readyState === WebSocket.OPEN) socket.send('{"type":"reset"}');
    });
  }

  #inOrder(work) {
    this.#order = this.#order.then(work).catch((error) => this.on.error(error.message));
  }

  #connect() {
    this.#disconnect();
    this.on.state("waiting", "connecting");
    const address = new URL("/ws", location.href);
    address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    address.hash = "";
    if (token()) address.searchParams.set("token", token());
    const socket = new WebSocket(address);
    this.#socket = socket;
    this.#busy = "";
    socket.onopen = () => socket.send(JSON.stringify({ type: "start", ...this.#options }));
    socket.onmessage = (event) => this.#receive(JSON.parse(event.data));
    socket.onclose = (event) => this.#lost(event);
  }

  /** Close the socket without callbacks. */
  #disconnect() {
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

  #receive(message) {
    this.#received = performance.now();
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
      this.#busy = message.message || "Server full";
    } else if (message.type === "error" && message.code !== "idle") {
      this.on.error(message.message);
    }
  }

  #lost({ code }) {
    const known = this.ready !== null;
    this.#disconnect();
    if (known && !this.on.active()) {
      this.on.state("off", "idle");
      return;
    }
    const wait = Math.max(this.#busy ? BUSY_SECONDS : 0, RETRY_SECONDS[Math.min(this.#tries, RETRY_SECONDS.length - 1)]) * (0.9 + 0.2 * Math.random());
    this.#tries++;
    if (this.#busy) this.on.error(`${sentence(this.#busy)} Retrying...`, true);
    this.#retry(wait, this.#busy ? "server busy" : "connection lost");
    if (!known && !this.#busy && code === 1006) this.#explain();
  }

  /** A failed handshake gives no reason; a request does, and asks for a missing token. */
  async #explain() {
    const [before, timer] = [token(), this.#timer];
    await request("/api/info").catch(() => null); // the server may be down: the next attempt will show
    if (token() !== before && this.#options) return this.#connect();
    const { full } = await data("/healthz").catch(() => ({ full: false }));
    if (!full || this.#timer !== timer) return;
    clearTimeout(timer);
    this.#busy = "Server full.";
    this.on.error(`${this.#busy} Retrying...`, true);
    this.#retry(BUSY_SECONDS, "server busy");
  }

  #retry(seconds, reason) {
    this.on.state(this.#busy ? "waiting" : "lost", `${reason}, retrying in ${Math.ceil(seconds)} s`);
    const step = Math.min(1, seconds);
    this.#timer = setTimeout(() => (seconds > 1 ? this.#retry(seconds - step, reason) : this.#connect()), 1000 * step);
  }

  #watch() {
    if (this.#sent.size && performance.now() - this.#received > 1000 * TIMEOUT) this.#socket?.close();
  }
}
