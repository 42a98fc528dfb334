/* test-array-lessees.c: three array engines that share members, and a table of leases.
 *
 * Each sector that is read must have been its value at some time between the read's begin
 * and its end.  A write is known by its number, which it leaves in each of its sectors.
 * For each sector and each write, *low* is the earliest end of the write and of what has
 * read it, *high* the latest begin of these: the write's value was there from no later
 * than low, and still or not before high.  So of two writes one must have its low behind
 * the other's high, or the other way round.
 *
 * In some runs a member dies and goes out by a change for which every host prepares in
 * its own time.  In other runs a host dies, and another host resynchronizes its
 * ranges.
 */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/spans.h"
#include "test-array-rig.h"
#include "test-random.h"

#define HOSTS 3
#define SLOTS 6
#define SECTOR 512
/* These lie on both sides of the border of two units. */
#define SECTORS 16
#define BASE (UNIT - SECTORS / 2 * SECTOR)
#define WRITES_MAX 3000
#define ORPHAN 100

struct slot {
  struct array_request r;
  bool used;
  uint32_t begun, number;
  uint8_t buf[SECTORS * SECTOR];
};
struct host {
  struct array *a;
  struct array_client *client;
  struct slot slot[SLOTS];
  bool dead, lost, prepared, told;
  uint64_t epoch;
};

static struct host host[HOSTS];
static struct spans
  table; /* holder of each sector's lease: 1 + the host, or ORPHAN */
static uint32_t step, writes;
static uint32_t low[WRITES_MAX][SECTORS], high[WRITES_MAX][SECTORS];
static uint64_t epoch; /* as weftd has committed it */
static unsigned failing;
static bool failed; /* the member is gone */

static struct host *current;

/* The following steps are done with this host. */
static void
use (struct host *h)
{
  if (current && notices_prepared > 0)
    current->told = true;
  notices_prepared = 0;
  current = h;
  a = h->a;
  client = h->client;
}

/* ---- The model ---- */

static void
seen (unsigned s, uint32_t number, uint32_t begun, bool ended)
{
  uint32_t *l = &low[number][s], *h = &high[number][s];

  if (begun > *h)
    *h = begun;
  if (ended && step < *l)
    *l = step;
  for (uint32_t u = 0; u <= writes; u++)
    CHECK (u == number || *l >= high[u][s] || low[u][s] >= *h);
}

static void
slot_done (struct slot *x)
{
  unsigned first = (x->r.offset - BASE) / SECTOR;

  x->used = false;
  if (x->r.op == ARRAY_FLUSH || x->r.error)
    return;
  for (unsigned i = 0; i < x->r.length / SECTOR; i++) {
    uint32_t number[2];

    memcpy (&number[0], x->buf + i * SECTOR, 4);
    memcpy (&number[1], x->buf + (i + 1) * SECTOR - 4, 4);
    CHECK (number[0] == number[1] && number[0] <= writes);
    seen (first + i, number[0], x->begun, true);
  }
}

static void
look_at_slots (void)
{
  for (unsigned i = 0; i < HOSTS; i++)
    for (unsigned k = 0; k < SLOTS; k++) {
      struct slot *x = &host[i].slot[k];

      if (!x->used || !done (&x->r))
        continue;
      CHECK (x->r.error == 0 || host[i].dead);
      slot_done (x);
    }
}

/* ---- Hosts ---- */

static void
ask_something (struct host *h)
{
  struct slot *x = &h->slot[test_random (SLOTS)];
  unsigned first = test_random (SECTORS);
  unsigned count = 1 + test_random (SECTORS - first);
  unsigned kind = test_random (16);

  if (x->used || h->dead)
    return;
  if (count > 3 && test_random (4) > 0)
    count = 1 + test_random (3);
  x->used = true;
  x->begun = step;
  x->r = (struct array_request) { .op = kind == 0  ? ARRAY_FLUSH
                                        : kind < 8 ? ARRAY_READ
                                                   : ARRAY_WRITE,
                                  .offset = BASE + first * SECTOR,
                                  .length = count * SECTOR,
                                  .buf = x->buf };
  if (x->r.op == ARRAY_WRITE && writes + 1 < WRITES_MAX) {
    x->r.flags = test_random (8) == 0 ? ARRAY_FUA : 0;
    x->number = ++writes;
    for (unsigned i = 0; i < count * SECTOR / 4; i++)
      memcpy (x->buf + 4 * i, &x->number, 4);
    for (unsigned i = first; i < first + count; i++) {
      low[writes][i] = UINT32_MAX;
      high[writes][i] = step;
    }
  }
  else if (x->r.op == ARRAY_WRITE)
    x->r.op = ARRAY_READ;
  use (h);
  submit (&x->r);
}

static struct host *
asker (unsigned i)
{
  struct host *h = host;

  while (h->a != ios[i]->owner)
    h++;
  return h;
}

/* A failed member answers nothing.  It may have carried out earlier requests, but only
 * before weftd has committed that it is out.
 */
static void
answer_something (unsigned i)
{
  struct host *h = asker (i);
  bool gone = failed && ios[i]->member == failing;

  use (h);
  if (!gone)
    answer (i, 0);
  else if (h->lost || epoch > 1)
    answer (i, epoch > 1 || test_random (2) ? ENOTCONN : 0);
}

/* ---- weftd ---- */

static void
take_left (struct host *h)
{
  struct array_range r;

  while (array_lease_left (h->a, &r, 1) == 1)
    for (uint64_t at = r.offset, end = at + r.length, next; at < end;
         at = next) {
      unsigned owner = 1 + (h - host);

      next = spans_reach (&table, at, end, owner);
      if (next > at)
        spans_set (&table, at, next, 0);
      else
        next = at + SECTOR;
    }
}

/* Sectors that others hold are asked back; free ones are granted, with some sectors
 * beyond.
 */
static void
serve (struct host *h)
{
  unsigned owner = 1 + (h - host);
  struct array_range must, others[SECTORS];
  unsigned of[SECTORS], count = 0;
  uint64_t end, beyond;

  if (h->dead || h->epoch != epoch || array_lease_wants (h->a, &must, 1) == 0)
    return;
  end = must.offset + must.length;
  for (unsigned i = spans_find (&table, must.offset);
       i < table.count && table.span[i].start < end; i++) {
    const struct span *x = &table.span[i];
    uint64_t from = x->start > must.offset ? x->start : must.offset;

    if (x->owner == owner)
      continue;
    of[count] = x->owner;
    others[count++] = (struct array_range) {
      from, (x->end < end ? x->end : end) - from
    };
  }
  for (unsigned i = 0; i < count; i++)
    if (of[i] != ORPHAN) {
      use (&host[of[i] - 1]);
      array_lease_leave (a, &others[i], &must, now);
      rig_take ();
    }
  if (count > 0)
    return;
  beyond = spans_reach (&table, end, end + test_random (4) * SECTOR, 0);
  spans_set (&table, must.offset, beyond, owner);
  must.length = beyond - must.offset;
  use (h);
  array_lease_grant (a, &must, 1, now);
  rig_take ();
}

/* Data that was read from an unacknowledged write may be gone with its member, until the
 * write is carried out again.
 */
static void
forget_unanswered (void)
{
  for (unsigned i = 0; i < HOSTS * SLOTS; i++) {
    const struct slot *x = &host[i / SLOTS].slot[i % SLOTS];

    if (x->used && x->r.op == ARRAY_WRITE)
      for (unsigned s = 0; s < x->r.length / SECTOR; s++)
        low[x->number][(x->r.offset - BASE) / SECTOR + s] = UINT32_MAX;
  }
}

/* The member dies; each host finds out, is prepared, and takes in the change by itself. */
static void
go_on_with_change (struct host *h)
{
  enum member_state states[4];
  bool all = true;

  use (h);
  rig_states ("iiii", states);
  states[failing] = MEMBER_OUT;
  if (!h->lost && test_random (2)) {
    h->lost = true;
    lose (failing);
  }
  else if (!h->prepared) {
    h->lost = h->prepared = true;
    array_prepare (a, 2, states, now);
    rig_take ();
  }
  else if (epoch == 2 && h->epoch == 1) {
    h->epoch = 2;
    array_commit (a, 2, states, now);
    rig_take ();
  }
  use (h);
  for (unsigned i = 0; i < HOSTS; i++)
    all &= host[i].told || host[i].dead;
  if (all && epoch == 1)
    forget_unanswered ();
  if (all)
    epoch = 2;
}

/* ---- The death of a host ---- */

static void
carry_out_alone (struct host *h, struct array_request *r)
{
  use (h);
  submit (r);
  for (unsigned i = 0; !done (r);)
    if (i < ios_count && asker (i) == h) {
      answer_something (i);
      i = 0;
    }
    else if (++i >= ios_count) {
      tick_after (1 * MS);
      i = 0;
    }
}

/* All its requests end at all members; then another host resynchronizes its ranges.
 */
static void
die (struct host *h)
{
  struct host *heir = &host[0];
  struct array_range ranges[SECTORS];
  unsigned count = 0;

  h->dead = true;
  use (h);
  stop ();
  for (unsigned i = 0; i < ios_count;)
    if (asker (i) == h) {
      answer (i, test_random (2) ? ENOTCONN : 0);
      i = 0;
    }
    else
      i++;
  for (unsigned i = 0; i < table.count; i++) {
    struct span *x = &table.span[i];

    if (x->owner != 1 + (uint64_t) (h - host))
      continue;
    ranges[count++] = (struct array_range) { x->start, x->end - x->start };
    x->owner = ORPHAN;
  }
  use (heir);
  array_lease_recover (a, ranges, count, now);
  rig_take ();
  for (unsigned i = 0; i < count; i++)
    for (uint64_t at = ranges[i].offset;
         at < ranges[i].offset + ranges[i].length; at += SECTOR) {
      uint8_t sector[SECTOR];
      struct array_request r = READ (at, SECTOR, sector),
                           w = WRITE (at, SECTOR, sector);

      r.flags = w.flags = ARRAY_RECOVER;
      r.copy = 1;
      carry_out_alone (heir, &r);
      if (r.error) { /* the data's member is out */
        r = (struct array_request) READ (at, SECTOR, sector);
        r.flags = ARRAY_RECOVER;
        r.copy = 2;
        carry_out_alone (heir, &r);
      }
      carry_out_alone (heir, &w);
      CHECK (r.error == 0 && w.error == 0);
    }
  for (unsigned i = 0; i < count; i++)
    spans_set (&table, ranges[i].offset, ranges[i].offset + ranges[i].length,
               1);
  use (heir);
  array_lease_recovered (a, now);
  rig_take ();
}

/* ---- Runs ---- */

static void
do_something (bool asks)
{
  struct host *h = &host[test_random (HOSTS)];

  step++;
  switch (test_random (8)) {
  case 0:
  case 1:
    if (asks)
      ask_something (h);
    break;
  case 2:
    serve (h);
    break;
  case 3:
    use (h);
    tick_after (test_random (3 * MS));
    break;
  case 4:
    if (failed && !h->dead)
      go_on_with_change (h);
    break;
  default:
    if (ios_count > 0)
      answer_something (test_random (ios_count));
  }
  for (unsigned i = 0; i < HOSTS; i++)
    take_left (&host[i]);
  step++;
  look_at_slots ();
}

/* Is no change under way?  The host and the member together have the last copy of what
 * is in the host's buffer.
 */
static bool
changed (void)
{
  bool all = true;

  for (unsigned i = 0; i < HOSTS && failed; i++)
    all &= host[i].dead || host[i].epoch == 2;
  return all;
}

static bool
all_done (void)
{
  bool used = false;

  for (unsigned i = 0; i < HOSTS * SLOTS; i++)
    used |= host[i / SLOTS].slot[i % SLOTS].used;
  return !used && changed ();
}

/* Each copy on a member that is not out has the same. */
static void
check_copies (void)
{
  for (unsigned i = 0; i < SECTORS; i++) {
    struct layout_piece p;
    const uint8_t *first = NULL;

    layout_map (&config.layout, BASE + i * SECTOR, SECTOR, &p);
    for (unsigned c = 0; c < p.copies; c++) {
      const uint8_t *copy = members[p.copy[c].member] + p.copy[c].offset;

      if (failed && p.copy[c].member == failing)
        continue;
      CHECK (!first || memcmp (first, copy, SECTOR) == 0);
      first = copy;
    }
  }
}

static void
run (enum layout_kind kind)
{
  struct array_range all = { 0, UINT64_MAX };
  unsigned dies_at = test_random (8000), fails_at = test_random (8000);
  char why[200];

  config.batches = config.leases = true;
  config.image_buffer_bytes = KiB (64);
  begin (kind, 4);
  memset (host, 0, sizeof host);
  for (unsigned i = 0; i < HOSTS; i++) {
    host[i].a = i == 0 ? a : array_new (&config, now, why, sizeof why);
    host[i].client = i == 0 ? client : array_client_open (host[i].a);
    host[i].epoch = 1;
    array_settled (host[i].a, 0, 0, 0, now);
  }
  current = NULL;
  step = 1;
  writes = 0;
  epoch = 1;
  failed = false;
  failing = test_random (4);
  memset (low, 0, sizeof low);
  memset (high, 0, sizeof high);
  for (unsigned i = 0; i < 4000; i++) {
    if (i >= dies_at && !host[2].dead && changed ())
      die (&host[2]);
    failed |= i == fails_at;
    do_something (true);
  }
  for (unsigned i = 0; !all_done (); i++) {
    CHECK (i < 100000);
    do_something (false);
  }
  for (unsigned i = 0; i < HOSTS; i++)
    if (!host[i].dead) {
      use (&host[i]);
      array_lease_leave (a, &all, &all, now);
      rig_take ();
    }
  for (unsigned i = 0; table.count > 0 || ios_count > 0; i++) {
    CHECK (i < 100000);
    do_something (false);
  }
  check_copies ();
  for (unsigned i = 1; i < HOSTS; i++)
    array_free (host[i].a);
  a = host[0].a;
  spans_free (&table);
  end ();
}

int
main (void)
{
  test_random_start ();
  rig_init ();
  for (unsigned i = 0; i < 100; i++)
    run (i % 2 ? LAYOUT_RAID10 : LAYOUT_RAIDX);
  return 0;
}
