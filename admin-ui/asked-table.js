// asked-table.js: a table of what weftd is asked for, rather than told with the
// events: when the page is opened, and when something was changed on it.

import { get } from "./api.js";
import { Table, el, setText } from "./dom.js";

export class AskedTable {
  // `list` is the name of the list in the answer to GET `at`; changed() is
  // called after a change made here.
  constructor(parent, { at, list, label, columns, key, empty, changed }) {
    Object.assign(this, { at, list, changed });
    this.table = new Table(parent, label, columns, key, empty);
    this.problem = el("p", { class: "quiet" });
    parent.append(this.problem);
  }

  // After a change.
  again() {
    this.ask();
    this.changed();
  }

  async ask() {
    try {
      this.table.show((await get(this.at))[this.list]);
      setText(this.problem, "");
    } catch (problem) {
      this.table.show([]);
      this.table.empty.hidden = true;
      setText(this.problem, problem.message);
    }
  }
}
