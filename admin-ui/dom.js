// dom.js: the few ways in which this page touches the document.
//
// Text from weftd is data: it becomes text nodes and, for the attributes named
// in el(), attribute values.  Nothing here parses markup, so a name that looks
// like HTML is shown as it is.

import { NONE } from "./units.js";

const NOTICES_MAX = 4;
const NOTICE_MS = 8000;

// An element; children are nodes or strings.
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes))
    if (value !== null && value !== undefined)
      node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// A part of the page under its heading; returns what it holds.
export function section(id, title) {
  const list = el("div", { id: `${id}-list` });
  document.querySelector("main").append(
    el("section", { id, "aria-labelledby": `${id}-title`,
      // A user who skips the top of the page gets the focus here.
      tabindex: document.querySelector(`[href="#${id}"]`) ? "-1" : null },
      el("h2", { id: `${id}-title`, class: "h5" }, title), list));
  return list;
}

// Change only differences: an unchanged text keeps the reader's selection and is not read
// out again.
export function setText(node, text) {
  if (node.textContent !== text)
    node.textContent = text;
}

export function setAttribute(node, name, value) {
  if (value === null || value === undefined)
    node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value))
    node.setAttribute(name, value);
}

// Keep the children of `parent` in step with `items`: one child an item, known
// by its key, made by make(item), brought up to date by update(child, item).
// Children that stay are not touched, so focus and scrolling stay.
export function keyed(parent, items, key, make, update) {
  const old = new Map();
  for (const child of parent.children)
    old.set(child.dataset.key, child);
  let at = parent.firstElementChild;
  for (const item of items) {
    const k = String(key(item));
    let child = old.get(k);
    if (child) {
      old.delete(k);
    } else {
      child = make(item);
      child.dataset.key = k;
    }
    if (child === at)
      at = at.nextElementSibling;
    else
      parent.insertBefore(child, at);
    update(child, item);
  }
  for (const child of old.values())
    child.remove();
}

// A table that becomes a list of cards on a narrow screen (weft.css), so every
// cell repeats its column's title, and the roles are spelled out because
// `display: block` takes them away.
export class Table {
  // columns: [{title, number, head, fill(cell, item)}]
  constructor(parent, label, columns, key, empty) {
    this.columns = columns;
    this.key = key;
    this.body = el("tbody", { role: "rowgroup" });
    const titles = columns.map((c) =>
      el("th", { role: "columnheader", scope: "col",
                 class: c.number ? "text-end" : null }, c.title));
    this.table = el("table", { class: "table table-sm cards", role: "table",
                               "aria-label": label },
      el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, ...titles)),
      this.body);
    this.empty = el("p", { class: "quiet" }, empty);
    this.table.hidden = this.empty.hidden = true; // until it is known
    parent.append(this.table, this.empty);
  }

  show(items, decorate) {
    this.table.hidden = items.length === 0;
    this.empty.hidden = items.length !== 0;
    keyed(this.body, items, this.key,
      () => el("tr", { role: "row" }, ...this.columns.map((c) =>
        el(c.head ? "th" : "td",
           { role: c.head ? "rowheader" : "cell", scope: c.head ? "row" : null,
             "data-title": c.title, class: c.number ? "text-end" : null }))),
      (row, item) => {
        this.columns.forEach((c, i) => c.fill(row.children[i], item));
        decorate?.(row, item);
      });
  }
}

// A word in a coloured frame within `node`; `tone` is ok, warning, error or
// quiet.
export function badge(node, word, tone) {
  let b = node.querySelector(":scope > .state");
  if (!b) {
    b = el("span", { class: "state" });
    node.prepend(b);
  }
  setText(b, word);
  setAttribute(b, "data-tone", tone);
}

// Columns for Table: a word, and a figure that goes grey when the stream is
// lost and is left out on a phone when there is none.
export const word = (title, text, head) => ({
  title, head, fill: (cell, item) => setText(cell, text(item)),
});

export const figure = (title, text) => ({
  title, number: true,
  fill(cell, item) {
    const value = text(item);
    cell.classList.add("live");
    setText(cell, value);
    setAttribute(cell, "data-none", value === NONE ? "" : null);
  },
});

// A column of states: of(item) is its word, its tone, and why it is so.
export const state = (title, of) => ({
  title,
  fill(cell, item) {
    const [text, tone, why] = of(item);
    if (cell.children.length === 0)
      cell.append(el("span", { class: "state" }), el("span", { class: "why" }));
    cell.classList.add("live");
    badge(cell, text, tone);
    setText(cell.lastElementChild, why ?? "");
  },
});

// A sentence about what was just done, for the eye and the screen reader; it
// goes by itself, an error only when it is closed.
export function say(text, tone = "quiet") {
  const box = document.getElementById("notices");
  // Everything outside of an open dialog is inert.
  (document.querySelector("dialog[open]") ?? document.body).append(box);
  const close = el("button", { type: "button", class: "btn btn-sm btn-plain",
                               "aria-label": "Close this message" }, "✕");
  const note = el("div", { class: "notice", "data-tone": tone,
                           role: tone === "error" ? "alert" : "status" },
    el("span", {}, text), close);
  close.addEventListener("click", () => note.remove());
  box.append(note);
  while (box.children.length > NOTICES_MAX)
    box.firstElementChild.remove();
  if (tone !== "error")
    setTimeout(() => note.remove(), NOTICE_MS);
}
