// enroll-dialog.js: a token for a new node, and the one command to run there.

import { secretDialog } from "./action.js";
import { NAME, choice, field } from "./dialog.js";
import { el } from "./dom.js";
import { makeNodeToken } from "./requests.js";
import { commandLine } from "./shell.js";
import { moment } from "./units.js";

const TTLS = [["900", "15 minutes"], ["3600", "an hour"],
              ["86400", "a day"]];

export function enrollDialog() {
  const name = field("Name of the node", "node", NAME,
    "Lower-case letters, digits and '-'. Empty: the host gives its own.");
  const ttl = choice("The token is valid for", "ttl_s", TTLS, "900");
  secretDialog("Enroll a node", "Make the token", [name.node, ttl.node],
    () => makeNodeToken(name.input.value.trim(), Number(ttl.input.value)),
    commandOf);
}

function commandOf(answer) {
  // Other hosts reach weftd by TLS alone, and not by a loopback address.
  const here = location.protocol === "https:";
  const words = ["weft-enroll", "--admin",
                 here ? location.origin : "https://ADDRESS:PORT",
                 "--token-file", "-",
                 "--ca-fingerprint", answer.ca_fingerprint];
  return [
    el("p", {}, "Run this on the new host, as root, with its disks:"),
    commandLine([...words, "--disk", "/dev/sdX"].join(" "), "the command"),
    el("p", {}, "weft-enroll asks for the token:"),
    commandLine(answer.token, "the token"),
    ...here ? [] : [el("p", { class: "hint" }, "ADDRESS:PORT is where weftd " +
      "listens for other hosts (weftd --listen).")],
    el("p", { class: "hint" }, "The token works once, until " +
      `${moment(answer.expires_at)}, and is not shown again. The disks are ` +
      "formatted after a question that shows what is on them.")];
}
