// login.js: the login page. With a one-time URL from weftd (#setup=TOKEN) it makes the
// first user.

import { caller, logIn, whoAmI } from "./api.js";
import { NAME, field } from "./dialog.js";
import { el, setText } from "./dom.js";

const PASSWORD_MIN = 12;

const parent = document.getElementById("login");
const token = new URLSearchParams(location.hash.slice(1)).get("setup");

const user = field("Name", "user", { ...NAME, autocomplete: "username",
                                     required: "" });

function form(title, fields, label, submit, ...more) {
  const error = el("p", { class: "problem", role: "alert" });
  const send = el("button", { type: "submit", class: "btn btn-primary" },
                  label);
  const node = el("form", { novalidate: "" },
    el("h2", { class: "h5" }, title), ...more, ...fields, error, send);
  node.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (send.disabled)
      return;
    send.disabled = true;
    setText(error, "");
    try {
      await submit();
      location.replace("/");
    } catch (problem) {
      setText(error, problem.message);
      send.disabled = false;
    }
  });
  parent.append(node);
  user.input.focus();
}

function loginForm() {
  const password = field("Password", "password", { type: "password",
    autocomplete: "current-password", required: "" });
  const code = field("Code", "code", { inputmode: "numeric",
    autocomplete: "one-time-code", maxlength: "6" },
    "The six digits that your app shows for Weft now.");
  code.node.hidden = true;
  form("Log in", [user.node, password.node, code.node], "Log in", async () => {
    const given = code.input.value.trim();
    try {
      await logIn("/login", { user: user.input.value.trim(),
                              password: password.input.value,
                              ...given ? { code: given } : {} });
    } catch (problem) {
      if (problem.code === "code-required") {
        code.node.hidden = false;
        code.input.focus();
      }
      throw problem;
    }
  });
}

function setupForm() {
  const attributes = { type: "password", autocomplete: "new-password",
                       required: "" };
  const password = field("Password", "password", attributes,
                         `At least ${PASSWORD_MIN} characters.`);
  const again = field("The password again", "again", attributes);
  form("The first administrator", [user.node, password.node, again.node],
    "Make this login", async () => {
      if (password.input.value !== again.input.value)
        throw new Error("The two passwords differ.");
      await logIn("/setup", { token, user: user.input.value.trim(),
                              password: password.input.value });
    }, el("p", {}, "This one-time page makes the first login of this weftd."));
}

function noSetupUrl() {
  parent.append(el("p", {}, "Nobody has a login yet. When weftd started it " +
    "made a one-time URL that makes the first one: it is in the file setup-url " +
    "of its state directory, which its administrator can read."));
}

try {
  await whoAmI();
  if (caller.role !== null)
    location.replace("/");
  else if (!caller.setup_required)
    loginForm();
  else if (token)
    setupForm();
  else
    noSetupUrl();
} catch (problem) {
  parent.append(el("p", { class: "problem", role: "alert" }, problem.message));
}
