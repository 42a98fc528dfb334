// view-map.js: an array's members as a picture: a row a group, a box a member,
// coloured and marked by its state.  Each box is a link to the member's line.

import { keyed, setAttribute, setText, svg } from "./dom.js";
import { memberState } from "./states.js";

const BOX = 56, GAP = 8;

export class MapView {
  constructor() {
    this.node = svg("svg", { class: "map", role: "group" });
  }

  show(array) {
    const { n, groups } = array;
    setAttribute(this.node, "viewBox",
      `0 0 ${n * (BOX + GAP) - GAP} ${groups * (BOX + GAP) - GAP}`);
    setAttribute(this.node, "width", n * (BOX + GAP) - GAP);
    setAttribute(this.node, "aria-label", `Members of array ${array.name}`);
    keyed(this.node, array.members, (m) => m.position, makeBox,
      (box, member) => updateBox(box, member, array));
  }
}

function makeBox() {
  return svg("a", {}, svg("title"),
    svg("rect", { width: BOX, height: BOX, rx: 6 }),
    svg("text", { x: BOX / 2, y: 22 }), svg("text", { x: BOX / 2, y: 44 }));
}

function updateBox(box, member, array) {
  const [title, , name, mark] = box.children;
  const state = memberState(member);
  const column = member.position % array.n;
  const row = Math.floor(member.position / array.n);

  setAttribute(box, "href", `#member-${member.disk}`);
  setAttribute(box, "transform",
    `translate(${column * (BOX + GAP)} ${row * (BOX + GAP)})`);
  setAttribute(box, "data-tone", state.tone);
  setText(title,
    `member ${member.position} on ${member.node}: ${state.word}`);
  setText(name, member.node.length > 7 ? `${member.node.slice(0, 6)}…`
                                       : member.node);
  setText(mark, state.mark);
}
