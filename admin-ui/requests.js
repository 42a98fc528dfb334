// requests.js: what the page can ask weftd to do, each with its title and with
// the words of the same command of weftctl.

import { path } from "./api.js";

const of = (title, method, at, body, ctl) =>
  ({ title, method, path: at, body, ctl });

// ---- Arrays and their members. ----

export function createArray(plan) {
  const words = ["array", "create", plan.name, "--layout", plan.layout,
                 "--unit", plan.unit, "--groups", plan.groups];
  for (const disk of plan.disks)
    words.push("--disk", disk);
  return of(`Create array ${plan.name}`, "POST", "/arrays", plan, words);
}

export const removeArray = (name) =>
  of(`Remove array ${name}`, "DELETE", path`/arrays/${name}`, undefined,
     ["array", "rm", name]);

export const tuneArray = (name, seconds) =>
  of(`Set when a spare takes a place in ${name}`, "PATCH",
     path`/arrays/${name}`, { spare_after_s: seconds },
     ["array", "set", name, "--spare-after", seconds]);

export const replaceMember = (name, member, disk) =>
  of(`Replace member ${member} of ${name}`, "POST",
     path`/arrays/${name}/members/${member}/replace`, { disk },
     ["array", "replace", name, member, disk]);

export const cancelRebuild = (name, member) =>
  of(`Cancel the rebuild of member ${member} of ${name}`, "POST",
     path`/arrays/${name}/members/${member}/cancel`, undefined,
     ["rebuild", "cancel", name, member]);

export const joinMember = (name, member) =>
  of(`Let member ${member} of ${name} join`, "POST",
     path`/arrays/${name}/members/${member}/join`, undefined,
     ["rebuild", "join", name, member]);

export const pauseRebuild = (name, member, paused) =>
  of(`${paused ? "Pause" : "Resume"} the rebuild of member ${member} of ` +
     name, "PATCH", path`/arrays/${name}/members/${member}`, { paused },
     ["rebuild", paused ? "pause" : "resume", name, member]);

// ceiling: bytes a second; 0: none.
export const capRebuild = (name, member, ceiling) =>
  of(`Set the rate of member ${member} of ${name}`, "PATCH",
     path`/arrays/${name}/members/${member}`, { ceiling },
     ["rebuild", "rate", name, member, "--ceiling", ceiling]);

export const addSpare = (name, disk) =>
  of(`Keep a spare for ${name}`, "POST", path`/arrays/${name}/spares`,
     { disk }, ["array", "spare", "add", name, disk]);

export const dropSpare = (name, disk) =>
  of(`Drop a spare of ${name}`, "DELETE",
     path`/arrays/${name}/spares/${disk}`, undefined,
     ["array", "spare", "rm", name, disk]);

// ---- Disks, sessions, nodes. ----

export const forgetDisk = (disk) =>
  of(`Forget disk ${disk.path} of ${disk.node}`, "DELETE",
     path`/disks/${disk.uuid}`, undefined, ["disk", "forget", disk.uuid]);

export const evictSession = (session) =>
  of(`Evict ${session.node}, process ${session.pid}, from ${session.array}`,
     "DELETE", path`/sessions/${session.id}`, undefined,
     ["session", "evict", session.id]);

export const setMaintenance = (node, maintenance) =>
  of(`${maintenance ? "Begin" : "End"} the maintenance of ${node}`, "PATCH",
     path`/nodes/${node}`, { maintenance },
     ["node", "maintenance", maintenance ? "on" : "off", node]);

export const drainNode = (node) =>
  of(`Drain node ${node}`, "POST", path`/nodes/${node}/drain`, {},
     ["node", "drain", node]);

export const stopDrain = (node) =>
  of(`Stop draining node ${node}`, "DELETE", path`/nodes/${node}/drain`,
     undefined, ["node", "drain", node, "--stop"]);

export const removeNode = (node) =>
  of(`Remove node ${node}`, "DELETE", path`/nodes/${node}`, undefined,
     ["node", "remove", node]);

export const makeNodeToken = (node, seconds) =>
  of("Enroll a node", "POST", "/node-tokens",
     { ...node ? { node } : {}, ttl_s: seconds },
     ["node", "token", ...node ? [node] : [], "--ttl", `${seconds}s`]);

// ---- Who may call. ----

export const addUser = (name, role, password) =>
  of("Add a user", "POST", "/users", { name, role, password },
     ["user", "add", name, "--role", role]);

export const changeUser = (name, change) =>
  of(`Change user ${name}`, "PATCH", path`/users/${name}`, change,
     ["user", "set", name, ...change.role ? ["--role", change.role] : []]);

export const removeUser = (name) =>
  of(`Remove user ${name}`, "DELETE", path`/users/${name}`, undefined,
     ["user", "rm", name]);

export const makeToken = (name, role, seconds) =>
  of("Make a token", "POST", "/tokens",
     { name, role, ...seconds ? { expires_s: seconds } : {} },
     ["token", "add", name, "--role", role,
      ...seconds ? ["--expires", `${seconds}s`] : []]);

export const removeToken = (name) =>
  of(`Revoke token ${name}`, "DELETE", path`/tokens/${name}`, undefined,
     ["token", "rm", name]);
