/* layout.h: where every byte of an array lives.
 *
 * Pure maths over (array offset, length) <-> (member, member offset, copy).
 * Copy 0 is the data copy, copies 1... are images.  Source: RAID-x paper,
 * section 3, Figure 2 (the formulas of its Table 2 contradict the figure; the
 * figure is right) and Figure 3 (n x k arrangement).
 *
 * Words: n members form a stripe group; `groups` of them are independent.
 * Member number = group * n + position.  The array's address space is cut
 * into stripe units of `unit` bytes.  A stripe is the `width` units that lie
 * side by side on the members that hold data: width is n for raid-x, chained,
 * rotated and raid-0, n/2 for raid-10, 1 for raid-1.  Successive stripes go
 * to successive groups in turn: stripe s lies in group s mod groups and is
 * there the stripe s div groups.
 *
 * In every layout the data of in-group stripe t lies in unit t of the members;
 * raid-x, chained and rotated keep data in the first half of each member and
 * images in the second, raid-10 and raid-1 keep one of the two on a member.
 *
 * All offsets and lengths are bytes.  A member offset counts from the start
 * of the member's data area.
 */

#ifndef WEFT_LAYOUT_H
#define WEFT_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bounds.h"

enum layout_kind {
  LAYOUT_RAIDX,   /* n >= 3; images of n-1 successive units clustered */
  LAYOUT_RAID10,  /* n even; position p < n/2 is mirrored at p + n/2 */
  LAYOUT_CHAINED, /* n >= 2; the image of d's data lies on d + 1 */
  LAYOUT_ROTATED, /* n >= 2; images of successive stripes go round the others */
  LAYOUT_RAID1,   /* 2 <= n <= COPIES_MAX; copy c on position c */
  LAYOUT_RAID0,   /* n >= 1; no redundancy */
  LAYOUT_KINDS
};

struct layout {
  enum layout_kind kind;
  unsigned n; /* members of a group */
  unsigned groups;
  unsigned members;      /* n * groups */
  unsigned width;        /* data units of a stripe */
  unsigned copies;       /* 2; n for raid-1; 1 for raid-0 */
  unsigned cluster;      /* so many successive units have their images side by
                             side on one member: n-1 for raid-x, else 1 */
  bool mirrors;          /* all copies of a unit lie at the same offset of their
                             members: raid-10, raid-1 */
  uint32_t unit;         /* bytes, a power of two */
  uint64_t stripes;      /* in one group: the data units of a data member; a
                             multiple of n-1, whole clusters, for raid-x */
  uint64_t member_bytes; /* of each member's data area, in use */
  uint64_t size;         /* usable bytes of the array */
};

#define LAYOUT_DEFAULT LAYOUT_RAIDX /* where nobody has chosen one */
#define LAYOUT_SINGLE LAYOUT_RAID0  /* of one member alone */

/* The name by which people know a kind ("raid-x"), and back; layout_parse
 * returns -1 for a name that is none.  LAYOUT_NAMES are all of them.
 */
#define LAYOUT_NAMES "raid-x, raid-10, chained, rotated, raid-1, raid-0"
const char *layout_name (enum layout_kind kind);
int layout_parse (const char *name);

/* The properties of a kind with a group of n members of any size: copies of
 * each byte, units in a cluster of images (as in struct layout).
 */
unsigned layout_copies (enum layout_kind kind, unsigned n);
unsigned layout_cluster (enum layout_kind kind, unsigned n);

/* Make *l for members whose smallest data area has `member_bytes` bytes, at
 * most MEMBER_DATA_BYTES_MAX. The rest of a period stays unused
 * (l->member_bytes says how much of a member is used). Returns 0, or -1 with a
 * sentence in why that names the value, its limits and the smallest valid value
 * (at most why_size bytes, always terminated) and *l untouched.
 */
int layout_init (struct layout *l, enum layout_kind kind, unsigned n,
                 unsigned groups, uint64_t unit, uint64_t member_bytes,
                 char *why, size_t why_size);

/* The members [first, end) of one stripe group; the group of a member, and its number. */
struct layout_group {
  unsigned first, end;
};

static inline unsigned
layout_group_number (const struct layout *l, unsigned member)
{
  return member / l->n;
}

static inline struct layout_group
layout_group (const struct layout *l, unsigned member)
{
  unsigned first = member - member % l->n;

  return (struct layout_group) { first, first + l->n };
}

struct layout_copy {
  unsigned member;
  uint64_t offset; /* in the member's data area */
};

/* A piece: a range of the array within one stripe unit, and its copies. */
struct layout_piece {
  uint64_t offset; /* in the array */
  uint32_t length;
  unsigned copies;
  struct layout_copy copy[COPIES_MAX];
};

/* The first piece of the range [offset, offset+length).  The range must lie
 * within the array and not be empty.
 */
void layout_map (const struct layout *l, uint64_t offset, uint64_t length,
                 struct layout_piece *piece);

/* The inverse: the data at `offset` of a member.  Returns the copy number (0
 * data, 1... image) with *array_offset and *length, the bytes from there to the
 * end of the unit; or -1 for an unused place (beyond l->member_bytes), with
 * *length the bytes to the end of the unit.
 */
int layout_unmap (const struct layout *l, unsigned member, uint64_t offset,
                  uint64_t *array_offset, uint32_t *length);

/* Has `other` a copy of the data at `offset` of a member?  The answer holds for
 * *length bytes, which is lowered to the end of the unit.  Unused bytes have no
 * copy.
 */
bool layout_shares (const struct layout *l, unsigned member, uint64_t offset,
                    unsigned other, uint64_t *length);

/* After so many stripes of a group, images are on the same members again. */
unsigned layout_period (const struct layout *l);

/* Which members have a copy of anything that lies on this one?  The time that this takes
 * grows with one period of the layout.
 */
void layout_partners (const struct layout *l, unsigned member,
                      bool partner[ARRAY_MEMBERS_MAX]);

/* The data (copy 0) of an array range on one member is contiguous there, and in
 * the array's order.  Returns false when the range has none on the member.
 */
bool layout_data_span (const struct layout *l, unsigned member, uint64_t offset,
                       uint64_t length, uint64_t *member_offset,
                       uint64_t *member_length);

/* What would be lost with these members (lost[m])?  Returns the bytes of the array
 * of which no copy is left; *exposed (may be NULL) gets the bytes that have fewer
 * copies than the layout makes but at least one.  The time that this takes grows
 * with one period of the layout, not with the array.
 */
uint64_t layout_loss (const struct layout *l, const bool lost[],
                      uint64_t *exposed);

/* A host is lost with all its members.  host[m] is any number of member m's host.
 * Returns how many hosts hold copies of the byte whose copies are on the fewest hosts:
 * the loss of any number of hosts below that loses nothing.  *together (may be NULL) gets
 * the bytes that have all of their copies on one host.  Takes the time of layout_loss.
 */
unsigned layout_hosts (const struct layout *l, const unsigned host[],
                       uint64_t *together);

/* Capacity: the bytes of all data areas together, `total`, split into what
 * the array offers, what its images take, and what is wasted because members
 * differ in size or a period is not filled.  Every member has at least
 * l->member_bytes; a sum beyond 64 bits is given as UINT64_MAX.
 */
struct layout_capacity {
  uint64_t total, usable, images, wasted;
};
void layout_capacity (const struct layout *l, const uint64_t member_bytes[],
                      struct layout_capacity *c);

/* One sentence on what the layout survives, for people:
 * "any 1 member", "any 1 member of each of 3 groups", "no failure at all",
 * "any 1 member, up to 2 if no two of them are a mirrored pair".  With host[], as for
 * layout_hosts, also of hosts: ", and any 1 host", ", but not any 1 host".
 */
void layout_survives (const struct layout *l, const unsigned host[], char *text,
                      size_t text_size);

#endif /* WEFT_LAYOUT_H */
