// schema.js: a JSON schema of OpenAPI as a list to read, and as an example.

import { el } from "./dom.js";

const DEPTH_MAX = 8;

export class Schemas {
  constructor(root) {
    this.root = root;
  }

  // The target of a $ref; anything else is itself.
  follow(node) {
    let found = node;
    for (let i = 0; found?.$ref && i < DEPTH_MAX; i++)
      found = found.$ref.slice(2).split("/").reduce((at, part) =>
        at?.[part.replaceAll("~1", "/").replaceAll("~0", "~")], this.root);
    return found ?? {};
  }

  // In a few words: "integer, 0 to 127".
  words(schema) {
    const s = this.follow(schema);
    const any = s.anyOf ?? s.oneOf ?? s.allOf;
    if (any)
      return any.map((one) => this.words(one)).join(s.allOf ? " and " : " or ");
    if (s.const !== undefined)
      return JSON.stringify(s.const);
    if (s.enum)
      return s.enum.map((v) => JSON.stringify(v)).join(", ");
    const type = [s.type ?? "anything"].flat().join(" or ");
    const parts = [s.items ? `${type} of ${this.words(s.items)}` : type];
    if (s.minimum !== undefined || s.maximum !== undefined)
      parts.push(`${s.minimum ?? ""} to ${s.maximum ?? "any"}`);
    if (s.pattern)
      parts.push(s.pattern);
    if (s.format)
      parts.push(s.format);
    return parts.join(", ");
  }

  type(schema) {
    return el("span", { class: "type" }, this.words(schema));
  }

  // The schema that has the properties, behind lists and alternatives.
  objectOf(schema) {
    const s = this.follow(schema);
    const within = [s.items, s.additionalProperties, ...s.anyOf ?? [],
                    ...s.oneOf ?? [], ...s.allOf ?? []];
    if (s.properties)
      return s;
    for (const one of within)
      if (one && typeof one === "object") {
        const found = this.objectOf(one);
        if (found)
          return found;
      }
    return null;
  }

  tree(schema, depth = 0) {
    const s = this.objectOf(schema);
    if (!s || depth > DEPTH_MAX)
      return el("p", {}, this.type(schema));
    return el("ul", { class: "schema" },
      ...Object.entries(s.properties).map(([name, property]) => {
        const p = this.follow(property);
        const text = property.description ?? p.description;
        return el("li", {}, el("strong", {}, name),
          s.required?.includes(name) ? " " : " (optional) ",
          this.type(property), text ? `: ${text}` : "",
          ...this.objectOf(p) ? [this.deeper(p, depth)] : []);
      }));
  }

  // Schemas may contain themselves: deeper levels are made when they are opened.
  deeper(schema, depth) {
    const node = el("details", {}, el("summary", {}, "its fields"));
    node.addEventListener("toggle", () => {
      if (node.children.length === 1)
        node.append(this.tree(schema, depth + 1));
    });
    return node;
  }

  // Its required fields with a value of their kind.
  example(schema, depth = 0) {
    const s = this.follow(schema);
    const given = s.example ?? s.examples?.[0] ?? s.default ?? s.const ??
      s.enum?.[0];
    if (given !== undefined || depth > DEPTH_MAX)
      return given ?? null;
    const one = (s.oneOf ?? s.anyOf ?? s.allOf)?.[0];
    if (one)
      return this.example(one, depth + 1);
    const type = [s.type].flat()[0];
    if (type === "object" || s.properties)
      return Object.fromEntries((s.required ?? []).map((name) =>
        [name, this.example(s.properties?.[name] ?? {}, depth + 1)]));
    if (type === "array")
      return s.items ? [this.example(s.items, depth + 1)] : [];
    return { integer: s.minimum ?? 0, number: 0, boolean: false,
             string: "…" }[type] ?? null;
  }
}
