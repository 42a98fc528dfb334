// action.js: everything that the page lets people do goes this way.
//
// An action is a request {method, path, body, ctl} with a `title`.  A plain one
// is sent at once (act); a dangerous one is asked about first (confirm): weftd's
// preflight says what would be lost, rebuilt and interrupted, and the name must
// be typed.  It does nothing when somebody else has changed the thing since.

import { Intent, call, whyNot } from "./api.js";
import { Dialog, NAME, field } from "./dialog.js";
import { el, say, setAttribute, setText } from "./dom.js";
import { showShell } from "./shell.js";
import { bytes } from "./units.js";

// Returns the answer; null: it was refused, and the page shows why.
export async function act(request, done, send = () =>
  call(request.method, request.path, request.body)) {
  try {
    const answer = await send();
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

// A dialog, opened, that sends request() once its consequences were shown and the name
// was typed.  `parts` are its choices; ask again, by dialog.ask(), when they have
// changed.  `preview`: the effects, if not weftd's preflight; told(answer) gets the
// answer.
export function confirmChoice(title, request,
                              { label = title, done, after, told, parts = [],
                                preview = () => preflight(request()) }) {
  const intent = new Intent();
  const dialog = new Dialog(title, { label, tone: "danger",
    submit: async () => {
      let answer;
      try {
        answer = await intent.send(request());
      } catch (problem) {
        if (problem.code === "changed")
          dialog.ask();
        throw problem;
      }
      say(done ?? `${title}: done.`);
      after?.(answer);
    } });
  const lines = el("div", { role: "status" });
  const typed = el("div");
  const shell = el("div");
  let asked = 0;
  dialog.ask = async () => {
    const mine = ++asked;
    dialog.block("weftd has not said yet what this would do.");
    setText(lines, "Asking what this would do…");
    typed.replaceChildren();
    showShell(shell, request());
    try {
      await intent.look(request());
      const answer = await preview();
      if (mine !== asked)
        return;
      lines.replaceChildren(...preflightLines(answer));
      told?.(answer);
      if (answer.allowed)
        askName(dialog, answer.confirm, typed);
      else
        dialog.block(`weftd would refuse: ${answer.why}`);
    } catch (problem) {
      setText(lines, "");
      dialog.fail(problem);
      dialog.block(problem.message);
    }
  };
  dialog.body.append(...parts, lines, typed, shell);
  dialog.open();
  dialog.ask();
  return dialog;
}

export const confirm = (request, more) =>
  confirmChoice(request.title, () => request, more);

// The same where weftd has no preflight, because the loss is plain: of a login
// or a token.
export const confirmPlain = (request, name, sentence, after) =>
  confirm(request, { after, preview: () =>
    ({ allowed: true, confirm: name, lines: [sentence] }) });

function askName(dialog, name, place) {
  const { node, input } = field(`Type ${name} to go on`, "confirm", NAME);
  const look = () => dialog.block(input.value.trim() === name
    ? null : `Type ${name} first.`);
  input.addEventListener("input", look);
  look();
  place.replaceChildren(node);
  // A user who is choosing something goes on with that.
  if (!dialog.body.contains(document.activeElement))
    input.focus();
}

// A dialog, opened, that sends request(), made of what is entered in `parts`.  preview():
// is enough entered to ask weftd's preflight, whose sentences are shown while it is?
export function formDialog(title, label, parts, request,
                           { done, after, preview } = {}) {
  const intent = new Intent();
  const looked = intent.look(request());
  looked.catch((problem) => dialog.fail(problem));
  const dialog = new Dialog(title, { label, submit: async () => {
    await looked;
    const what = request();
    const answer = await intent.send(what);
    say(done ?? `${what.title}: done.`);
    after?.(answer);
  } });
  fill(dialog, parts, request);
  dialog.block(firstReason());
  if (preview && !firstReason())
    showEffects(dialog, request, preview);
  return dialog.open();
}

const TYPING_MS = 300;

// weftd's sentences about request(), anew when something was entered.
function showEffects(dialog, request, ready) {
  const lines = el("div", { role: "status" });
  dialog.body.lastElementChild.before(lines);
  let timer, asked = 0;
  const ask = async () => {
    const mine = asked;
    try {
      const answer = await preflight(request());
      if (mine !== asked)
        return;
      lines.replaceChildren(...preflightLines(answer));
      dialog.block(answer.allowed ? null : `weftd would refuse: ${answer.why}`);
    } catch (problem) {
      if (mine === asked) {
        setText(lines, problem.message);
        dialog.block(problem.message);
      }
    }
  };
  const look = () => {
    asked++;
    clearTimeout(timer);
    setText(lines, "");
    setText(dialog.error, "");
    dialog.block(ready() ? "weftd has not said yet what this would do."
                         : "Fill in the fields first.");
    if (ready())
      timer = setTimeout(ask, TYPING_MS);
  };
  dialog.body.addEventListener("input", look);
  look();
}

// The same where a secret is made: shown(answer) is seen this once.
export function secretDialog(title, label, parts, request, shown) {
  const dialog = new Dialog(title, { label, wide: true, submit: async () => {
    const { method, path, body } = request();
    dialog.body.replaceChildren(...shown(await call(method, path, body)));
    dialog.button.remove();
    setText(dialog.cancel, "Done");
    dialog.cancel.focus();
    return false;
  } });
  fill(dialog, parts, request);
  dialog.open();
}

// The fields to fill in, and below them the same from a shell.
function fill(dialog, parts, request) {
  const shell = el("div");
  const look = () => showShell(shell, request());
  dialog.body.append(...parts, shell);
  dialog.body.addEventListener("input", look);
  look();
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

// A column for Table: the actions of a line.  Each of `actions` has a label and
// press(item); shown(item) and why(item), a reason or nothing, where it is not
// always there and ready.
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
        const visible = !shown || Boolean(shown(item));
        cell.children[i].hidden = !visible;
        if (visible)
          updateButton(cell.children[i], firstReason(why?.(item)));
      });
      setAttribute(cell, "data-none",
        [...cell.children].every((b) => b.hidden) ? "" : null);
    },
  };
}
