// view-members.js: a line for each disk, those of arrays first.

import { act, button, buttons, confirm } from "./action.js";
import { Table, badge, el, figure, setAttribute, setText, word }
  from "./dom.js";
import { moveDialog, nodesFor, replaceDialog, spareDialog }
  from "./disk-dialogs.js";
import { doneOf, rebuildOf } from "./model.js";
import { forgetDisk, joinMember, pauseRebuild, rekeyDisk } from "./requests.js";
import { isFree, memberState } from "./states.js";
import { ago, byteRate, bytes, clock, duration, latency, percent, rate }
  from "./units.js";

// So many lines at first: a cluster may have hundreds.
const LINES = 60;

function memberOf(disk, model) {
  const array = model.objects.array.get(disk.array);
  return array?.members.find((m) => m.disk === disk.uuid);
}

function rebuildText(rebuild) {
  const parts = [`${percent(doneOf(rebuild))} of ` +
    bytes(rebuild.total_bytes)];
  if (rebuild.rate > 0)
    parts.push(byteRate(rebuild.rate));
  if (rebuild.eta_s !== null)
    parts.push(`${duration(rebuild.eta_s)} left`);
  if (rebuild.sources.length > 0)
    parts.push(`from members ${rebuild.sources.join(", ")}`);
  if (rebuild.unreadable_bytes > 0)
    parts.push(`${bytes(rebuild.unreadable_bytes)} unreadable`);
  if (rebuild.waits)
    parts.push(`waits for ${rebuild.waits}`);
  return parts.join("; ");
}

function whyOf(disk, member, rebuild) {
  if (rebuild)
    return rebuildText(rebuild);
  const why = [member?.reason || disk.reason || disk.short || ""];
  if (member?.suspect)
    why.push(`its answers take ${latency(member.service_us)}` +
      (member.peers_us ? `, its peers' ${latency(member.peers_us)}` : "") +
      ": data is read from its peers where they have a copy");
  if (disk.moves_to)
    why.push(`${disk.moves_to} may serve it`);
  if (disk.rekeys)
    why.push("another key is on its way to it");
  if (member?.paused)
    why.push("its rebuild is paused: resume it to go on");
  if (member?.held)
    why.push("held out: let it join to take it back");
  if (member?.next_disk)
    why.push(`it is to move to disk ${member.next_disk}`);
  if (member?.spare_at)
    why.push(`a spare takes its place at ${clock(new Date(member.spare_at))}`);
  return why.filter((text) => text).join("; ");
}

function showState(cell, { disk, member, rebuild }) {
  if (cell.children.length === 0) {
    cell.classList.add("live");
    cell.append(el("span", { class: "state" }),
      el("progress", { class: "rebuild", max: 1, "aria-label": "rebuilt" }),
      el("span", { class: "why" }));
  }
  const bar = cell.children[1];
  setAttribute(bar, "hidden", rebuild ? null : "");
  if (rebuild)
    setAttribute(bar, "value", doneOf(rebuild).toFixed(3));
  setText(cell.lastElementChild, whyOf(disk, member, rebuild));
  if (member) {
    const state = memberState(member);
    badge(cell, `${state.mark} ${state.word}`, state.tone);
  } else if (disk.state === "failed") {
    badge(cell, "free, failed", "error");
  } else if (disk.alive) {
    badge(cell, disk.spare_of ? `spare of ${disk.spare_of}` : "free", "quiet");
  } else {
    badge(cell, "free, silent", "warning");
  }
}

// ---- What can be done with a disk. ----

const ACTIONS = [
  { label: "Replace…", shown: ({ member }) => member,
    why: ({ model }) => !hasFree(model) && "No disk is free.",
    press: ({ disk, member, model }) =>
      replaceDialog(disk.array, member, model) },
  { label: "Move…", shown: ({ disk }) => disk.array && !disk.alive,
    why: ({ disk, model }) => nodesFor(disk, model).length === 0 &&
      "There is no other enrolled host.",
    press: ({ disk, model }) => moveDialog(disk, model) },
  { label: "Join", shown: ({ member }) => member?.held,
    press: ({ disk, member }) => act(joinMember(disk.array, member.position)) },
  { label: "Resume", shown: ({ member }) => member?.paused && !member.rebuild,
    press: ({ disk, member }) =>
      act(pauseRebuild(disk.array, member.position, false)) },
  { label: "Spare…", shown: ({ disk }) => !disk.array && !disk.spare_of,
    why: ({ disk, model }) => disk.state !== "serving" ? `It is ${disk.state}.`
      : model.objects.array.size === 0 && "There is no array yet.",
    press: ({ disk, model }) => spareDialog(disk, model) },
  { label: "Rekey…",
    why: ({ disk }) => disk.rekeys && "Another key is on its way to it.",
    press: ({ disk }) => rekeyDialog(disk) },
  { label: "Forget…", shown: ({ disk }) => !disk.array,
    why: ({ disk }) => disk.alive &&
      "Its member process runs; stop it on its node first.",
    press: ({ disk }) => confirm(forgetDisk(disk), { label: "Forget it" }) },
];

// Nothing is lost by that, but all who use the disk notice.
function rekeyDialog(disk) {
  confirm(rekeyDisk(disk), { label: "Rekey it",
    done: `Disk ${disk.path} of ${disk.node} gets another key.`,
    preview: () => ({ allowed: true, confirm: disk.path, lines: [
      "A person who has read weftd's database can open this disk until it " +
      "has another key.",
      "Connections by the old key are then closed and made again by the " +
      "new one; requests to the disk wait meanwhile. Nothing is lost, and " +
      "nothing is copied.",
      ...disk.alive ? [] : ["The disk is silent: it gets the key when it " +
      "reports again."]] }) });
}

const hasFree = (model) => model.sorted("disk").some(isFree);

const COLUMNS = [
  word("Member", ({ disk, member }) =>
    member ? `${disk.array} ${member.position}` : "–", true),
  word("Node", ({ disk }) => disk.node),
  word("Disk", ({ disk }) => disk.path),
  { title: "State", fill: showState },
  figure("Size", ({ disk }) => bytes(disk.size)),
  figure("Heard", ({ disk, model }) =>
    ago(model.silentMs(disk))),
  figure("Reads", ({ load }) => rate(load.disk_reads)),
  figure("Read", ({ load }) => byteRate(load.disk_read_bytes)),
  figure("Writes", ({ load }) => rate(load.disk_writes)),
  figure("Written", ({ load }) => byteRate(load.disk_write_bytes)),
  figure("CPU", ({ load }) => percent(load.cpu)),
  buttons(ACTIONS),
];

export class MembersView {
  constructor(parent) {
    this.filter = el("input", { type: "search", class: "form-control",
      id: "members-filter", placeholder: "node, path, array or state" });
    this.table = new Table(parent, "Members and disks", COLUMNS,
      (item) => item.disk.uuid, "No disk has reported yet.");
    this.more = button("", () => {
      this.all = true;
      this.show(this.model);
    });
    this.tools = el("div", { class: "tools" },
      el("label", { for: "members-filter" }, "Show only"), this.filter);
    this.tools.hidden = this.more.hidden = true;
    parent.prepend(this.tools);
    parent.append(this.more);
    this.filter.addEventListener("input", () => this.show(this.model));
  }

  show(model) {
    this.model = model;
    const wanted = this.filter.value.trim().toLowerCase();
    const items = model.sorted("disk").map((disk) => {
      const member = memberOf(disk, model);
      return { disk, model, member,
               rebuild: rebuildOf(disk.array, member, model),
               load: model.load.disks?.[disk.uuid] ?? {} };
    }).filter((item) => !wanted || textOf(item).includes(wanted));
    items.sort((a, b) => rank(a).localeCompare(rank(b), "en",
      { numeric: true }));
    const shown = this.all ? items : items.slice(0, LINES);
    this.tools.hidden = model.objects.disk.size <= 8;
    this.more.hidden = shown.length === items.length;
    setText(this.more, `Show all ${items.length}`);
    this.table.show(shown, (row, { disk }) => {
      setAttribute(row, "id", `member-${disk.uuid}`);
      setAttribute(row, "tabindex", "-1");
      setAttribute(row, "title", disk.uri);
    });
  }
}

const textOf = ({ disk, member }) =>
  [disk.node, disk.path, disk.array ?? "free", disk.uuid, disk.state,
   member ? memberState(member).word : ""].join(" ").toLowerCase();

const rank = ({ disk, member }) =>
  member ? `0 ${disk.array} ${member.position}` : `1 ${disk.node} ${disk.path}`;
