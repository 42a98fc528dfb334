// app.js: the main page.  weftd's events (stream.js) go into the model
// (model.js), and the views draw what it holds, at most once a frame.

import { get, whoAmI } from "./api.js";
import { section } from "./dom.js";
import { Model } from "./model.js";
import { Stream } from "./stream.js";
import { fillTop } from "./top.js";
import { ArraysView } from "./view-arrays.js";
import { ConnectionView } from "./view-connection.js";
import { ExposedView } from "./view-exposed.js";
import { HistoryView } from "./view-history.js";
import { JobsView } from "./view-jobs.js";
import { LogView } from "./view-log.js";
import { MembersView } from "./view-members.js";
import { NodesView } from "./view-nodes.js";
import { RebuildsView } from "./view-rebuilds.js";
import { SessionsView } from "./view-sessions.js";
import { VerdictView } from "./view-verdict.js";

const VERDICT_MS = 5000;
// Some views ask by themselves, in their own time.
const TICK_MS = 2000;

const model = new Model();
const connection =
  new ConnectionView(document.getElementById("connection"));
const views = [
  new VerdictView(document.getElementById("verdict")),
  new ExposedView(section("exposed", "What is exposed")),
  new ArraysView(section("arrays", "Arrays")),
  new RebuildsView(section("rebuilds", "Rebuilds")),
  new SessionsView(section("sessions", "Attached clients")),
  new NodesView(section("nodes", "Nodes")),
  new MembersView(section("members", "Members and disks")),
  new JobsView(section("jobs", "Jobs")),
  new LogView(section("log", "Events")),
  new HistoryView(section("history", "History")),
];

let drawing = false;

function draw() {
  if (drawing || !model.status)
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
    model.takeVerdict(await get("/status"));
  } catch {
    // The stream notices, too, and says so.
  }
  asking = false;
  draw();
  if (askAgain)
    askVerdict();
}

// It also speaks of what lasts for too long, and counts the seconds of what is silent; and an
// answer may have been lost.
setInterval(() => {
  if (connection.state === "live")
    askVerdict();
}, VERDICT_MS);

setInterval(() => {
  if (connection.state === "live")
    draw();
}, TICK_MS);

function watch() {
  new Stream("/api/v1/events",
    (kind, data) => {
      if (model.apply(kind, data))
        askVerdict();
      draw();
    },
    (state, retryAt) => {
      connection.set(state, retryAt);
      // A login that has ended looks like a lost stream: this tells them apart,
      // and leads to the login page.
      if (state === "lost")
        get("/status").catch(() => {});
    });
}

try {
  await whoAmI();
  fillTop();
} catch {
  // weftd has just gone; the stream says so and finds it again.
}
watch();
