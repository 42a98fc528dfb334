/* sim-history.c: the judge.
 *
 * Overlapping writes take effect in the order of submission, so a grain's
 * value is a version, and versions only grow.  For each grain:
 *   acked    the latest version that was acknowledged to a client;
 *   floor    that, or the latest that a read has returned;
 *   promised the latest that must survive: flushed, or written with FUA.
 * A read returns no version below the floor as it was when it was submitted,
 * and only submitted ones.
 *
 * A power cut of the last copy takes back unflushed data, and only that.  Such a grain is
 * in doubt until it is written again; its copies may differ.  The FLUSHes that cover lost
 * writes fail: those under way when the array hears of the loss, those that begin before
 * any client got the error, and the first FLUSH of each client that lost an acknowledged
 * write.  All other FLUSHes succeed: those of a client without writes there since a
 * FLUSH, when others got the error; and all, if the member has kept its data.
 * A read returns older data than was acknowledged only after array_losses has risen.
 *
 * When a write is acknowledged, its data copy holds it.  If weftd has recorded that copy
 * as out and the engine knows that, an image does: no acknowledgement relies on an
 * unrecorded failure.  With FUA or dup = sync every in-sync copy holds it; with FUA
 * stably.  When a FLUSH is done, every in-sync copy holds promised data stably.
 */

#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "sim.h"

struct grain {
  uint64_t acked, floor, promised;
  uint64_t last_zero; /* the latest zero or trim that was submitted */
  uint64_t last;      /* the latest write of any kind */
  uint64_t last_failed;
  uint64_t prepared; /* acked, when the array began to prepare */
  struct answered {
    uint64_t version, losses; /* the latest that was ever acknowledged, and
                                 array_losses by then */
  } answered;
  bool doubt;       /* a copy has lost what was not flushed: that may be read */
  uint64_t unheard; /* bits of members: the array has not heard of it */
  struct {
    uint64_t version,
      at; /* its last write that was acknowledged, and when, ... */
  } owed[JUDGE_CLIENTS]; /* ... of which no FLUSH of its own has spoken since */
};

struct judged {
  uint64_t version;
  uint64_t first, count;     /* grains */
  uint64_t *floors;          /* of each, at submission */
  struct answered *answered; /* the same */
  bool flush;
  unsigned client;
  uint64_t at;   /* of its submission */
  bool may_fail; /* a FLUSH */
  struct judged *next;
};
static struct judged *judged; /* those under way */

/* Submissions and acknowledgements, in their order. */
static uint64_t step;
static struct lapses lapses;

unsigned grain_bytes;
static struct judge_world world;
static struct grain *grains;
static uint64_t grains_count;

/* The content of each version's write. */
static struct span {
  uint64_t first, count;
} *spans;
static uint64_t versions, spans_room;

void
grain_fill (void *buf, uint64_t grain, uint64_t count, uint64_t version)
{
  uint64_t *word = buf;

  for (uint64_t i = 0; i < count; i++)
    for (unsigned j = 0; j < grain_bytes / 16; j++) {
      *word++ = version;
      *word++ = grain + i;
    }
}

uint64_t
grain_version (const void *buf, uint64_t grain, const char *where)
{
  const uint64_t *word = buf;
  uint64_t version = word[0];

  for (unsigned j = 0; j < grain_bytes / 16; j++)
    if (word[2 * j] != version || word[2 * j + 1] != (version ? grain : 0))
      sim_fail ("grain %llu of %s is torn or not its own: version %llu of "
                "grain %llu",
                (unsigned long long) grain, where,
                (unsigned long long) word[2 * j],
                (unsigned long long) word[2 * j + 1]);
  return version;
}

bool
lapses_may (const struct lapses *l, unsigned client)
{
  return l->may || l->client[client].may;
}

void
lapses_told (struct lapses *l, unsigned client, uint64_t at)
{
  raise_to (&l->stable, at);
  if (at > l->client[client].may_last)
    l->client[client].may = false;
  if (at > l->may_last)
    l->may = false;
}

bool
lapses_add (struct lapses *l, unsigned member)
{
  bool any = false;

  for (unsigned c = 0; c <= JUDGE_CLIENTS; c++) {
    uint64_t wrote = l->client[c].wrote[member];

    if (wrote <= l->stable)
      continue;
    any = l->client[c].may = l->may = true;
    raise_to (&l->client[c].may_last, wrote);
    raise_to (&l->may_last, wrote);
  }
  return any;
}

void
lapses_close (struct lapses *l, unsigned client)
{
  for (unsigned i = 0; i < ARRAY_MEMBERS_MAX; i++)
    raise_to (&l->client[JUDGE_CLIENTS].wrote[i], l->client[client].wrote[i]);
  memset (&l->client[client], 0, sizeof l->client[client]);
}

void
judge_begin (const struct judge_world *w)
{
  world = *w;
  versions = step = 0;
  lapses = (struct lapses) { 0 };
  grains_count = w->layout->size / grain_bytes;
  grains = calloc (grains_count, sizeof *grains);
  if (!grains)
    abort ();
}

void
judge_end (void)
{
  free (grains);
  free (spans);
  grains = NULL;
  spans = NULL;
  spans_room = 0;
}

/* Is this version, found at a grain, at least `floor`, and possible? */
static bool
possible (uint64_t g, uint64_t version, uint64_t floor)
{
  if (version == 0)
    return floor == 0 || grains[g].last_zero >= floor;
  return version >= floor && version <= versions && g >= spans[version].first &&
         g - spans[version].first < spans[version].count;
}

struct judged *
judge_submitted (struct array_request *r, unsigned client)
{
  struct judged *j = calloc (1, sizeof *j);
  bool flush = r->op == ARRAY_FLUSH;

  j->next = judged;
  judged = j;
  j->flush = flush;
  j->client = client;
  j->at = ++step;
  j->may_fail = lapses_may (&lapses, client);
  j->first = flush ? 0 : r->offset / grain_bytes;
  j->count = flush ? grains_count : r->length / grain_bytes;
  j->floors = calloc (j->count + 1, sizeof j->floors[0]);
  j->answered = calloc (j->count + 1, sizeof j->answered[0]);
  for (uint64_t i = 0; i < j->count; i++) {
    const struct grain *g = &grains[j->first + i];

    j->floors[i] = flush ? g->acked : g->floor;
    j->answered[i] = g->answered;
  }
  if (r->op != ARRAY_WRITE && r->op != ARRAY_ZERO && r->op != ARRAY_TRIM)
    return j;
  if (++versions >= spans_room) {
    spans_room = 2 * versions + 64;
    spans = realloc (spans, spans_room * sizeof *spans);
    if (!spans)
      abort ();
  }
  spans[versions] = (struct span) { j->first, j->count };
  j->version = versions;
  if (r->op == ARRAY_WRITE)
    grain_fill (r->buf, j->first, j->count, j->version);
  for (uint64_t i = 0; i < j->count; i++) {
    grains[j->first + i].last = j->version;
    if (r->op != ARRAY_WRITE)
      grains[j->first + i].last_zero = j->version;
  }
  return j;
}

static void
lower_to (uint64_t *to, uint64_t version)
{
  if (*to > version)
    *to = version;
}

static uint64_t
copy_version (uint64_t g, unsigned copy, bool durable, unsigned *member)
{
  struct layout_piece p;
  const struct sim_member *m;

  layout_map (world.layout, g * grain_bytes, grain_bytes, &p);
  *member = p.copy[copy].member;
  m = &world.members[*member];
  return grain_version ((durable ? m->durable : m->now) + p.copy[copy].offset,
                        g, durable ? "a member's stable storage" : "a member");
}

/* Does every copy that counts, or just the one that must, hold it? */
static void
check_copies (uint64_t g, uint64_t floor, bool all, bool durable,
              const char *what)
{
  bool data_in = true, found = false;
  unsigned copies = world.layout->copies, member;

  for (unsigned c = 0; c < copies; c++) {
    uint64_t version = copy_version (g, c, durable, &member);

    if (world.recorded_out[member]) {
      data_in &= c != 0 || !world.heard_out[member];
      continue;
    }
    if (possible (g, version, floor)) {
      found = true;
      continue;
    }
    if (all || c == 0)
      sim_fail ("%s: grain %llu, copy %u on member %u holds version %llu%s, "
                "but %llu is needed",
                what, (unsigned long long) g, c, member,
                (unsigned long long) version, durable ? " stably" : "",
                (unsigned long long) floor);
  }
  if (!data_in && !found)
    sim_fail ("%s: grain %llu: no image holds version %llu and the data "
              "member is out",
              what, (unsigned long long) g, (unsigned long long) floor);
}

/* Is a copy of the grain left at all? */
static bool
exists (uint64_t g)
{
  struct layout_piece p;

  layout_map (world.layout, g * grain_bytes, grain_bytes, &p);
  for (unsigned c = 0; c < p.copies; c++)
    if (!world.recorded_out[p.copy[c].member])
      return true;
  return false;
}

static void
write_done (struct judged *j, const struct array_request *r)
{
  bool fua = r->flags & ARRAY_FUA, all = fua || world.sync;
  struct layout_piece p;

  step++;
  for (uint64_t i = 0; i < j->count; i++) {
    struct grain *g = &grains[j->first + i];

    layout_map (world.layout, (j->first + i) * grain_bytes, grain_bytes, &p);
    for (unsigned c = 0; c < p.copies && !fua; c++)
      lapses.client[j->client].wrote[p.copy[c].member] = step;
    g->owed[j->client].version = j->version;
    g->owed[j->client].at = step;
    raise_to (&g->acked, j->version);
    if (g->answered.version < j->version)
      g->answered = (struct answered) { j->version,
                                        array_losses (*world.array) };
    if (fua)
      raise_to (&g->promised, j->version);
    if (fua && exists (j->first + i))
      check_copies (j->first + i, j->version, true, true,
                    "a write with FUA is acknowledged");
    if (g->unheard)
      continue; /* it may be gone already */
    raise_to (&g->floor, j->version);
    g->doubt = false;
    if (exists (j->first + i))
      check_copies (j->first + i, j->version, all, false,
                    "a write is acknowledged");
  }
}

static void
read_done (struct judged *j, const struct array_request *r)
{
  for (uint64_t i = 0; i < j->count; i++) {
    uint64_t g = j->first + i;
    uint64_t version = grain_version ((char *) r->buf + i * grain_bytes, g,
                                      "what was read");

    if (!possible (g, version, j->floors[i]))
      sim_fail ("grain %llu reads as version %llu, but was %llu before",
                (unsigned long long) g, (unsigned long long) version,
                (unsigned long long) j->floors[i]);
    if (!possible (g, version, j->answered[i].version) &&
        j->answered[i].losses == array_losses (*world.array))
      sim_fail ("grain %llu reads as version %llu, %llu was acknowledged, and "
                "the array has told of no loss",
                (unsigned long long) g, (unsigned long long) version,
                (unsigned long long) j->answered[i].version);
    if (!grains[g].doubt)
      raise_to (&grains[g].floor, version);
  }
}

static void
extents_done (struct judged *j, const struct array_request *r)
{
  uint64_t at = 0;

  if (r->length > 0 && r->extents_count == 0)
    sim_fail ("no extents in the answer");
  for (size_t e = 0; e < r->extents_count; e++) {
    uint64_t end = at + r->extents[e].length;

    if (end <= at || end > r->length)
      sim_fail ("extent %zu ends at %llu of %llu", e, (unsigned long long) end,
                (unsigned long long) r->length);
    for (; at < end; at += grain_bytes)
      if (r->extents[e].zero && !possible (j->first + at / grain_bytes, 0,
                                           j->floors[at / grain_bytes]))
        sim_fail ("grain %llu is said to be zero",
                  (unsigned long long) (j->first + at / grain_bytes));
  }
}

/* Data acknowledged before the FLUSH was submitted is stable, as far as it is there; its
 * client, and so at least one client, knows of all losses.
 */
static void
flush_over (const struct judged *j)
{
  lapses_told (&lapses, j->client, j->at);
  for (uint64_t i = 0; i < grains_count; i++)
    if (grains[i].owed[j->client].at < j->at)
      grains[i].owed[j->client].version = 0;
}

static void
flush_done (struct judged *j)
{
  for (uint64_t g = 0; g < grains_count; g++) {
    if (grains[g].owed[j->client].at < j->at && exists (g))
      check_copies (g, grains[g].owed[j->client].version, true, true,
                    "a FLUSH of who has written it is done");
    raise_to (&grains[g].promised, j->floors[g]);
    if (exists (g))
      check_copies (g, grains[g].promised, true, true, "a FLUSH is done");
  }
  flush_over (j);
}

static void
failed (struct judged *j, const struct array_request *r, bool may_fail)
{
  if (!may_fail && !(j->flush && j->may_fail))
    sim_fail ("a client sees an error: op %d of %llu bytes at %llu: %s", r->op,
              (unsigned long long) r->length, (unsigned long long) r->offset,
              strerror (r->error));
  if (j->version)
    for (uint64_t i = 0; i < j->count; i++)
      raise_to (&grains[j->first + i].last_failed, j->version);
  if (!j->flush)
    return;
  flush_over (j);
  for (uint64_t i = 0; i < grains_count; i++)
    if (grains[i].doubt && grains[i].acked <= j->floors[i])
      grains[i].acked = grains[i].promised; /* the next need not speak of it */
}

void
judge_done (struct judged *j, struct array_request *r, bool may_fail)
{
  struct judged **at = &judged;

  while (*at != j)
    at = &(*at)->next;
  *at = j->next;
  if (r->error)
    failed (j, r, may_fail);
  else
    switch (r->op) {
    case ARRAY_READ:
      read_done (j, r);
      break;
    case ARRAY_FLUSH:
      flush_done (j);
      break;
    case ARRAY_EXTENTS:
      extents_done (j, r);
      break;
    default:
      write_done (j, r);
      break;
    }
  free (j->floors);
  free (j->answered);
  free (j);
}

void
judge_prepares (void)
{
  for (uint64_t i = 0; i < grains_count; i++)
    grains[i].prepared = grains[i].doubt ? grains[i].promised : grains[i].acked;
}

/* These members hold stably what was acknowledged when the array began to prepare, or
 * what was promised.
 */
static void
check_stable (const bool members[], bool prepared, const char *what)
{
  for (uint64_t i = 0; i < grains_count; i++)
    for (unsigned c = 0; c < world.layout->copies; c++) {
      uint64_t floor = prepared ? grains[i].prepared : grains[i].promised;
      unsigned member;
      uint64_t version = copy_version (i, c, true, &member);

      if (members[member] && !possible (i, version, floor))
        sim_fail ("%s: grain %llu, copy %u on member %u, holds version %llu "
                  "stably, but %llu is needed",
                  what, (unsigned long long) i, c, member,
                  (unsigned long long) version, (unsigned long long) floor);
    }
}

void
judge_prepared (const bool in_sync[])
{
  check_stable (in_sync, true, "the array is prepared");
}

void
judge_gone (unsigned member, uint64_t offset)
{
  uint64_t array_offset, i;
  uint32_t length;
  struct grain *g;

  if (layout_unmap (world.layout, member, offset, &array_offset, &length) == -1)
    return;
  i = array_offset / grain_bytes;
  g = &grains[i];
  g->doubt = true;
  g->unheard |= UINT64_C (1) << member;
  lower_to (&g->floor, g->promised);
  lower_to (&g->prepared, g->promised);
  for (struct judged *j = judged; j; j = j->next)
    if (!j->flush && i >= j->first && i < j->first + j->count)
      lower_to (&j->floors[i - j->first], g->promised);
}

/* Each client that has written there since a FLUSH may get the error. */
void
judge_heard (unsigned member, bool counts)
{
  bool any = counts && lapses_add (&lapses, member);

  for (struct judged *j = judged; j; j = j->next)
    j->may_fail |= any;
  for (uint64_t i = 0; i < grains_count; i++)
    grains[i].unheard &= ~(UINT64_C (1) << member);
}

void
judge_closed (unsigned client)
{
  lapses_close (&lapses, client);
  for (uint64_t i = 0; i < grains_count; i++)
    memset (&grains[i].owed[client], 0, sizeof grains[i].owed[client]);
}

/* If no in-sync copy has its bit, all of them are the same, and stable. */
static void
check_bits (uint64_t g)
{
  const struct sim_member *first = NULL, *m;
  const uint8_t *data = NULL;
  struct layout_piece p;

  layout_map (world.layout, g * grain_bytes, grain_bytes, &p);
  for (unsigned c = 0; c < p.copies; c++) {
    m = &world.members[p.copy[c].member];
    if (!world.recorded_out[p.copy[c].member] &&
        sim_member_dirty (m, p.copy[c].offset / m->extent_bytes))
      return;
  }
  for (unsigned c = 0; c < p.copies; c++) {
    uint64_t at = p.copy[c].offset;

    m = &world.members[p.copy[c].member];
    if (world.recorded_out[p.copy[c].member])
      continue;
    if (!first)
      first = m, data = m->now + at;
    if (memcmp (m->now + at, m->durable + at, grain_bytes) ||
        memcmp (m->now + at, data, grain_bytes))
      sim_fail ("grain %llu has no intent bit, but its copy on member %u is "
                "not stable or differs",
                (unsigned long long) g, p.copy[c].member);
  }
}

void
judge_cleared (void)
{
  for (uint64_t i = 0; i < grains_count; i++)
    check_bits (i);
}

/* Promised data is there, whatever has happened, even if all lose their power now.
 */
void
judge_kept (void)
{
  bool counts[ARRAY_MEMBERS_MAX];

  for (unsigned i = 0; i < world.layout->members; i++)
    counts[i] = !world.recorded_out[i];
  check_stable (counts, false, "at the end");
}

void
judge_quiet (void)
{
  for (uint64_t i = 0; i < grains_count; i++) {
    const struct grain *g = &grains[i];
    uint64_t version = UINT64_MAX;
    unsigned member;

    for (unsigned c = 0; c < world.layout->copies; c++) {
      uint64_t v = copy_version (i, c, false, &member);

      if (world.recorded_out[member] ||
          (g->doubt && possible (i, v, g->promised)))
        continue;
      if (version != UINT64_MAX && v != version)
        sim_fail ("all is quiet, but grain %llu: copy %u on member %u holds "
                  "version %llu, another copy %llu",
                  (unsigned long long) i, c, member, (unsigned long long) v,
                  (unsigned long long) version);
      version = v;
    }
    if (version == UINT64_MAX)
      continue;
    if (!possible (i, version, g->last_failed < g->last ? g->last : g->acked))
      sim_fail ("all is quiet, but grain %llu holds version %llu, written "
                "last was %llu",
                (unsigned long long) i, (unsigned long long) version,
                (unsigned long long) g->last);
  }
}
