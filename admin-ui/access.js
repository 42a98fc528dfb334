// access.js: the page of those who may call: users, tokens, and the audit
// trail.

import { whoAmI } from "./api.js";
import { say, section } from "./dom.js";
import { fillTop } from "./top.js";
import { auditView } from "./view-audit.js";
import { nodeTokensView } from "./view-node-tokens.js";
import { tokensView } from "./view-tokens.js";
import { usersView } from "./view-users.js";

const users = section("users", "Users");
const tokens = section("tokens", "Tokens for scripts");
const nodeTokens = section("node-tokens", "Tokens for hosts to enroll");
const trail = section("audit", "Who changed what");

try {
  await whoAmI();
  fillTop();
  const audit = auditView(trail);
  // A change made here is in the audit trail at once.
  const changed = () => audit.ask();
  for (const view of [usersView(users, changed), tokensView(tokens, changed),
                      nodeTokensView(nodeTokens, changed), audit])
    view.ask();
} catch (problem) {
  say(problem.message, "error");
}
