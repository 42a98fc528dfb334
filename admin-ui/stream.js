// stream.js: the connection to weftd's events (GET /api/v1/events).
//
// States: "connecting" (the first time), "live", "lost".  weftd sends `load`
// once a second, so a stream that says nothing for SILENCE_MS is lost even when
// the connection looks alive: weftd may hang, or a network path may be gone.
//
// A lost stream is not resumed: a new one begins with a snapshot of everything, which is
// always right.

import { loginHeaders } from "./api.js";
import { parse } from "./strike.js";

const SILENCE_MS = 5000;
const RETRY_MS_MIN = 500;
const RETRY_MS_MAX = 5000;

const KINDS = ["snapshot", "node", "disk", "array", "session", "log", "load"];

export class Stream {
  // onEvent(kind, data) for every event, onState(state, retryAtMs) for every
  // change of state; retryAtMs is on Date.now's clock, null when not lost.
  constructor(url, onEvent, onState) {
    this.url = url;
    this.onEvent = onEvent;
    this.onState = onState;
    this.retryMs = RETRY_MS_MIN;
    this.open("connecting");
  }

  open(state) {
    this.onState(state, null);
    const connection = this.connection = new AbortController();
    this.listen();
    this.read(connection.signal).catch(() => {}).then(() =>
      this.lose(connection));
  }

  // By fetch, for an EventSource can't send the login's header.  In the stream
  // each event is some lines "NAME: VALUE", ended by an empty line.
  async read(signal) {
    const reply = await fetch(this.url, { headers: loginHeaders(), signal });
    if (!reply.ok)
      return;
    const reader =
      reply.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done)
        return;
      const events = (rest + value).split("\n\n");
      rest = events.pop();
      for (const event of events)
        this.take(event);
    }
  }

  // (Re)start the watch over the silence.
  listen() {
    const { connection } = this;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.lose(connection), SILENCE_MS);
  }

  take(lines) {
    const kind = /^event: (.*)$/m.exec(lines)?.[1];
    if (!KINDS.includes(kind))
      return;
    this.listen();
    try {
      this.onEvent(kind, parse(/^data: (.*)$/m.exec(lines)[1]));
    } catch (error) {
      reportError(error); // a fault of the page, not of the connection
    }
    if (kind === "snapshot") {
      this.retryMs = RETRY_MS_MIN;
      this.onState("live", null);
    }
  }

  lose(connection) {
    if (connection !== this.connection)
      return;
    this.connection = null;
    connection.abort();
    clearTimeout(this.timer);
    this.onState("lost", Date.now() + this.retryMs);
    this.timer = setTimeout(() => this.open("lost"), this.retryMs);
    this.retryMs = Math.min(2 * this.retryMs, RETRY_MS_MAX);
  }
}
