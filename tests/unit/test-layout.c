/* test-layout.c: holds layout.c against a picture.
 *
 * The oracle draws the members as a table of cells, one a stripe unit, the way
 * a person would from the paper's words: it deals the data out like cards, then
 * goes through it again and puts each image into the next free cell of the
 * member that the words name.  It has no formula of layout.c in it: for raid-x
 * it looks for the one member that has nothing of a cluster, for rotated it
 * steps from member to member.  Every answer of layout.c is then looked up in
 * the picture.
 */

#include <config.h>

#include <assert.h>
#include <string.h>

#include "layout/layout.h"
#include "test-random.h"

static const char *doing = "nothing";

/* With what is being done, and perhaps with words of its own. */
#undef CHECK
#define CHECK(e, ...)                                                          \
  do {                                                                         \
    if (!(e)) {                                                                \
      fprintf (stderr, "%s:%d: %s: not so: %s", __FILE__, __LINE__, doing,     \
               #e);                                                            \
      fprintf (stderr, " " __VA_ARGS__);                                       \
      fprintf (stderr, "\nrun again with WEFT_SEED=%" PRIu64 "\n", test_seed); \
      exit (1);                                                                \
    }                                                                          \
  } while (0)

static struct layout
made (enum layout_kind kind, unsigned n, unsigned groups, uint64_t unit,
      uint64_t member_bytes)
{
  struct layout l;
  char why[256];

  CHECK (
    layout_init (&l, kind, n, groups, unit, member_bytes, why, sizeof why) == 0,
    "%s", why);
  return l;
}

/* ---- The picture ---- */

struct cell {
  int64_t unit; /* of the array; -1: nothing */
  int copy;
};

struct spot {
  unsigned member, row;
};

struct picture {
  unsigned n, groups, members, rows, copies;
  int64_t units;                    /* of the array */
  struct cell *cell;                /* [member * rows + row] */
  struct spot *copy;                /* [unit * COPIES_MAX + copy] */
  unsigned *next_data, *next_image; /* [member]: the next free row */
};

static void
put (struct picture *p, unsigned member, unsigned row, int64_t unit, int copy)
{
  struct cell *c = &p->cell[member * p->rows + row];

  CHECK (row < p->rows, "member %u is full", member);
  CHECK (c->unit == -1, "two things in row %u of member %u", row, member);
  *c = (struct cell) { unit, copy };
  p->copy[unit * COPIES_MAX + copy] = (struct spot) { member, row };
}

/* raid-x: n-1 successive units make a cluster; its images go side by side on
 * the member of the group that holds none of the cluster's data.
 */
static void
draw_clusters (struct picture *p, const int64_t *units, unsigned count,
               unsigned first)
{
  const unsigned n = p->n;

  CHECK (count % (n - 1) == 0, "%u units fill no whole clusters", count);
  for (unsigned i = 0; i < count; i += n - 1) {
    bool has_data[GROUP_MEMBERS_MAX] = { false };
    unsigned home = 0;

    for (unsigned j = 0; j < n - 1; j++)
      has_data[p->copy[units[i + j] * COPIES_MAX].member - first] = true;
    while (has_data[home])
      home++;
    CHECK (home < n, "no member is free of the cluster's data");
    for (unsigned j = 0; j < n - 1; j++)
      put (p, first + home, p->next_image[first + home]++, units[i + j], 1);
  }
}

/* Deal `stripes` stripes to each group.  `units` has room for one group's. */
static void
draw_group (struct picture *p, enum layout_kind kind, unsigned group,
            unsigned width, unsigned stripes, int64_t *units)
{
  const unsigned n = p->n, first = group * n;
  unsigned hop = 1, count = 0;

  for (unsigned t = 0; t < stripes; t++) {
    for (unsigned d = 0; d < width; d++) {
      /* Stripes go to the groups in turn. */
      const int64_t a = (int64_t) width * (t * p->groups + group) + d;

      units[count++] = a;
      put (p, first + d, p->next_data[first + d]++, a, 0);
    }
  }
  if (kind == LAYOUT_RAIDX) {
    draw_clusters (p, units, count, first);
    return;
  }
  for (unsigned i = 0; i < count; i++) {
    const unsigned d = i % width;
    unsigned m = first + d;

    switch (kind) {
    case LAYOUT_RAID10:
      m += n / 2;
      break;
    case LAYOUT_CHAINED:
      m = d == n - 1 ? first : m + 1;
      break;
    case LAYOUT_ROTATED:
      for (unsigned h = 0; h < hop; h++)
        m = m == first + n - 1 ? first : m + 1;
      /* The next stripe goes to the next one of the others. */
      if (d == width - 1)
        hop = hop == n - 1 ? 1 : hop + 1;
      break;
    case LAYOUT_RAID1:
      for (unsigned c = 1; c < n; c++)
        put (p, first + c, p->next_image[first + c]++, units[i], c);
      continue;
    default:
      continue;
    }
    put (p, m, p->next_image[m]++, units[i], 1);
  }
}

/* The picture of as much as fits on members of `rows_max` cells. */
static struct picture *
draw (enum layout_kind kind, unsigned n, unsigned groups, unsigned rows_max)
{
  struct picture *p = calloc (1, sizeof *p);
  const bool halved = kind == LAYOUT_RAIDX || kind == LAYOUT_CHAINED ||
                      kind == LAYOUT_ROTATED;
  unsigned width = n, stripes = halved ? rows_max / 2 : rows_max;
  int64_t *units;

  if (kind == LAYOUT_RAID10)
    width = n / 2;
  else if (kind == LAYOUT_RAID1)
    width = 1;
  /* A raid-x period: every member has had one cluster's images. */
  while (kind == LAYOUT_RAIDX && stripes * n % (n * (n - 1)) != 0)
    stripes--;

  p->n = n;
  p->groups = groups;
  p->members = n * groups;
  p->copies = kind == LAYOUT_RAID0 ? 1 : kind == LAYOUT_RAID1 ? n : 2;
  p->rows = halved ? 2 * stripes : stripes;
  p->units = (int64_t) stripes * width * groups;
  p->cell = calloc (p->members * p->rows, sizeof *p->cell);
  p->copy = calloc (p->units * COPIES_MAX, sizeof *p->copy);
  p->next_data = calloc (p->members, sizeof *p->next_data);
  p->next_image = calloc (p->members, sizeof *p->next_image);
  units = calloc (stripes * width, sizeof *units);
  assert (p->cell && p->copy && p->next_data && p->next_image && units);
  for (unsigned i = 0; i < p->members * p->rows; i++)
    p->cell[i].unit = -1;
  for (unsigned m = 0; m < p->members; m++)
    p->next_image[m] = halved ? stripes : 0;

  for (unsigned g = 0; g < groups; g++)
    draw_group (p, kind, g, width, stripes, units);
  free (units);
  return p;
}

static void
erase (struct picture *p)
{
  free (p->cell);
  free (p->copy);
  free (p->next_data);
  free (p->next_image);
  free (p);
}

/* ---- layout.c against the picture ---- */

static void
check_map (const struct layout *l, const struct picture *p)
{
  CHECK (l->size == (uint64_t) p->units * l->unit);
  CHECK (l->member_bytes == (uint64_t) p->rows * l->unit);
  CHECK (l->members == p->members && l->copies == p->copies);

  for (int64_t a = 0; a < p->units; a++) {
    const uint32_t in = test_random (l->unit), left = l->unit - in;
    const uint64_t offset = a * l->unit + in;
    const uint64_t length = 1 + test_random (
                                  test_random (2) ? left : l->size - offset);
    struct layout_piece piece;

    layout_map (l, offset, length, &piece);
    CHECK (piece.offset == offset && piece.copies == p->copies);
    CHECK (piece.length == (length < left ? length : left));
    for (unsigned c = 0; c < piece.copies; c++) {
      const struct spot *s = &p->copy[a * COPIES_MAX + c];

      CHECK (piece.copy[c].member == s->member &&
             piece.copy[c].offset == (uint64_t) s->row * l->unit + in);
      for (unsigned b = 0; b < c; b++)
        CHECK (piece.copy[b].member != piece.copy[c].member);
    }
  }
}

static void
check_unmap (const struct layout *l, const struct picture *p)
{
  for (unsigned m = 0; m < p->members; m++) {
    for (unsigned row = 0; row <= p->rows; row++) {
      const uint32_t in = test_random (l->unit);
      uint64_t offset = UINT64_MAX;
      uint32_t length = 0;
      int copy = layout_unmap (l, m, (uint64_t) row * l->unit + in, &offset,
                               &length);

      CHECK (length == l->unit - in);
      if (row == p->rows || p->cell[m * p->rows + row].unit == -1) {
        CHECK (copy == -1);
        continue;
      }
      const struct cell *c = &p->cell[m * p->rows + row];
      CHECK (copy == c->copy && offset == (uint64_t) c->unit * l->unit + in);
    }
  }
}

/* Walk a range unit by unit through the picture; its pieces on each member must be
 * contiguous.
 */
static void
check_span (const struct layout *l, const struct picture *p)
{
  const uint64_t offset = test_random (l->size);
  const uint64_t length = 1 + test_random (
                                test_random (2)
                                  ? l->size - offset
                                  : (l->size - offset < 5 * (uint64_t) l->unit
                                       ? l->size - offset
                                       : 5 * (uint64_t) l->unit));

  for (unsigned m = 0; m < p->members; m++) {
    uint64_t from = 0, to = 0, span_offset, span_length;
    bool any = false, has;

    for (uint64_t at = offset; at < offset + length;) {
      const uint64_t in = at % l->unit;
      const struct spot *s = &p->copy[at / l->unit * COPIES_MAX];
      uint64_t part = l->unit - in;

      if (part > offset + length - at)
        part = offset + length - at;
      if (s->member == m) {
        CHECK (!any || (uint64_t) s->row * l->unit + in == to);
        if (!any)
          from = (uint64_t) s->row * l->unit + in;
        to = (uint64_t) s->row * l->unit + in + part;
        any = true;
      }
      at += part;
    }
    has = layout_data_span (l, m, offset, length, &span_offset, &span_length);
    CHECK (has == any);
    if (has)
      CHECK (span_offset == from && span_length == to - from);
  }
}

/* Which members have something in common, and where. */
static void
check_shares (const struct layout *l, const struct picture *p)
{
  for (unsigned m = 0; m < p->members; m++) {
    bool partner[ARRAY_MEMBERS_MAX], common[ARRAY_MEMBERS_MAX] = { false };

    layout_partners (l, m, partner);
    for (unsigned row = 0; row <= p->rows; row++) {
      const uint32_t in = test_random (l->unit);
      const uint64_t offset = (uint64_t) row * l->unit + in;
      const int64_t unit = row < p->rows ? p->cell[m * p->rows + row].unit : -1;

      /* Of each copy, and of a member that may have none. */
      for (unsigned i = 0; i <= p->copies; i++) {
        uint64_t length = test_random (2) ? UINT64_MAX : 1;
        const uint64_t most = length == 1 ? 1 : l->unit - in;
        unsigned other = test_random (p->members);
        bool there = false;

        if (i < p->copies && unit != -1)
          other = p->copy[unit * COPIES_MAX + i].member;
        for (unsigned c = 0; unit != -1 && c < p->copies; c++)
          there |= p->copy[unit * COPIES_MAX + c].member == other;
        CHECK (layout_shares (l, m, offset, other, &length) == there,
               "row %u of member %u at member %u", row, m, other);
        CHECK (length == most);
        common[other] |= there && other != m;
      }
    }
    for (unsigned other = 0; other < ARRAY_MEMBERS_MAX; other++)
      CHECK (partner[other] == common[other], "members %u and %u", m, other);
  }
}

static void
check_lost (const struct layout *l, const struct picture *p, const bool lost[])
{
  uint64_t gone = 0, thin = 0, exposed = UINT64_MAX, bytes;

  for (int64_t a = 0; a < p->units; a++) {
    unsigned left = 0;

    for (unsigned c = 0; c < p->copies; c++)
      left += !lost[p->copy[a * COPIES_MAX + c].member];
    gone += left == 0;
    thin += left > 0 && left < p->copies;
  }
  bytes = layout_loss (l, lost, &exposed);
  CHECK (bytes == gone * l->unit && exposed == thin * l->unit);
  CHECK (layout_loss (l, lost, NULL) == bytes);
}

/* No member, every single one, every two, and a few random sets. */
static void
check_losses (const struct layout *l, const struct picture *p)
{
  bool lost[ARRAY_MEMBERS_MAX] = { false };

  check_lost (l, p, lost);
  for (unsigned i = 0; i < p->members; i++) {
    lost[i] = true;
    check_lost (l, p, lost);
    if (p->copies > 1)
      CHECK (layout_loss (l, lost, NULL) == 0);
    for (unsigned j = i + 1; j < p->members; j++) {
      lost[j] = true;
      check_lost (l, p, lost);
      lost[j] = false;
    }
    lost[i] = false;
  }
  for (int round = 0; round < 20; round++) {
    for (unsigned i = 0; i < p->members; i++)
      lost[i] = test_random (3) == 0;
    check_lost (l, p, lost);
  }
  for (unsigned i = 0; i < p->members; i++)
    lost[i] = true;
  CHECK (layout_loss (l, lost, NULL) == l->size);
}

/* Members on some hosts, by lot: which byte's copies are on the fewest? */
static void
check_hosts (const struct layout *l, const struct picture *p)
{
  for (int round = 0; round < 4; round++) {
    const unsigned hosts = 1 + test_random (2 * p->members);
    unsigned host[ARRAY_MEMBERS_MAX], fewest = COPIES_MAX;
    uint64_t one = 0, together = UINT64_MAX;

    for (unsigned m = 0; m < p->members; m++)
      host[m] = 1000 + test_random (hosts);
    for (int64_t a = 0; a < p->units; a++) {
      unsigned count = 0;

      for (unsigned c = 0; c < p->copies; c++) {
        bool new = true;

        for (unsigned i = 0; i < c; i++)
          new &= host[p->copy[a * COPIES_MAX + i].member] !=
                 host[p->copy[a * COPIES_MAX + c].member];
        count += new;
      }
      one += count == 1;
      fewest = count < fewest ? count : fewest;
    }
    CHECK (layout_hosts (l, host, &together) == fewest);
    CHECK (together == one * l->unit);
    CHECK (layout_hosts (l, host, NULL) == fewest);
  }
}

static void
check_capacity (const struct layout *l, const struct picture *p,
                uint64_t smallest)
{
  uint64_t bytes[ARRAY_MEMBERS_MAX], total = 0, images = 0, empty = 0;
  struct layout_capacity c;

  for (unsigned m = 0; m < p->members; m++) {
    bytes[m] = smallest + (m == 0 ? 0 : test_random (3 * l->unit));
    total += bytes[m];
    empty += bytes[m] - (uint64_t) p->rows * l->unit;
    for (unsigned row = 0; row < p->rows; row++) {
      const struct cell *cell = &p->cell[m * p->rows + row];

      images += cell->unit >= 0 && cell->copy > 0 ? l->unit : 0;
      empty += cell->unit < 0 ? l->unit : 0;
    }
  }
  layout_capacity (l, bytes, &c);
  CHECK (c.total == total && c.usable == l->size && c.images == images &&
         c.wasted == empty);
  CHECK (c.usable + c.images + c.wasted == c.total);
}

static bool
possible (enum layout_kind kind, unsigned n, unsigned groups)
{
  if (n * groups > ARRAY_MEMBERS_MAX)
    return false;
  switch (kind) {
  case LAYOUT_RAIDX:
    return n >= 3 && n <= GROUP_MEMBERS_MAX;
  case LAYOUT_RAID10:
    return n >= 2 && n % 2 == 0 && n <= GROUP_MEMBERS_MAX;
  case LAYOUT_RAID1:
    return n >= 2 && n <= COPIES_MAX;
  case LAYOUT_RAID0:
    return n >= 1 && n <= GROUP_MEMBERS_MAX;
  default:
    return n >= 2 && n <= GROUP_MEMBERS_MAX;
  }
}

static void
check_one (enum layout_kind kind, unsigned n, unsigned groups, uint64_t unit,
           bool losses)
{
  const unsigned period = kind == LAYOUT_RAIDX ? 2 * (n - 1) : 2;
  const uint64_t bytes = unit * (period + test_random (3 * period)) +
                         test_random (unit);
  char what[120];
  struct layout l;
  struct picture *p;

  snprintf (what, sizeof what,
            "%s n=%u groups=%u unit=%" PRIu64 " member_bytes=%" PRIu64,
            layout_name (kind), n, groups, unit, bytes);
  doing = what;
  l = made (kind, n, groups, unit, bytes);
  CHECK (l.kind == kind && l.n == n && l.groups == groups && l.unit == unit);

  p = draw (kind, n, groups, bytes / unit);
  check_map (&l, p);
  check_unmap (&l, p);
  check_shares (&l, p);
  for (int i = 0; i < 30; i++) {
    check_span (&l, p);
  }
  check_capacity (&l, p, bytes);
  if (losses)
    check_losses (&l, p);
  check_hosts (&l, p);
  erase (p);
  doing = "nothing";
}

static void
test_pictures (void)
{
  unsigned done = 0;

  for (int kind = 0; kind < LAYOUT_KINDS; kind++)
    for (unsigned n = 1; n <= 17; n++)
      for (unsigned groups = 1; groups <= 3; groups++) {
        if (!possible (kind, n, groups))
          continue;
        for (uint64_t unit = UNIT_BYTES_MIN; unit <= UNIT_BYTES_MAX; unit *= 2)
          check_one (kind, n, groups, unit, unit == UNIT_BYTES_DEFAULT);
        done++;
      }
  /* The largest arrays. */
  for (int kind = 0; kind < LAYOUT_KINDS; kind++) {
    const unsigned n = kind == LAYOUT_RAID1 ? COPIES_MAX : GROUP_MEMBERS_MAX;
    const unsigned most = ARRAY_MEMBERS_MAX / n;

    check_one (kind, n, most < ARRAY_GROUPS_MAX ? most : ARRAY_GROUPS_MAX,
               UNIT_BYTES_DEFAULT, false);
    done++;
  }
  printf ("%u arrangements agree with their pictures\n", done);
}

/* ---- The paper's Figure 2, as printed ---- */

static void
check_figure (enum layout_kind kind, const char *const rows[6][4])
{
  const uint64_t unit = KiB (4);
  const struct layout l = made (kind, 4, 1, unit, 6 * unit);

  CHECK (l.size == 12 * unit && l.member_bytes == 6 * unit, "size %" PRIu64,
         l.size);
  for (unsigned row = 0; row < 6; row++)
    for (unsigned m = 0; m < 4; m++) {
      struct layout_piece piece;
      uint64_t offset;
      uint32_t length;
      char is[16];
      int copy = layout_unmap (&l, m, row * unit, &offset, &length);

      CHECK (copy >= 0, "row %u of disk %u is empty", row, m);
      snprintf (is, sizeof is, "D%d%s", (int) (offset / unit),
                copy == 1 ? "'" : "");
      CHECK (strcmp (is, rows[row][m]) == 0, "row %u of disk %u is %s, not %s",
             row, m, is, rows[row][m]);
      layout_map (&l, offset, unit, &piece);
      CHECK (piece.copy[copy].member == m &&
               piece.copy[copy].offset == row * unit,
             "%s is mapped to disk %u, %" PRIu64, is, piece.copy[copy].member,
             piece.copy[copy].offset);
    }
}

static void
test_figures (void)
{
  static const char *const a[6][4] = {
    { "D0", "D1", "D0'", "D1'" }, { "D2", "D3", "D2'", "D3'" },
    { "D4", "D5", "D4'", "D5'" }, { "D6", "D7", "D6'", "D7'" },
    { "D8", "D9", "D8'", "D9'" }, { "D10", "D11", "D10'", "D11'" },
  };
  static const char *const b[6][4] = {
    { "D0", "D1", "D2", "D3" },      { "D4", "D5", "D6", "D7" },
    { "D8", "D9", "D10", "D11" },    { "D9'", "D6'", "D3'", "D0'" },
    { "D10'", "D7'", "D4'", "D1'" }, { "D11'", "D8'", "D5'", "D2'" },
  };

  doing = "figure 2a";
  check_figure (LAYOUT_RAID10, a);
  doing = "figure 2b";
  check_figure (LAYOUT_RAIDX, b);
}

/* ---- The far end of the largest arrays: no overflow ---- */

static void
test_huge (void)
{
  doing = "huge";
  for (int round = 0; round < 3000; round++) {
    const enum layout_kind kind = test_random (LAYOUT_KINDS);
    const unsigned n = 1 + test_random (GROUP_MEMBERS_MAX);
    const unsigned groups = 1 + test_random (ARRAY_MEMBERS_MAX / n);
    const uint64_t unit = UNIT_BYTES_MIN << test_random (11);
    struct layout l;

    if (groups > ARRAY_GROUPS_MAX || !possible (kind, n, groups))
      continue;
    l = made (kind, n, groups, unit, MEMBER_DATA_BYTES_MAX);
    CHECK (l.member_bytes > MEMBER_DATA_BYTES_MAX - 2 * n * unit);
    CHECK (l.size * l.copies == l.members * l.member_bytes);
    for (int i = 0; i < 50; i++) {
      const uint64_t offset = test_random (2)
                                ? test_random (l.size)
                                : l.size - 1 - test_random (4 * unit);
      struct layout_piece piece;

      layout_map (&l, offset, 1, &piece);
      for (unsigned c = 0; c < piece.copies; c++) {
        uint64_t back = UINT64_MAX;
        uint32_t length;

        CHECK (piece.copy[c].member / n == offset / unit / l.width % l.groups);
        CHECK (piece.copy[c].offset < l.member_bytes);
        CHECK (layout_unmap (&l, piece.copy[c].member, piece.copy[c].offset,
                             &back, &length) == (int) c &&
               back == offset);
      }
    }
  }
}

/* ---- What is refused, and that the sentence says what it must ---- */

static void
refused (int kind, unsigned n, unsigned groups, uint64_t unit, uint64_t bytes,
         const char *says)
{
  struct layout l, before;
  char why[256];

  memset (&l, 0x5a, sizeof l);
  before = l;
  CHECK (layout_init (&l, kind, n, groups, unit, bytes, why, sizeof why) == -1,
         "accepted, but expected: %s", says);
  CHECK (strstr (why, says) != NULL, "\"%s\" does not say \"%s\"", why, says);
  CHECK (memcmp (&l, &before, sizeof l) == 0, "*l was touched");

  /* A short buffer is terminated; NULL is not written. */
  memset (why, 'x', sizeof why);
  CHECK (layout_init (&l, kind, n, groups, unit, bytes, why, 8) == -1 &&
           strlen (why) == 7 && why[8] == 'x',
         "%.20s", why);
  CHECK (layout_init (&l, kind, n, groups, unit, bytes, NULL, 0) == -1, "%s",
         says);
}

static void
test_refusals (void)
{
  const uint64_t u = KiB (64), big = GiB (1);

  doing = "refusals";
  refused (LAYOUT_RAIDX, 4, 1, 0, big, "must be a power of two");
  refused (LAYOUT_RAIDX, 4, 1, 2048, big, "from 4096 to 4194304");
  refused (LAYOUT_RAIDX, 4, 1, MiB (8), big, "from 4096 to 4194304");
  refused (LAYOUT_RAIDX, 4, 1, KiB (12), big, "stripe unit of 12288 bytes");
  refused (LAYOUT_RAIDX, 4, 1, (UINT64_C (1) << 32) + u, big, "power of two");
  refused (LAYOUT_RAIDX, 4, 1, UINT64_C (1) << 63, big, "power of two");
  refused (LAYOUT_RAIDX, 0, 1, u, big, "with 0 members");
  refused (LAYOUT_RAIDX, 2, 1, u, big, "needs 3 to 32");
  refused (LAYOUT_RAIDX, 33, 1, u, big, "needs 3 to 32");
  refused (LAYOUT_RAID10, 0, 1, u, big, "needs 2 to 32");
  refused (LAYOUT_RAID10, 5, 1, u, big, "even number");
  refused (LAYOUT_CHAINED, 1, 1, u, big, "chained with 1 member in");
  refused (LAYOUT_ROTATED, 1, 1, u, big, "needs 2 to 32");
  refused (LAYOUT_RAID1, 1, 1, u, big, "needs 2 to 4");
  refused (LAYOUT_RAID1, 5, 1, u, big, "needs 2 to 4");
  refused (LAYOUT_RAID0, 0, 1, u, big, "needs 1 to 32");
  refused (LAYOUT_RAID0, UINT32_MAX, UINT32_MAX, u, big, "needs 1 to 32");
  refused (LAYOUT_RAIDX, 4, 0, u, big, "0 groups: must be 1 to 64");
  refused (LAYOUT_RAID0, 1, 65, u, big, "65 groups: must be 1 to 64");
  refused (LAYOUT_RAIDX, 4, 33, u, big, "at most 128 members");
  refused (LAYOUT_RAIDX, 4, UINT32_MAX, u, big, "must be 1 to 64");
  refused (-1, 4, 1, u, big, "there is no such layout");
  refused (LAYOUT_KINDS, 4, 1, u, big, "there is no such layout");
  refused (LAYOUT_RAIDX, 4, 1, u, 0, "at least 393216 bytes");
  refused (LAYOUT_RAIDX, 4, 1, u, 6 * u - 1, "at least 393216 bytes");
  refused (LAYOUT_CHAINED, 4, 1, u, 2 * u - 1, "at least 131072 bytes");
  refused (LAYOUT_ROTATED, 4, 1, u, u, "at least 131072 bytes");
  refused (LAYOUT_RAID10, 4, 1, u, u - 1, "at least 65536 bytes");
  refused (LAYOUT_RAID1, 2, 1, u, u - 1, "at least 65536 bytes");
  refused (LAYOUT_RAID0, 1, 1, u, 0, "at least 65536 bytes");
  refused (LAYOUT_RAID0, 2, 1, u, MEMBER_DATA_BYTES_MAX + 1, "the largest");
  refused (LAYOUT_RAID0, 2, 1, u, UINT64_MAX, "the largest");
}

/* The least size named in the message is enough. */
static void
test_least (void)
{
  doing = "the least member";
  for (int kind = 0; kind < LAYOUT_KINDS; kind++)
    for (unsigned n = 1; n <= GROUP_MEMBERS_MAX; n++) {
      struct layout l;
      char why[256];
      const char *least;

      if (!possible (kind, n, 1))
        continue;
      CHECK (layout_init (&l, kind, n, 1, KiB (4), 0, why, sizeof why) == -1,
             "%s of nothing", layout_name (kind));
      least = strstr (why, "at least ");
      CHECK (least != NULL, "%s", why);
      const uint64_t bytes = strtoull (least + 9, NULL, 10);
      CHECK (
        layout_init (&l, kind, n, 1, KiB (4), bytes - 1, why, sizeof why) == -1,
        "%s n=%u", layout_name (kind), n);
      l = made (kind, n, 1, KiB (4), bytes);
      CHECK (l.member_bytes == bytes, "%s n=%u", layout_name (kind), n);
    }
}

static void
says_survives (enum layout_kind kind, unsigned n, unsigned groups,
               const char *expected)
{
  const struct layout l = made (kind, n, groups, KiB (4), MiB (1));
  char text[128];

  layout_survives (&l, NULL, text, sizeof text);
  CHECK (strcmp (text, expected) == 0, "\"%s\", not \"%s\"", text, expected);
}

static void
test_words (void)
{
  doing = "words";
  for (int kind = 0; kind < LAYOUT_KINDS; kind++)
    CHECK (layout_parse (layout_name (kind)) == kind, "%s", layout_name (kind));
  CHECK (layout_parse ("raid-5") == -1 && layout_parse ("") == -1 &&
           layout_parse ("raid-xx") == -1 && layout_parse ("RAID-X") == -1,
         "a name that is none");

  says_survives (LAYOUT_RAIDX, 4, 1, "any 1 member");
  says_survives (LAYOUT_RAIDX, 4, 3, "any 1 member of each of 3 groups");
  says_survives (LAYOUT_CHAINED, 4, 1, "any 1 member");
  says_survives (LAYOUT_ROTATED, 2, 2, "any 1 member of each of 2 groups");
  says_survives (LAYOUT_RAID10, 2, 1, "any 1 member");
  says_survives (LAYOUT_RAID10, 4, 1,
                 "any 1 member, up to 2 if no two of them are a mirrored pair");
  says_survives (LAYOUT_RAID1, 3, 1, "any 2 members");
  says_survives (LAYOUT_RAID0, 4, 2, "no failure at all");
}

/* A capacity that does not fit 64 bits is not wrapped. */
static void
test_capacity_overflow (void)
{
  const uint64_t bytes[2] = { UINT64_MAX - 5, UINT64_MAX - 5 };
  const struct layout l = made (LAYOUT_RAID1, 2, 1, KiB (4), MiB (1));
  struct layout_capacity c;

  doing = "capacity";
  layout_capacity (&l, bytes, &c);
  CHECK (c.total == UINT64_MAX && c.usable == MiB (1) && c.images == MiB (1) &&
           c.wasted == UINT64_MAX - MiB (2),
         "total %" PRIu64, c.total);
}

int
main (void)
{
  test_random_start ();
  test_words ();
  test_figures ();
  test_refusals ();
  test_least ();
  test_capacity_overflow ();
  test_huge ();
  test_pictures ();
  return 0;
}
