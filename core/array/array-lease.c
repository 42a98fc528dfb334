/* array-lease.c: ranges that this session holds come and go (docs/PROTOCOL.md,
 * "Leases").
 *
 * A range of the array is HELD: requests may begin there; RECOVERING: it will
 * be held when the copies are in sync, and until then only requests of
 * ARRAY_RECOVER begin; LEAVING: no request begins, and it is ours until the
 * requests that have begun are done and no image of it is in the image buffer;
 * or it is not ours.
 *
 * A request within ranges that we hold is *leased* from its beginning to its
 * end, whatever is asked back meanwhile.  A write begins only if it is leased;
 * a read that begins without a lease is as a reader's (array-read.c). A request
 * that needs a lease and has none waits in `waiting`, without a turn in its
 * range: it blocks no other request, so hosts that wait for each other's leases
 * can't be locked up by their own requests.  It wants all of its range, even if
 * part of it is ours already: otherwise two hosts might exchange halves for
 * ever.
 *
 * A leased request ends by itself: it may have to wait for a member, for
 * weftd's decision on one, or for requests before it, which are leased or only
 * read.  None of these waits for a lease.
 *
 * The images of a LEAVING range are looked for when no leased request is left
 * there, because then no more are added.  Images of a lost member are in the
 * buffer until it is back or out, and the range is ours for so long: these
 * images must not overtake the writes of the next holder, who must find our
 * acknowledged writes on the other copies.  If much is left at once, the whole
 * buffer is written instead.
 *
 * A part is a pinned lease: HELD from the beginning on, and never left.  A write
 * outside of it is refused at once, and a read there never waits for a lease.
 * Ranges that the session recovers outside of its part leave as soon as their
 * copies are in sync.
 *
 * After array_stop no range leaves any more, because images were dropped.
 */

#include <config.h>

#include <assert.h>
#include <stdlib.h>

#include "array-internal.h"

/* Owners in lease.spans.  From LEAVING on each call of array_lease_leave has two: an even
 * one of what is leaving by it, and the next one of what was not ours.
 */
enum { HELD = 1, RECOVERING = 2, LEAVING = 4 };

/* Up to so many bytes are looked for in the image buffer, piece by piece. */
#define LEAVE_PIECES_BYTES MiB (64)
/* It is known of so many parts of the array when they were written last. */
#define USED_PARTS 1024

/* The ranges that one call asked back. */
struct leaving {
  TAILQ_ENTRY (leaving) link;
  uint64_t start, end, owner;
  bool fired;        /* no request is left, and images were hurried: */
  bool whole;        /* up to `sequence`, those of all members; or */
  uint64_t sequence; /* ... */
  uint64_t at;       /* those of this range, and none is left before here */
};

void
lease_init (struct array *a)
{
  struct lease *l = &a->lease;

  TAILQ_INIT (&l->waiting);
  TAILQ_INIT (&l->leaving);
  l->owner = LEAVING;
  if (!a->config.leases)
    return;
  l->part_bytes = (a->layout->size / USED_PARTS / LEASE_BYTES + 1) *
                  LEASE_BYTES;
  l->cold_ns = alloc_zeroed (USED_PARTS * sizeof l->cold_ns[0]);
  if (a->config.lease_all)
    spans_set (&l->spans, 0, a->layout->size,
               array_pinned (a) ? RECOVERING : HELD);
  if (array_pinned (a))
    spans_set (&l->spans, a->config.part_offset,
               a->config.part_offset + a->config.part_length, HELD);
}

void
lease_free (struct array *a)
{
  struct lease *l = &a->lease;
  struct leaving *g;

  while ((g = TAILQ_FIRST (&l->leaving))) {
    TAILQ_REMOVE (&l->leaving, g, link);
    free (g);
  }
  spans_free (&l->spans);
  free (l->cold_ns);
  free (l->left);
}

static bool
ours (const struct span *x)
{
  return x->owner < LEAVING || x->owner % 2 == 0;
}

/* The part of a range that is within the array; false: there is none. */
static bool
clip (const struct array *a, const struct array_range *r, uint64_t *start,
      uint64_t *end)
{
  uint64_t size = a->layout->size;

  if (r->length == 0 || r->offset >= size)
    return false;
  *start = r->offset;
  *end = r->length < size - r->offset ? r->offset + r->length : size;
  return true;
}

/* Is all that the request covers held, or at least being recovered? */
static bool
within (const struct array *a, const struct array_request *r, bool recovering)
{
  const struct spans *s = &a->lease.spans;
  uint64_t at = r->offset, end = at + r->length, next = at;

  do {
    at = next;
    next = spans_reach (s, at, end, HELD);
    if (next == at && recovering)
      next = spans_reach (s, at, end, RECOVERING);
  } while (next > at && next < end);
  return next == end;
}

bool
lease_may_begin (const struct array *a, const struct array_request *r)
{
  return within (a, r, r->flags & ARRAY_RECOVER);
}

static void
begin (struct array *a, struct req *q)
{
  uint64_t bytes = a->lease.part_bytes;

  q->leased = true;
  q->leased_ns = a->now_ns;
  for (uint64_t i = q->r->offset / bytes;
       request_writes (q->r) && i * bytes < q->r->offset + q->r->length; i++)
    a->lease.cold_ns[i] = a->now_ns + LEASE_COLD_MS * NS_PER_MS;
}

/* One notice is enough: its data is fetched when it is handled. */
static void
give_notice (struct array *a, enum array_notice_kind kind)
{
  const struct notice *n;

  TAILQ_FOREACH (n, &a->notices, link)
    if (n->notice.kind == kind)
      return;
  member_notice_new (a, kind, 0);
}

bool
lease_has (struct array *a, struct req *q)
{
  if (!q->leased && lease_may_begin (a, q->r))
    begin (a, q);
  return q->leased;
}

bool
lease_take (struct array *a, struct req *q)
{
  if (lease_has (a, q))
    return true;
  assert (!q->waits);
  if (q->lock != LOCK_NONE)
    range_drop (a, q);
  q->waits = true;
  TAILQ_INSERT_TAIL (&a->lease.waiting, q, lease_link);
  give_notice (a, NOTICE_LEASE);
  return false;
}

void
lease_done (struct array *a, struct req *q)
{
  if (q->waits)
    TAILQ_REMOVE (&a->lease.waiting, q, lease_link);
  q->waits = false;
  a->look |= !TAILQ_EMPTY (&a->lease.leaving);
}

/* Requests that waited and are covered now begin, the first first. */
static void
begin_waiting (struct array *a)
{
  struct req *q, *next;

  TAILQ_FOREACH_SAFE (q, &a->lease.waiting, lease_link, next) {
    if (!lease_may_begin (a, q->r))
      continue;
    lease_done (a, q);
    begin (a, q);
    q->commits = a->commits;
    if (q->r->op == ARRAY_READ || range_take (a, q, LOCK_EXCLUSIVE))
      req_wake (a, q);
  }
  if (!TAILQ_EMPTY (&a->lease.waiting))
    give_notice (a, NOTICE_LEASE);
}

/* Where it is this owner's (0: nobody's) it becomes that one's; false: it is nowhere. */
static bool
change (struct spans *s, uint64_t at, uint64_t end, uint64_t from, uint64_t to)
{
  bool any = false;

  while (at < end) {
    uint64_t reach = spans_reach (s, at, end, from);
    unsigned i = spans_find (s, at);

    if (reach > at) {
      spans_set (s, at, reach, to);
      any = true;
    }
    else if (i == s->count)
      break;
    else
      reach = s->span[i].start > at ? s->span[i].start : s->span[i].end;
    at = reach;
  }
  return any;
}

/* Ranges without an owner, as far as we know, are ours.  Others may just have
 * written there: such writes may be neither stable nor covered by rounds yet,
 * and any member may have some of them.
 */
static void
take (struct array *a, const struct array_range *ranges, unsigned count,
      uint64_t owner)
{
  bool any = false;

  for (unsigned i = 0; i < count; i++) {
    uint64_t start, end;

    if (clip (a, &ranges[i], &start, &end))
      any |= change (&a->lease.spans, start, end, 0, owner);
  }
  /* It does not stay ours, so no FLUSH of our clients stands for it. */
  if (!any || array_pinned (a))
    return;
  for (unsigned i = 0; i < a->layout->members; i++) {
    a->member[i].writes.loose = a->former->wrote[i] = ++a->event;
    a->member[i].writes.last_ns = a->now_ns;
  }
  round_touch (a);
}

void
lease_grant (struct array *a, const struct array_range *granted, unsigned count)
{
  take (a, granted, count, HELD);
  begin_waiting (a);
}

void
lease_recover (struct array *a, const struct array_range *ranges,
               unsigned count)
{
  take (a, ranges, count, RECOVERING);
  begin_waiting (a);
}

static struct leaving *
leaving_new (struct array *a, uint64_t start, uint64_t end)
{
  struct leaving *g = alloc_zeroed (sizeof *g);

  g->start = start;
  g->end = end;
  g->owner = a->lease.owner;
  a->lease.owner += 2;
  TAILQ_INSERT_TAIL (&a->lease.leaving, g, link);
  a->look = true;
  return g;
}

/* With a part it is left when joining members have all of it. */
void
lease_recovered (struct array *a)
{
  uint64_t size = a->layout->size;

  change (&a->lease.spans, 0, size, RECOVERING,
          array_pinned (a) ? leaving_new (a, 0, size)->owner : HELD);
  begin_waiting (a);
}

static bool
cold (const struct array *a, uint64_t at)
{
  return a->lease.cold_ns[at / a->lease.part_bytes] <= a->now_ns;
}

/* How far up from `at`, and no further than `end`, is what we hold, and cold? */
static uint64_t
cold_up (const struct array *a, uint64_t at, uint64_t end)
{
  uint64_t bytes = a->lease.part_bytes;

  end = spans_reach (&a->lease.spans, at, end, HELD);
  while (at < end && cold (a, at))
    at = at / bytes * bytes + bytes;
  return at < end ? at : end;
}

static uint64_t
cold_down (const struct array *a, uint64_t at, uint64_t start)
{
  uint64_t bytes = a->lease.part_bytes;

  start = spans_reach_down (&a->lease.spans, at, start, HELD);
  while (at > start && cold (a, at - 1))
    at = (at - 1) / bytes * bytes;
  return at > start ? at : start;
}

void
lease_leave (struct array *a, const struct array_range *must,
             const struct array_range *wish)
{
  struct spans *s = &a->lease.spans;
  uint64_t start, end, wish_start, wish_end;
  struct leaving *g;

  if (a->stopped || !clip (a, must, &start, &end))
    return;
  if (clip (a, wish, &wish_start, &wish_end)) {
    if (wish_start < start)
      start = cold_down (a, start, wish_start);
    if (wish_end > end)
      end = cold_up (a, end, wish_end);
  }
  g = leaving_new (a, start, end);
  change (s, start, end, HELD, g->owner);
  change (s, start, end, 0, g->owner + 1);
}

/* The next part of [at, end) that is leaving by this call; false: there is none. */
static bool
next_leaving (const struct array *a, const struct leaving *g, uint64_t at,
              uint64_t end, struct span *found)
{
  const struct spans *s = &a->lease.spans;

  for (unsigned i = spans_find (s, at);
       at < end && i < s->count && s->span[i].start < end; i++)
    if (s->span[i].owner == g->owner) {
      *found = s->span[i];
      if (found->start < at)
        found->start = at;
      if (found->end > end)
        found->end = end;
      return true;
    }
  return false;
}

/* Is a request running there?  Reads count, too: a read may be about to read an
 * image.
 */
static bool
in_use (const struct array *a, const struct leaving *g)
{
  const struct req *q;
  struct span x;

  TAILQ_FOREACH (q, &a->requests, link) {
    uint64_t start = q->r->offset, end = start + q->r->length;

    if (q->leased && next_leaving (a, g, start, end, &x))
      return true;
  }
  return false;
}

/* Is a copy of this piece in the buffer?  If so it is sent at once. */
static bool
piece_buffered (struct array *a, const struct layout_piece *at)
{
  bool any = false;

  for (unsigned c = 0; c < at->copies; c++)
    any |= images_hurry (a->images, at->copy[c].member, at->copy[c].offset,
                         at->length);
  return any;
}

/* From g->at on, where is the first byte with a copy in the buffer?  The first time all
 * of the rest is hurried.
 */
static void
look_for_images (struct array *a, struct leaving *g)
{
  uint64_t first = g->end;
  struct layout_piece piece;
  struct span x;

  for (uint64_t at = g->at; next_leaving (a, g, at, g->end, &x); at = x.end)
    for (; x.start < x.end; x.start += piece.length) {
      layout_map (a->layout, x.start, x.end - x.start, &piece);
      if (!piece_buffered (a, &piece))
        continue;
      if (first == g->end)
        first = x.start;
      if (g->fired) {
        g->at = first;
        return;
      }
    }
  g->at = first;
}

static void
fire (struct array *a, struct leaving *g)
{
  uint64_t bytes = 0;
  struct span x;

  for (uint64_t at = g->start; next_leaving (a, g, at, g->end, &x); at = x.end)
    bytes += x.end - x.start;
  g->at = g->start;
  g->whole = bytes > LEAVE_PIECES_BYTES;
  if (g->whole) {
    images_fire (a->images);
    g->sequence = images_sequence (a->images);
  }
  else
    look_for_images (a, g);
  g->fired = true;
}

/* Is nothing of it in the image buffer? */
static bool
drained (struct array *a, struct leaving *g)
{
  if (!g->whole) {
    look_for_images (a, g);
    return g->at == g->end;
  }
  for (unsigned i = 0; i < a->layout->members; i++)
    if (!images_written (a->images, i, g->sequence))
      return false;
  return true;
}

static void
push_left (struct array *a, uint64_t start, uint64_t end)
{
  struct lease *l = &a->lease;

  if (l->left_count == l->left_room) {
    l->left_room = l->left_room ? 2 * l->left_room : 16;
    l->left = realloc (l->left, l->left_room * sizeof l->left[0]);
    if (!l->left)
      abort ();
  }
  l->left[l->left_count++] = (struct array_range) { start, end - start };
}

/* Ranges that an earlier call asked back, too, leave by that call. */
static void
let_go (struct array *a, const struct leaving *g)
{
  struct spans *s = &a->lease.spans;
  uint64_t at = g->start;
  struct span x;

  change (s, at, g->end, g->owner + 1, g->owner);
  for (; next_leaving (a, g, at, g->end, &x); at = x.end) {
    spans_set (s, x.start, x.end, 0);
    if (!array_pinned (a)) /* weftd knows what it has */
      push_left (a, x.start, x.end);
  }
  if (a->lease.left_count > 0)
    give_notice (a, NOTICE_LEFT);
}

void
lease_look (struct array *a)
{
  struct leaving *g, *next;

  if (a->stopped)
    return;
  TAILQ_FOREACH_SAFE (g, &a->lease.leaving, link, next) {
    if (!g->fired && !in_use (a, g))
      fire (a, g);
    if (!g->fired || !drained (a, g))
      continue;
    let_go (a, g);
    TAILQ_REMOVE (&a->lease.leaving, g, link);
    free (g);
  }
}

bool
array_lease_leaves (const struct array *a)
{
  return !TAILQ_EMPTY (&a->lease.leaving);
}

unsigned
array_lease_wants (const struct array *a, struct array_range *wants,
                   unsigned max)
{
  const struct req *q;
  unsigned count = 0;

  TAILQ_FOREACH (q, &a->lease.waiting, lease_link) {
    uint64_t start = q->r->offset / LEASE_BYTES * LEASE_BYTES;
    uint64_t end = q->r->offset + q->r->length;
    bool known = within (a, q->r, true); /* it is being recovered */

    end = (end + LEASE_BYTES - 1) / LEASE_BYTES * LEASE_BYTES;
    if (end > a->layout->size)
      end = a->layout->size;
    for (unsigned i = 0; i < count && !known; i++)
      known = wants[i].offset <= start &&
              end <= wants[i].offset + wants[i].length;
    if (known)
      continue;
    if (count == max)
      break;
    wants[count++] = (struct array_range) { start, end - start };
  }
  return count;
}

unsigned
array_lease_left (struct array *a, struct array_range *left, unsigned max)
{
  struct lease *l = &a->lease;
  unsigned count = l->left_count < max ? l->left_count : max;

  if (count == 0)
    return 0;
  memcpy (left, l->left, count * sizeof left[0]);
  l->left_count -= count;
  memmove (l->left, l->left + count, l->left_count * sizeof l->left[0]);
  return count;
}

size_t
array_lease_all (const struct array *a, struct array_range **list)
{
  const struct spans *s = &a->lease.spans;
  size_t count = 0;
  struct array_range *r;

  *list = NULL;
  if (s->count == 0)
    return 0;
  r = malloc (s->count * sizeof *r);
  if (!r)
    abort ();
  for (unsigned i = 0; i < s->count; i++) {
    const struct span *x = &s->span[i];

    if (!ours (x))
      continue;
    if (count > 0 && r[count - 1].offset + r[count - 1].length == x->start)
      r[count - 1].length += x->end - x->start;
    else
      r[count++] = (struct array_range) { x->start, x->end - x->start };
  }
  *list = r;
  return count;
}

void
lease_check (const struct array *a)
{
  const struct lease *l = &a->lease;
  const struct req *q;

  spans_check (&l->spans);
  assert (a->config.leases || l->spans.count == 0);
  TAILQ_FOREACH (q, &a->requests, link)
    if (q->leased) /* all of it is ours, though some may be asked back */
      for (uint64_t at = q->r->offset, end = at + q->r->length; at < end;) {
        unsigned i = spans_find (&l->spans, at);

        assert (i < l->spans.count && l->spans.span[i].start <= at &&
                ours (&l->spans.span[i]));
        at = l->spans.span[i].end;
      }
  TAILQ_FOREACH (q, &l->waiting, lease_link) {
    assert (q->waits && !q->leased && q->lock == LOCK_NONE && !q->error);
    assert (q->parked == q->pieces_count && !lease_may_begin (a, q->r));
  }
}
