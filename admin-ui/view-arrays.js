// view-arrays.js: a card for each array.

import { badge, el, keyed, setAttribute, setText } from "./dom.js";
import { arrayTone } from "./states.js";
import { MapView } from "./view-map.js";
import { byteRate, bytes, rate } from "./units.js";

const FACTS = [
  ["Layout", (a) => `${a.layout} over ${a.n} members` +
    (a.groups > 1 ? ` in each of ${a.groups} groups` : "") +
    `, stripe unit ${bytes(a.unit)}` + (a.dup ? `, ${a.dup}` : "")],
  ["Capacity", (a) => `${bytes(a.capacity.usable)} usable; images ` +
    `${bytes(a.capacity.images)}, unused ${bytes(a.capacity.wasted)} of ` +
    bytes(a.capacity.total)],
  ["Survives", (a) => a.exposed_bytes > 0
    ? `${a.survives}, when all are in-sync again` : a.survives],
  ["Exposed", (a) => a.exposed_bytes > 0
    ? `${bytes(a.exposed_bytes)} have fewer copies than they should`
    : "nothing: every byte has all of its copies"],
  ["Unreachable", (a) => a.unreachable_bytes > 0
    ? `${bytes(a.unreachable_bytes)}: all of their members are away`
    : "nothing"],
  ["Lost", (a) => a.lost_bytes > 0 ? bytes(a.lost_bytes) : "nothing"],
  ["Epoch", (a) => String(a.epoch)],
  ["Held for writing by", (a) => a.session
    ? `${a.session.node}, process ${a.session.pid}` : "nobody"],
  ["Reads", (a, load) => `${rate(load.reads)}, ${byteRate(load.read_bytes)}`],
  ["Writes", (a, load) =>
    `${rate(load.writes)}, ${byteRate(load.write_bytes)}`],
];

export class ArraysView {
  constructor(parent) {
    this.list = el("div", { class: "row g-3" });
    this.empty = el("p", { class: "quiet" });
    parent.append(this.list, this.empty);
    this.maps = new WeakMap();
  }

  show(model) {
    const arrays = model.sorted("array");
    setText(this.empty, arrays.length > 0 ? "" : model.status
      ? "No array yet. Make one with: weftctl array create" : "");
    keyed(this.list, arrays, (a) => a.name, () => this.make(),
      (card, array) => this.update(card, array, model));
  }

  make() {
    const map = new MapView();
    const title = el("h3", { class: "h6" }, el("span"),
      el("span", { class: "live" }));
    const waits = el("p", { class: "waits" });
    const facts = el("dl", { class: "facts live" });
    for (const [name] of FACTS)
      facts.append(el("dt", {}, name), el("dd"));
    const card = el("div", { class: "col-12 col-lg-6" },
      el("article", { class: "card h-100" },
        el("div", { class: "card-body" }, title, waits,
          el("div", { class: "live" }, map.node), facts)));
    this.maps.set(card, { map, title, waits, facts });
    return card;
  }

  update(card, array, model) {
    const { map, title, waits, facts } = this.maps.get(card);
    const load = model.load.arrays?.[array.name] ?? {};
    setText(title.firstElementChild, `${array.name} `);
    badge(title.lastElementChild, array.state, arrayTone(array.state));
    setText(waits, array.waits_for ? `Waits for ${array.waits_for}.` : "");
    setAttribute(waits, "hidden", array.waits_for ? null : "");
    map.show(array);
    FACTS.forEach(([, text], i) =>
      setText(facts.children[2 * i + 1], text(array, load)));
  }
}
