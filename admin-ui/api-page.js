// api-page.js: shows the API's description (/api/v1/openapi.json), an operation a fold.
// It needs no internet.

import { get, whoAmI } from "./api.js";
import { field } from "./dialog.js";
import { el, say, setText } from "./dom.js";
import { Schemas } from "./schema.js";
import { asCurl, commandLine } from "./shell.js";
import { fillTop } from "./top.js";

const METHODS = ["get", "post", "put", "patch", "delete"];

// OpenAPI's texts are CommonMark; words marked as code are shown as code, the rest as it
// is.
const marked = (text) => String(text).split("`").map((part, i) =>
  i % 2 ? el("code", {}, part) : part);

const prose = (text) => el("p", {}, ...marked(text));

function parameters(list, schemas) {
  return [el("h4", { class: "h6" }, "Parameters"),
    el("ul", { class: "schema" }, ...list.map((p) => el("li", {},
      el("strong", {}, p.name), ` in the ${p.in}`,
      p.required ? "" : ", optional", p.description ? `: ${p.description} ` : " ",
      schemas.type(p.schema))))];
}

function content(body, schemas) {
  return Object.entries(body.content ?? {}).flatMap(([type, { schema }]) =>
    [el("p", { class: "hint" }, type),
     ...schema ? [schemas.tree(schema)] : []]);
}

function responses(all, schemas) {
  return [el("h4", { class: "h6" }, "Answers"),
    ...Object.entries(all).map(([status, answer]) => {
      const { description, ...more } = schemas.follow(answer);
      const inner = content(more, schemas);
      const title = [el("strong", {}, status), " ",
                     ...marked(description ?? "")];
      return inner.length === 0 ? el("p", {}, ...title)
        : el("details", {}, el("summary", {}, ...title), ...inner);
    })];
}

function example(method, path, operation, schemas) {
  const body = operation.requestBody &&
    schemas.example(schemas.follow(operation.requestBody)
      .content?.["application/json"]?.schema);
  return commandLine(asCurl({ method, body,
                              path: path.replace(/^\/api\/v1/, "") }), "as curl");
}

function inside(method, path, operation, shared, schemas) {
  const list = [...shared, ...operation.parameters ?? []]
    .map((p) => schemas.follow(p));
  const body = operation.requestBody && schemas.follow(operation.requestBody);
  return [
    ...operation.description ? [prose(operation.description)] : [],
    ...list.length > 0 ? parameters(list, schemas) : [],
    ...body ? [el("h4", { class: "h6" }, "Body"), ...content(body, schemas)]
            : [],
    ...responses(operation.responses ?? {}, schemas),
    example(method, path, operation, schemas),
  ];
}

// Filled when it is opened: there is much of it.
function fold(method, path, operation, shared, schemas) {
  const id = operation.operationId ?? `${method}-${path}`;
  const body = el("div");
  const node = el("details", { class: "operation", id },
    el("summary", {}, el("span", { class: "method" }, method),
       el("code", {}, path), ` ${operation.summary ?? ""}`), body);
  node.addEventListener("toggle", () => {
    if (node.open && body.children.length === 0)
      body.append(...inside(method, path, operation, shared, schemas));
  });
  return node;
}

function draw(document_, parent) {
  const schemas = new Schemas(document_);
  const tags = new Map((document_.tags ?? []).map((t) => [t.name, []]));
  const texts = new Map((document_.tags ?? []).map((t) =>
    [t.name, t.description]));
  for (const [path, item] of Object.entries(document_.paths))
    for (const method of METHODS.filter((m) => item[m])) {
      const tag = item[method].tags?.[0] ?? "other";
      if (!tags.has(tag))
        tags.set(tag, []);
      tags.get(tag).push(fold(method.toUpperCase(), path, item[method],
                              item.parameters ?? [], schemas));
    }
  for (const [tag, folds] of tags)
    if (folds.length > 0)
      parent.append(el("section", {}, el("h3", { class: "h6" }, tag),
        ...texts.get(tag) ? [prose(texts.get(tag))] : [], ...folds));
}

function filterOf(parent) {
  const filter = field("Show only", "filter", { type: "search",
    placeholder: "a word of a path or a summary" });
  filter.input.addEventListener("input", () => {
    const wanted = filter.input.value.trim().toLowerCase();
    for (const section of parent.querySelectorAll("section")) {
      let any = false;
      for (const node of section.querySelectorAll(".operation")) {
        node.hidden = !node.firstElementChild.textContent.toLowerCase()
          .includes(wanted);
        any ||= !node.hidden;
      }
      section.hidden = !any;
    }
  });
  return filter.node;
}

// A link to weftd itself would lack the login's header.
const fileOf = (api) => URL.createObjectURL(
  new Blob([JSON.stringify(api, null, 2)], { type: "application/json" }));

async function show() {
  await whoAmI();
  fillTop();
  const parent = document.getElementById("operations");
  const api = await get("/openapi.json");
  setText(document.getElementById("title"),
          `${api.info.title} ${api.info.version}`);
  document.getElementById("about").append(
    ...api.info.description ? [prose(api.info.description)] : [],
    el("p", {}, el("a", { href: fileOf(api), download: "openapi.json" },
                   "The same as OpenAPI 3.1, for programs")),
    filterOf(parent));
  draw(api, parent);
  const aim = document.getElementById(location.hash.slice(1));
  if (aim?.matches("details")) {
    aim.open = true;
    aim.scrollIntoView();
  }
}

show().catch((problem) => say(problem.message, "error"));
