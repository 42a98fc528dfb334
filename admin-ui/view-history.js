// view-history.js: charts over the last 15 minutes to 30 days (GET /history),
// drawn by dygraphs, which is loaded when the charts come into sight.

import { get } from "./api.js";
import { choice } from "./dialog.js";
import { el, setAttribute, setText } from "./dom.js";
import { byteRate, bytes, latency, rate } from "./units.js";

const MIN = 60000;
const SPANS = [[15 * MIN, "15 minutes"], [60 * MIN, "an hour"],
  [360 * MIN, "6 hours"], [1440 * MIN, "a day"], [10080 * MIN, "7 days"],
  [43200 * MIN, "30 days"]];
const POINTS = 300;
// The finest samples are 10 s apart.
const ASK_MS = 10000;

// [title, unit, [[series, its name], ...]]
const CHARTS = [
  ["Throughput", byteRate, [["read_bytes", "read"], ["write_bytes", "written"]]],
  ["Requests", rate, [["reads", "reads"], ["writes", "writes"]]],
  ["Latency", latency, [["read_us", "a read"], ["write_us", "a write"]]],
  ["Rebuild rate", byteRate, [["rebuild_bytes", "rebuilt"]]],
  ["Image buffer", bytes, [["image_bytes", "held by writers"]]],
];

let loading = null;

function loadDygraphs() {
  loading ??= new Promise((resolve, reject) => {
    const script = el("script", { src: "/vendor/dygraphs/dygraph.min.js" });
    script.addEventListener("load", () => {
      // Its legend sets style attributes, which the Content-Security-Policy
      // forbids; the figures are below each chart instead.
      const { Dygraph } = globalThis;
      Dygraph.PLUGINS = Dygraph.PLUGINS.filter((plugin) =>
        plugin !== Dygraph.Plugins.Legend);
      resolve();
    });
    script.addEventListener("error", () =>
      reject(new Error("The charts need libjs-dygraphs on weftd's host.")));
    document.head.append(script);
  });
  return loading;
}

const colour = (name) =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();

class Chart {
  constructor([title, unit, series]) {
    this.unit = unit;
    this.series = series;
    this.canvas = el("div", { class: "chart", role: "img" });
    this.said = el("p", { class: "hint" });
    this.title = title;
    this.node = el("figure", {}, el("figcaption", {}, title), this.canvas,
                   this.said);
  }

  draw({ step_ms, from, series }, span) {
    const columns = this.series.map(([key]) => series[key] ?? []);
    const length = Math.max(0, ...columns.map((c) => c.length));
    const rows = Array.from({ length }, (_, i) =>
      [new Date(from + i * step_ms), ...columns.map((c) => c[i] ?? null)]);
    const newest = this.series.map(([, name], i) => {
      const value = columns[i].findLast((v) => v !== null);
      return `${name} ${this.unit(value)}`;
    }).join(", ");
    const most = Math.max(0, ...columns.flat().filter((v) => v !== null));
    const text = `now ${newest}; at most ${this.unit(most)}`;
    setText(this.said, rows.length > 0 ? text : "no samples yet");
    setAttribute(this.canvas, "aria-label",
                 `${this.title} over the last ${span}: ${text}`);
    if (rows.length === 0)
      return;
    // A line of zeroes is at the bottom, not in the middle.
    const valueRange = most > 0 ? [0, most * 1.1] : [0, 1];
    if (this.graph)
      this.graph.updateOptions({ file: rows, valueRange, ...this.colours() });
    else
      this.graph = new globalThis.Dygraph(this.canvas, rows,
        { ...this.options(), valueRange, ...this.colours() });
  }

  options() {
    const format = (value) => value === 0 ? "0" : this.unit(value);
    return {
      labels: ["time", ...this.series.map(([, name]) => name)],
      strokeWidth: 1.5, interactionModel: {},
      connectSeparatedPoints: false, animatedZooms: false,
      axes: { y: { axisLabelFormatter: format, axisLabelWidth: 84,
                   pixelsPerLabel: 36 } },
    };
  }

  // The second line is dashed as well: colour is not the only sign.
  colours() {
    const dashed = Object.fromEntries(this.series.slice(1).map(([, name]) =>
      [name, { strokePattern: [6, 3] }]));
    return { colors: [colour("--link"), colour("--warning")], series: dashed,
             axisLineColor: colour("--line"), gridLineColor: colour("--line") };
  }
}

export class HistoryView {
  constructor(parent) {
    this.span = choice("The last", "span",
      SPANS.map(([ms, text]) => [String(ms), text]), String(SPANS[0][0]));
    this.subject = choice("Of", "subject", [["cluster", "everything"]],
                          "cluster");
    this.problem = el("p", { class: "quiet" });
    this.charts = CHARTS.map((chart) => new Chart(chart));
    parent.append(el("div", { class: "tools" }, this.span.node,
      this.subject.node), this.problem,
      el("div", { class: "charts" }, ...this.charts.map((c) => c.node)));
    for (const { input } of [this.span, this.subject])
      input.addEventListener("change", () => this.ask());
    addEventListener("weft-theme", () => this.ask());
    new IntersectionObserver(([entry]) => {
      this.visible = entry.isIntersecting;
      if (this.visible)
        this.ask();
    }, { rootMargin: "200px" }).observe(parent);
    this.askedAt = 0;
  }

  show(model) {
    this.showSubjects(model);
    if (this.visible && Date.now() - this.askedAt >= ASK_MS)
      this.ask();
  }

  showSubjects(model) {
    const subjects = [["cluster", "everything"],
      ...model.sorted("array").map((a) => [`array:${a.name}`,
                                           `array ${a.name}`]),
      ...model.sorted("disk").map((d) => [`disk:${d.uuid}`,
                                          `disk ${d.path} on ${d.node}`])];
    const known = subjects.map(([value]) => value).join();
    if (known === this.known)
      return;
    this.known = known;
    const chosen = this.subject.input.value;
    this.subject.input.replaceChildren(...subjects.map(([value, text]) =>
      el("option", { value, selected: value === chosen ? "" : null }, text)));
  }

  async ask() {
    const now = Date.now(), span = Number(this.span.input.value);
    const query = new URLSearchParams({ subject: this.subject.input.value,
      from: String(now - span), to: String(now), points: String(POINTS) });
    this.askedAt = now;
    try {
      const [history] = await Promise.all([get(`/history?${query}`),
                                           loadDygraphs()]);
      const words = this.span.input.selectedOptions[0].textContent;
      for (const chart of this.charts)
        chart.draw(history, words);
      setText(this.problem, "");
    } catch (problem) {
      setText(this.problem, problem.message);
    }
  }
}
