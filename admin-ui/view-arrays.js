// view-arrays.js: a card for each array: its map, its facts, what can be done.

import { act, button, confirm, confirmChoice, firstReason, formDialog,
         updateButton } from "./action.js";
import { choice, field } from "./dialog.js";
import { badge, el, keyed, setAttribute, setText } from "./dom.js";
import { importDialog } from "./import-dialog.js";
import { allowNode, denyNode, dropSpare, removeArray, tuneArray }
  from "./requests.js";
import { arrayTone, isFree } from "./states.js";
import { LeasesView } from "./view-leases.js";
import { LosingView } from "./view-losing.js";
import { MapView } from "./view-map.js";
import { byteRate, bytes, duration, rate } from "./units.js";
import { VolumesView } from "./view-volumes.js";
import { createArrayDialog } from "./wizard.js";

// The first of them, by their offsets in the array.
function badRanges(a) {
  const shown = a.bad_ranges.map((b) => `${b.length} bytes at ${b.offset}`);
  const left = a.bad_bytes -
    a.bad_ranges.reduce((sum, b) => sum + b.length, 0);
  return shown.join(", ") + (left > 0
    ? ` and more (weftctl array bad-ranges ${a.name})` : "");
}

// The serving node, the standby nodes, the durability, and the clients that wait.
function service({ serving, nodes, promise, unreached }) {
  const who = !serving ? "no node serves it now"
    : `${serving.node} serves it` + (serving.draining ? ", and leaves off"
      : serving.alive ? "" : ", and is silent");
  const others = nodes.filter((n) => n.node !== serving?.node)
    .map((n) => `${n.node} ${n.stands_by ? "stands by" : "is away"}`);
  return `${[who, ...others].join(", ")}; ${promise}` +
    (unreached ? `. ${unreached}` : "");
}

const right = ({ node, mode, failover }) => node +
  (mode === "ro" ? " to read" : failover ? " with failover" : "");

// Which nodes may attach it; null stands for all.
function allowed({ allow }) {
  if (!allow)
    return "any node: set a list";
  return allow.map(right).join(", ") || "no node";
}

const FACTS = [
  ["Layout", (a) => `${a.layout} over ${a.n} members` +
    (a.groups > 1 ? ` in each of ${a.groups} groups` : "") +
    `, stripe unit ${bytes(a.unit)}` + (a.dup ? `, ${a.dup}` : "")],
  ["Capacity", (a) => `${bytes(a.capacity.usable)} usable; images ` +
    `${bytes(a.capacity.images)}, unused ${bytes(a.capacity.wasted)} of ` +
    bytes(a.capacity.total)],
  ["Survives", (a) => a.survives],
  ["Exposed", (a) => a.exposed_bytes > 0
    ? `${bytes(a.exposed_bytes)} have fewer copies than they should`
    : "nothing: every byte has all of its copies"],
  ["Unreachable", (a) => a.unreachable_bytes > 0
    ? `${bytes(a.unreachable_bytes)}: all of their members are away`
    : "nothing"],
  ["Lost", (a) => a.lost_bytes > 0 ? bytes(a.lost_bytes) : "nothing"],
  ["Can't be read", (a) => a.bad_bytes > 0
    ? `${bytes(a.bad_bytes)}: no good copy was found. Write them again from a ` +
      `backup: ${badRanges(a)}` : "nothing is known to be bad"],
  ["Epoch", (a) => String(a.epoch)],
  ["Held for writing by", (a) => a.sessions
    .filter((s) => s.mode !== "ro")
    .map((s) => `${s.node}, process ${s.pid}`).join("; ") || "nobody"],
  ["May attach it", allowed],
  ["Service", (a) => a.service ? service(a.service)
    : a.sessions.some((s) => s.leases) ? "none: hosts share it by leases"
    : "none: one host at a time writes to it"],
  ["Reads", (a, load) => `${rate(load.reads)}, ${byteRate(load.read_bytes)}`],
  ["Writes", (a, load) =>
    `${rate(load.writes)}, ${byteRate(load.write_bytes)}`],
  ["Spares", (a) => a.spares.length === 0 ? "none" : `${a.spares.length}, ` +
    (a.spare_after_s > 0
      ? `after ${duration(a.spare_after_s)} in place of a member that is out`
      : "which take no place by themselves")],
];

export class ArraysView {
  constructor(parent) {
    this.list = el("div", { class: "array-cards" });
    this.empty = el("p", { class: "quiet" });
    this.create = button("Create an array…",
      () => createArrayDialog(this.model), "primary");
    this.import = button("Import…", importDialog);
    parent.append(this.list, this.empty,
      el("div", { class: "buttons" }, this.create, this.import));
    this.cards = new WeakMap();
  }

  show(model) {
    const arrays = model.sorted("array");
    this.model = model;
    setText(this.empty, arrays.length > 0 || !model.status
      ? "" : "No array yet.");
    updateButton(this.create, firstReason(!hasFree(model) &&
      "No disk is free: format one and start its member process first."));
    updateButton(this.import, firstReason());
    keyed(this.list, arrays, (a) => a.name, (a) => this.make(a.name),
      (card, array) => this.update(card, array, model));
  }

  make(name) {
    const parts = { picked: null };
    const pick = (what) => {
      parts.picked = what;
      this.show(this.model);
    };
    const map = new MapView(pick);
    const losing = new LosingView(() => pick(null));
    const leases = new LeasesView();
    const volumes = new VolumesView(name);
    const title = el("h3", { class: "h6" }, el("span"),
      el("span", { class: "live" }));
    const waits = el("p", { class: "waits" });
    const facts = el("dl", { class: "facts live" });
    for (const [fact] of FACTS)
      facts.append(el("div", {}, el("dt", {}, fact), el("dd")));
    const buttons = {
      nodes: button("Nodes…", () => nodesDialog(name, this.model)),
      spares: button("Spares…", () => sparesDialog(name, this.model)),
      remove: button("Remove…", () => confirm(removeArray(name),
        { label: "Remove it" })),
    };
    Object.assign(parts, { map, losing, leases, volumes, title, waits, facts, buttons });
    const card = el("article", { class: "card" },
      el("div", { class: "card-body" }, title, waits,
        el("div", { class: "live" }, map.node), losing.node, leases.node,
        volumes.node,
        facts,
        el("div", { class: "buttons" }, ...Object.values(buttons))));
    this.cards.set(card, parts);
    return card;
  }

  update(card, array, model) {
    const parts = this.cards.get(card);
    const load = model.load.arrays?.[array.name] ?? {};
    setText(parts.title.firstElementChild, `${array.name} `);
    badge(parts.title.lastElementChild, array.state, arrayTone(array.state));
    setText(parts.waits, array.waits_for ? `Waits for ${array.waits_for}.`
                                         : "");
    setAttribute(parts.waits, "hidden", array.waits_for ? null : "");
    parts.map.show(array, parts.picked);
    parts.losing.show(array, parts.picked);
    parts.leases.show(array);
    parts.volumes.show(array);
    FACTS.forEach(([, text], i) =>
      setText(parts.facts.children[i].lastElementChild, text(array, load)));
    updateButton(parts.buttons.nodes, null);
    updateButton(parts.buttons.spares, null);
    updateButton(parts.buttons.remove, firstReason(array.sessions.length > 0 &&
      `The array is attached by ${array.sessions[0].node}; detach it there, or ` +
      "evict the session, first."));
  }
}

const hasFree = (model) => model.sorted("disk").some((disk) =>
  isFree(disk) && !disk.spare_of);

// The spares of an array, and when they take a place.
function sparesDialog(name, model) {
  const array = model.objects.array.get(name);
  const after = field("Seconds after which a spare takes a place",
    "spare_after_s", { type: "number", min: "0", max: "31536000",
                       value: String(array.spare_after_s) },
    "0: never by itself.");
  const slow = field("Seconds after which a slow member is put out",
    "slow_out_s", { type: "number", min: "0", max: "31536000",
                    value: String(array.slow_out_s) },
    "0: never. A member with a last copy stays.");
  const list = el("ul", { class: "lines" }, ...array.spares.map((uuid) => {
    const disk = model.objects.disk.get(uuid);
    const item = el("li", {}, disk ? `${disk.path} on ${disk.node} ` : uuid);
    const drop = button("Drop", async () => {
      if (await act(dropSpare(name, uuid)))
        dialog.close();
    });
    updateButton(drop, firstReason());
    item.append(drop);
    return item;
  }));
  const dialog = formDialog(`Spares of ${name}`, "Set the time",
    [array.spares.length > 0 ? list : el("p", {}, "The array has no spare. To add " +
      "a free disk, use its line under “Members and disks”."), after.node,
      slow.node],
    () => tuneArray(name, Number(after.input.value), Number(slow.input.value)));
}

const MODES = [["rw", "to read and write"], ["ro", "to read"],
  ["failover", "to read and write, and to take it from a live node"]];

// Which nodes may attach an array.
function nodesDialog(name, model) {
  const array = model.objects.array.get(name);
  const nodes = model.sorted("node").map((node) => [node.name, node.name]);
  const node = choice("Node", "node", nodes);
  const mode = choice("May attach it", "mode", MODES);
  const list = el("ul", { class: "lines" }, ...(array.allow ?? []).map((n) => {
    const deny = button("Deny…", () => {
      dialog.close();
      confirm(denyNode(name, n.node), { label: "Deny it" });
    });
    updateButton(deny, firstReason());
    return el("li", {}, `${right(n)} `, deny);
  }));
  const dialog = confirmChoice(`Nodes that may attach ${name}`, () =>
    allowNode(name, node.input.value, mode.input.value === "ro" ? "ro" : "rw",
              mode.input.value === "failover"),
    { label: "Allow it", done: `Changed the nodes that may attach ${name}.`,
      parts: [array.allow?.length > 0 ? list : el("p", {},
        `Now: ${allowed(array)}.`), node.node, mode.node] });
  for (const { input } of [node, mode])
    input.addEventListener("change", dialog.ask);
}
