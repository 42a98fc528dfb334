// model.js: what this page knows, as weftd last said it.
//
// A snapshot replaces everything; an event replaces one object, whole, or says
// that it is gone; `load` brings the rates of a second.  Views only read.

const LOG_MAX = 100;

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
    this.log = []; // newest first
    this.logged = 0;
  }

  // Returns whether something changed of which the verdict may speak.
  apply(kind, data) {
    switch (kind) {
    case "snapshot":
      this.takeSnapshot(data);
      return false;
    case "log":
      this.log.unshift({ ...data, key: ++this.logged });
      this.log.length = Math.min(this.log.length, LOG_MAX);
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
    for (const [kind, key] of Object.entries(KEYS))
      this.objects[kind] = byKey(data[`${kind}s`], key);
  }

  // Of a whole status only this: an object in it may be older than an event
  // that came meanwhile.
  takeVerdict({ verdict, health }) {
    if (this.status)
      Object.assign(this.status, { verdict, health });
  }

  takeObject(kind, data) {
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
