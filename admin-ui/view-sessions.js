// view-sessions.js: a line for each process that has an array attached.

import { buttons, confirm } from "./action.js";
import { Table, figure, state, word } from "./dom.js";
import { evictSession } from "./requests.js";
import { ago, byteRate, bytes, latency, rate } from "./units.js";

const MODES = {
  rw: "read and write", ro: "read only", service: "serves other hosts",
  shared: "writes a part",
};

const mode = (s) => s.leases ? "writes beside others" : MODES[s.mode];

const part = ({ leases, part: p }) => leases ? "by leases"
  : p ? `${bytes(p.length)} from ${bytes(p.offset)} on` : "all";

const COLUMNS = [
  word("Array", ({ session }) => session.array, true),
  word("Node", ({ session }) => session.node),
  word("Process", ({ session }) => String(session.pid)),
  word("Mode", ({ session }) => mode(session)),
  word("Part", ({ session }) => part(session)),
  state("State", ({ session }) =>
    [!session.alive ? "silent" : session.draining ? "draining" : "attached",
     session.alive ? "ok" : "warning"]),
  figure("Heard", ({ session, model }) => ago(model.silentMs(session))),
  figure("Reads", ({ load }) => rate(load.reads)),
  figure("Read", ({ load }) => byteRate(load.read_bytes)),
  figure("Writes", ({ load }) => rate(load.writes)),
  figure("Written", ({ load }) => byteRate(load.write_bytes)),
  figure("Write takes", ({ load }) => latency(load.write_us)),
  figure("Images buffered", ({ load }) => bytes(load.image_bytes)),
  buttons([{ label: "Evict…", press: ({ session }) =>
    confirm(evictSession(session), { label: "Evict it" }) }]),
];

export class SessionsView {
  constructor(parent) {
    this.table = new Table(parent, "Sessions", COLUMNS,
      (item) => item.session.id,
      "No array is attached. Attach one with: weftctl attach");
  }

  show(model) {
    this.table.show(model.sorted("session").map((session) => ({
      session, model, load: model.load.sessions?.[session.id] ?? {},
    })));
  }
}
