// view-rebuilds.js: each member that comes back: from where to where, how far,
// how fast, how long yet; and its reins.

import { act, button, confirm, firstReason, updateButton } from "./action.js";
import { el, keyed, setAttribute, setText } from "./dom.js";
import { doneOf, rebuildOf } from "./model.js";
import { cancelRebuild, capRebuild, pauseRebuild } from "./requests.js";
import { shellOf } from "./shell.js";
import { byteRate, bytes, duration, percent } from "./units.js";

// The slider's places: bytes a second; 0, no ceiling, is the last.
const MIB = 1 << 20;
const CEILINGS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
  .map((n) => n * MIB).concat(0);
// A slider that was let go stays where it is until weftd has said the same.
const HOLD_MS = 3000;

const ceilingText = (ceiling) =>
  ceiling > 0 ? `at most ${byteRate(ceiling)}` : "no ceiling";

function placeOf(ceiling) {
  if (ceiling === 0)
    return CEILINGS.length - 1;
  const place = CEILINGS.findIndex((c) => c >= ceiling);
  return place === -1 ? CEILINGS.length - 2 : place;
}

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
    const c = { cap: el("input", { type: "range", min: "0",
                                   max: String(CEILINGS.length - 1) }),
                capText: el("output"), heldUntil: 0 };
    const ceiling = () => CEILINGS[Number(c.cap.value)];
    c.cap.addEventListener("input", () => {
      c.heldUntil = Infinity;
      this.showCap(c, ceiling());
    });
    c.cap.addEventListener("change", () => {
      c.heldUntil = Date.now() + HOLD_MS;
      if (c.why) {
        c.heldUntil = 0;
        return;
      }
      act(capRebuild(name, position, ceiling()),
          `Member ${position} of ${name}: ${ceilingText(ceiling())}.`);
    });
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
    const cap = el("label", { class: "cap" }, el("span", {}, "Rate "),
                   c.cap, c.capText);
    const card = el("article", { class: "card rebuild-card" },
      el("div", { class: "card-body" }, c.title,
        el("p", { class: "route" }, c.sources, c.flow, c.target), c.bar,
        c.figures, c.waits, cap,
        el("div", { class: "buttons" }, c.pause, c.cancel), c.shell));
    this.cards.set(card, c);
    return card;
  }

  showCap(c, ceiling) {
    setText(c.capText, ceilingText(ceiling));
    setAttribute(c.cap, "aria-valuetext", ceilingText(ceiling));
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
    c.why = firstReason();
    if (Date.now() > c.heldUntil) {
      c.cap.value = String(placeOf(rebuild.ceiling));
      this.showCap(c, rebuild.ceiling);
    }
    c.cap.disabled = c.why !== null;
    setAttribute(c.cap, "title", c.why);
    setText(c.pause, rebuild.paused ? "Resume" : "Pause");
    updateButton(c.pause, c.why);
    updateButton(c.cancel, c.why);
    this.showShell(c, array.name, member.position, rebuild);
  }

  showShell(c, name, position, rebuild) {
    const now = `${rebuild.paused} ${rebuild.ceiling}`;
    if (c.shown === now)
      return;
    c.shown = now;
    const open = c.shell.querySelector("details[open]") !== null;
    const parts = [pauseRebuild(name, position, !rebuild.paused),
                   capRebuild(name, position, rebuild.ceiling)].map(shellOf);
    const all = parts[0];
    all.append(...[...parts[1].children].slice(1));
    all.open = open;
    c.shell.replaceChildren(all);
  }
}
