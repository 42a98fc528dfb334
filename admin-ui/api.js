// api.js: every request of the page goes through call().
//
// It adds the CSRF token of the login to each change and an Idempotency-Key to
// each POST that takes one, and turns problem+json into a Problem whose message is weftd's own
// sentence.  Who has no login is sent to the login page.

const BASE = "/api/v1";
const CALL_MS_MAX = 30000;

export class Problem extends Error {
  constructor(status, { detail, title, code, field }) {
    super(detail ?? title ?? `weftd answered ${status}`);
    this.status = status;
    this.code = code ?? null;
    this.field = field ?? null;
  }
}

// Who calls (GET /me); filled by whoAmI().
export const caller = { user: null, role: null, via: null, csrf: null };

export const newKey = () => crypto.randomUUID();

// weftd keeps no answer that may hold a secret, so these take no key.
const SECRETS = /^\/(setup|login|logout|users|tokens|node-tokens)$/;

export const takesKey = (method, at) =>
  method === "POST" && !SECRETS.test(at);

// The decoded answer, or a Problem.  The same `key` for the same intention:
// a POST that is sent again then does nothing twice.
export async function call(method, path, body, key) {
  const headers = {};
  if (body !== undefined)
    headers["Content-Type"] = "application/json";
  if (method !== "GET" && caller.csrf)
    headers["X-Weft-CSRF"] = caller.csrf;
  if (takesKey(method, path))
    headers["Idempotency-Key"] = key ?? newKey();
  let reply;
  try {
    reply = await fetch(BASE + path, {
      method, headers, body: body === undefined ? null : JSON.stringify(body),
      signal: AbortSignal.timeout(CALL_MS_MAX),
    });
  } catch {
    throw new Problem(0, { code: "unreachable", detail:
      "weftd does not answer; whether it did what was asked shows when it " +
      "does again." });
  }
  const text = await reply.text();
  let data = null;
  try {
    data = text ? JSON.parse(text) : null;
  } catch {
    throw new Problem(reply.status, { detail: "The answer is no JSON: " +
      "something between this page and weftd answered in its place." });
  }
  if (reply.ok)
    return data;
  const problem = new Problem(reply.status, data ?? {});
  if (problem.code === "login-required" && !atLogin())
    toLogin();
  throw problem;
}

export const get = (path) => call("GET", path);

// A path with its parts encoded: path`/arrays/${name}/spares/${disk}`.
export function path(strings, ...parts) {
  return String.raw({ raw: strings }, ...parts.map(encodeURIComponent));
}

const atLogin = () => location.pathname === "/login.html";

export function toLogin() {
  location.assign("/login.html");
}

export async function whoAmI() {
  Object.assign(caller, await get("/me"));
  return caller;
}

// Why the caller may change nothing; null: he may.
export function whyNot() {
  if (caller.role === "admin")
    return null;
  return `Your role is ${caller.role ?? "unknown"}; only an admin may do this.`;
}
