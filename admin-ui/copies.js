// copies.js: where the two copies of what a member holds are.  The picture of
// core/layout/layout that the array map needs; bytes are weftd's business.
//
// A member has halves: "data", "image", or one of them (raid-10, raid-1).

export function halvesOf({ layout, n }, position) {
  const p = position % n;
  if (layout === "raid-0")
    return ["data"];
  if (layout === "raid-10")
    return [p < n / 2 ? "data" : "image"];
  if (layout === "raid-1")
    return [p === 0 ? "data" : "image"];
  return ["data", "image"];
}

// The positions that hold the other copies of this half, in its group.
export function partnersOf({ layout, n }, position, half) {
  const p = position % n, first = position - p;
  const others = Array.from({ length: n }, (_, i) => i).filter((i) => i !== p);
  const at = {
    "raid-0": () => [],
    "raid-10": () => [(p + n / 2) % n],
    chained: () => [(half === "data" ? p + 1 : p - 1 + n) % n],
  }[layout] ?? (() => others);
  return at().map((i) => first + i);
}

// The present state of this half of a member: {word, tone, mark}.
export function halfState(array, position, half) {
  const inSync = (p) => array.members[p].state === "in-sync";
  const partners = partnersOf(array, position, half);
  const away = partners.filter((p) => !inSync(p));
  if (!inSync(position))
    return array.members[position].state === "joining"
      ? { word: "being written", tone: "warning", mark: "…" }
      : { word: "missing", tone: "error", mark: "✕" };
  if (partners.length === 0)
    return { word: "the only copy, by its layout", tone: "warning", mark: "!" };
  if (away.length === 0)
    return { word: "has all copies", tone: "ok", mark: "✓" };
  const all = array.layout === "raid-1" && away.length < partners.length;
  return { word: all ? "has a copy less" : "holds the only copy of some",
           tone: "warning", mark: "!" };
}
