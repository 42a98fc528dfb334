// requests.js: the page's requests to weftd. Each has a title, the same command of
// weftctl, and, if an ETag guards it against concurrent changes, the path of the changed
// object.

import { path } from "./api.js";

const of = (title, method, at, body, ctl, thing) =>
  ({ title, method, path: at, body, ctl, thing });

const arrayAt = (name) => path`/arrays/${name}`;
const memberAt = (name, member) => path`/arrays/${name}/members/${member}`;
const nodeAt = (node) => path`/nodes/${node}`;
const userAt = (name) => path`/users/${name}`;

// ---- Arrays and their members. ----

export function createArray(plan) {
  const words = ["array", "create", plan.name, "--layout", plan.layout,
                 "--unit", plan.unit, "--groups", plan.groups];
  if (plan.dup)
    words.push("--dup", plan.dup);
  if (plan.pool)
    words.push("--pool");
  for (const disk of plan.disks)
    words.push("--disk", disk);
  if (plan.force)
    words.push("--force");
  return of(`Create array ${plan.name}`, "POST", "/arrays", plan, words);
}

export const removeArray = (name) =>
  of(`Remove array ${name}`, "DELETE", arrayAt(name), undefined,
     ["array", "rm", name], arrayAt(name));

export const tuneArray = (name, spareAfter, slowOut) =>
  of(`Set when a spare takes a place in ${name}`, "PATCH", arrayAt(name),
     { spare_after_s: spareAfter, slow_out_s: slowOut },
     ["array", "set", name, "--spare-after", spareAfter, "--slow-out", slowOut],
     arrayAt(name));

// without: positions of members that are given up.
export const importArray = (name, array, without, acceptLoss) =>
  of(`Import array ${name}`, "POST", "/imports",
     { name, array, without, accept_loss: acceptLoss },
     ["array", "import", name, array,
      ...without.flatMap((member) => ["--without", member]),
      ...(acceptLoss ? ["--accept-loss"] : [])]);

export const replaceMember = (name, member, disk, force) =>
  of(`Replace member ${member} of ${name}`, "POST",
     `${memberAt(name, member)}/replace`, { disk, ...force ? { force } : {} },
     ["array", "replace", name, member, disk, ...force ? ["--force"] : []],
     arrayAt(name));

export const cancelRebuild = (name, member) =>
  of(`Cancel the rebuild of member ${member} of ${name}`, "POST",
     `${memberAt(name, member)}/cancel`, undefined,
     ["rebuild", "cancel", name, member], arrayAt(name));

export const joinMember = (name, member) =>
  of(`Let member ${member} of ${name} join`, "POST",
     `${memberAt(name, member)}/join`, undefined,
     ["rebuild", "join", name, member]);

export const pauseRebuild = (name, member, paused) =>
  of(`${paused ? "Pause" : "Resume"} the rebuild of member ${member} of ` +
     name, "PATCH", memberAt(name, member), { paused },
     ["rebuild", paused ? "pause" : "resume", name, member]);

// which: "floor" or "ceiling"; bytes a second, 0: weftd's default, and none.
export const rateRebuild = (name, member, which, rate) =>
  of(`Set the rate of member ${member} of ${name}`, "PATCH",
     memberAt(name, member), { [which]: rate },
     ["rebuild", "rate", name, member, `--${which}`, rate], arrayAt(name));

export const addSpare = (name, disk) =>
  of(`Keep a spare for ${name}`, "POST", path`/arrays/${name}/spares`,
     { disk }, ["array", "spare", "add", name, disk]);

export const dropSpare = (name, disk) =>
  of(`Drop a spare of ${name}`, "DELETE",
     path`/arrays/${name}/spares/${disk}`, undefined,
     ["array", "spare", "rm", name, disk]);

// mode: "rw" or "ro".
export const allowNode = (name, node, mode, failover) =>
  of(`Let ${node} attach ${name}`, "PUT", path`/arrays/${name}/allow/${node}`,
     { mode, failover },
     ["array", "allow", name, node, mode, ...failover ? ["--failover"] : []],
     arrayAt(name));

export const denyNode = (name, node) =>
  of(`Forbid ${node} to attach ${name}`, "DELETE",
     path`/arrays/${name}/allow/${node}`, undefined,
     ["array", "deny", name, node], arrayAt(name));

// ---- Volumes of a pool. ----

const volumeAt = (pool, name) => path`/arrays/${pool}/volumes/${name}`;

export const createVolume = (pool, name, size) =>
  of(`Create volume ${pool}/${name}`, "POST", path`/arrays/${pool}/volumes`,
     { name, size }, ["volume", "create", `${pool}/${name}`, size]);

export const resizeVolume = (pool, name, size) =>
  of(`Grow volume ${pool}/${name}`, "PATCH", volumeAt(pool, name), { size },
     ["volume", "resize", `${pool}/${name}`, size], volumeAt(pool, name));

export const deleteVolume = (pool, name) =>
  of(`Delete volume ${pool}/${name}`, "DELETE", volumeAt(pool, name), undefined,
     ["volume", "rm", `${pool}/${name}`], volumeAt(pool, name));

// ---- Disks, sessions, nodes. ----

export const forgetDisk = (disk) =>
  of(`Forget disk ${disk.path} of ${disk.node}`, "DELETE",
     path`/disks/${disk.uuid}`, undefined, ["disk", "forget", disk.uuid],
     path`/disks/${disk.uuid}`);

// A disk that was carried to another host, which may serve it from now on.
export const moveDisk = (disk, node) =>
  of(`Let ${node} serve disk ${disk.path} of ${disk.node}`, "PATCH",
     path`/disks/${disk.uuid}`, { node }, ["disk", "move", disk.uuid, node],
     path`/disks/${disk.uuid}`);

export const rekeyDisk = (disk) =>
  of(`Give disk ${disk.path} of ${disk.node} another key`, "POST",
     path`/disks/${disk.uuid}/key`, undefined, ["disk", "rekey", disk.uuid]);

export const evictSession = (session) =>
  of(`Evict ${session.node}, process ${session.pid}, from ${session.array}`,
     "DELETE", path`/sessions/${session.id}`, undefined,
     ["session", "evict", session.id]);

export const setMaintenance = (node, maintenance, force) =>
  of(`${maintenance ? "Begin" : "End"} the maintenance of ${node}`, "PATCH",
     nodeAt(node), { maintenance, ...force ? { force } : {} },
     ["node", "maintenance", maintenance ? "on" : "off", node,
      ...force ? ["--force"] : []], nodeAt(node));

export const drainNode = (node) =>
  of(`Drain node ${node}`, "POST", `${nodeAt(node)}/drain`, {},
     ["node", "drain", node], nodeAt(node));

export const stopDrain = (node) =>
  of(`Stop draining node ${node}`, "DELETE", `${nodeAt(node)}/drain`,
     undefined, ["node", "drain", node, "--stop"]);

export const removeNode = (node) =>
  of(`Remove node ${node}`, "DELETE", nodeAt(node), undefined,
     ["node", "remove", node], nodeAt(node));

export const revokeNode = (node) =>
  of(`Revoke the certificate of ${node}`, "DELETE",
     `${nodeAt(node)}/certificate`, undefined, ["node", "revoke", node]);

export const makeNodeToken = (node, seconds) =>
  of("Enroll a node", "POST", "/node-tokens",
     { ...node ? { node } : {}, ttl_s: seconds },
     ["node", "token", ...node ? [node] : [], "--ttl", `${seconds}s`]);

export const cancelNodeToken = ({ id, node }) =>
  of(`Cancel the token for ${node ?? "a new host"}`, "DELETE",
     path`/node-tokens/${id}`, undefined, ["node", "token", "--cancel", id]);

// ---- Who may call. ----

export const addUser = (name, role, password) =>
  of("Add a user", "POST", "/users", { name, role, password },
     ["user", "add", name, "--role", role]);

export const changeUser = (name, change) =>
  of(`Change user ${name}`, "PATCH", userAt(name), change,
     ["user", "set", name,
      ...change.role ? ["--role", change.role] : ["--password"]],
     userAt(name));

export const setTotp = (name, on, code) =>
  of(`Second factor of ${name}`, "PUT", path`/users/${name}/totp`,
     { on, ...code ? { code } : {} },
     ["user", "totp", name, on ? "on" : "off", ...code ? ["--code", code] : []]);

export const removeUser = (name) =>
  of(`Remove user ${name}`, "DELETE", userAt(name), undefined,
     ["user", "rm", name], userAt(name));

export const makeToken = (name, role, seconds) =>
  of("Make a token", "POST", "/tokens",
     { name, role, ...seconds ? { expires_s: seconds } : {} },
     ["token", "add", name, "--role", role,
      ...seconds ? ["--expires", `${seconds}s`] : []]);

export const removeToken = (name) =>
  of(`Revoke token ${name}`, "DELETE", path`/tokens/${name}`, undefined,
     ["token", "rm", name]);
