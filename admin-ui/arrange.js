// arrange.js: in which order disks become members, so that the copies of a byte
// are on different hosts where that can be.

function byNode(disks) {
  const nodes = new Map();
  for (const disk of disks)
    nodes.set(disk.node, [...nodes.get(disk.node) ?? [], disk]);
  return [...nodes.values()];
}

// raid-10 mirrors position p at p + n/2: hosts side by side.  The others: the
// first disk of each host, then the second of each; so with as many groups as a
// host has disks, each group has one disk of every host.
export function arrange(disks, layout, groups) {
  const nodes = byNode(disks);
  if (layout === "raid-10" && groups === 1)
    return nodes.flat();
  const rounds = Math.max(0, ...nodes.map((list) => list.length));
  return Array.from({ length: rounds }, (_, i) =>
    nodes.flatMap((list) => list[i] ?? [])).flat();
}
