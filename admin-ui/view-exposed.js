// view-exposed.js: the data that could be lost now, in figures.

import { el, setAttribute, setText } from "./dom.js";
import { bytes, count, duration } from "./units.js";

const EXTENT_BYTES = 4 << 20;

const sum = (items, of) => items.reduce((total, item) => total + of(item), 0);

function dirtyOf(disk, model) {
  return model.load.disks?.[disk.uuid]?.dirty_extents ?? disk.dirty_extents;
}

// [title, (model) => [figure, tone, what it means]]
const FIGURES = [
  ["Bytes with a single copy", ({ arrays }) => {
    const n = sum(arrays, (a) => a.exposed_bytes);
    return [bytes(n), n > 0 ? "warning" : "ok",
            n > 0 ? "one more failure could lose them"
                  : "every byte has all of its copies"];
  }],
  ["Unreachable or lost", ({ arrays }) => {
    const n = sum(arrays, (a) => a.unreachable_bytes + a.lost_bytes);
    const lost = sum(arrays, (a) => a.lost_bytes);
    return [bytes(n), n > 0 ? "error" : "ok",
            lost > 0 ? `${bytes(lost)} of it for good`
              : n > 0 ? "their members are away" : "nothing"];
  }],
  ["Oldest image not yet written", ({ loads }) => {
    const ms = Math.max(0, ...loads.map((l) => l.image_oldest_ms ?? 0));
    const held = sum(loads, (l) => l.image_bytes ?? 0);
    return [held > 0 ? duration(ms / 1000) : "none", "quiet",
            held > 0 ? `${bytes(held)} in the writers' buffers`
                     : "no writer holds an image back"];
  }],
  ["Dirty extents", ({ disks, model }) => {
    const n = sum(disks, (d) => dirtyOf(d, model));
    return [count(n), "quiet", n > 0
      ? `at most ${bytes(n * EXTENT_BYTES)} to compare if a writer died now`
      : "nothing to compare if a writer died now"];
  }],
];

export class ExposedView {
  constructor(parent) {
    this.list = el("dl", { class: "figures live" }, ...FIGURES.map(([title]) =>
      el("div", {}, el("dt", {}, title), el("dd", {}),
         el("dd", { class: "hint" }))));
    parent.append(this.list);
  }

  show(model) {
    const all = { model, arrays: model.sorted("array"),
                  disks: model.sorted("disk").filter((d) => d.array),
                  loads: Object.values(model.load.arrays ?? {}) };
    FIGURES.forEach(([, of], i) => {
      const [figure, tone, meaning] = of(all);
      const box = this.list.children[i];
      setAttribute(box, "data-tone", tone);
      setText(box.children[1], figure);
      setText(box.children[2], meaning);
    });
  }
}
