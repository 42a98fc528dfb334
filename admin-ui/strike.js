// strike.js: removes characters from weftd's text that could deceive a reader.
//
// Names, paths and reasons may be anybody's.  A text node shows no markup, but
// obeys marks that turn the direction of writing: "disk A" may read as another.
// The same are struck out as by weftctl (common/strike.h), but for line breaks
// and tabs.

const ORDERS =
  /[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

export const strike = (text) => text.replace(ORDERS, "?");

function clean(value) {
  if (typeof value === "string")
    return strike(value);
  if (Array.isArray(value))
    return value.map(clean);
  if (value === null || typeof value !== "object")
    return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) =>
    [strike(key), clean(inner)]));
}

export const parse = (text) => clean(JSON.parse(text));
