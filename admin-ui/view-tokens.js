// view-tokens.js: bearer tokens, for scripts.

import { button, buttons, confirmPlain, firstReason, secretDialog,
         updateButton } from "./action.js";
import { AskedTable } from "./asked-table.js";
import { NAME, choice, field } from "./dialog.js";
import { el, word } from "./dom.js";
import { makeToken, removeToken } from "./requests.js";
import { commandLine } from "./shell.js";
import { moment } from "./units.js";
import { ROLES } from "./view-users.js";

const DAY = 86400;
const ENDS = [[String(30 * DAY), "30 days"], [String(365 * DAY), "a year"],
              ["", "never"]];

export function tokensView(parent, changed) {
  const again = () => view.again();
  const view = new AskedTable(parent, { at: "/tokens", list: "tokens", changed,
    label: "Tokens", key: (token) => token.name, empty: "There is no token.",
    columns: [
      word("Name", (token) => token.name, true),
      word("Role", (token) => token.role),
      word("Until", (token) => token.expires_at ? moment(token.expires_at)
                                                : "it is revoked"),
      word("Made by", (token) => token.created_by ?? "–"),
      word("Last used", (token) => moment(token.used_at)),
      buttons([{ label: "Revoke…", press: (token) =>
        confirmPlain(removeToken(token.name), token.name,
                     "Scripts that use it are refused at once.", again) }]),
    ] });
  const add = button("Make a token…", () => makeDialog(again), "primary");
  updateButton(add, firstReason());
  parent.append(add);
  return view;
}

function makeDialog(done) {
  const name = field("Name", "name", NAME);
  const role = choice("Role", "role", ROLES, "viewer");
  const ends = choice("Valid for", "expires_s", ENDS, ENDS[0][0]);
  secretDialog("Make a token", "Make it", [name.node, role.node, ends.node],
    () => makeToken(name.input.value.trim(), role.input.value,
                    Number(ends.input.value)),
    ({ token }) => {
      done();
      return [el("p", {}, "This is the token. It is not shown again."),
              commandLine(token, "the token")];
    });
}
