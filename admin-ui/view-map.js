// view-map.js: an array's members as a picture: a column a host, a box a
// member, its data and its image half.  A press on a host or a member asks what
// its loss would cost now (view-losing.js).

import { halfState, halvesOf } from "./copies.js";
import { el, keyed, setAttribute, setText } from "./dom.js";
import { memberState } from "./states.js";

export class MapView {
  // pick({member} or {node}): somebody wants to know about it.
  constructor(pick) {
    this.pick = pick;
    this.node = el("ul", { class: "map list-unstyled" });
  }

  // `picked` is what pick() was last given, or null.
  show(array, picked) {
    const hosts = new Map();
    for (const member of array.members) {
      if (!hosts.has(member.node))
        hosts.set(member.node, []);
      hosts.get(member.node).push(member);
    }
    setAttribute(this.node, "aria-label",
      `Members of array ${array.name} by host`);
    keyed(this.node, [...hosts], ([node]) => node,
      ([node]) => this.makeHost(node),
      (host, [node, members]) => {
        setAttribute(host.firstElementChild, "aria-pressed",
          String(picked?.node === node));
        keyed(host.lastElementChild, members, (m) => m.position,
          (member) => this.makeBox(member, array),
          (box, member) => updateBox(box, member, array, picked));
      });
  }

  makeHost(node) {
    const head = el("button", { type: "button", class: "host",
      title: `What would the loss of ${node} cost?` }, node);
    head.addEventListener("click", () => this.pick({ node }));
    return el("li", {}, head, el("ul", { class: "list-unstyled" }));
  }

  makeBox(member, array) {
    const position = member.position;
    const box = el("button", { type: "button", class: "member" },
      el("span", { class: "position" }), el("span", { class: "word" }),
      ...halvesOf(array, position).map((half) =>
        el("span", { class: "half", "data-half": half })));
    box.addEventListener("click", () => this.pick({ member: position }));
    return el("li", {}, box);
  }
}

function updateBox(item, member, array, picked) {
  const box = item.firstElementChild;
  const [position, word, ...halves] = box.children;
  const state = memberState(member);
  const said = [`member ${member.position} on ${member.node}: ${state.word}`];

  setAttribute(box, "data-tone", state.tone);
  setAttribute(box, "aria-pressed", String(picked?.member === member.position));
  setText(position, String(member.position));
  setText(word, `${state.mark} ${state.word}`);
  for (const node of halves) {
    const half = node.dataset.half;
    const worth = halfState(array, member.position, half);
    setAttribute(node, "data-tone", worth.tone);
    setText(node, `${worth.mark} ${half}`);
    said.push(`${half} ${worth.word}`);
  }
  setAttribute(box, "aria-label", said.join("; "));
  setAttribute(box, "title", said.join("; "));
}
