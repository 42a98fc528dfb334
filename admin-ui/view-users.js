// view-users.js: who may log in.

import { button, buttons, confirmPlain, firstReason, updateButton }
  from "./action.js";
import { call, caller, get } from "./api.js";
import { Dialog, choice, field } from "./dialog.js";
import { Table, el, say, setText, word } from "./dom.js";
import { addUser, changeUser, removeUser } from "./requests.js";
import { shellOf } from "./shell.js";
import { moment } from "./units.js";

export const ROLES = [["viewer", "viewer: sees everything"],
                      ["admin", "admin: does everything"]];

export class UsersView {
  constructor(parent, changed) {
    this.changed = changed;
    const again = () => this.again();
    this.table = new Table(parent, "Users", [
      word("Name", (user) => user.name, true),
      word("Role", (user) => user.role),
      word("Logins open", (user) => String(user.logins)),
      word("Since", (user) => moment(user.created_at)),
      buttons([
        { label: "Role…", shown: () => true, why: (user) =>
            user.name === caller.user && "This is you; ask another admin.",
          press: (user) => roleDialog(user, again) },
        { label: "Password…", shown: () => true, why: (user) =>
            user.name === caller.user && "Yours is changed in the menu above.",
          press: (user) => passwordDialog(user, again) },
        { label: "Remove…", shown: () => true, why: (user) =>
            user.name === caller.user && "This is you; ask another admin.",
          press: (user) => confirmPlain(removeUser(user.name), user.name,
            "The login ends at once, everywhere.", again) },
      ])], (user) => user.name, "Nobody has a login.");
    this.problem = el("p", { class: "quiet" });
    const add = button("Add a user…", () => addDialog(again), "primary");
    updateButton(add, firstReason());
    parent.append(this.problem, add);
  }

  again() {
    this.ask();
    this.changed();
  }

  async ask() {
    try {
      this.table.show((await get("/users")).users);
      setText(this.problem, "");
    } catch (problem) {
      this.table.show([]);
      this.table.empty.hidden = true;
      setText(this.problem, problem.message);
    }
  }
}

const PASSWORD = { type: "password", autocomplete: "new-password" };

function formDialog(title, label, fields, request, done) {
  const dialog = new Dialog(title, { label, submit: async () => {
    const { method, path, body } = request();
    await call(method, path, body);
    say(`${title}: done.`);
    done();
  } });
  const shell = el("div");
  // A password belongs in no command line: weftctl asks for it.
  const look = () => {
    const { body, ...rest } = request();
    shell.replaceChildren(shellOf({ ...rest, body: body.password === undefined
      ? body : { ...body, password: "…" } }));
  };
  dialog.body.append(...fields, shell);
  dialog.body.addEventListener("input", look);
  look();
  dialog.open();
}

function addDialog(done) {
  const name = field("Name", "name", { autocomplete: "username",
    autocapitalize: "off", spellcheck: "false" });
  const role = choice("Role", "role", ROLES, "viewer");
  const password = field("Password", "password", PASSWORD);
  formDialog("Add a user", "Add", [name.node, role.node, password.node], () =>
    addUser(name.input.value.trim(), role.input.value, password.input.value),
    done);
}

function roleDialog(user, done) {
  const role = choice("Role", "role", ROLES, user.role);
  formDialog(`Role of ${user.name}`, "Change it", [role.node], () =>
    changeUser(user.name, { role: role.input.value }), done);
}

function passwordDialog(user, done) {
  const password = field("New password", "password", PASSWORD);
  // For password managers.
  const name = el("input", { autocomplete: "username", value: user.name,
                             hidden: "" });
  const ends = el("p", {}, "The user's logins and tokens end.");
  formDialog(`Password of ${user.name}`, "Change it",
    [name, password.node, ends], () =>
    changeUser(user.name, { password: password.input.value }), done);
}
