// view-losing.js: the cost of losing one member or host now, below the map of its array.
// Asked again when the array has changed.

import { get, path } from "./api.js";
import { el, setText } from "./dom.js";
import { bytes } from "./units.js";

function question(array, { member, node }) {
  return path`/arrays/${array}/losing` +
    (node === undefined ? `?member=${member}`
                        : `?node=${encodeURIComponent(node)}`);
}

const more = (n) => n > 0 ? `${bytes(n)} more than now` : "as now";

export class LosingView {
  constructor(close) {
    this.title = el("h4", { class: "h6" });
    this.lines = el("ul", { class: "lines" });
    this.cost = el("p", { class: "hint" });
    const button = el("button", { type: "button",
                                  class: "btn btn-sm btn-plain" }, "Close");
    button.addEventListener("click", close);
    this.node = el("div", { class: "losing", role: "status", hidden: "" },
                   this.title, this.lines, this.cost, button);
    this.asked = null;
  }

  show(array, picked) {
    this.node.hidden = picked === null;
    if (picked === null) {
      this.asked = null;
      return;
    }
    const at = question(array.name, picked);
    // The cost of a loss depends on the states of the members.
    const asked = at + array.epoch + array.exposed_bytes +
      array.members.map((m) => m.state).join();
    if (asked === this.asked)
      return;
    this.asked = asked;
    setText(this.title, picked.node === undefined
      ? `If member ${picked.member}, on ${array.members[picked.member].node}, ` +
        "were lost now"
      : `If host ${picked.node} were lost now`);
    this.ask(at, asked);
  }

  async ask(at, asked) {
    let lines, cost;
    try {
      const answer = await get(at);
      lines = answer.lines;
      cost = `Unreachable then: ${more(answer.unreachable_bytes)}; with too ` +
        `few copies: ${more(answer.exposed_bytes)}.`;
    } catch (problem) {
      [lines, cost] = [[problem.message], ""];
    }
    if (asked !== this.asked)
      return; // something else was picked meanwhile
    this.lines.replaceChildren(...lines.map((line) => el("li", {}, line)));
    setText(this.cost, cost);
  }
}
