"""Where every copy of a byte must lie, by a second, dumb reading of what the
layouts are (docs/DESIGN.md 4), and the check that all are there and alike.

Nothing of this knows core/layout/layout.c.  The check reads the members' files
themselves, so it sees what a host would find that has only the disks.
"""

import mmap
import os

EXTENT = 4 << 20


class Model:
    """copies(A): the places (member, unit) of the array's stripe unit A."""

    def __init__(self, layout, members, unit, member_bytes, groups=1):
        assert members % groups == 0
        self.layout, self.groups, self.unit = layout, groups, unit
        self.members = members
        self.n = n = members // groups
        self.width = {"raid-10": n // 2, "raid-1": 1}.get(layout, n)
        whole = member_bytes // unit
        if layout == "raid-x":
            # k units of a member, the first half data, whole clusters of n-1.
            self.half = whole // 2 // (n - 1) * (n - 1)
        elif layout in ("chained", "rotated"):
            self.half = whole // 2
        else:
            self.half = whole
        self.units = self.half * self.width * groups
        self.size = self.units * unit

    def copies(self, a):
        """Data first."""
        n, half = self.n, self.half
        stripe, d = divmod(a, self.width)
        t, g = divmod(stripe, self.groups)
        data = (d, t)
        if self.layout == "raid-x":
            # A counts within the group, as if there were no other.
            own = t * n + d
            c = own // (n - 1)
            images = [((n - 1 - c) % n,
                       half + (n - 1) * (c // n) + own % (n - 1))]
        elif self.layout == "raid-10":
            images = [(d + n // 2, t)]
        elif self.layout == "chained":
            images = [((d + 1) % n, half + t)]
        elif self.layout == "rotated":
            images = [((d + 1 + t % (n - 1)) % n, half + t)]
        elif self.layout == "raid-1":
            images = [(m, t) for m in range(1, n)]
        else:
            assert self.layout == "raid-0"
            images = []
        return [(g * n + m, u) for m, u in [data] + images]

    def stale(self, member, units):
        """The extents that this member is to copy when these units were written
        without it: the others know by extents alone where they were written."""
        def extent(place):
            return place[1] * self.unit // EXTENT

        written = {(p[0], extent(p)) for a in units for p in self.copies(a)
                   if p[0] != member}
        return {extent(p) for a in range(self.units) for p in self.copies(a)
                if p[0] == member and
                any((q[0], extent(q)) in written for q in self.copies(a))}


class Copies:
    """The members' files of a cluster, or (file, data offset) pairs, opened
    for looking."""

    def __init__(self, model, files):
        self.model = model
        self.maps = []
        for file, offset in files:
            fd = os.open(file, os.O_RDONLY)
            try:
                self.maps.append((mmap.mmap(fd, 0, prot=mmap.PROT_READ),
                                  offset))
            finally:
                os.close(fd)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for m, _ in self.maps:
            m.close()

    def read(self, member, unit):
        m, offset = self.maps[member]
        at = offset + unit * self.model.unit
        assert at + self.model.unit <= len(m), \
            f"member {member} is too short for its unit {unit}"
        return m[at:at + self.model.unit]

    def different(self, content=None, lost=(), units=None):
        """The units A whose copies are not all alike, or not what `content`
        (a function of offset and length) says; members in `lost` don't count.
        """
        bad = []
        for a in units if units is not None else range(self.model.units):
            places = [p for p in self.model.copies(a) if p[0] not in lost]
            want = (content(a * self.model.unit, self.model.unit)
                    if content else None)
            for p in places:
                have = self.read(*p)
                if want is None:
                    want = have
                elif have != want:
                    bad.append((a, places))
                    break
        return bad


def model_of(c, layout, unit, groups=1):
    """The model of a devcluster's array."""
    disks = {d["path"]: d for d in c.get("/api/v1/disks")["disks"]}
    sizes = []
    for file, offset in files_of(c):
        data = disks[file]["data_bytes"]
        room = os.path.getsize(file) - offset
        # A disk may round its data area down, to an extent at most.
        assert room - (4 << 20) < data <= room, \
            f"{file}: data area of {data} bytes in {room}"
        sizes.append(data)
    return Model(layout, len(sizes), unit, usable(min(sizes)), groups)


def usable(data):
    """The part of a data area that an array uses: it leaves 4 KiB and 16 bytes for each 4 MiB
    (docs/FORMAT.md)."""
    extents = -(-data // (4 << 20))
    return data - extents * 4096 - -(-extents * 16 // 4096) * 4096


def files_of(c):
    """The array's members' files, in order, whoever serves them by now."""
    paths = {d["uuid"]: d["path"] for d in c.get("/api/v1/disks")["disks"]}
    offsets = {m["file"]: m["data_offset"] for m in c.members}
    return [(paths[m["disk"]], offsets[paths[m["disk"]]])
            for a in c.get("/api/v1/arrays")["arrays"] for m in a["members"]]


def check_copies(c, model, content=None, lost=(), units=None):
    """Fails unless all copies on the cluster's members are alike (and as
    `content` says).  The array must be flushed and nobody writing.
    """
    with Copies(model, files_of(c)) as copies:
        bad = copies.different(content, lost, units)
    assert not bad, (f"{len(bad)} of {model.units} units differ between their "
                     f"copies; the first: unit, [(member, unit there)...]: "
                     f"{bad[:4]}")
