// app.js: the page.  weftd's events (stream.js) go into the model (model.js),
// and the views draw what it holds, at most once a frame.

import { Model } from "./model.js";
import { Stream } from "./stream.js";
import { ArraysView } from "./view-arrays.js";
import { ConnectionView } from "./view-connection.js";
import { LogView } from "./view-log.js";
import { MembersView } from "./view-members.js";
import { SessionsView } from "./view-sessions.js";
import { VerdictView } from "./view-verdict.js";

const VERDICT_MS = 5000;

const byId = (id) => document.getElementById(id);

const model = new Model();
const connection = new ConnectionView(byId("connection"));
const views = [
  new VerdictView(byId("verdict")),
  new ArraysView(byId("arrays-list")),
  new MembersView(byId("members-list")),
  new SessionsView(byId("sessions-list")),
  new LogView(byId("log-list")),
];

let drawing = false;

function draw() {
  if (drawing)
    return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    for (const view of views)
      view.show(model);
  });
}

// The verdict is about everything together, so it comes with no event of its
// own: ask for it when something has changed, and again after the answer if
// something changed meanwhile.
let asking = false, askAgain = false;

async function askVerdict() {
  askAgain = asking;
  if (asking)
    return;
  asking = true;
  try {
    const reply = await fetch("/api/v1/status");
    if (reply.ok)
      model.takeVerdict(await reply.json());
  } catch {
    // The stream notices, too, and says so.
  }
  asking = false;
  draw();
  if (askAgain)
    askVerdict();
}

// It also counts the seconds of what is silent.
setInterval(() => {
  if (connection.state === "live" && model.status?.health !== "ok")
    askVerdict();
}, VERDICT_MS);

new Stream("/api/v1/events",
  (kind, data) => {
    if (model.apply(kind, data))
      askVerdict();
    draw();
  },
  (state, retryAt) => connection.set(state, retryAt));
