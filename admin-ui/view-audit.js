// view-audit.js: who asked weftd for which change, newest first.

import { button } from "./action.js";
import { get } from "./api.js";
import { Table, badge, el, setText, word } from "./dom.js";
import { moment } from "./units.js";

const LINES = 50;

const COLUMNS = [
  word("At", (line) => moment(line.at), true),
  word("Who", (line) => line.who ?? "–"),
  word("By", (line) => line.via),
  word("From", (line) => line.address),
  word("Did", (line) => line.action),
  word("To", (line) => line.subject ?? ""),
  { title: "Answer", fill: (cell, line) => badge(cell, String(line.status),
      line.status < 400 ? "ok" : "warning") },
];

export class AuditView {
  constructor(parent) {
    this.table = new Table(parent, "Audit trail", COLUMNS, (line) => line.id,
                           "Nothing was changed yet.");
    this.problem = el("p", { class: "quiet" });
    this.older = button("Older ones", () => this.ask(this.next));
    parent.append(this.problem, this.older);
    this.older.hidden = true;
    this.lines = [];
  }

  async ask(cursor) {
    const query = new URLSearchParams({ limit: String(LINES),
                                        ...cursor ? { cursor } : {} });
    try {
      const answer = await get(`/audit?${query}`);
      this.lines = cursor ? this.lines.concat(answer.audit) : answer.audit;
      this.next = answer.next;
      this.table.show(this.lines);
      setText(this.problem, "");
    } catch (problem) {
      this.table.show([]);
      this.table.empty.hidden = true;
      setText(this.problem, problem.message);
    }
    this.older.hidden = !this.next;
  }
}
