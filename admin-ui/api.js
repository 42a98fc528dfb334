// api.js: every request of the page goes through call() or an Intent.
//
// They add the CSRF token of the login to each change and an Idempotency-Key to
// each POST that takes one, and turn problem+json into a Problem whose message
// is weftd's own sentence.  Who has no login is sent to the login page.

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

// weftd keeps no answer that may hold a secret, so these take no key.
const SECRETS = /^\/(setup|login|logout|users|tokens|node-tokens)$/;

export const takesKey = (method, at) =>
  method === "POST" && !SECRETS.test(at);

// The decoded answer and its ETag, or a Problem.
async function send(method, path, body, { key, match } = {}) {
  const headers = {};
  if (body !== undefined)
    headers["Content-Type"] = "application/json";
  if (method !== "GET" && caller.csrf)
    headers["X-Weft-CSRF"] = caller.csrf;
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
    data = text ? JSON.parse(text) : null;
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
