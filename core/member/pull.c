/* pull.c: a joining member fetches from the others what it lacks (pull.h). */

#include <config.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pull.h"

/* Copied extents are made stable after so long, if there are too few to do so at
 * once.
 */
#define STABLE_MS 2000
#define RETRY_MS 1000
/* A worker that finds no extent looks again. */
#define IDLE_MS 50
/* The rate is kept over so long a time. */
#define BURST_MS 250

struct pull {
  struct member *member;
  unsigned stable_extents;
  bool ordered; /* there is an order */
  struct pull_order order;
  bool wakes;

  uint64_t run;          /* of the member engine, that the rest is about */
  _Atomic uint64_t live; /* the run that may copy; 0: none */
  bool gathered;         /* the member engine has the peers' maps */
  uint64_t gather_ms;    /* when to try that again */
  unsigned busy;         /* workers that have an extent */
  bool dry;              /* they have found none since */

  uint64_t unstable;            /* extents copied since the last flush */
  bool used[ARRAY_MEMBERS_MAX]; /* sources, since then */
  uint64_t stable_ms;           /* the time of that, or of the next try */
  /* The data that is being made stable now, and the task that does it. */
  enum { NOTHING, FLUSHING, ASKING, SYNCING } stage;
  uint64_t mark, flushed_extents;
  bool flushed[ARRAY_MEMBERS_MAX];

  /* Data read from a source is safe there only when the source is flushed
   * before its power fails.  A connection of the director's that was open
   * before the reads, and that the flush goes through, shows that the power has
   * not failed in between.  `lives` counts such connections to a source,
   * `watched` says that there is one.
   */
  unsigned lives[ARRAY_MEMBERS_MAX];
  bool watched[ARRAY_MEMBERS_MAX];
  uint64_t connect_ms; /* when to try that again */

  double budget; /* bytes that may be read; below 0: in debt */
  uint64_t budget_ms;

  uint64_t epoch; /* of the joining that these count for */
  uint64_t copied_bytes, unreadable_bytes;
  double rate;
  uint64_t rate_bytes, rate_ms;
  char fault[ARRAY_MEMBERS_MAX][sizeof ((struct copy_fault *) 0)->why];
  bool news[ARRAY_MEMBERS_MAX];
};

struct pull *
pull_new (struct member *m, unsigned stable_extents)
{
  struct pull *p = calloc (1, sizeof *p);

  if (p) {
    p->member = m;
    p->stable_extents = stable_extents;
  }
  return p;
}

void
pull_free (struct pull *p)
{
  free (p);
}

bool
pull_wakes (struct pull *p)
{
  bool wakes = p->wakes;

  p->wakes = false;
  return wakes;
}

/* ---- Orders ---- */

/* The member engine's phase and run may be new. */
static void
look (struct pull *p)
{
  bool copying = p->ordered &&
                 member_join_phase (p->member) == MEMBER_JOIN_COPYING;

  atomic_store (&p->live, copying ? member_join_run (p->member) : 0);
}

void
pull_obey (struct pull *p, const struct pull_order *o)
{
  p->ordered = o != NULL;
  if (o)
    p->order = *o;
  look (p);
  p->wakes = true;
}

bool
pull_cancelled (const struct pull *p, uint64_t run)
{
  return atomic_load (&p->live) != run || member_failed (p->member);
}

bool
pull_copies (struct pull *p)
{
  look (p);
  return atomic_load (&p->live) != 0;
}

/* Is there an order for the joining that the member works for? */
static bool
is_ordered (const struct pull *p)
{
  return p->ordered && p->order.epoch == member_join_epoch (p->member) &&
         !member_failed (p->member);
}

/* ---- Who is waited for ---- */

static void
fault_set (struct pull *p, const struct copy_fault *f)
{
  char *why = p->fault[f->member];

  if (strcmp (why, f->why) == 0)
    return;
  snprintf (why, sizeof p->fault[0], "%s", f->why);
  p->news[f->member] = true;
}

static void
faults_clear (struct pull *p, const bool members[])
{
  for (unsigned m = 0; m < ARRAY_MEMBERS_MAX; m++)
    if (members[m]) {
      p->fault[m][0] = '\0';
      p->news[m] = false;
    }
}

bool
pull_news (struct pull *p, struct copy_fault *fault)
{
  for (unsigned m = 0; m < ARRAY_MEMBERS_MAX; m++)
    if (p->news[m]) {
      p->news[m] = false;
      copy_blame (fault, m, "%s", p->fault[m]);
      return true;
    }
  return false;
}

void
pull_progress (const struct pull *p, struct pull_progress *progress)
{
  *progress = (struct pull_progress) {
    .copied_bytes = p->copied_bytes,
    .unreadable_bytes = p->unreadable_bytes,
    .rate = p->rate,
  };
  for (unsigned m = 0; m < ARRAY_MEMBERS_MAX && p->ordered; m++)
    if (p->fault[m][0]) {
      progress->waits = true;
      copy_blame (&progress->fault, m, "%s", p->fault[m]);
      return;
    }
}

/* ---- The rate ---- */

/* May an extent be begun now?  Otherwise *wait_ms says when to look again. */
static bool
budget_left (struct pull *p, uint64_t now, uint64_t *wait_ms)
{
  double rate = p->order.rate;

  if (rate == 0) {
    p->budget = 0;
    p->budget_ms = now;
    return true;
  }
  p->budget += rate * (now - p->budget_ms) / 1000;
  if (p->budget > rate * BURST_MS / 1000)
    p->budget = rate * BURST_MS / 1000;
  p->budget_ms = now;
  if (p->budget > 0)
    return true;
  *wait_ms = -p->budget / rate * 1000 + 1;
  if (*wait_ms > RETRY_MS)
    *wait_ms = RETRY_MS; /* the rate may change */
  return false;
}

/* Several times a second: how fast it goes, smoothed over some seconds. */
static void
measure (struct pull *p, uint64_t now)
{
  uint64_t ms = now - p->rate_ms;

  if (ms < RETRY_MS)
    return;
  if (p->rate_ms != 0)
    p->rate += ((p->copied_bytes - p->rate_bytes) * 1000.0 / ms - p->rate) *
               0.4;
  p->rate_bytes = p->copied_bytes;
  p->rate_ms = now;
}

/* ---- Workers ---- */

/* Requests that wait for the extent that would come next are to go on: wake them.
 */
void
pull_rest (struct pull *p)
{
  p->wakes |= member_join_rest (p->member);
}

static bool
may_copy (struct pull *p)
{
  look (p);
  return p->live != 0 && p->live == p->run && is_ordered (p) &&
         !p->order.paused;
}

bool
pull_next (struct pull *p, struct pull_worker *w, const bool linked[],
           uint64_t now_ms, uint64_t *wait_ms)
{
  uint64_t extent;

  *wait_ms = IDLE_MS;
  if (now_ms < w->retry_ms && p->live == w->run)
    *wait_ms = w->retry_ms - now_ms;
  else if (!may_copy (p)) {
    pull_rest (p);
    *wait_ms = RETRY_MS;
  }
  else if (!budget_left (p, now_ms, wait_ms))
    pull_rest (p);
  else if (member_join_next (p->member, p->run, &extent)) {
    p->budget -= EXTENT_BYTES; /* until it is known how much it was */
    p->busy++;
    p->dry = false;
    w->run = p->run;
    memcpy (w->lives, p->lives, sizeof w->lives);
    copy_begin (&w->copying, &p->order.layout, p->order.member, p->order.source,
                linked, extent);
    return true;
  }
  else if (!p->dry)
    p->dry = p->wakes = true;
  return false;
}

/* Note copied blocks as good and skipped ones as bad.  False: there is no room
 * for that.  A block of an extent that must be copied again is not noted.
 */
static bool
note_bad (struct pull *p, const struct copying *c)
{
  const unsigned blocks = EXTENT_BYTES / BAD_BLOCK_BYTES;
  bool room = true;

  member_bad_good (p->member, c->start, EXTENT_BYTES);
  for (unsigned b = 0; room && b < blocks; b++)
    if (c->passed[b / 64] >> (b % 64) & 1) {
      room = member_bad_add (p->member, c->start + b * BAD_BLOCK_BYTES,
                             BAD_BLOCK_BYTES, BAD_REBUILD);
      p->unreadable_bytes += room ? BAD_BLOCK_BYTES : 0;
    }
  return room;
}

void
pull_unreachable (struct pull *p, struct pull_worker *w,
                  const struct copy_fault *fault, uint64_t now_ms)
{
  fault_set (p, fault);
  pull_rest (p);
  w->retry_ms = now_ms + RETRY_MS;
}

bool
pull_copied (struct pull *p, struct pull_worker *w, uint64_t now_ms)
{
  struct copying *c = &w->copying;
  bool ok = c->result == COPY_DONE;

  p->busy--;
  p->budget += (double) EXTENT_BYTES - c->bytes;
  w->retry_ms = 0;
  for (unsigned m = 0; m < ARRAY_MEMBERS_MAX; m++)
    ok &= !c->used[m] || (p->watched[m] && w->lives[m] == p->lives[m]);
  if (ok && w->run == member_join_run (p->member) && !note_bad (p, c)) {
    copy_blame (&c->fault, p->order.member,
                "its list of bad ranges is full, and further ranges have no "
                "readable copy; write these ranges again from a backup");
    c->result = COPY_FAULT;
    ok = false;
  }
  if (ok) {
    p->copied_bytes += c->bytes;
    p->unstable++;
    for (unsigned m = 0; m < ARRAY_MEMBERS_MAX; m++)
      p->used[m] |= c->used[m];
    faults_clear (p, c->used);
    p->fault[p->order.member][0] = '\0';
  }
  member_join_copied (p->member, w->run, c->extent, ok);
  p->wakes = true;
  if (c->result == COPY_FAULT)
    pull_unreachable (p, w, &c->fault, now_ms);
  return ok;
}

/* ---- The director ---- */

static void
begin_run (struct pull *p, uint64_t run, uint64_t now)
{
  uint64_t epoch = member_join_epoch (p->member);

  p->run = run;
  p->gathered = false;
  p->gather_ms = 0;
  p->unstable = 0;
  p->stable_ms = now;
  p->stage = NOTHING;
  p->dry = false;
  memset (p->used, 0, sizeof p->used);
  memset (p->fault, 0, sizeof p->fault);
  memset (p->news, 0, sizeof p->news);
  p->unreadable_bytes = 0;
  if (epoch != p->epoch) {
    p->epoch = epoch;
    p->copied_bytes = p->rate_bytes = 0;
    p->rate = 0;
    p->rate_ms = 0;
  }
}

static bool
stable_due (const struct pull *p, uint64_t now)
{
  return p->unstable > 0 && now >= p->stable_ms &&
         (p->unstable >= p->stable_extents || (p->dry && p->busy == 0) ||
          now >= p->stable_ms + STABLE_MS);
}

/* Is a source that was used gone, or not the one that was read? */
static bool
source_gone (const struct pull *p)
{
  for (unsigned m = 0; m < ARRAY_MEMBERS_MAX; m++)
    if (p->used[m] && (!p->watched[m] || !p->order.source[m]))
      return true;
  return false;
}

/* The unstable extents stay unstable, also when the task was cancelled. */
static void
stable_failed (struct pull *p, enum copy_result r, uint64_t now)
{
  p->stage = NOTHING;
  p->stable_ms = now + (r == COPY_FAULT ? RETRY_MS : 0);
  p->unstable += p->flushed_extents;
  for (unsigned m = 0; m < ARRAY_MEMBERS_MAX; m++)
    p->used[m] |= p->flushed[m];
}

static void
intents_failed (struct pull *p, enum copy_result r, uint64_t now)
{
  if (p->stage == ASKING)
    stable_failed (p, r, now);
  else
    p->gather_ms = now + RETRY_MS;
}

/* The sources of our own group alone can have what we have. */
static bool
give_intents (struct pull *p, struct pull_task *t, uint64_t now)
{
  const struct pull_order *o = &p->order;
  const struct layout_group group = layout_group (&o->layout, o->member);
  struct copy_fault fault;

  t->kind = PULL_INTENTS;
  t->layout = o->layout;
  t->member = o->member;
  for (unsigned m = group.first; m < group.end; m++)
    t->members[m] = o->source[m];
  if (intents_init (
        &t->peers,
        intents_extents (member_confirmed (p->member)->data_bytes)) == 0)
    return true;
  copy_blame (&fault, o->member, "out of memory");
  fault_set (p, &fault);
  intents_failed (p, COPY_FAULT, now);
  return false;
}

bool
pull_next_task (struct pull *p, const bool linked[], uint64_t now_ms,
                struct pull_task *t)
{
  enum member_join_phase phase = member_join_phase (p->member);
  uint64_t run = member_join_run (p->member);
  bool any = false;

  look (p);
  measure (p, now_ms);
  memcpy (p->watched, linked, sizeof p->watched);
  if (!is_ordered (p))
    return false;
  if (run != p->run && p->busy == 0)
    begin_run (p, run, now_ms);
  if (run != p->run)
    return false;
  *t = (struct pull_task) { .run = run };
  if (phase == MEMBER_JOIN_GATHERING)
    return !p->gathered && now_ms >= p->gather_ms &&
           give_intents (p, t, now_ms);
  if (phase != MEMBER_JOIN_COPYING)
    return false;
  /* Data from a source that is gone may never have been flushed there. */
  if (p->stage == NOTHING && source_gone (p)) {
    member_join_redo (p->member, p->run);
    memset (p->used, 0, sizeof p->used);
    p->unstable = 0;
    p->stable_ms = now_ms;
    p->wakes = true;
  }
  /* Until all sources that any worker has used since the last flush are flushed, a
   * crash makes these extents be copied again.
   */
  if (p->stage == NOTHING && stable_due (p, now_ms)) {
    p->stage = FLUSHING;
    p->mark = member_join_mark (p->member);
    memcpy (p->flushed, p->used, sizeof p->flushed);
    memset (p->used, 0, sizeof p->used);
    p->flushed_extents = p->unstable;
    p->unstable = 0;
  }
  switch (p->stage) {
  case NOTHING:
    break;
  case FLUSHING:
    t->kind = PULL_FLUSH;
    memcpy (t->members, p->flushed, sizeof t->members);
    return true;
  case ASKING:
    if (give_intents (p, t, now_ms))
      return true;
    break;
  case SYNCING:
    t->kind = PULL_SYNC;
    return true;
  }
  /* A source that can't be reached is no fault here: a worker that needs it says so.
   */
  t->kind = PULL_CONNECT;
  for (unsigned m = 0; m < ARRAY_MEMBERS_MAX; m++)
    any |= t->members[m] = p->order.source[m] && !p->watched[m];
  return any && now_ms >= p->connect_ms;
}

/* Set our bit of each extent that has a copy of what is dirty at a peer. */
void
pull_task_map (struct pull_task *t, unsigned member, const uint8_t *map,
               uint64_t bytes)
{
  const struct layout *l = &t->layout;

  for (uint64_t e = 0; e < bytes * 8; e++) {
    uint64_t at = e * EXTENT_BYTES, end = at + EXTENT_BYTES, offset;
    struct layout_piece p;
    uint32_t length;

    if (!(map[e / 8] >> (e % 8) & 1))
      continue;
    if (end > l->member_bytes)
      end = l->member_bytes;
    for (; at < end; at += length) {
      if (layout_unmap (l, member, at, &offset, &length) == -1)
        continue;
      layout_map (l, offset, length, &p);
      for (unsigned i = 0; i < p.copies; i++)
        if (p.copy[i].member == t->member)
          intents_set (&t->peers, p.copy[i].offset / EXTENT_BYTES);
    }
  }
}

void
pull_task_done (struct pull *p, struct pull_task *t, enum copy_result r,
                const struct copy_fault *fault, uint64_t now_ms)
{
  if (r == COPY_FAULT)
    fault_set (p, fault);
  switch (t->kind) {
  case PULL_CONNECT:
    for (unsigned m = 0; m < ARRAY_MEMBERS_MAX; m++)
      if (t->members[m]) {
        p->lives[m]++;
        p->watched[m] = t->linked[m];
        if (!t->linked[m])
          p->connect_ms = now_ms + RETRY_MS;
      }
    break;
  case PULL_INTENTS:
    if (r != COPY_DONE)
      intents_failed (p, r, now_ms);
    else if (p->stage == ASKING) {
      member_join_unequal (p->member, t->run, &t->peers);
      p->stage = SYNCING;
    }
    else {
      faults_clear (p, t->members);
      member_join_gathered (p->member, t->run, &t->peers);
      p->gathered = true;
    }
    intents_free (&t->peers);
    break;
  case PULL_FLUSH:
    if (r == COPY_DONE)
      p->stage = p->order.layout.copies > 2 ? ASKING : SYNCING;
    else
      stable_failed (p, r, now_ms);
    break;
  case PULL_SYNC:
    p->stage = NOTHING;
    p->stable_ms = now_ms;
    if (r == COPY_DONE) {
      faults_clear (p, p->flushed);
      member_join_stable (p->member, t->run, p->mark);
    }
    break;
  }
  p->wakes = true;
}
