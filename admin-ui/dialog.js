// dialog.js: the one place for dialogs: an HTML <dialog>, which keeps the focus
// within and gives it back to where it was.

import { el, setText } from "./dom.js";

let count = 0;

export class Dialog {
  // `submit` is called when the form is sent; a Problem it throws is shown and the dialog
  // stays.  The dialog closes when submit returns anything but false.
  constructor(title, { label = null, tone = "primary", wide = false,
                       submit = null } = {}) {
    const id = `dialog-${++count}`;
    this.submit = submit;
    this.body = el("div", { class: "dialog-body" });
    this.error = el("p", { class: "problem", role: "alert" });
    this.button = label && el("button",
      { type: "submit", class: `btn btn-${tone}` }, label);
    this.cancel = el("button", { type: "button", class: "btn btn-plain" },
                     label ? "Cancel" : "Close");
    this.foot = el("div", { class: "dialog-foot" }, this.cancel,
                   ...this.button ? [this.button] : []);
    this.form = el("form", { novalidate: "" },
      el("h2", { id, class: "h5" }, title), this.body, this.error, this.foot);
    this.node = el("dialog", { "aria-labelledby": id,
                               class: wide ? "wide" : null }, this.form);
    this.cancel.addEventListener("click", () => this.close());
    this.node.addEventListener("close", () => {
      const notices = this.node.querySelector("#notices"); // see say()
      if (notices)
        document.body.append(notices);
      this.node.remove();
    });
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.send();
    });
  }

  open() {
    document.body.append(this.node);
    this.node.showModal();
    (this.body.querySelector("input:not([type=checkbox], [hidden]), select") ??
     this.cancel).focus();
    return this;
  }

  close() {
    this.node.close();
  }

  // Why the main button does nothing; null: it does.
  block(reason) {
    this.blocked = reason;
    if (!this.button)
      return;
    this.button.setAttribute("aria-disabled", String(reason !== null));
    this.button.title = reason ?? "";
  }

  fail(problem) {
    const field = problem.field &&
      this.form.querySelector(`[name="${CSS.escape(problem.field)}"]`);
    setText(this.error, problem.message);
    field?.setAttribute("aria-invalid", "true");
    field?.focus();
  }

  async send() {
    if (this.busy || !this.submit)
      return;
    if (this.blocked) {
      setText(this.error, this.blocked);
      return;
    }
    this.busy = true;
    setText(this.error, "");
    for (const input of this.form.querySelectorAll("[aria-invalid]"))
      input.removeAttribute("aria-invalid");
    this.button?.setAttribute("aria-busy", "true");
    try {
      if (await this.submit() !== false)
        this.close();
    } catch (problem) {
      this.fail(problem);
    } finally {
      this.busy = false;
      this.button?.removeAttribute("aria-busy");
    }
  }
}

// For a field with a name, which is no word of a language.
export const NAME = { autocomplete: "off", autocapitalize: "off",
                      spellcheck: "false" };

// A labelled input: field("Name", "name", {type: "text"}, hint).
export function field(label, name, attributes = {}, hint = null) {
  const id = `field-${++count}`;
  const input = el("input", { id, name, class: "form-control",
    "aria-describedby": hint ? `${id}-hint` : null, ...attributes });
  const node = el("div", { class: "field" },
    el("label", { for: id }, label), input,
    ...hint ? [el("p", { id: `${id}-hint`, class: "hint" }, hint)] : []);
  return { node, input };
}

// choice("Role", "role", [["viewer", "viewer: may look"], ...])
export function choice(label, name, options, value) {
  const id = `field-${++count}`;
  const input = el("select", { id, name, class: "form-control" },
    ...options.map(([v, text]) => el("option",
      { value: v, selected: v === value ? "" : null }, text)));
  return { input, node: el("div", { class: "field" },
    el("label", { for: id }, label), input) };
}
