// view-log.js: weftd's sentences since the page was opened, newest first.

import { badge, el, keyed } from "./dom.js";
import { clock } from "./units.js";

const TONE = { info: "quiet", warning: "warning", error: "error" };

export class LogView {
  constructor(parent) {
    this.list = el("ol", { class: "log list-unstyled", role: "log" });
    parent.append(this.list);
  }

  show(model) {
    keyed(this.list, model.log, (line) => line.key, (line) => {
      const item = el("li", {}, ` ${clock(new Date(line.at))} `,
        el("strong", {}, line.subject), ` ${line.text}`);
      badge(item, line.severity, TONE[line.severity] ?? "quiet");
      return item;
    }, () => {});
  }
}
