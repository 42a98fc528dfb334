// view-log.js: weftd's log, newest first: the stored lines (GET /log), and above them the
// lines that come while the page is open.

import { get } from "./api.js";
import { button } from "./action.js";
import { choice, field } from "./dialog.js";
import { badge, el, keyed, setText } from "./dom.js";
import { moment } from "./units.js";

const TONE = { info: "quiet", warning: "warning", error: "error" };
const LINES = 50;
const TYPING_MS = 300;

export class LogView {
  constructor(parent) {
    this.severity = choice("Severity", "severity", [["", "all"],
      ["warning", "warnings and errors"], ["error", "errors"]], "");
    this.text = field("With the words", "text", { type: "search",
      placeholder: "of the event or of what it is about" });
    this.list = el("ol", { class: "list-unstyled" });
    this.box = el("div", { class: "log", role: "log", tabindex: "0",
                           "aria-label": "Events" }, this.list);
    this.empty = el("p", { class: "quiet" });
    this.older = button("Older ones", () => this.ask(this.next));
    this.box.hidden = this.older.hidden = true;
    parent.append(el("div", { class: "tools" }, this.severity.node,
      this.text.node), this.box, this.empty, this.older);
    this.lines = [];
    this.seen = 0;
    for (const { input } of [this.severity, this.text])
      input.addEventListener("input", () => {
        clearTimeout(this.timer);
        this.timer = setTimeout(() => this.ask(null), TYPING_MS);
      });
  }

  query(cursor) {
    const query = new URLSearchParams({ limit: String(LINES) });
    for (const { input } of [this.severity, this.text])
      if (input.value.trim())
        query.set(input.name, input.value.trim());
    if (cursor)
      query.set("cursor", cursor);
    return query;
  }

  async ask(cursor) {
    const query = this.query(cursor);
    this.asked = String(query);
    let answer;
    try {
      answer = await get(`/log?${query}`);
    } catch (problem) {
      setText(this.empty, problem.message);
      return;
    }
    if (this.asked !== String(query))
      return; // the filter has changed meanwhile
    this.lines = cursor ? this.lines.concat(answer.log) : answer.log;
    this.next = answer.next;
    this.draw();
  }

  draw() {
    keyed(this.list, this.lines, (line) => line.id, makeLine, () => {});
    this.box.hidden = this.lines.length === 0;
    this.older.hidden = !this.next;
    setText(this.empty, this.lines.length > 0 ? "" : "No such event.");
  }

  // A new line is asked for with the filter as it is, not guessed at.
  show(model) {
    if (model.logged === this.seen)
      return;
    this.seen = model.logged;
    if (this.pending)
      return;
    this.pending = setTimeout(() => {
      this.pending = null;
      this.ask(null);
    }, TYPING_MS);
  }
}

// The subject, if the sentence does not name it.
function subjectOf({ subject, text }) {
  const named = text.toLowerCase().includes((subject ?? "").toLowerCase());
  return named ? "" : `${subject}: `;
}

function makeLine(line) {
  const item = el("li", {}, ` ${moment(line.at)} `,
    el("strong", {}, subjectOf(line)), line.text);
  badge(item, line.severity, TONE[line.severity] ?? "quiet");
  return item;
}
