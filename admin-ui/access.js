// access.js: the page of those who may call: users, tokens, and the audit
// trail.

import { whoAmI } from "./api.js";
import { say } from "./dom.js";
import { fillTop } from "./top.js";
import { AuditView } from "./view-audit.js";
import { nodeTokensView } from "./view-node-tokens.js";
import { tokensView } from "./view-tokens.js";
import { usersView } from "./view-users.js";

const byId = (id) => document.getElementById(id);

try {
  await whoAmI();
  fillTop();
  const audit = new AuditView(byId("audit-list"));
  // What was changed here is in the audit trail at once.
  const changed = () => audit.ask(null);
  for (const view of [usersView(byId("users-list"), changed),
                      tokensView(byId("tokens-list"), changed),
                      nodeTokensView(byId("node-tokens-list"), changed)])
    view.ask();
  audit.ask(null);
} catch (problem) {
  say(problem.message, "error");
}
