// view-connection.js: is what you see live?

import { badge, el, setAttribute, setText } from "./dom.js";
import { clock } from "./units.js";

export class ConnectionView {
  constructor(parent) {
    this.text = el("span");
    parent.append(this.text);
    this.parent = parent;
    this.state = "connecting";
    this.lostAt = null;
    this.retryAt = null;
  }

  set(state, retryAt) {
    if (state === "lost" && this.state !== "lost")
      this.lostAt = new Date();
    this.state = state;
    this.retryAt = retryAt;
    setAttribute(document.body, "data-stream", state);
    this.show();
  }

  show() {
    if (this.state === "live") {
      badge(this.parent, "live", "ok");
      setText(this.text, "");
    } else if (this.state === "connecting") {
      badge(this.parent, "connecting", "quiet");
      setText(this.text, "");
    } else {
      badge(this.parent, "connection lost", "error");
      setText(this.text,
        ` at ${clock(this.lostAt)}; the figures are of that time. ` +
        "Trying again by itself.");
    }
  }
}
