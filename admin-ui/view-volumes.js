// view-volumes.js: the volumes of a pool, its space, and what can be done with them. Asked
// for repeatedly: the process that has the pool reports the figures, and no event brings
// them.

import { button, buttons, confirm, firstReason, formDialog, updateButton }
  from "./action.js";
import { get, path } from "./api.js";
import { NAME, choice, field } from "./dialog.js";
import { Table, el, figure, keyed, setAttribute, setText, state, word }
  from "./dom.js";
import { createVolume, deleteVolume, resizeVolume } from "./requests.js";
import { bytes, count, percent } from "./units.js";

const ASK_MS = 3000;

const TONES = { new: "quiet", opening: "quiet", ready: "ok", deleting: "warning",
                broken: "error" };

const COLUMNS = [
  word("Volume", (v) => v.name, true),
  state("State", (v) => [v.state, v.problem ? "error" : TONES[v.state],
    v.problem ?? (v.waiting > 0 ? `${count(v.waiting)} requests wait for space`
                                : "")]),
  figure("Size", (v) => bytes(v.size)),
  figure("Data", (v) => bytes(v.mapped_bytes)),
  figure("Granted", (v) => bytes(v.granted_bytes)),
  figure("Clients", (v) => count(v.clients)),
  buttons([
    { label: "Grow…", press: growDialog,
      why: (v) => v.state === "deleting" && "The volume is being deleted." },
    { label: "Delete…", press: (v) => confirm(deleteVolume(v.array, v.name),
                                              { label: "Delete it" }),
      why: (v) => v.state === "deleting" && "The volume is being deleted." },
  ]),
];

// How the pool's space is used: [name, bytes], together the total. Only the process that
// has a volume open knows what of the volume's space has data.
function shares(pool) {
  return [["data", pool.mapped_bytes], ["logs", pool.log_bytes],
          ["granted ahead, or to volumes that no process has open",
           pool.granted_bytes - pool.mapped_bytes - pool.log_bytes],
          ["free", pool.free_bytes]].filter(([, size]) => size > 0);
}

const STATES = {
  blank: "No process has attached the pool yet.",
  scanning: "weftd does not know which volumes the pool has: the next process " +
    "that attaches the pool scans it, and nothing is granted before.",
};

function facts(pool) {
  return [STATES[pool.state] ?? "",
    `${percent(pool.granted_bytes / pool.total_bytes)} of ` +
    `${bytes(pool.total_bytes)} are granted; ${bytes(pool.promised_bytes)} are ` +
    `promised to ${count(pool.volumes)} of at most ${count(pool.volumes_max)} ` +
    "volumes."].filter((text) => text).join(" ");
}

export class VolumesView {
  constructor(name) {
    this.name = name;
    this.facts = el("p", { class: "live" });
    this.bar = el("div", { class: "space live", role: "img" });
    this.problem = el("p", { class: "waits" });
    this.create = button("Create a volume…", () => createDialog(this.array));
    const list = el("div");
    this.node = el("div", { id: `volumes-${name}`, hidden: "" },
      el("h4", { class: "h6 mt-3" }, `Volumes of ${name}`), this.facts, this.bar,
      this.problem, list, el("div", { class: "buttons" }, this.create));
    this.table = new Table(list, `Volumes of ${name}`, COLUMNS, (v) => v.uuid,
      "The pool has no volume yet.");
    this.asked = 0;
  }

  show(array) {
    this.node.hidden = !array.pool;
    if (this.node.hidden)
      return;
    const { pool } = array;
    this.array = array;
    setText(this.facts, facts(pool));
    const parts = shares(pool);
    setAttribute(this.bar, "aria-label", `Space of pool ${array.name}: ` +
      parts.map(([name, size]) => `${bytes(size)} ${name}`).join(", "));
    keyed(this.bar, parts, ([name]) => name, () => el("span"),
      (node, [name, size]) => {
        node.style.flexGrow = String(size / pool.total_bytes);
        setAttribute(node, "data-share", name);
        setAttribute(node, "title", `${bytes(size)} ${name}`);
        setText(node, `${bytes(size)} ${name}`);
      });
    updateButton(this.create, firstReason(
      pool.state === "scanning" && STATES.scanning,
      pool.volumes >= pool.volumes_max &&
      "The pool has as many volumes as it has room for: delete one first."));
    if (!document.hidden && Date.now() - this.asked >= ASK_MS)
      this.ask();
  }

  async ask() {
    this.asked = Date.now();
    try {
      const volumes = [];
      for (let cursor = null; ;) {
        const page = await get(path`/arrays/${this.name}/volumes` +
          (cursor ? path`?cursor=${cursor}` : ""));
        volumes.push(...page.volumes);
        cursor = page.next;
        if (!cursor)
          break;
      }
      this.table.show(volumes);
      setText(this.problem, "");
    } catch (problem) {
      setText(this.problem, problem.message);
    }
  }
}

const UNITS = [["1048576", "MiB"], ["1073741824", "GiB"],
               ["1099511627776", "TiB"]];

// A number with its unit; `now`: the size to begin with, in bytes.
function sizeFields(now) {
  const [unit] = UNITS.findLast(([u]) => now % Number(u) === 0) ?? UNITS[0];
  const number = field("Size", "size", { type: "number", min: "0", step: "any",
    value: String(now / Number(unit)) });
  const of = choice("Unit", "unit", UNITS, unit);
  return {
    node: el("div", { class: "tools" }, number.node, of.node),
    // Whole sectors.
    bytes: () => 512 * Math.round(
      Number(number.input.value) * Number(of.input.value) / 512),
  };
}

function createDialog(array) {
  const name = field("Name", "name", NAME, "Lower-case letters, digits and '-'.");
  const size = sizeFields(Math.min(10 * 2 ** 30,
    2 ** 20 * Math.floor(array.pool.total_bytes / 2 ** 21)));
  formDialog(`Create a volume in ${array.name}`, "Create it",
    [name.node, size.node],
    () => createVolume(array.name, name.input.value.trim(), size.bytes()),
    { preview: () => name.input.value.trim() !== "" });
}

function growDialog(volume) {
  const size = sizeFields(volume.size);
  formDialog(`Grow volume ${volume.name} of ${volume.array}`, "Grow it",
    [size.node], () => resizeVolume(volume.array, volume.name, size.bytes()),
    { preview: () => size.bytes() !== volume.size });
}
