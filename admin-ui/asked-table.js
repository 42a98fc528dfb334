// asked-table.js: a table of what weftd is asked for, rather than told with the
// events: when the page is opened, and when something was changed on it.

import { button } from "./action.js";
import { get } from "./api.js";
import { Table, el, setText } from "./dom.js";

export class AskedTable {
  // `list` is the name of the list in the answer to GET `at`, which has a limit
  // where weftd gives it in parts; changed() is called after a change made here.
  constructor(parent, { at, list, label, columns, key, empty, changed }) {
    Object.assign(this, { at, list, changed });
    this.table = new Table(parent, label, columns, key, empty);
    this.problem = el("p", { class: "quiet" });
    this.older = button("Older ones", () => this.ask(this.next));
    this.older.hidden = true;
    parent.append(this.problem, this.older);
  }

  // After a change.
  again() {
    this.ask();
    this.changed();
  }

  // The page behind a cursor is put below the rest.
  async ask(cursor) {
    try {
      const answer = await get(cursor
        ? `${this.at}&cursor=${encodeURIComponent(cursor)}` : this.at);
      this.lines = [...cursor ? this.lines : [], ...answer[this.list]];
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
