// rein.js: the sliders that hold a rebuild's rate: at least, and at most.

import { act } from "./action.js";
import { Intent } from "./api.js";
import { el, setAttribute, setText } from "./dom.js";
import { byteRate } from "./units.js";

// Bytes a second.  0 is weftd's default for the floor, the first place, and no
// ceiling, the last.
const MIB = 1 << 20;
const RATES = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
  .map((n) => n * MIB);

export const REINS = {
  floor: { title: "At least", rates: [0, ...RATES], none: "weftd's default" },
  ceiling: { title: "At most", rates: [...RATES, 0], none: "no ceiling" },
};

// A slider that was let go stays where it is until weftd has said the same.
const HOLD_MS = 3000;

export class Rein {
  // Of `who`; request(rate) asks weftd for it.
  constructor(which, who, request) {
    Object.assign(this, { which, who, request, heldUntil: 0 });
    Object.assign(this, REINS[which]);
    this.intent = new Intent();
    this.input = el("input", { type: "range", name: which, min: "0",
                               max: String(this.rates.length - 1) });
    this.output = el("output");
    this.node = el("label", { class: "rein" }, el("span", {}, this.title),
                   this.input, this.output);
    this.input.addEventListener("input", () => this.hold());
    this.input.addEventListener("change", () => this.letGo());
  }

  // Changes by others count from now on until it is released.
  hold() {
    if (this.heldUntil !== Infinity) {
      this.looked = this.intent.look(this.request(0));
      this.looked.catch(() => {}); // letGo() says so
    }
    this.heldUntil = Infinity;
    this.say(this.rates[Number(this.input.value)]);
  }

  async letGo() {
    const rate = this.rates[Number(this.input.value)];
    const done = `${this.who}: ${this.title.toLowerCase()} ${this.text(rate)}.`;
    const answer = await act(this.request(rate), done, async () => {
      await this.looked;
      return this.intent.send(this.request(rate));
    });
    this.heldUntil = answer ? Date.now() + HOLD_MS : 0;
  }

  text(rate) {
    return rate > 0 ? byteRate(rate) : this.none;
  }

  say(rate) {
    setText(this.output, this.text(rate));
    setAttribute(this.input, "aria-valuetext", this.text(rate));
  }

  // `why`: why it can't be moved, or null.
  show(rate, why) {
    if (Date.now() > this.heldUntil) {
      this.input.value = String(this.placeOf(rate));
      this.say(rate);
    }
    this.input.disabled = why !== null;
    setAttribute(this.input, "title", why);
  }

  placeOf(rate) {
    const place = this.rates.findIndex((r) =>
      r === rate || r > rate && rate > 0);
    return place === -1 ? this.rates.lastIndexOf(RATES.at(-1)) : place;
  }
}
