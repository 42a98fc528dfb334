// top.js: the top of every page: the pages, the user, light or dark.

import { button } from "./action.js";
import { call, caller, logOut, path, toLogin } from "./api.js";
import { Dialog, field } from "./dialog.js";
import { el, say } from "./dom.js";

const PAGES = [["/", "Overview"], ["/access.html", "Users and tokens"],
               ["/api.html", "API"]];
const THEMES = [["auto", "as the system"], ["light", "light"],
                ["dark", "dark"]];

function themeSwitch() {
  const now = globalThis.weftTheme.chosen();
  const select = el("select", { class: "form-control", id: "theme" },
    ...THEMES.map(([value, text]) => el("option",
      { value, selected: value === now ? "" : null }, text)));
  select.addEventListener("change", () =>
    globalThis.weftTheme.choose(select.value));
  return el("div", { class: "field" },
    el("label", { for: "theme" }, "Colours"), select);
}

function passwordDialog() {
  const one = (label, name, autocomplete) =>
    field(label, name, { type: "password", autocomplete });
  const current = one("The password as it is now", "current",
                      "current-password");
  const password = one("The new one", "password", "new-password");
  const again = one("The new one again", "again", "new-password");
  const dialog = new Dialog("Your password", { label: "Change it",
    submit: async () => {
      if (password.input.value !== again.input.value)
        throw new Error("The two new passwords differ.");
      await call("PATCH", path`/users/${caller.user}`,
        { current: current.input.value, password: password.input.value });
      say("Your password is changed; your other logins have ended, your "
          + "tokens stay.");
    } });
  // For password managers.
  const user = el("input", { name: "user", autocomplete: "username",
                             value: caller.user, hidden: "" });
  dialog.body.append(user, current.node, password.node, again.node);
  dialog.open();
}

async function leave() {
  try {
    await logOut();
    toLogin();
  } catch (problem) {
    say(problem.message, "error");
  }
}

function userMenu() {
  const via = { none: "without a login", login: "logged in",
                token: "by a token", certificate: "by a certificate" };
  const items = [el("p", {}, `${caller.user ?? "anybody"}, ` +
    `${caller.role}, ${via[caller.via] ?? ""}`), themeSwitch()];
  if (caller.via === "login") {
    const change = button("Password…", passwordDialog);
    items.push(el("p", { class: "buttons" }, change,
                  button("Log out", leave)));
  }
  const menu = el("details", { class: "menu" },
    el("summary", {}, caller.user ?? "Menu"),
    el("div", { class: "menu-body" }, ...items));
  addEventListener("click", (event) => {
    if (!menu.contains(event.target))
      menu.open = false;
  });
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open)
      return;
    menu.open = false;
    menu.firstElementChild.focus();
  });
  return menu;
}

// Once it is known who calls.
export function fillTop() {
  const nav = el("nav", { "aria-label": "Pages" },
    ...PAGES.map(([href, text]) => el("a", { href,
      "aria-current": href === location.pathname ? "page" : null }, text)));
  document.getElementById("top").append(nav, userMenu());
  if (caller.via === "none")
    document.getElementById("banner").append(el("p", { class: "banner",
      "data-tone": "warning" }, "This weftd runs with --no-login: everybody who can " +
      "connect to it may do everything."));
  if (caller.role === "viewer")
    document.getElementById("banner").append(el("p", { class: "banner",
      "data-tone": "quiet" }, "Your role is viewer: you see everything and " +
      "change nothing."));
}
