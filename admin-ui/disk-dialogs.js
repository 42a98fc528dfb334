// disk-dialogs.js: a disk for a member's place, an array for a spare, a host
// for a disk.

import { confirmChoice, formDialog } from "./action.js";
import { choice } from "./dialog.js";
import { el } from "./dom.js";
import { addSpare, moveDisk, replaceMember } from "./requests.js";
import { isFree } from "./states.js";
import { bytes } from "./units.js";

const diskText = (disk) => `${disk.path} on ${disk.node}, ` +
  bytes(disk.size) + (disk.spare_of ? `, spare of ${disk.spare_of}` : "");

// The other member of its group that is on this disk's host.
function beside(disk, { n, members }, { position }) {
  const first = position - position % n;
  return members.slice(first, first + n)
    .find((m) => m.position !== position && m.node === disk.node);
}

// Disks of other hosts than those of its group come first: a host is lost as a whole.
export function replaceDialog(array, member, model) {
  const whole = model.objects.array.get(array);
  const disks = model.sorted("disk").filter((disk) =>
    isFree(disk) && (!disk.spare_of || disk.spare_of === array))
    .map((disk) => ({ disk, other: beside(disk, whole, member) }));
  disks.sort((a, b) => Boolean(a.other) - Boolean(b.other));
  const pick = choice("With the disk", "disk", disks.map(({ disk, other }) =>
    [disk.uuid, diskText(disk) +
      (other ? `, the host of member ${other.position}` : "")]));
  const force = forceBox();
  const name = `member ${member.position} of ${array}`;
  const dialog = confirmChoice(`Replace ${name}`,
    () => replaceMember(array, member.position, pick.input.value,
                        force.input.checked),
    { label: "Replace it", done: `M${name.slice(1)} is being rebuilt.`,
      parts: [el("p", {}, `Now: ${member.path} on ${member.node}, ` +
        `${member.state}${member.reason ? `: ${member.reason}` : ""}`),
        pick.node, force.node], told: force.told });
  pick.input.addEventListener("change", () => {
    force.input.checked = false;
    dialog.ask();
  });
  force.input.addEventListener("change", dialog.ask);
}

// If the loss of one host would lose data, weftd asks for a second confirmation.
export function forceBox() {
  const input = el("input", { type: "checkbox", name: "force" });
  const node = el("label", { class: "choice", hidden: "" }, input,
    "Do it anyway: the loss of one host then loses data.");
  return { input, node, told: ({ code }) => {
    node.hidden = !input.checked && code !== "one-host";
  } };
}

export function spareDialog(disk, model) {
  const pick = choice("For the array", "array",
    model.sorted("array").map((a) => [a.name, a.name]));
  const name = `${disk.path} of ${disk.node}`;
  formDialog(`Keep ${name} as a spare`, "Keep it",
    [pick.node, el("p", { class: "hint" }, "A spare replaces a " +
      "member by itself when the member has been out for some time.")],
    () => addSpare(pick.input.value, disk.uuid),
    { done: `${name} is a spare.` });
}

export function moveDialog(disk, model) {
  const pick = choice("Host that has it now", "node",
    nodesFor(disk, model).map(({ name }) => [name, name]));
  formDialog(`Move ${disk.path} of ${disk.node}`, "Let it serve the disk",
    [el("p", { class: "hint" }, "No other host may serve a disk of an array " +
      "by itself, for the one that has it may only be restarting. Say which " +
      "one does when the disk was carried there."), pick.node],
    () => moveDisk(disk, pick.input.value));
}

// Where it could be: its own node takes the word back.
export const nodesFor = (disk, model) => model.sorted("node").filter((node) =>
  node.enrolled && (disk.moves_to || node.name !== disk.node));
