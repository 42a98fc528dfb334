// view-rebuilds.js: each member that comes back: from where to where, how far,
// how fast, how long yet; and its reins.

import { act, button, confirm, firstReason, updateButton } from "./action.js";
import { el, keyed, setAttribute, setText } from "./dom.js";
import { doneOf, rebuildOf } from "./model.js";
import { REINS, Rein } from "./rein.js";
import { cancelRebuild, pauseRebuild, rateRebuild } from "./requests.js";
import { showShell } from "./shell.js";
import { byteRate, bytes, duration, percent } from "./units.js";

function rebuilding(model) {
  return model.sorted("array").flatMap((array) => array.members
    .filter((member) => member.rebuild)
    .map((member) => ({ array, member,
      rebuild: rebuildOf(array.name, member, model) })));
}

export class RebuildsView {
  constructor(parent) {
    this.list = el("div", {});
    this.empty = el("p", { class: "quiet", hidden: "" },
                    "Nothing is being rebuilt.");
    parent.append(this.list, this.empty);
    this.cards = new WeakMap();
  }

  show(model) {
    const items = rebuilding(model);
    this.empty.hidden = items.length > 0;
    keyed(this.list, items, (i) => `${i.array.name} ${i.member.position}`,
      (item) => this.make(item), (card, item) => this.update(card, item));
  }

  make({ array, member }) {
    const [name, position] = [array.name, member.position];
    const c = { reins: Object.keys(REINS).map((which) =>
      new Rein(which, `Member ${position} of ${name}`, (rate) =>
        rateRebuild(name, position, which, rate))) };
    c.pause = button("Pause", () =>
      act(pauseRebuild(name, position, !c.paused)));
    c.cancel = button("Cancel…", () =>
      confirm(cancelRebuild(name, position), { label: "Cancel it" }));
    c.title = el("h3", { class: "h6" });
    c.sources = el("span", { class: "end" });
    c.target = el("span", { class: "end" });
    c.flow = el("span", { class: "flow", "aria-hidden": "true" });
    c.bar = el("progress", { class: "rebuild", max: 1,
                             "aria-label": `Member ${position} of ${name}` });
    c.figures = el("p", { class: "rebuild-figures live" });
    c.waits = el("p", { class: "waits" });
    c.shell = el("div");
    const card = el("article", { class: "card rebuild-card" },
      el("div", { class: "card-body" }, c.title,
        el("p", { class: "route" }, c.sources, c.flow, c.target), c.bar,
        c.figures, c.waits,
        el("div", { class: "reins" }, ...c.reins.map((rein) => rein.node)),
        el("div", { class: "buttons" }, c.pause, c.cancel), c.shell));
    this.cards.set(card, c);
    return card;
  }

  update(card, { array, member, rebuild }) {
    const c = this.cards.get(card);
    const from = rebuild.sources.map((p) =>
      `${p} on ${array.members[p].node}`);
    const moving = rebuild.rate > 0 && !rebuild.paused;
    c.paused = rebuild.paused;
    setText(c.title, `Member ${member.position} of ${array.name}`);
    setText(c.sources, from.length > 0 ? from.join(", ") : "no source yet");
    setText(c.target, `${member.position} on ${member.node}`);
    setAttribute(c.flow, "data-moving", moving ? "" : null);
    setAttribute(c.bar, "value", doneOf(rebuild).toFixed(3));
    setText(c.figures, [
      `${percent(doneOf(rebuild))} of ${bytes(rebuild.total_bytes)}`,
      moving ? byteRate(rebuild.rate) : null,
      rebuild.eta_s !== null ? `${duration(rebuild.eta_s)} left` : null,
      rebuild.unreadable_bytes > 0
        ? `${bytes(rebuild.unreadable_bytes)} could not be read` : null,
    ].filter((part) => part).join(" · "));
    setText(c.waits, rebuild.waits ? `Waits for ${rebuild.waits}.` : "");
    const why = firstReason();
    for (const rein of c.reins)
      rein.show(rebuild[rein.which], why);
    setText(c.pause, rebuild.paused ? "Resume" : "Pause");
    updateButton(c.pause, why);
    updateButton(c.cancel, why);
    this.showShell(c, array.name, member.position, rebuild);
  }

  showShell(c, name, position, rebuild) {
    const now = `${rebuild.paused} ${rebuild.floor} ${rebuild.ceiling}`;
    if (c.shown === now)
      return;
    c.shown = now;
    showShell(c.shell, pauseRebuild(name, position, !rebuild.paused),
      ...Object.keys(REINS).map((which) =>
        rateRebuild(name, position, which, rebuild[which])));
  }
}
