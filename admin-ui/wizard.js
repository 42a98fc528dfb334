// wizard.js: an array in three steps: disks, layout, what weftd makes of it.

import { preflight, preflightLines } from "./action.js";
import { Intent, call } from "./api.js";
import { arrange } from "./arrange.js";
import { Dialog, NAME, choice, field } from "./dialog.js";
import { forceBox } from "./disk-dialogs.js";
import { el, say, setText } from "./dom.js";
import { createArray } from "./requests.js";
import { showShell } from "./shell.js";
import { isFree } from "./states.js";
import { bytes, lifetime } from "./units.js";

const UNITS = [65536, 131072, 262144, 524288, 1048576]
  .map((unit) => [String(unit), bytes(unit)]);
const DUPS = [["async-client", "when its data is written and its image is " +
  "held by the writer"], ["sync-client", "when all copies are written"]];

export function createArrayDialog(model) {
  new Wizard(model).dialog.open();
}

const place = (disk) => `${disk.node} ${disk.path}`;

class Wizard {
  constructor(model) {
    this.disks = model.sorted("disk").filter((d) => isFree(d) && !d.spare_of)
      .sort((a, b) => place(a).localeCompare(place(b), "en",
                                             { numeric: true }));
    this.intent = new Intent();
    this.dialog = new Dialog("Create an array",
      { label: "Next", wide: true, submit: () => this.next() });
    this.back = el("button", { type: "button", class: "btn btn-plain" },
                   "Back");
    this.back.addEventListener("click", () => this.go(this.at - 1));
    this.dialog.foot.insertBefore(this.back, this.dialog.button);
    this.steps = [this.disksStep(), this.layoutStep(), this.reviewStep()];
    this.where = el("p", { class: "hint step", role: "status" });
    this.dialog.body.append(this.where, ...this.steps);
    this.go(0);
  }

  go(at) {
    this.at = at;
    this.steps.forEach((step, i) => {
      step.hidden = i !== at;
    });
    this.back.hidden = at === 0;
    setText(this.where, `Step ${at + 1} of 3: ` +
            ["its name and disks", "its layout", "look it over"][at]);
    setText(this.dialog.button, at === 2 ? "Create it" : "Next");
    setText(this.dialog.error, "");
    this.check();
    (this.steps[at].querySelector("input:not([name=force]), select") ??
     this.dialog.button)
      .focus();
  }

  // Returns whether the dialog is done.
  async next() {
    if (this.at === 2) {
      const request = createArray(this.plan());
      await this.intent.send(request);
      say(`Array ${request.body.name} is being made.`);
      return true;
    }
    if (this.at === 0)
      await this.askLayouts();
    else {
      this.force.input.checked = false;
      await this.review();
    }
    this.go(this.at + 1);
    return false;
  }

  check() {
    const chosen = this.chosen().length;
    const layout = this.layoutOf();
    const reasons = [
      this.name.input.value.trim() === "" ? "Give it a name."
        : chosen === 0 ? "Choose its disks." : null,
      layout ? layout.problem : "Choose a layout.",
      this.refused ?? null,
    ];
    this.dialog.block(reasons[this.at]);
  }

  // ---- Disks. ----

  disksStep() {
    this.name = field("Name", "name", NAME,
      "Lower-case letters, digits and '-'.");
    this.boxes = this.disks.map((disk) => ({ disk, input: el("input",
      { type: "checkbox", value: disk.uuid, checked: "" }) }));
    this.pool = el("input", { type: "checkbox", name: "pool" });
    const said = el("p", { class: "hint", role: "status" });
    const look = () => {
      const chosen = this.chosen();
      const nodes = new Set(chosen.map((d) => d.node)).size;
      setText(said, `${chosen.length} disks on ${nodes} hosts; the smallest ` +
        `has ${bytes(Math.min(...chosen.map((d) => d.data_bytes)))}.`);
      if (chosen.length === 0)
        setText(said, "No disk is chosen.");
      this.check();
    };
    const step = el("div", {}, this.name.node,
      el("fieldset", { class: "choices" }, el("legend", {}, "Free disks"),
        ...this.boxes.map(({ disk, input }) => el("label", {}, input,
          el("span", {}, `${disk.node}: ${disk.path}`),
          el("span", { class: "quiet" }, bytes(disk.size))))), said,
      el("div", { class: "choices" }, el("label", {}, this.pool,
        el("span", {}, "A pool of thin volumes: the array itself is no disk"))));
    step.addEventListener("input", look);
    queueMicrotask(look);
    return step;
  }

  chosen() {
    return this.boxes.filter(({ input }) => input.checked)
      .map(({ disk }) => disk);
  }

  // ---- Layouts. ----

  layoutStep() {
    this.groups = choice("Stripe groups", "groups", [["1", "1"]], "1");
    this.unit = choice("Stripe unit", "unit", UNITS, "262144");
    this.dup = choice("A write is acknowledged", "dup", DUPS, "async-client");
    this.table = el("table", { class: "table table-sm layouts" });
    this.warning = el("p", { class: "problem", role: "status" });
    for (const { input } of [this.groups, this.unit])
      input.addEventListener("change", () => this.askLayouts());
    return el("div", {}, el("div", { class: "tools" }, this.groups.node,
      this.unit.node, this.dup.node),
      el("div", { class: "scroll", tabindex: "0", role: "region",
                  "aria-label": "Layouts compared" }, this.table),
      this.warning, el("p", { class: "hint" }, "The mean time to data loss " +
        "is that of a Markov model: 2 % of disks fail a year, and a rebuild " +
        "runs at 100 MB/s."));
  }

  showGroups() {
    const count = this.chosen().length;
    const now = this.groups.input.value;
    const options = [];
    for (let k = 1; k <= count; k++)
      if (count % k === 0)
        options.push(el("option", { value: String(k) },
          `${k} of ${count / k} disks`));
    this.groups.input.replaceChildren(...options);
    if (count % Number(now) === 0)
      this.groups.input.value = now;
  }

  // Each layout with the disks in its own order.
  async askLayouts() {
    this.showGroups();
    const ask = (layout) => call("POST", "/layouts", {
      disks: this.order(layout).map((d) => d.uuid),
      groups: Number(this.groups.input.value),
      unit: Number(this.unit.input.value) });
    const [mirrored, others] = await Promise.all([ask("raid-10"),
                                                  ask("raid-x")]);
    this.layouts = others.layouts.map((l) => l.layout !== "raid-10" ? l
      : mirrored.layouts.find((m) => m.layout === l.layout));
    this.drawLayouts();
  }

  drawLayouts() {
    const before = this.layoutOf()?.layout ?? "raid-x";
    const heads = ["Layout", "Usable", "Survives", "A small write costs", "Copies",
                   "Mean time to data loss"];
    this.table.replaceChildren(
      el("caption", { class: "visually-hidden" }, "Layouts compared"),
      el("thead", {}, el("tr", {}, ...heads.map((h) =>
        el("th", { scope: "col" }, h)))),
      el("tbody", {}, ...this.layouts.map((l) => layoutRow(l, before))));
    for (const input of this.table.querySelectorAll("input"))
      input.addEventListener("change", () => this.look());
    this.look();
  }

  look() {
    const layout = this.layoutOf();
    setText(this.warning, layout?.copies > 1 && layout.hosts_any === 0
      ? "A host has several disks of one group: its loss would lose data. " +
        "Choose disks of more hosts, or more groups." : "");
    this.check();
  }

  layoutOf() {
    const input = this.table.querySelector("input:checked");
    return this.layouts?.find((l) => l.layout === input?.value);
  }

  // ---- Review. ----

  reviewStep() {
    this.lines = el("div", { role: "status" });
    this.shell = el("div");
    this.force = forceBox();
    this.force.input.addEventListener("change", async () => {
      await this.review();
      this.check();
    });
    return el("div", {}, this.lines, this.force.node, this.shell);
  }

  order(layout) {
    return arrange(this.chosen(), layout, Number(this.groups.input.value));
  }

  plan() {
    const { layout } = this.layoutOf();
    const plan = { name: this.name.input.value.trim(), layout,
      unit: Number(this.unit.input.value),
      groups: Number(this.groups.input.value),
      disks: this.order(layout).map((d) => d.uuid),
      ...this.pool.checked ? { pool: true } : {},
      ...this.force.input.checked ? { force: true } : {} };
    // The other layouts have one way only.
    return layout === "raid-10" ? { ...plan, dup: this.dup.input.value } : plan;
  }

  async review() {
    const request = createArray(this.plan());
    const answer = await preflight(request);
    this.refused = answer.allowed ? null : `weftd would refuse: ${answer.why}`;
    this.force.told(answer);
    const { plan } = answer;
    const facts = plan ? [["Name", plan.name],
      ["Use", this.pool.checked ? "a pool of thin volumes" : "one disk"],
      ["Layout", plan.layout],
      ["Usable", bytes(plan.capacity.usable)], ["Survives", plan.survives]] : [];
    this.lines.replaceChildren(...preflightLines(answer),
      el("dl", { class: "facts" }, ...facts.map(([t, d]) =>
        el("div", {}, el("dt", {}, t), el("dd", {}, d)))),
      el("p", { class: "hint" }, "Its members, by position:"),
      el("ol", { class: "members", start: "0" }, ...plan?.members.map((m) =>
        el("li", {}, `${m.node}: ${m.path}`)) ?? []));
    showShell(this.shell, request);
  }
}

function layoutRow(layout, before) {
  const can = !layout.problem;
  const input = el("input", { type: "radio", name: "layout",
    value: layout.layout, disabled: can ? null : "",
    checked: can && layout.layout === before ? "" : null });
  const head = el("th", { scope: "row" },
    el("label", {}, input, ` ${layout.layout}`));
  if (!can)
    return el("tr", { class: "quiet" }, head,
              el("td", { colspan: "5" }, layout.problem));
  return el("tr", {}, head, ...[bytes(layout.capacity.usable),
    layout.survives, `${Number(layout.write_cost.toFixed(2))} disk writes`,
    String(layout.copies), lifetime(layout.mttdl_hours)].map((text) =>
      el("td", {}, text)));
}
