// import-dialog.js: an array that this weftd does not know, taken over from its
// members alone.

import { button, confirm, formDialog } from "./action.js";
import { get } from "./api.js";
import { Dialog, NAME, choice, field } from "./dialog.js";
import { el } from "./dom.js";
import { importArray } from "./requests.js";
import { bytes } from "./units.js";

const NONE = "There is nothing to import: no disk of an unknown " +
  "array has contacted this weftd. Start the members' processes with the address of " +
  "this weftd; their array is then listed here.";

const textOf = ({ array, layout, n, groups, unit }) => `${array}: ${layout} ` +
  `over ${n * groups} members, stripe unit ${bytes(unit)}`;

function memberText(known, position) {
  const member = known.members.find((m) => m.position === position);
  return member
    ? `${position}: ${member.path} on ${member.node}, ${member.state} as of ` +
      `epoch ${member.states_epoch}, round ${member.round}`
    : `${position}: was not heard`;
}

export async function importDialog() {
  const dialog = new Dialog("Import an array");
  const said = el("p", { role: "status" }, "Asking which could be…");
  dialog.body.append(said);
  dialog.open();
  try {
    const { imports } = await get("/imports");
    if (imports.length > 0) {
      dialog.close();
      chooseDialog(imports);
    } else {
      said.replaceChildren(NONE);
    }
  } catch (problem) {
    said.replaceChildren();
    dialog.fail(problem);
  }
}

function chooseDialog(imports) {
  const name = field("Its name here", "name", NAME,
    "Lower-case letters, digits and '-'.");
  const pick = choice("Array", "array",
    imports.map((known) => [known.array, textOf(known)]));
  const legend = el("legend", {}, "Members to give up");
  const boxes = el("fieldset", { class: "choices" }, legend);
  const doubts = el("ul", { class: "lines" });
  const show = () => {
    const known = imports.find((k) => k.array === pick.input.value);
    boxes.replaceChildren(legend, ...Array.from(
      { length: known.n * known.groups }, (_, position) => el("label", {},
        el("input", { type: "checkbox", value: position }),
        memberText(known, position))));
    doubts.replaceChildren(...known.doubts.map((text) => el("li", {}, text)));
  };
  pick.input.addEventListener("input", show);
  show();
  const request = (acceptLoss) =>
    importArray(name.input.value.trim(), pick.input.value,
      [...boxes.querySelectorAll("input:checked")]
        .map((box) => Number(box.value)), acceptLoss);
  const done = "The array is taken over.";
  const dialog = formDialog("Import an array", "Import it",
    [pick.node, name.node, boxes, doubts,
     el("p", { class: "hint" }, "A member that was not heard is waited for, or " +
      "given up, if nothing is lost with it; a disk takes its place later."),
     button("Accept a loss…", () => {
       dialog.close();
       confirm(request(true), { label: "Import it", done });
     }, "danger")],
    () => request(false), { done });
}
