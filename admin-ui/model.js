// model.js: the objects of this page, in the state that weftd last sent.
//
// A snapshot replaces everything; an event replaces one object, whole, or says
// that it is gone; `load` brings the rates of a second.  Views only read.

const KEYS = { node: "name", disk: "uuid", array: "name", session: "id" };

// Ages are as of the moment in which an object came.
const stamped = (object) => ({ ...object, came: Date.now() });

function byKey(list, key) {
  return new Map((list ?? []).map((object) => [object[key], stamped(object)]));
}

export class Model {
  constructor() {
    this.status = null; // {verdict, health, version, ...}
    this.objects = { node: new Map(), disk: new Map(), array: new Map(),
                     session: new Map() };
    this.load = { arrays: {}, disks: {}, sessions: {} };
    this.changes = 0; // of objects
    this.logged = 0;  // sentences, which view-log.js asks for
  }

  // Returns whether something changed of which the verdict may speak.
  apply(kind, data) {
    switch (kind) {
    case "snapshot":
      this.takeSnapshot(data);
      this.logged++;
      return false;
    case "log":
      this.logged++;
      return false;
    case "load":
      this.load = data;
      return false;
    default:
      this.takeObject(kind, data);
      return true;
    }
  }

  takeSnapshot(data) {
    this.status = data;
    this.changes++;
    for (const [kind, key] of Object.entries(KEYS))
      this.objects[kind] = byKey(data[`${kind}s`], key);
  }

  // Take only this of a whole status: an object in it may be older than an event that
  // came meanwhile.
  takeVerdict({ verdict, health }) {
    if (this.status)
      Object.assign(this.status, { verdict, health });
  }

  takeObject(kind, data) {
    this.changes++;
    const key = data[KEYS[kind]];
    if (data.deleted)
      this.objects[kind].delete(key);
    else
      this.objects[kind].set(key, stamped(data));
  }

  // Since when a disk or session is silent; 0 while it is not.
  silentMs(object) {
    if (object.alive)
      return 0;
    return object.last_heard_ms + (Date.now() - object.came);
  }

  sorted(kind) {
    const key = KEYS[kind];
    return [...this.objects[kind].values()].sort((a, b) =>
      String(a[key]).localeCompare(String(b[key]), "en", { numeric: true }));
  }
}

// The newest that is known of a member's rebuild, or null: a load event has it
// once a second.
export function rebuildOf(array, member, model) {
  if (!member?.rebuild)
    return null;
  return model.load.rebuilds?.find((r) =>
    r.array === array && r.member === member.position) ?? member.rebuild;
}

// How much of a rebuild is done, 0 to 1.
export function doneOf(rebuild) {
  if (rebuild.phase === "synced")
    return 1;
  return rebuild.total_bytes > 0
    ? 1 - Math.min(1, rebuild.todo_bytes / rebuild.total_bytes) : 0;
}
