// shell.js: the commands for a button, to copy.

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
  // The command for a host that has the file; other hosts get it from there.
  if (location.protocol === "https:")
    parts.push("--cacert", "/etc/weft/tls/ca-cert.pem");
  // The token itself is never shown: it is in the caller's environment.
  if (caller.via !== "none")
    parts.push("-H", `"Authorization: Bearer $WEFT_TOKEN"`);
  if (takesKey(method, path))
    parts.push("-H", `"Idempotency-Key: $(uuidgen)"`);
  // A password belongs in no command line.
  if (body !== undefined)
    parts.push("-H", quote("Content-Type: application/json"), "-d",
               quote(JSON.stringify(body, (key, value) =>
                 key === "password" ? "…" : value)));
  return [...parts, quote(`${location.origin}/api/v1${path}`)].join(" ");
}

async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    say(`Copied ${what}.`);
  } catch {
    say("The browser does not let this page copy; mark the text instead.");
  }
}

// A line to be copied, with its button.  what: "the token", "as curl".
export function commandLine(text, what) {
  const button = el("button", { type: "button", class: "btn btn-sm btn-plain" },
                    `Copy ${what}`);
  const line = el("pre", { class: "command", tabindex: "0",
                           "aria-label": what }, text);
  button.addEventListener("click", () => copy(line.textContent, what));
  return el("div", { class: "command-line" }, line, button);
}

const caHint = () => el("p", { class: "hint" }, "curl knows weftd by the " +
  "cluster's CA, which is named where a node has it. Elsewhere save ",
  el("a", { href: "/ca.pem", download: "ca-cert.pem" }, "ca-cert.pem"),
  " and check its fingerprint; weftctl wants its folder by --tls.");

// Folded up in `place`: the same requests as weftctl and as curl.  A request has method,
// path, body and ctl, weftctl's words.  An unfolded one stays unfolded.
export function showShell(place, ...requests) {
  const open = place.querySelector("details[open]") !== null;
  const lines = requests.flatMap((request) => [
    ...request.ctl ? [commandLine(asWeftctl(request.ctl), "as weftctl")] : [],
    commandLine(asCurl(request), "as curl")]);
  place.replaceChildren(el("details", { class: "shell",
                                        open: open ? "" : null },
    el("summary", {}, "The same from a shell"), ...lines,
    ...location.protocol === "https:" ? [caHint()] : []));
}
