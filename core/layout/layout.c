/* layout.c: the maths of layout.h.
 *
 * Everything is done in units of one group.  An array offset becomes
 *
 *   A  = offset / unit              the logical unit
 *   s  = A / width, d = A % width   its stripe, its place in the stripe
 *   g  = s % groups, t = s / groups its group, the stripe within the group
 *
 * and in every layout its data lies at position d, unit t of the group.  Only
 * the images differ, so a layout is two functions: image_place says where an
 * image of (t, d) lies, origin_of is its inverse.  In the layouts of which
 * every member holds both, the first `stripes` units of a member are data, the
 * second `stripes` are images.
 *
 * A period is the number of stripes after which the pattern of positions comes
 * again.  It is what layout_loss enumerates, and for raid-x what a member must
 * hold whole, for the images of its last cluster would have no place.
 */

#include <config.h>

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "layout.h"

struct place {
  unsigned position;
  uint64_t unit; /* of the member, counted from the start of its data area */
};

/* The origin of what lies at a place: data or image of this unit. */
struct origin {
  unsigned copy;
  uint64_t t;
  unsigned d;
};

static const char *const names[LAYOUT_KINDS] = {
  [LAYOUT_RAIDX] = "raid-x",    [LAYOUT_RAID10] = "raid-10",
  [LAYOUT_CHAINED] = "chained", [LAYOUT_ROTATED] = "rotated",
  [LAYOUT_RAID1] = "raid-1",    [LAYOUT_RAID0] = "raid-0",
};

const char *
layout_name (enum layout_kind kind)
{
  assert ((unsigned) kind < LAYOUT_KINDS);
  return names[kind];
}

int
layout_parse (const char *name)
{
  for (int i = 0; i < LAYOUT_KINDS; i++)
    if (strcmp (name, names[i]) == 0)
      return i;
  return -1;
}

unsigned
layout_copies (enum layout_kind kind, unsigned n)
{
  return kind == LAYOUT_RAID1 ? n : kind == LAYOUT_RAID0 ? 1 : 2;
}

unsigned
layout_cluster (enum layout_kind kind, unsigned n)
{
  return kind == LAYOUT_RAIDX ? n - 1 : 1;
}

/* A 64-bit division is several times as slow as a 32-bit one on many
 * processors, and few arrays have 2^32 units.
 */
static inline uint64_t
divide (uint64_t a, uint32_t by, uint32_t *rest)
{
  if (a <= UINT32_MAX) {
    *rest = (uint32_t) a % by;
    return (uint32_t) a / by;
  }
  *rest = a % by;
  return a / by;
}

static inline unsigned
unit_shift (const struct layout *l)
{
  return __builtin_ctz (l->unit);
}

/* Does every member hold data in its first half, images in its second? */
static inline bool
is_halved (enum layout_kind kind)
{
  return kind == LAYOUT_RAIDX || kind == LAYOUT_CHAINED ||
         kind == LAYOUT_ROTATED;
}

static inline struct place
image_place (const struct layout *l, uint64_t t, unsigned d, unsigned copy)
{
  const unsigned n = l->n;
  uint64_t cluster, row;
  uint32_t in_cluster, c, turn;

  switch (l->kind) {
  case LAYOUT_RAIDX:
    /* The n-1 successive units of a cluster miss just one member: theirs. */
    cluster = divide (t * n + d, n - 1, &in_cluster);
    row = divide (cluster, n, &c);
    return (struct place) { n - 1 - c,
                            l->stripes + row * (n - 1) + in_cluster };
  case LAYOUT_RAID10:
    return (struct place) { d + n / 2, t };
  case LAYOUT_CHAINED:
    return (struct place) { d + 1 == n ? 0 : d + 1, l->stripes + t };
  case LAYOUT_ROTATED:
    divide (t, n - 1, &turn);
    c = d + 1 + turn;
    return (struct place) { c >= n ? c - n : c, l->stripes + t };
  case LAYOUT_RAID1:
    return (struct place) { copy, t };
  case LAYOUT_RAID0:
  case LAYOUT_KINDS:
    break;
  }
  assert (!"this layout has no images");
  __builtin_unreachable ();
}

/* The inverse of image_place, and of the data's place; `unit` is in use. */
static struct origin
origin_of (const struct layout *l, unsigned position, uint64_t unit)
{
  const unsigned n = l->n;
  uint64_t t, cluster, a;
  uint32_t rest, d;

  if (is_halved (l->kind) ? unit < l->stripes : position < l->width)
    return (struct origin) { 0, unit, position };

  t = is_halved (l->kind) ? unit - l->stripes : unit;
  switch (l->kind) {
  case LAYOUT_RAIDX:
    cluster = divide (t, n - 1, &rest) * n + (n - 1 - position);
    a = divide (cluster * (n - 1) + rest, n, &d);
    return (struct origin) { 1, a, d };
  case LAYOUT_RAID10:
    return (struct origin) { 1, t, position - n / 2 };
  case LAYOUT_CHAINED:
    return (struct origin) { 1, t, position == 0 ? n - 1 : position - 1 };
  case LAYOUT_ROTATED:
    divide (t, n - 1, &rest);
    d = position + n - 1 - rest;
    return (struct origin) { 1, t, d >= n ? d - n : d };
  case LAYOUT_RAID1:
    return (struct origin) { position, t, 0 };
  case LAYOUT_RAID0:
  case LAYOUT_KINDS:
    break;
  }
  assert (!"this layout has no images");
  __builtin_unreachable ();
}

static int __attribute__ ((format (printf, 3, 4)))
refuse (char *why, size_t why_size, const char *fmt, ...)
{
  va_list args;

  if (why_size > 0) {
    va_start (args, fmt);
    vsnprintf (why, why_size, fmt, args);
    va_end (args);
  }
  return -1;
}

static int
check_members (enum layout_kind kind, unsigned n, unsigned groups, char *why,
               size_t why_size)
{
  static const unsigned least[LAYOUT_KINDS] = {
    [LAYOUT_RAIDX] = 3,   [LAYOUT_RAID10] = 2, [LAYOUT_CHAINED] = 2,
    [LAYOUT_ROTATED] = 2, [LAYOUT_RAID1] = 2,  [LAYOUT_RAID0] = 1,
  };
  const unsigned most = kind == LAYOUT_RAID1 ? COPIES_MAX : GROUP_MEMBERS_MAX;

  if (n < least[kind] || n > most)
    return refuse (why, why_size,
                   "%s with %u member%s in a group: it needs %u to %u",
                   names[kind], n, n == 1 ? "" : "s", least[kind], most);
  if (kind == LAYOUT_RAID10 && n % 2 != 0)
    return refuse (why, why_size,
                   "raid-10 with %u members in a group: it mirrors pairs, "
                   "so it needs an even number",
                   n);
  if (groups < 1 || groups > ARRAY_GROUPS_MAX)
    return refuse (why, why_size, "%u groups: must be 1 to %d", groups,
                   ARRAY_GROUPS_MAX);
  if (n * groups > ARRAY_MEMBERS_MAX)
    return refuse (why, why_size,
                   "%u groups of %u members: an array has at most %d members",
                   groups, n, ARRAY_MEMBERS_MAX);
  return 0;
}

int
layout_init (struct layout *l, enum layout_kind kind, unsigned n,
             unsigned groups, uint64_t unit, uint64_t member_bytes, char *why,
             size_t why_size)
{
  struct layout made = { .kind = kind, .n = n, .groups = groups };
  uint64_t units, halves, least;

  if ((unsigned) kind >= LAYOUT_KINDS)
    return refuse (why, why_size, "layout number %d: there is no such layout",
                   (int) kind);
  if (check_members (kind, n, groups, why, why_size) == -1)
    return -1;
  if (unit < UNIT_BYTES_MIN || unit > UNIT_BYTES_MAX ||
      (unit & (unit - 1)) != 0)
    return refuse (why, why_size,
                   "stripe unit of %" PRIu64 " bytes: must be a power of two "
                   "from %" PRIu64 " to %" PRIu64,
                   unit, UNIT_BYTES_MIN, UNIT_BYTES_MAX);
  if (member_bytes > MEMBER_DATA_BYTES_MAX)
    return refuse (why, why_size,
                   "members of %" PRIu64 " bytes: the largest that can be used "
                   "is %" PRIu64 " bytes",
                   member_bytes, MEMBER_DATA_BYTES_MAX);

  made.members = n * groups;
  made.unit = unit;
  made.width = kind == LAYOUT_RAID1 ? 1 : kind == LAYOUT_RAID10 ? n / 2 : n;
  made.copies = layout_copies (kind, n);
  made.cluster = layout_cluster (kind, n);
  made.mirrors = kind == LAYOUT_RAID10 || kind == LAYOUT_RAID1;

  halves = is_halved (kind) ? 2 : 1;
  units = member_bytes / unit / halves;
  /* The images of a raid-x period fill whole clusters; any stripe of the other
   * layouts is complete in itself.
   */
  least = made.cluster;
  units -= units % least;
  if (units < least)
    return refuse (why, why_size,
                   "members of %" PRIu64 " bytes are too small: %s over %u "
                   "members with a stripe unit of %" PRIu64 " bytes needs at "
                   "least %" PRIu64 " bytes of each",
                   member_bytes, names[kind], n, unit, least * halves * unit);

  /* MEMBER_DATA_BYTES_MAX * ARRAY_MEMBERS_MAX is below 2^53. */
  made.stripes = units;
  made.member_bytes = units * halves * unit;
  made.size = units * unit * made.width * groups;
  *l = made;
  return 0;
}

void
layout_map (const struct layout *l, uint64_t offset, uint64_t length,
            struct layout_piece *piece)
{
  const unsigned shift = unit_shift (l);
  const uint64_t in_unit = offset & (l->unit - 1);
  const uint64_t left = l->unit - in_unit;
  uint32_t d, g = 0;
  uint64_t t;
  unsigned first;

  assert (length > 0 && offset < l->size && length <= l->size - offset);

  t = divide (offset >> shift, l->width, &d);
  if (l->groups > 1)
    t = divide (t, l->groups, &g);
  first = g * l->n;

  piece->offset = offset;
  piece->length = length < left ? length : left;
  piece->copies = l->copies;
  piece->copy[0].member = first + d;
  piece->copy[0].offset = (t << shift) + in_unit;
  for (unsigned i = 1; i < l->copies; i++) {
    const struct place p = image_place (l, t, d, i);

    piece->copy[i].member = first + p.position;
    piece->copy[i].offset = (p.unit << shift) + in_unit;
  }
}

int
layout_unmap (const struct layout *l, unsigned member, uint64_t offset,
              uint64_t *array_offset, uint32_t *length)
{
  const unsigned shift = unit_shift (l);
  const uint64_t in_unit = offset & (l->unit - 1);
  const unsigned g = member / l->n;
  struct origin o;

  assert (member < l->members);

  *length = l->unit - in_unit;
  if (offset >= l->member_bytes)
    return -1;
  o = origin_of (l, member % l->n, offset >> shift);
  *array_offset = (((o.t * l->groups + g) * l->width + o.d) << shift) + in_unit;
  return o.copy;
}

bool
layout_shares (const struct layout *l, unsigned member, uint64_t offset,
               unsigned other, uint64_t *length)
{
  struct layout_piece piece;
  uint64_t at;
  uint32_t some;
  int copy = layout_unmap (l, member, offset, &at, &some);

  if (some < *length)
    *length = some;
  if (copy == -1)
    return false;
  layout_map (l, at, some, &piece);
  for (unsigned i = 0; i < piece.copies; i++)
    if (piece.copy[i].member == other)
      return true;
  return false;
}

bool
layout_data_span (const struct layout *l, unsigned member, uint64_t offset,
                  uint64_t length, uint64_t *member_offset,
                  uint64_t *member_length)
{
  const unsigned shift = unit_shift (l);
  const unsigned position = member % l->n, g = member / l->n;
  uint64_t head, tail, first, end, from, to;
  uint32_t head_d, tail_d, rest;

  assert (member < l->members);
  assert (length > 0 && offset < l->size && length <= l->size - offset);

  if (position >= l->width)
    return false;

  /* The range begins in stripe `head` at position head_d, and its last byte
   * lies in stripe `tail` at position tail_d.  The member's units in it are
   * those of the stripes of its group in [first, end).
   */
  head = divide (offset >> shift, l->width, &head_d);
  tail = divide ((offset + length - 1) >> shift, l->width, &tail_d);
  first = position < head_d ? head + 1 : head;
  end = position > tail_d ? tail : tail + 1;
  first = divide (first + l->groups - 1 - g, l->groups, &rest);
  end = divide (end + l->groups - 1 - g, l->groups, &rest);
  if (first >= end)
    return false;

  /* Cut what the range leaves of its first and of its last unit. */
  from = first << shift;
  to = end << shift;
  if (position == head_d && first * l->groups + g == head)
    from += offset & (l->unit - 1);
  if (position == tail_d && (end - 1) * l->groups + g == tail)
    to -= -(offset + length) & (l->unit - 1);

  *member_offset = from;
  *member_length = to - from;
  return true;
}

unsigned
layout_period (const struct layout *l)
{
  return l->kind == LAYOUT_RAIDX || l->kind == LAYOUT_ROTATED ? l->n - 1 : 1;
}

void
layout_partners (const struct layout *l, unsigned member,
                 bool partner[ARRAY_MEMBERS_MAX])
{
  const unsigned first = member - member % l->n;
  const unsigned period = layout_period (l);
  unsigned position[COPIES_MAX];

  memset (partner, 0, ARRAY_MEMBERS_MAX * sizeof partner[0]);
  for (unsigned t = 0; t < period && t < l->stripes; t++)
    for (unsigned d = 0; d < l->width; d++) {
      bool there = d == member - first;

      position[0] = d;
      for (unsigned i = 1; i < l->copies; i++) {
        position[i] = image_place (l, t, d, i).position;
        there |= position[i] == member - first;
      }
      for (unsigned i = 0; there && i < l->copies; i++)
        partner[first + position[i]] = true;
    }
  partner[member] = false;
}

uint64_t
layout_loss (const struct layout *l, const bool lost[], uint64_t *exposed)
{
  const unsigned period = layout_period (l);
  const uint64_t whole = l->stripes / period, rest = l->stripes % period;
  uint64_t gone = 0, thin = 0; /* units */

  for (unsigned g = 0; g < l->groups; g++) {
    const bool *group = lost + g * l->n;

    /* Most that ask are about groups of which nothing is lost. */
    if (memchr (group, true, l->n) == NULL)
      continue;
    for (unsigned t = 0; t < period; t++) {
      const uint64_t times = whole + (t < rest);

      for (unsigned d = 0; d < l->width; d++) {
        unsigned left = !group[d];

        for (unsigned i = 1; i < l->copies; i++)
          left += !group[image_place (l, t, d, i).position];
        if (left == 0)
          gone += times;
        else if (left < l->copies)
          thin += times;
      }
    }
  }
  if (exposed)
    *exposed = thin * l->unit;
  return gone * l->unit;
}

/* The hosts of the copies of one unit; host: of its group. */
static unsigned
unit_hosts (const struct layout *l, const unsigned host[], uint64_t t,
            unsigned d)
{
  unsigned seen[COPIES_MAX] = { host[d] }, count = 1;

  for (unsigned i = 1; i < l->copies; i++) {
    unsigned next = host[image_place (l, t, d, i).position], k = 0;

    while (k < count && seen[k] != next)
      k++;
    seen[k] = next;
    count += k == count;
  }
  return count;
}

unsigned
layout_hosts (const struct layout *l, const unsigned host[], uint64_t *together)
{
  const unsigned period = layout_period (l);
  const uint64_t whole = l->stripes / period, rest = l->stripes % period;
  unsigned fewest = l->copies;
  uint64_t one = 0; /* units */

  for (unsigned g = 0; g < l->groups; g++)
    for (unsigned t = 0; t < period; t++)
      for (unsigned d = 0; d < l->width; d++) {
        const uint64_t times = whole + (t < rest);
        unsigned hosts = unit_hosts (l, host + g * l->n, t, d);

        if (hosts == 1)
          one += times;
        if (times > 0 && hosts < fewest)
          fewest = hosts;
      }
  if (together)
    *together = one * l->unit;
  return fewest;
}

void
layout_capacity (const struct layout *l, const uint64_t member_bytes[],
                 struct layout_capacity *c)
{
  const uint64_t used = l->members * l->member_bytes;
  uint64_t total = 0;

  for (unsigned m = 0; m < l->members; m++) {
    assert (member_bytes[m] >= l->member_bytes);
    if (__builtin_add_overflow (total, member_bytes[m], &total))
      total = UINT64_MAX;
  }
  c->total = total;
  c->usable = l->size;
  c->images = used - l->size;
  c->wasted = total - used;
}

void
layout_survives (const struct layout *l, const unsigned host[], char *text,
                 size_t text_size)
{
  const char *each = "", *more = "";
  char each_text[32], more_text[64], hosts_text[32] = "";
  const unsigned hosts = host ? layout_hosts (l, host, NULL) - 1 : 0;
  const unsigned any = l->copies - 1;

  if (any == 0) {
    snprintf (text, text_size, "no failure at all");
    return;
  }
  if (l->groups > 1) {
    snprintf (each_text, sizeof each_text, " of each of %u groups", l->groups);
    each = each_text;
  }
  if (l->kind == LAYOUT_RAID10 && l->n > 2) {
    snprintf (more_text, sizeof more_text,
              ", up to %u if no two of them are a mirrored pair", l->n / 2);
    more = more_text;
  }
  if (hosts > 0)
    snprintf (hosts_text, sizeof hosts_text, ", and any %u host%s", hosts,
              hosts == 1 ? "" : "s");
  else if (host)
    snprintf (hosts_text, sizeof hosts_text, ", but not any 1 host");
  snprintf (text, text_size, "any %u member%s%s%s%s", any, any == 1 ? "" : "s",
            each, more, hosts_text);
}
