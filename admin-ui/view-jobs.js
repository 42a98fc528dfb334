// view-jobs.js: rebuilds, drains and other jobs: GET /jobs, asked again when something
// has changed, and every few seconds while a job is open.

import { get } from "./api.js";
import { Table, el, figure, setAttribute, setText, state, word }
  from "./dom.js";
import { byteRate, bytes, duration, moment, percent } from "./units.js";

const ASK_MS = 3000;

const TONE = { running: "ok", paused: "warning", waiting: "warning",
               done: "quiet", failed: "error" };

const isOpen = ({ state }) => state !== "done" && state !== "failed";

const COLUMNS = [
  word("Job", ({ kind, subject }) => `${kind} ${subject}`, true),
  state("State", (job) => [job.state, TONE[job.state] ?? "quiet",
                           job.waits ? `waits for ${job.waits}` : ""]),
  { title: "Done", number: true, fill(cell, job) {
    if (cell.children.length === 0)
      cell.append(el("progress", { max: 1, class: "rebuild",
                                   "aria-label": "done" }), el("span"));
    const part = job.total_bytes > 0 ? job.done_bytes / job.total_bytes : 0;
    cell.classList.add("live");
    cell.firstElementChild.hidden = job.total_bytes === 0;
    setAttribute(cell.firstElementChild, "value", part.toFixed(3));
    setText(cell.lastElementChild, job.total_bytes > 0
      ? `${percent(part)} of ${bytes(job.total_bytes)}` : "–");
  } },
  figure("Rate", ({ rate }) => rate > 0 ? byteRate(rate) : "–"),
  figure("Left", ({ eta_ms }) => eta_ms === null ? "–"
                                                 : duration(eta_ms / 1000)),
  word("Since", ({ since }) => moment(since)),
];

export class JobsView {
  constructor(parent) {
    this.table = new Table(parent, "Jobs", COLUMNS, (job) => job.id,
                           "There is no job.");
    this.jobs = [];
    this.askedAt = 0;
    this.changes = 0;
  }

  show(model) {
    const due = model.changes !== this.changes || this.jobs.some(isOpen);
    if (due && !this.asking && Date.now() - this.askedAt >= ASK_MS)
      this.ask(model);
    this.table.show(this.jobs);
  }

  async ask(model) {
    this.asking = true;
    this.askedAt = Date.now();
    this.changes = model.changes;
    try {
      this.jobs = (await get("/jobs")).jobs;
    } catch {
      // The stream says that weftd is away; the known jobs stay.
    }
    this.asking = false;
    this.table.show(this.jobs);
  }
}
