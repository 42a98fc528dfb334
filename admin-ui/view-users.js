// view-users.js: the users.

import { button, buttons, confirmPlain, firstReason, formDialog, secretDialog,
         updateButton } from "./action.js";
import { caller } from "./api.js";
import { AskedTable } from "./asked-table.js";
import { NAME, choice, field } from "./dialog.js";
import { el, word } from "./dom.js";
import { addUser, changeUser, removeUser, setTotp } from "./requests.js";
import { commandLine } from "./shell.js";
import { moment } from "./units.js";

export const ROLES = [["viewer", "viewer: sees everything"],
                      ["admin", "admin: does everything"]];

export function usersView(parent, changed) {
  const again = () => view.again();
  const others = (user) =>
    user.name === caller.user && "This is you; ask another admin.";
  const view = new AskedTable(parent, { at: "/users", list: "users", changed,
    label: "Users", key: (user) => user.name, empty: "Nobody has a login.",
    columns: [
      word("Name", (user) => user.name, true),
      word("Role", (user) => user.role),
      word("Second factor", (user) => user.totp ? "yes" : "no"),
      word("Logins open", (user) => String(user.logins)),
      word("Since", (user) => moment(user.created_at)),
      buttons([
        { label: "Role…", why: others,
          press: (user) => roleDialog(user, again) },
        { label: "Password…", why: (user) =>
            user.name === caller.user && "Yours is changed in the menu above.",
          press: (user) => passwordDialog(user, again) },
        { label: "Second factor…", press: (user) => totpDialog(user, again) },
        { label: "Remove…", why: others,
          press: (user) => confirmPlain(removeUser(user.name), user.name,
            "The login ends at once, everywhere.", again) },
      ])] });
  const add = button("Add a user…", () => addDialog(again), "primary");
  updateButton(add, firstReason());
  parent.append(add);
  return view;
}

const PASSWORD = { type: "password", autocomplete: "new-password" };

function addDialog(after) {
  const name = field("Name", "name", { ...NAME, autocomplete: "username" });
  const role = choice("Role", "role", ROLES, "viewer");
  const password = field("Password", "password", PASSWORD);
  formDialog("Add a user", "Add", [name.node, role.node, password.node], () =>
    addUser(name.input.value.trim(), role.input.value, password.input.value),
    { after });
}

function roleDialog(user, after) {
  const role = choice("Role", "role", ROLES, user.role);
  formDialog(`Role of ${user.name}`, "Change it", [role.node], () =>
    changeUser(user.name, { role: role.input.value }), { after });
}

function passwordDialog(user, after) {
  const password = field("New password", "password", PASSWORD);
  // For password managers.
  const name = el("input", { autocomplete: "username", value: user.name,
                             hidden: "" });
  const ends = el("p", {}, "The user's logins and tokens end.");
  formDialog(`Password of ${user.name}`, "Change it",
    [name, password.node, ends], () =>
    changeUser(user.name, { password: password.input.value }), { after });
}

function totpDialog(user, after) {
  const title = `Second factor of ${user.name}`;
  if (!user.totp) {
    secretDialog(title, "Turn it on",
      [el("p", {}, "Each login will need a code of an app, too.")],
      () => setTotp(user.name, true),
      ({ uri, secret }) => {
        after();
        return [el("p", {}, "Put this into an app for such codes, as the " +
                  "address or by the secret. It is not shown again."),
                commandLine(uri, "the address"),
                commandLine(secret, "the secret")];
      });
    return;
  }
  // Without a code nobody turns off the second factor of the login in use.
  const code = user.name === caller.user
    ? field("The present code", "code", { inputmode: "numeric",
                                          autocomplete: "one-time-code" })
    : null;
  formDialog(title, "Turn it off",
    [el("p", {}, "The password alone will do."), ...code ? [code.node] : []],
    () => setTotp(user.name, false, code?.input.value.trim()), { after });
}
