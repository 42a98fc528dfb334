// disk-dialogs.js: a disk for a member's place, and an array for a spare.

import { call, newKey } from "./api.js";
import { preflight, preflightLines } from "./action.js";
import { Dialog, choice, field } from "./dialog.js";
import { el, say, setText } from "./dom.js";
import { addSpare, replaceMember } from "./requests.js";
import { shellOf } from "./shell.js";
import { isFree } from "./states.js";
import { bytes } from "./units.js";

const diskText = (disk) => `${disk.path} on ${disk.node}, ` +
  bytes(disk.size) + (disk.spare_of ? `, spare of ${disk.spare_of}` : "");

// Ask weftd about what is chosen, each time it changes.
function watch(dialog, lines, shell, request, allowed) {
  let asked = 0;
  return async () => {
    const mine = ++asked;
    dialog.block("weftd has not said yet what this would do.");
    shell.replaceChildren(shellOf(request()));
    try {
      const answer = await preflight(request());
      if (mine !== asked)
        return;
      lines.replaceChildren(...preflightLines(answer));
      dialog.block(answer.allowed ? null
                                  : `weftd would refuse: ${answer.why}`);
      if (answer.allowed)
        allowed(answer);
    } catch (problem) {
      setText(lines, "");
      dialog.block(problem.message);
      dialog.fail(problem);
    }
  };
}

export function replaceDialog(array, member, model) {
  const disks = model.sorted("disk").filter(isFree);
  const pick = choice("With the disk", "disk",
    disks.map((disk) => [disk.uuid, diskText(disk)]));
  const { node: typed, input } = field("", "confirm",
    { autocomplete: "off", autocapitalize: "off", spellcheck: "false" });
  const lines = el("div", { role: "status" });
  const shell = el("div");
  const request = () =>
    replaceMember(array, member.position, pick.input.value);
  const key = newKey();
  const dialog = new Dialog(`Replace member ${member.position} of ${array}`, {
    label: "Replace it", tone: "danger",
    submit: async () => {
      const { method, path, body } = request();
      await call(method, path, body, key + pick.input.value.slice(0, 8));
      say(`Member ${member.position} of ${array} is being rebuilt.`);
    } });
  const look = watch(dialog, lines, shell, request, (answer) => {
    typed.hidden = false;
    setText(typed.querySelector("label"),
            `Type ${answer.confirm} to go on`);
    const check = () => dialog.block(
      input.value.trim() === answer.confirm ? null
                                            : `Type ${answer.confirm} first.`);
    input.oninput = check;
    check();
  });
  typed.hidden = true;
  pick.input.addEventListener("change", look);
  dialog.body.append(el("p", {}, `Now: ${member.path} on ${member.node}, ` +
    `${member.state}${member.reason ? `: ${member.reason}` : ""}`),
    pick.node, lines, typed, shell);
  dialog.open();
  look();
}

export function spareDialog(disk, model) {
  const pick = choice("For the array", "array",
    model.sorted("array").map((a) => [a.name, a.name]));
  const shell = el("div");
  const request = () => addSpare(pick.input.value, disk.uuid);
  const look = () => shell.replaceChildren(shellOf(request()));
  const dialog = new Dialog(`Keep ${disk.path} of ${disk.node} as a spare`, {
    label: "Keep it", submit: async () => {
      const { method, path, body } = request();
      await call(method, path, body);
      say(`${disk.path} of ${disk.node} is a spare of ${pick.input.value}.`);
    } });
  pick.input.addEventListener("change", look);
  look();
  dialog.body.append(pick.node, el("p", { class: "hint" },
    "It takes the place of a member by itself when that one has been out for " +
    "some time."), shell);
  dialog.open();
}
