/* cluster-bad.c: the bad ranges of an array: places of which members say that no
 * copy could be found.
 *
 * Nothing is decided by them, and nothing stored: the lists are on the disks, and
 * every member process sends its own when weftd has started.
 *
 * That a loss was accepted is not stored either: it is an order to the present
 * writer.  If the order does not reach the writer, nothing has happened, and people
 * accept the loss again.  The order names the ranges, so a range that was found bad
 * since is not lost by it.
 *
 * Blocks of which another copy is good (BAD_WRITE) are mended by such an order, too.  It
 * names epoch 0, in which no array is: so nothing becomes zeroes by it.
 */

#include <config.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cluster-inputs.h"

#define LOSS_MS 10000 /* an order is repeated for so long */
#define MEND_MS 60000 /* how often a failed repair is repeated */

struct pieces {
  struct cluster_bad *piece;
  size_t count, room;
};

/* Block by block, for no two members need to have the same ranges. */
static void
push_range (struct pieces *p, const struct cluster_array *a, unsigned member,
            const struct bad_range *r)
{
  for (uint64_t b = r->first; b < r->first + r->blocks; b++) {
    struct cluster_bad bad = { .length = BAD_BLOCK_BYTES,
                               .reason = r->reason,
                               .members = 1,
                               .member = { member } };
    uint32_t length;

    if (layout_unmap (&a->layout, member, b * BAD_BLOCK_BYTES, &bad.offset,
                      &length) == -1)
      continue;
    if (p->count == p->room) {
      p->room = p->room ? 2 * p->room : 64;
      p->piece = realloc (p->piece, p->room * sizeof *p->piece);
      if (p->piece == NULL)
        abort ();
    }
    p->piece[p->count++] = bad;
  }
}

static int
compare (const void *a, const void *b)
{
  const struct cluster_bad *x = a, *y = b;

  return x->offset != y->offset
           ? (x->offset > y->offset) - (x->offset < y->offset)
           : (int) x->member[0] - (int) y->member[0];
}

/* Of its copies that nobody has found bad: is one in-sync, is one not? */
static void
look_for_copies (const struct cluster_array *a, struct cluster_bad *bad)
{
  struct layout_piece p;

  layout_map (&a->layout, bad->offset, bad->length, &p);
  for (unsigned c = 0; c < p.copies; c++) {
    unsigned m = p.copy[c].member;
    bool listed = false;

    for (unsigned i = 0; i < bad->members; i++)
      listed |= bad->member[i] == m;
    if (!listed && a->rec.member[m].state == MEMBER_IN_SYNC)
      bad->copy_left = true;
    else if (!listed)
      bad->copy_out = true;
  }
}

/* Those of one block become one; then neighbours. */
static void
merge (struct pieces *p, const struct cluster_array *a)
{
  size_t n = 0;

  for (size_t i = 0; i < p->count; i++) {
    struct cluster_bad *last = n ? &p->piece[n - 1] : NULL;

    if (last && last->offset == p->piece[i].offset &&
        last->members < COPIES_MAX)
      last->member[last->members++] = p->piece[i].member[0];
    else
      p->piece[n++] = p->piece[i];
  }
  p->count = n;
  n = 0;
  for (size_t i = 0; i < p->count; i++) {
    struct cluster_bad *last = n ? &p->piece[n - 1] : NULL, *b = &p->piece[i];

    look_for_copies (a, b);
    if (last && last->offset + last->length == b->offset &&
        last->reason == b->reason && last->copy_left == b->copy_left &&
        last->copy_out == b->copy_out && last->members == b->members &&
        memcmp (last->member, b->member, b->members * sizeof b->member[0]) == 0)
      last->length += b->length;
    else
      p->piece[n++] = *b;
  }
  p->count = n;
}

/* NULL: nothing is known of it, or it does not matter. */
static const struct bad_list *
list_of (const struct cluster_array *a, unsigned member)
{
  const struct cluster_disk *d = a->disk[member];

  if (d == NULL || d->said == NULL || !d->took_place ||
      (a->rec.member[member].state != MEMBER_IN_SYNC &&
       a->rec.member[member].state != MEMBER_JOINING))
    return NULL;
  return &d->said->bad;
}

size_t
cluster_array_bad (const struct cluster_array *a, struct cluster_bad **list)
{
  struct pieces p = { 0 };

  for (unsigned m = 0; m < a->layout.members; m++) {
    const struct bad_list *bad = list_of (a, m);

    for (unsigned i = 0; bad && i < bad->count; i++)
      push_range (&p, a, m, &bad->range[i]);
  }
  if (p.count > 0) {
    qsort (p.piece, p.count, sizeof *p.piece, compare);
    merge (&p, a);
  }
  *list = p.piece;
  return p.count;
}

uint64_t
cluster_array_bad_bytes (const struct cluster_array *a)
{
  struct cluster_bad *list;
  size_t count = cluster_array_bad (a, &list);
  uint64_t bytes = 0;

  for (size_t i = 0; i < count; i++)
    bytes += list[i].length;
  free (list);
  return bytes;
}

bool
cluster_bad_mended (const struct cluster_bad *bad)
{
  return bad->reason == BAD_WRITE && bad->copy_left;
}

bool
cluster_array_bad_any (const struct cluster_array *a)
{
  for (unsigned m = 0; m < a->layout.members; m++)
    if (list_of (a, m) && list_of (a, m)->count > 0)
      return true;
  return false;
}

/* ---- Loss that is accepted. ---- */

/* Is this range bad throughout, and is there nobody to be waited for who may have a
 * good copy?
 */
static bool
range_refused (struct cluster *c, uint64_t op, const struct cluster_array *a,
               const struct cluster_bad *list, size_t count, uint64_t offset,
               uint64_t length)
{
  uint64_t at = offset;

  for (size_t i = 0; i < count && at - offset < length; i++) {
    if (list[i].offset > at || at - list[i].offset >= list[i].length)
      continue;
    if (list[i].copy_out) {
      cluster_step_refuse (
        c, op, CLUSTER_CONFLICT, "member-out",
        "of offset %" PRIu64 " of array %s a member that is not "
        "in-sync may have a good copy: wait until it is, or "
        "replace it if it is gone (weftctl array replace), and "
        "ask again",
        at, a->rec.name);
      return true;
    }
    at = list[i].offset + list[i].length;
  }
  if (at - offset >= length)
    return false;
  cluster_step_refuse (
    c, op, CLUSTER_CONFLICT, "not-bad",
    "offset %" PRIu64 " of array %s is in no member's list of "
    "bad ranges (any more): look at what is, with weftctl array "
    "bad-ranges %s",
    at, a->rec.name, a->rec.name);
  return true;
}

/* The live session that writes all of this range; NULL: none. */
static struct cluster_session *
writer_of (const struct cluster *c, const struct cluster_array *a,
           uint64_t offset, uint64_t length)
{
  struct cluster_session *s = NULL;

  while ((s = cluster_writer_next (a, s)))
    if (s->alive && cluster_part_has (&s->rec.part, offset, length))
      return s;
  return NULL;
}

/* Can nobody make zeroes of this range just now? */
static bool
writer_refused (struct cluster *c, uint64_t op, const struct cluster_array *a,
                uint64_t offset, uint64_t length)
{
  const struct cluster_session *s = writer_of (c, a, offset, length);
  const struct cluster_session *any = cluster_array_writer (a);
  const char *name = a->rec.name;

  if (s && cluster_session_loss (c, s) && s->told.loss != s->loss->number)
    cluster_step_refuse (c, op, CLUSTER_CONFLICT, "loss-pending",
                         "the process that has array %s attached does not know "
                         "yet of the loss that was accepted before: ask again",
                         name);
  else if (s)
    return false;
  else if (any && any->rec.part.length > 0)
    cluster_step_refuse (
      c, op, CLUSTER_CONFLICT, "not-attached",
      "no live session writes all of the %" PRIu64 " bytes from %" PRIu64
      " on of array %s, and only such a session can write zeroes there: attach "
      "that part, or name the pieces of each part one by one",
      length, offset, name);
  else
    cluster_step_refuse (
      c, op, CLUSTER_CONFLICT, "not-attached",
      "array %s is %s: the process that has it attached for "
      "writing makes zeroes of what is lost; attach it (weftctl "
      "attach %s), and ask again",
      name,
      any ? "attached by a process that is silent"
          : "attached by nobody that writes",
      name);
  return true;
}

bool
cluster_bad_loss_refused (struct cluster *c, uint64_t op, const char *name,
                          const struct cluster_loss *loss)
{
  const struct cluster_array *a = cluster_step_array_or_refuse (c, op, name);
  struct cluster_bad *list;
  bool refused = false;
  size_t count;

  if (a == NULL || cluster_step_refuse_read_only (c, op))
    return true;
  for (unsigned i = 0; i < loss->count; i++)
    if (writer_refused (c, op, a, loss->range[i].offset, loss->range[i].length))
      return true;
  count = cluster_array_bad (a, &list);
  for (unsigned i = 0; i < loss->count && !refused; i++)
    refused = range_refused (c, op, a, list, count, loss->range[i].offset,
                             loss->range[i].length);
  free (list);
  return refused;
}

/* Order the session to see to those ranges that it writes.  epoch: 0 to mend them alone.
 * Returns the bytes.
 */
static uint64_t
order (struct cluster *c, const struct cluster_array *a,
       struct cluster_session *s, const struct cluster_loss *loss,
       uint64_t epoch)
{
  struct cluster_loss own = { .epoch = epoch, .live_ms = c->live_ms };
  uint64_t bytes = 0;

  for (unsigned i = 0; i < loss->count; i++)
    if (writer_of (c, a, loss->range[i].offset, loss->range[i].length) == s) {
      bytes += loss->range[i].length;
      own.range[own.count++] = loss->range[i];
    }
  if (own.count == 0)
    return 0;
  /* Another one than all before, by whatever weftd. */
  own.number = (uint64_t) c->life << 32 | ++c->loss_count;
  if (s->loss == NULL)
    s->loss = alloc_zeroed (sizeof *s->loss);
  *s->loss = own;
  cluster_tell_session (c, s, true);
  return bytes;
}

static void
order_loss (struct cluster *c, const struct cluster_array *a,
            struct cluster_session *s, const struct cluster_loss *loss)
{
  uint64_t bytes = order (c, a, s, loss, a->rec.epoch);
  char words[32];

  if (bytes > 0)
    cluster_step_log (
      c, CLUSTER_WARNING, "array", a->rec.name,
      "The loss of %s of array %s was accepted: node %s, process %" PRIu64
      ", is to write zeroes there.",
      cluster_words_bytes (bytes, words, sizeof words), a->rec.name,
      s->rec.node, s->rec.pid);
}

/* Is this order the last one, or does another one stand for some time yet? */
static bool
ordered (const struct cluster *c, const struct cluster_session *s,
         const struct cluster_loss *mend)
{
  const struct cluster_loss *last = s->loss;

  if (last == NULL)
    return false;
  if (last->epoch > 0)
    return c->live_ms - last->live_ms < LOSS_MS;
  return c->live_ms - last->live_ms < MEND_MS && last->count == mend->count &&
         memcmp (last->range, mend->range,
                 mend->count * sizeof mend->range[0]) == 0;
}

void
cluster_bad_mend (struct cluster *c, const struct cluster_array *a,
                  struct cluster_session *s)
{
  struct cluster_loss mend = { .count = 0 };
  struct cluster_bad *list;
  uint64_t bytes = 0;
  size_t count;
  char words[32];

  if (!s->rec.writable || !(cluster_array_bad_any (a) || s->loss))
    return;
  count = cluster_array_bad (a, &list);
  for (size_t i = 0; i < count && mend.count < LOSS_RANGES_MAX; i++)
    if (cluster_bad_mended (&list[i])) {
      mend.range[mend.count].offset = list[i].offset;
      mend.range[mend.count++].length = list[i].length;
    }
  free (list);
  if (mend.count == 0 && s->loss && s->loss->epoch == 0)
    s->loss->count = 0;
  else if (mend.count > 0 && !ordered (c, s, &mend))
    bytes = order (c, a, s, &mend, 0);
  if (bytes > 0)
    cluster_step_log (
      c, CLUSTER_WARNING, "array", a->rec.name,
      "%s of array %s could not be read when a part was written: "
      "node %s, process %" PRIu64 ", is to copy them from another "
      "member.",
      cluster_words_bytes (bytes, words, sizeof words), a->rec.name,
      s->rec.node, s->rec.pid);
}

void
cluster_array_accept_loss (struct cluster *c, const struct cluster_input *in,
                           const char *array, const struct cluster_loss *loss)
{
  struct cluster_session *s = NULL;
  struct cluster_array *a;

  cluster_step_begin (c, in);
  if (!cluster_bad_loss_refused (c, in->op, array, loss)) {
    a = cluster_array_find (c, array);
    while ((s = cluster_writer_next (a, s)))
      order_loss (c, a, s, loss);
    cluster_step_reply_array (c, in->op, a);
  }
  cluster_pump_end (c);
}

const struct cluster_loss *
cluster_session_loss (const struct cluster *c, const struct cluster_session *s)
{
  return s->loss && c->live_ms - s->loss->live_ms < LOSS_MS ? s->loss : NULL;
}
