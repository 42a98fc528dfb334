// view-nodes.js: a line for each host.

import { act, button, buttons, confirm, confirmChoice, firstReason,
         updateButton } from "./action.js";
import { get, path } from "./api.js";
import { Table, el, figure, setText, state } from "./dom.js";
import { enrollDialog } from "./enroll-dialog.js";
import { drainNode, removeNode, revokeNode, setMaintenance, stopDrain }
  from "./requests.js";
import { byteRate, bytes, day, percent } from "./units.js";

function stateOf(node) {
  if (node.draining)
    return node.drained ? ["drained", "quiet"] : ["draining", "warning"];
  if (node.maintenance)
    return ["maintenance", "warning"];
  return node.alive ? ["alive", "ok"] : ["silent", "error"];
}

function whyNotRemove(node, model) {
  const disks = node.disks.map((uuid) => model.objects.disk.get(uuid) ?? {});
  if (node.sessions.length > 0)
    return "The node has an array attached; detach that, or evict the session, first.";
  if (disks.some((disk) => disk.array))
    return "Its disks are members of arrays; drain it first.";
  if (disks.some((disk) => disk.spare_of))
    return "The node has spares; drop them first.";
  if (disks.some((disk) => disk.alive))
    return "Its member processes run; stop them on the host first.";
  return null;
}

const ACTIONS = [
  { label: "Maintenance…", shown: ({ node }) => !node.maintenance,
    press: ({ node }) => maintenanceDialog(node.name) },
  { label: "End maintenance", shown: ({ node }) => node.maintenance,
    press: ({ node }) => act(setMaintenance(node.name, false)) },
  { label: "Drain…", shown: ({ node }) => !node.draining,
    why: ({ node }) => node.disks.length === 0 && "It has no disk.",
    press: ({ node }) => confirm(drainNode(node.name), { label: "Drain it" }) },
  { label: "Stop draining", shown: ({ node }) => node.draining,
    press: ({ node }) => act(stopDrain(node.name)) },
  { label: "Remove…",
    why: ({ node, model }) => whyNotRemove(node, model),
    press: ({ node }) => confirm(removeNode(node.name), { label: "Remove it" }) },
  { label: "Revoke…", shown: ({ node }) => node.enrolled,
    press: ({ node }) => revokeDialog(node.name) },
];

// If data could not be reached meanwhile, weftd asks for a second confirmation.
function maintenanceDialog(name) {
  const force = el("input", { type: "checkbox", name: "force" });
  const label = el("label", { class: "choice", hidden: "" }, force,
    "Begin it anyway: requests for data that can't be reached " +
      "wait until it is over.");
  const dialog = confirmChoice(`Begin the maintenance of ${name}`,
    () => setMaintenance(name, true, force.checked),
    { label: "Begin maintenance", parts: [label],
      told: ({ code }) => {
        label.hidden = !force.checked && code !== "unreachable";
      } });
  force.addEventListener("change", dialog.ask);
}

// The effects are those of a stop.
function revokeDialog(name) {
  confirm(revokeNode(name), { label: "Revoke it", preview: async () => {
    const stop = await get(path`/nodes/${name}/ok-to-stop`);
    return { ...stop, allowed: true, confirm: name,
      lines: [`From then on weftd refuses ${name}: its disks and array ` +
        "processes fall silent, until it is enrolled again with a new token " +
        "for its name.", ...stop.lines] };
  } });
}

// The loss of such a host is two failures.
function besideWeftd(model) {
  const node = model.objects.node.get(model.status?.host);
  return node?.disks.some((uuid) => model.objects.disk.get(uuid)?.array)
    ? `weftd runs on ${node.name}, beside members of arrays: when that host ` +
      "is lost, nothing can be rebuilt, attached or changed before weftd is " +
      "back. Better run it on a host without members."
    : "";
}

const COLUMNS = [
  { title: "Node", head: true, fill(cell, { node }) {
    if (cell.children.length === 0)
      cell.append(el("span"), el("span", { class: "why" }));
    setText(cell.firstElementChild, node.name);
    setText(cell.lastElementChild, node.certificate_expires
      ? `certified until ${day(node.certificate_expires)}` : "");
  } },
  state("State", ({ node }) => [...stateOf(node), node.stays.length > 0
    ? node.stays.map(({ array, member, waits }) =>
        `member ${member} of ${array} waits for ${waits}`).join("; ")
    : node.waits ? `waits for ${node.waits}`
    : node.maintenance && !node.alive ? "silent, as is expected" : ""]),
  figure("Disks", ({ node }) => `${node.disks_alive} of ${node.disks.length}`),
  figure("Sessions", ({ node }) => String(node.sessions.length)),
  figure("CPU", ({ node, load }) => percent((load ?? node.load)?.cpu)),
  figure("Memory free", ({ node, load }) =>
    bytes((load ?? node.load)?.mem_free)),
  figure("Received", ({ node, load }) =>
    byteRate((load ?? node.load)?.net_rx_bytes)),
  figure("Sent", ({ node, load }) =>
    byteRate((load ?? node.load)?.net_tx_bytes)),
  buttons(ACTIONS),
];

export class NodesView {
  constructor(parent) {
    this.table = new Table(parent, "Nodes", COLUMNS, (item) => item.node.name,
      "No node has reported yet.");
    this.enroll = button("Enroll a node…", enrollDialog, "primary");
    this.beside = el("p", { class: "why" });
    parent.append(this.beside, this.enroll);
  }

  show(model) {
    updateButton(this.enroll, firstReason());
    setText(this.beside, besideWeftd(model));
    this.table.show(model.sorted("node").map((node) => ({ node, model,
      load: node.disks.map((uuid) => model.load.disks?.[uuid])
                      .find((load) => load) })));
  }
}
