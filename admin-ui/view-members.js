// view-members.js: a line for each disk, those of arrays first.

import { Table, badge, el, figure, setAttribute, setText, word }
  from "./dom.js";
import { memberState } from "./states.js";
import { ago, byteRate, bytes, percent, rate } from "./units.js";

function memberOf(disk, model) {
  const array = model.objects.array.get(disk.array);
  return array?.members.find((m) => m.disk === disk.uuid);
}

function showState(cell, { disk, member }) {
  if (cell.children.length === 0) {
    cell.classList.add("live");
    cell.append(el("span", { class: "state" }), el("span", { class: "why" }));
  }
  setText(cell.lastElementChild, member?.reason || disk.reason || "");
  if (member) {
    const state = memberState(member);
    badge(cell, `${state.mark} ${state.word}`, state.tone);
  } else if (disk.alive) {
    badge(cell, "free", "quiet");
  } else {
    badge(cell, "free, silent", "warning");
  }
}

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
];

export class MembersView {
  constructor(parent) {
    this.table = new Table(parent, "Members and disks", COLUMNS,
      (item) => item.disk.uuid, "No disk has reported yet.");
  }

  show(model) {
    const items = model.sorted("disk").map((disk) => ({
      disk, model, member: memberOf(disk, model),
      load: model.load.disks?.[disk.uuid] ?? {},
    }));
    items.sort((a, b) => rank(a).localeCompare(rank(b), "en",
      { numeric: true }));
    this.table.show(items, (row, { disk }) => {
      setAttribute(row, "id", `member-${disk.uuid}`);
      setAttribute(row, "tabindex", "-1");
      setAttribute(row, "title", disk.uri);
    });
  }
}

const rank = ({ disk, member }) =>
  member ? `0 ${disk.array} ${member.position}` : `1 ${disk.node} ${disk.path}`;
