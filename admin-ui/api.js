// api.js: every request of the page goes through call() or an Intent.
//
// They add the login's origin secret, and an Idempotency-Key to each POST that
// takes one, and turn problem+json into a Problem whose message is weftd's own
// sentence.  A user without a login is sent to the login page.
//
// A login is a cookie and the origin secret.  Browsers send the cookie to every
// port of weftd's host, also to another user's program there.  The origin secret
// is in localStorage, which only pages of this scheme, host and port can read, so
// a new tab has it, too.

import { parse } from "./strike.js";

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

// The caller (GET /me); filled by whoAmI().
export const caller = { user: null, role: null, via: null };

const ORIGIN_SECRET = "weft-origin-secret";
// The user's device, as weftd knows it since an earlier login.  It gives no access, so it
// stays when its user logs out: with it, strangers who try the user's password don't keep
// the user out.
const deviceOf = (user) => `weft-device-${user}`;

// Of every request, streams included.
export function loginHeaders() {
  const secret = localStorage.getItem(ORIGIN_SECRET);
  return secret ? { "X-Weft-Origin-Secret": secret } : {};
}

// path: /login or /setup.
export async function logIn(path, body) {
  const device = localStorage.getItem(deviceOf(body.user));
  const reply = await call("POST", path,
    device && path === "/login" ? { ...body, device } : body);
  localStorage.setItem(ORIGIN_SECRET, reply.origin_secret);
  localStorage.setItem(deviceOf(body.user), reply.device);
}

export async function logOut() {
  await call("POST", "/logout");
  localStorage.removeItem(ORIGIN_SECRET);
}

// weftd keeps no answer that may hold a secret, so these take no key.
const SECRETS = /^\/(setup|login|logout|users|tokens|node-tokens)$/;

export const takesKey = (method, at) =>
  method === "POST" && !SECRETS.test(at);

// The decoded answer and its ETag, or a Problem.
async function send(method, path, body, { key, match } = {}) {
  const headers = loginHeaders();
  if (body !== undefined)
    headers["Content-Type"] = "application/json";
  if (takesKey(method, path))
    headers["Idempotency-Key"] = key ?? crypto.randomUUID();
  if (match)
    headers["If-Match"] = match;
  let reply;
  try {
    reply = await fetch(BASE + path, {
      method, headers, body: body === undefined ? null : JSON.stringify(body),
      signal: AbortSignal.timeout(CALL_MS_MAX),
    });
  } catch {
    throw new Problem(0, { code: "unreachable", detail:
      method === "GET" ? "weftd does not answer."
        : "weftd does not answer; whether it did what was asked shows when " +
          "it does again." });
  }
  const text = await reply.text();
  let data = null;
  try {
    data = text ? parse(text) : null;
  } catch {
    throw new Problem(reply.status, { detail: "The answer is no JSON: " +
      "something between this page and weftd answered in its place." });
  }
  if (reply.ok)
    return { data, etag: reply.headers.get("ETag") };
  const problem = new Problem(reply.status, data ?? {});
  if (problem.code === "login-required" && !atLogin())
    toLogin();
  throw problem;
}

export async function call(method, path, body) {
  return (await send(method, path, body)).data;
}

export const get = (path) => call("GET", path);

// A request that somebody is asked about first, or enters something for.
// Between look() and send() nobody else may change what it is about
// (requests.js: `thing`); the same sent again does nothing twice.
export class Intent {
  // Returns the thing as it is now; null: the request is about none.
  async look({ thing }) {
    const { data, etag } = thing ? await send("GET", thing) : {};
    this.match = etag;
    return data ?? null;
  }

  async send(request) {
    const { method, path, body } = request;
    const text = JSON.stringify([path, body]);
    if (text !== this.text)
      Object.assign(this, { text, key: crypto.randomUUID() });
    try {
      return (await send(method, path, body, this)).data;
    } catch (problem) {
      if (problem.code !== "changed")
        throw problem;
      await this.look(request);
      problem.message = "Somebody else has changed this meanwhile, so nothing " +
        "was done. Look at it as it is now; if you still want it, go on.";
      throw problem;
    }
  }
}

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
