// shell.js: what a button does, as commands to copy.

import { el, say } from "./dom.js";
import { caller, takesKey } from "./api.js";

const quote = (word) =>
  /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;

export function asWeftctl(words) {
  const admin = location.origin === "http://127.0.0.1:7380"
    ? [] : ["--admin", location.origin];
  return ["weftctl", ...admin, ...words].map((w) => quote(String(w))).join(" ");
}

export function asCurl({ method, path, body }) {
  const parts = ["curl", "--fail-with-body", "-X", method];
  // The token itself is never shown: it is in the caller's environment.
  if (caller.via !== "none")
    parts.push("-H", `"Authorization: Bearer $WEFT_TOKEN"`);
  if (takesKey(method, path))
    parts.push("-H", `"Idempotency-Key: $(uuidgen)"`);
  if (body !== undefined)
    parts.push("-H", quote("Content-Type: application/json"), "-d",
               quote(JSON.stringify(body)));
  return [...parts, quote(`${location.origin}/api/v1${path}`)].join(" ");
}

async function copy(text, label) {
  try {
    await navigator.clipboard.writeText(text);
    say(`Copied: ${label}.`);
  } catch {
    say("The browser does not let this page copy; mark the text instead.");
  }
}

// A line to be copied, with its button.
export function commandLine(text, label) {
  const button = el("button", { type: "button", class: "btn btn-sm btn-plain" },
                    `Copy as ${label}`);
  const line = el("pre", { class: "command", tabindex: "0",
                           "aria-label": `As ${label}` }, text);
  button.addEventListener("click", () => copy(line.textContent, label));
  return el("div", { class: "command-line" }, line, button);
}

// Folded up: the same request as weftctl and as curl.  `request` has method,
// path, body and ctl, weftctl's words.
export function shellOf(request) {
  return el("details", { class: "shell" },
    el("summary", {}, "The same from a shell"),
    ...request.ctl ? [commandLine(asWeftctl(request.ctl), "weftctl")] : [],
    commandLine(asCurl(request), "curl"));
}
