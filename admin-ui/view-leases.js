// view-leases.js: which host has which leases of an array, and where hosts meet. Asked
// for repeatedly while several hosts share the array.
//
// A cell's letter and colour stand for the host with most of its leases; its frame shows
// how often hosts met there in the last minutes. The table below lists the letters; the
// label says the same in words.

import { get, path } from "./api.js";
import { Table, el, figure, keyed, setAttribute, setText, state, word }
  from "./dom.js";
import { bytes, count } from "./units.js";

const ASK_MS = 3000;
const COLORS = 8;
const HEATS = 4;
const SAID_MAX = 3;

const letter = (i) =>
  "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"[i] ?? "?";

// 0 to HEATS: 1 for one, and one more for each time that it is four times as much: as
// weftctl array leases.
const heat = (n) =>
  n > 0 ? Math.min(HEATS, 1 + Math.floor(Math.log2(n) / 2)) : 0;

const times = (n) => n === 1 ? "once" : `${count(n)} times`;

const COLUMNS = [
  word("Letter", ({ i }) => letter(i)),
  word("Node", ({ session }) => session.node, true),
  word("Process", ({ session }) => String(session.pid)),
  state("State", ({ session }) =>
    !session.alive ? ["silent", "warning"]
      : session.declared ? ["attached", "ok"]
      : ["not heard", "warning", "weftd does not know yet what it has"]),
  figure("Most of", ({ cells }) => `${cells} pieces`),
  figure("Ranges got", ({ session }) => count(session.gets)),
  figure("Asked back", ({ session }) => count(session.revokes)),
];

// Why hosts wait, in sentences.
function waits(map) {
  const said = [];
  const recoverer = map.sessions.find((s) => s.session === map.recoverer);
  if (map.undeclared > 0)
    said.push("weftd was started, and grants nothing until " +
      `${map.undeclared} of them have declared their leases.`);
  if (map.orphan_bytes > 0)
    said.push(`${bytes(map.orphan_bytes)} of ended sessions are resynchronized ` +
      "before they are granted" +
      (recoverer ? `: ${recoverer.node} does it.` : "."));
  if (map.waiting > 0)
    said.push(`${map.waiting} wait for leases of others.`);
  if (map.waits_for)
    said.push(`Waits for ${map.waits_for}.`);
  return said.join(" ");
}

// The pieces where hosts met most, in words.
function hottest(map) {
  return map.cells.map((cell, i) => [cell.conflicts, i]).filter(([n]) => n > 0)
    .sort(([a], [b]) => b - a).slice(0, SAID_MAX)
    .map(([n, i]) => `${times(n)} at ${bytes(i * map.cell_bytes)}`);
}

function label(map) {
  const hosts = map.sessions.map((s, i) => `${s.node} (${letter(i)}) has most ` +
    `of ${map.cells.filter((c) => c.session === s.session).length}`);
  const hot = hottest(map);
  return `Leases of array ${map.array} in ${map.cells.length} pieces: ` +
    `${hosts.join(", ")}; ` + (hot.length > 0
      ? `hosts met in the last ${map.minutes} minutes ${hot.join(", ")}`
      : "hosts met nowhere recently");
}

function cellTitle(map, cell, at) {
  const said = [`${bytes(map.cell_bytes)} from ${bytes(at)} on: ` + (cell.node
    ? `${cell.node} has ${bytes(cell.held_bytes)}` : "nobody has any")];
  if (cell.other_bytes > 0)
    said.push(`others have ${bytes(cell.other_bytes)}`);
  if (cell.orphan_bytes > 0)
    said.push(`${bytes(cell.orphan_bytes)} must be resynchronized`);
  if (cell.conflicts + cell.revokes > 0)
    said.push(`in the last ${map.minutes} minutes hosts met there ` +
      `${times(cell.conflicts)}, asked back ${times(cell.revokes)}`);
  return said.join("; ");
}

export class LeasesView {
  constructor() {
    this.title = el("h4", { class: "h6 mt-3" });
    this.cells = el("div", { class: "leases live", role: "img" });
    this.waits = el("p", { class: "waits" });
    this.hint = el("p", { class: "hint" });
    const list = el("div");
    this.node = el("div", { hidden: "" }, this.title, this.waits, this.cells,
                   this.hint, list);
    this.table = new Table(list, "Sessions that share it by leases", COLUMNS,
      ({ session }) => session.session, "");
    this.asked = 0;
  }

  show(array) {
    this.node.hidden = !array.sessions.some((s) => s.leases || s.part);
    if (this.node.hidden || document.hidden ||
        Date.now() - this.asked < ASK_MS)
      return;
    this.asked = Date.now();
    this.ask(array.name);
  }

  async ask(name) {
    try {
      this.draw(await get(path`/arrays/${name}/leases`));
    } catch (problem) {
      setText(this.waits, problem.message);
    }
  }

  draw(map) {
    const place = new Map(map.sessions.map((s, i) => [s.session, i]));
    setText(this.title, `Leases of ${map.array}`);
    setText(this.waits, waits(map));
    setText(this.hint, `A square is ${bytes(map.cell_bytes)}; ` +
      `${count(map.leases)} leases, ${bytes(map.held_bytes)}. ` +
      `A frame: hosts met there in the last ${map.minutes} minutes.`);
    setAttribute(this.cells, "aria-label", label(map));
    keyed(this.cells, map.cells.map((cell, i) => ({ cell, i })), ({ i }) => i,
      () => el("span"),
      (node, { cell, i }) => {
        const holder = place.get(cell.session);
        setText(node, cell.orphan_bytes > 0 ? "!"
          : holder === undefined ? "" : letter(holder));
        setAttribute(node, "data-holder",
          holder === undefined ? null : holder % COLORS);
        setAttribute(node, "data-heat", heat(cell.conflicts) || null);
        setAttribute(node, "title", cellTitle(map, cell, i * map.cell_bytes));
      });
    this.table.show(map.sessions.map((session, i) => ({
      session, i,
      cells: map.cells.filter((c) => c.session === session.session).length,
    })), (row, { i }) =>
      setAttribute(row.firstElementChild, "data-holder", i % COLORS));
  }
}
