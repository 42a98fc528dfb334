// stream.js: the connection to weftd's events (GET /api/v1/events).
//
// States: "connecting" (the first time), "live", "lost".  weftd sends `load`
// once a second, so a stream that says nothing for SILENCE_MS is lost even when
// the connection looks alive: weftd may hang, or a network path may be gone.
//
// A lost stream is opened anew rather than resumed: a new one begins with a
// snapshot of everything, which is right whatever happened meanwhile.

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
    const source = new EventSource(this.url);
    this.source = source;
    for (const kind of KINDS)
      source.addEventListener(kind, (event) => this.take(kind, event.data));
    source.onerror = () => this.lose();
    this.listen();
  }

  // (Re)start the watch over the silence.
  listen() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.lose(), SILENCE_MS);
  }

  take(kind, text) {
    this.listen();
    this.onEvent(kind, JSON.parse(text));
    if (kind === "snapshot") {
      this.retryMs = RETRY_MS_MIN;
      this.onState("live", null);
    }
  }

  lose() {
    clearTimeout(this.timer);
    this.source.close();
    this.onState("lost", Date.now() + this.retryMs);
    this.timer = setTimeout(() => this.open("lost"), this.retryMs);
    this.retryMs = Math.min(2 * this.retryMs, RETRY_MS_MAX);
  }
}
