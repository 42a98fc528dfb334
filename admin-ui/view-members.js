// view-members.js: a line for each disk, those of arrays first.

import { Table, badge, el, figure, setAttribute, setText, word }
  from "./dom.js";
import { memberState } from "./states.js";
import { ago, byteRate, bytes, clock, duration, latency, percent, rate }
  from "./units.js";

function memberOf(disk, model) {
  const array = model.objects.array.get(disk.array);
  return array?.members.find((m) => m.disk === disk.uuid);
}

// The newest that is known of a member's rebuild: a load event has it once a
// second.
function rebuildOf(disk, member, model) {
  if (!member?.rebuild)
    return null;
  return model.load.rebuilds?.find((r) =>
    r.array === disk.array && r.member === member.position) ?? member.rebuild;
}

function doneOf(rebuild) {
  if (rebuild.phase === "synced")
    return 1;
  return rebuild.total_bytes > 0
    ? 1 - Math.min(1, rebuild.todo_bytes / rebuild.total_bytes) : 0;
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
  const why = [member?.reason || disk.reason || ""];
  if (member?.suspect)
    why.push(`its answers take ${latency(member.service_us)}: what others ` +
      "have is read from them");
  if (member?.held)
    why.push("held out until it is told to join");
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
  } else if (disk.alive) {
    badge(cell, disk.spare_of ? `spare of ${disk.spare_of}` : "free", "quiet");
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
    const items = model.sorted("disk").map((disk) => {
      const member = memberOf(disk, model);
      return { disk, model, member, rebuild: rebuildOf(disk, member, model),
               load: model.load.disks?.[disk.uuid] ?? {} };
    });
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
