// action.js: everything that the page lets people do goes this way.
//
// An action is a request {method, path, body, ctl} with a `title`.  A plain one
// is sent at once (act); a dangerous one is asked about first (confirm): weftd's
// preflight says what would be lost, rebuilt and interrupted, and the name must
// be typed.

import { call, newKey, whyNot } from "./api.js";
import { Dialog, field } from "./dialog.js";
import { el, say, setAttribute, setText } from "./dom.js";
import { shellOf } from "./shell.js";
import { bytes } from "./units.js";

export async function act(request, done) {
  try {
    const answer = await call(request.method, request.path, request.body);
    say(done ?? `${request.title}: done.`);
    return answer;
  } catch (problem) {
    say(problem.message, "error");
    return null;
  }
}

// ---- What the preflight says. ----

const withDryRun = (path) =>
  `${path}${path.includes("?") ? "&" : "?"}dry_run=true`;

export const preflight = (request) =>
  call(request.method, withDryRun(request.path), request.body);

const FIGURES = [
  ["lost_bytes", "Lost for good", "error"],
  ["unreachable_bytes", "Unreachable for the time", "error"],
  ["exposed_bytes", "With one copy less for the time", "warning"],
  ["rebuild_bytes", "To be rebuilt", "quiet"],
];

export function preflightLines(answer) {
  const nodes = [];
  if (!answer.allowed)
    nodes.push(el("p", { class: "problem" },
                  `weftd would refuse: ${answer.why}`));
  if (answer.lines.length > 0)
    nodes.push(el("ul", { class: "lines" },
      ...answer.lines.map((line) => el("li", {}, line))));
  const figures = FIGURES.filter(([key]) => answer[key] > 0);
  if (figures.length > 0)
    nodes.push(el("dl", { class: "figures" }, ...figures.map(
      ([key, title, tone]) => el("div", { "data-tone": tone },
        el("dt", {}, title), el("dd", {}, bytes(answer[key]))))));
  return nodes;
}

// Returns the dialog, opened.
export function confirm(request, { label, done, after } = {}) {
  const key = newKey();
  const dialog = new Dialog(request.title, {
    label: label ?? request.title, tone: "danger",
    submit: async () => {
      const answer = await call(request.method, request.path, request.body,
                                key);
      say(done ?? `${request.title}: done.`);
      after?.(answer);
    },
  });
  const lines = el("div", { role: "status" }, "Asking what this would do…");
  dialog.body.append(lines, shellOf(request));
  dialog.block("weftd has not said yet what this would do.");
  dialog.open();
  preflight(request).then((answer) => {
    lines.replaceChildren(...preflightLines(answer));
    if (!answer.allowed) {
      dialog.block(`weftd would refuse: ${answer.why}`);
      return;
    }
    askName(dialog, answer.confirm, lines);
  }, (problem) => {
    setText(lines, "");
    dialog.fail(problem);
    dialog.block(problem.message);
  });
  return dialog;
}

// The same where weftd has no preflight, because the loss is plain: of a login
// or a token.
export function confirmPlain(request, name, sentence, after) {
  const dialog = new Dialog(request.title, { label: request.title,
    tone: "danger", submit: async () => {
      await call(request.method, request.path, request.body);
      say(`${request.title}: done.`);
      after();
    } });
  const line = el("p", {}, sentence);
  dialog.body.append(line, shellOf(request));
  dialog.open();
  askName(dialog, name, line);
}

function askName(dialog, name, lines) {
  const { node, input } = field(`Type ${name} to go on`, "confirm",
    { autocomplete: "off", autocapitalize: "off", spellcheck: "false" });
  const look = () => dialog.block(input.value.trim() === name
    ? null : `Type ${name} first.`);
  input.addEventListener("input", look);
  look();
  lines.after(node);
  input.focus();
}

// ---- Buttons. ----

// A button that says why it does nothing: `why` in updateButton.  It stays in
// the tab order, and tells the reason when pressed: a phone shows no titles.
export function button(label, press, tone = "plain") {
  const node = el("button", { type: "button",
                              class: `btn btn-sm btn-${tone}` }, label);
  node.addEventListener("click", () => {
    if (node.dataset.why)
      say(node.dataset.why, "warning");
    else
      press();
  });
  return node;
}

export function updateButton(node, why) {
  setAttribute(node, "aria-disabled", why ? "true" : null);
  setAttribute(node, "title", why || null);
  setAttribute(node, "data-why", why || null);
}

// The first reason of several; the caller's role counts first.
export const firstReason = (...reasons) =>
  whyNot() ?? reasons.find((reason) => reason) ?? null;

// A column for Table: the actions of a line.  Each of `actions` has a label,
// shown(item), why(item) (a reason, or nothing) and press(item).
export function buttons(actions) {
  return {
    title: "Actions",
    fill(cell, item) {
      cell.item = item;
      if (cell.children.length === 0) {
        cell.classList.add("buttons");
        cell.append(...actions.map(({ label, press }) =>
          button(label, () => press(cell.item))));
      }
      actions.forEach(({ shown, why }, i) => {
        const visible = Boolean(shown(item));
        cell.children[i].hidden = !visible;
        if (visible)
          updateButton(cell.children[i], firstReason(why(item)));
      });
      setAttribute(cell, "data-none",
        [...cell.children].every((b) => b.hidden) ? "" : null);
    },
  };
}
