// view-verdict.js: the state of everything in a sentence or a few.

import { setAttribute, setText } from "./dom.js";

export class VerdictView {
  constructor(parent) {
    this.parent = parent;
    this.version = document.getElementById("version");
  }

  show(model) {
    const status = model.status;
    if (!status)
      return;
    setText(this.parent, status.verdict);
    setAttribute(this.parent, "data-tone", status.health);
    setText(this.version, status.version);
    const mark = { warning: "(!) ", error: "(!!) " }[status.health] ?? "";
    document.title = `${mark}Weft`;
  }
}
