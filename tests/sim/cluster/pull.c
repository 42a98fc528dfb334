/* pull.c: the rebuild in the small, as plugin/pull.c does it: the member that
 * is joining reads its peers' intent maps, copies extents from them, flushes
 * both ends.
 */

#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

#define JOBS_MAX 3
#define POLL_MS 20
#define RETRY_MS 500
#define SILENT_MS 5000 /* a source that does not answer is connected anew */

struct source {
  struct member_role *puller;
  unsigned member;
  struct conn *data, *intents;
  bool data_open, intents_open, asked, gathered;
  uint64_t retry_at;
  uint64_t bits;
};

struct job {
  struct event event;
  struct join *join;
  struct job *next;
  uint64_t run, extent;
  unsigned reads; /* not answered */
  bool ok;
  bool over; /* given back already */
  uint64_t *version; /* of each slot of the place */
  bool *have;
  bool *passed;    /* no source can read it */
  bool suspect[PLACES_MAX]; /* sources that could not read something */
  bool checked;    /* they are asked whether they can flush */
};

struct join {
  struct member_role *m;
  uint64_t life;
  uint64_t run;
  bool begun;
  unsigned jobs, copied; /* copied since the last flush */
  unsigned flushes;      /* not answered */
  bool flushing, flush_ok;
  uint64_t flush_at;
  struct job *job_list;
  uint64_t mark, flush_run;
  struct source source[PLACES_MAX];
};

/* ---- Sources ---- */

static struct source *
source_of (struct conn *c)
{
  return c->owner;
}

static void read_done (struct job *job, struct nbd *n);
static void job_free (struct job *job);

/* Our extents of which a peer's copy has a bit, as it was last asked. */
static void
peers_bits (const struct join *j, struct intents *map)
{
  unsigned place = j->m->disk->place;

  if (intents_init (map, intents_extents (j->m->disk->data_bytes)) == -1)
    abort ();
  for (unsigned g = 0; g < w.grains; g++)
    for (unsigned mine = 0; mine < w.layout.copies; mine++)
      for (unsigned c = 0; c < w.layout.copies; c++) {
        const struct copy *from = &w.copy[g][c], *to = &w.copy[g][mine];

        if (to->member == place && from->member != place &&
            j->source[from->member].gathered &&
            (j->source[from->member].bits >>
               (slot_offset (from->member, from->slot) / EXTENT_BYTES) & 1))
          intents_set (map, slot_offset (place, to->slot) / EXTENT_BYTES);
      }
}

/* They are asked once more; as if that took no time. */
static void
ask_again (struct join *j)
{
  struct intents map;

  for (unsigned m = 0; m < w.layout.members; m++)
    j->source[m].bits = place_disk (store_array (), m)->bits;
  peers_bits (j, &map);
  member_join_unequal (j->m->engine, j->flush_run, &map);
  intents_free (&map);
}

static void
flush_done (struct join *j, bool ok)
{
  j->flush_ok &= ok;
  if (--j->flushes > 0)
    return;
  j->flushing = false;
  if (j->flush_ok && member_join_run (j->m->engine) == j->flush_run) {
    disk_flush (j->m->disk);
    steps++;
    ask_again (j);
    member_join_stable (j->m->engine, j->flush_run, j->mark);
    member_act (j->m);
  }
}

static void
source_close (struct source *s)
{
  struct conn *c[2] = { s->data, s->intents };
  struct join *j = s->puller->join;

  s->data = s->intents = NULL;
  s->data_open = s->intents_open = s->asked = false;
  s->retry_at = sim_now + between (100, RETRY_MS) * MS;
  for (unsigned i = 0; i < 2; i++)
    if (c[i]) {
      while (c[i]->in_flight) {
        struct nbd *n = c[i]->in_flight;

        c[i]->in_flight = n->client_next;
        n->error = ENOTCONN;
        if (n->job)
          read_done (n->job, n);
        else if (n->kind == NBD_FLUSH)
          flush_done (j, false);
        nbd_unref (n);
      }
      conn_close (c[i], 0);
    }
}

static void
source_broke (struct conn *c)
{
  struct source *s = source_of (c);

  source_close (s);
  pull_poll (s->puller);
}

static void
source_answered (struct conn *c, struct nbd *n)
{
  struct source *s = source_of (c);
  struct member_role *m = s->puller;

  switch (n->kind) {
  case NBD_OPEN:
    if (n->error) {
      source_close (s);
      return;
    }
    *(c == s->data ? &s->data_open : &s->intents_open) = true;
    break;
  case NBD_INTENTS:
    s->asked = false;
    s->gathered = n->error == 0;
    s->bits = n->bits;
    if (n->error)
      source_close (s);
    break;
  case NBD_READ:
    read_done (n->job, n);
    if (n->error == ESHUTDOWN)
      source_close (s);
    break;
  case NBD_FLUSH:
    if (n->job)
      read_done (n->job, n);
    else
      flush_done (m->join, n->error == 0);
    if (n->error)
      source_close (s);
    break;
  case NBD_CHANGE:
    abort ();
  }
  pull_poll (m);
}

static struct conn *
source_connect (struct source *s, const char *name)
{
  const struct answer *a = &s->puller->last;
  struct conn *c = conn_new (&s->puller->proc,
                             &w.member[a->peer[s->member].process], name);

  c->owner = s;
  c->epoch = a->desire.epoch;
  c->answered = source_answered;
  c->broke = source_broke;
  return c;
}

static void
sources_open (struct join *j)
{
  const struct answer *a = &j->m->last;

  for (unsigned m = 0; m < w.layout.members; m++) {
    struct source *s = &j->source[m];

    s->puller = j->m;
    s->member = m;
    if (!a->order.source[m]) {
      if (s->data)
        source_close (s);
      continue;
    }
    if (s->data || sim_now < s->retry_at)
      continue;
    s->data = source_connect (s, a->peer[m].data);
    s->intents = source_connect (s, a->peer[m].intents);
  }
}

/* ---- Gathering ---- */

static void
gathered (struct join *j)
{
  struct intents map;

  peers_bits (j, &map);
  steps++;
  TRACE (&j->m->proc, "has gathered %u extents of its peers",
         (unsigned)intents_count (&map));
  member_join_gathered (j->m->engine, j->run, &map);
  intents_free (&map);
  member_act (j->m);
}

static void
gather (struct join *j)
{
  bool all = true;

  for (unsigned m = 0; m < w.layout.members; m++) {
    struct source *s = &j->source[m];

    if (!j->m->last.order.source[m])
      continue;
    all &= s->gathered;
    if (!s->gathered && s->intents_open && !s->asked) {
      s->asked = true;
      nbd_send (s->intents, nbd_new (NBD_INTENTS));
    }
  }
  if (all)
    gathered (j);
}

/* ---- Copying ---- */

static void
job_unlink (struct join *j, struct job *job)
{
  struct job **p;

  for (p = &j->job_list; *p != job; p = &(*p)->next)
    ;
  *p = job->next;
  j->jobs -= !job->over;
}

/* The extent is given back to the engine. */
static void
give_back (struct join *j, struct job *job)
{
  if (job->over)
    return;
  job->over = true;
  j->jobs--;
  steps++;
  member_join_copied (j->m->engine, job->run, job->extent, job->ok);
}

static void
job_free (struct job *job)
{
  free (job->version);
  free (job->have);
  free (job->passed);
  free (job);
}

/* What was copied is good, what was passed is bad. */
static bool
note_bad (struct job *job)
{
  struct member *engine = job->join->m->engine;
  unsigned place = job->join->m->disk->place;

  member_bad_good (engine, job->extent * EXTENT_BYTES, EXTENT_BYTES);
  for (unsigned s = 0; s < w.place[place].slots; s++)
    if (job->passed[s]) {
      TRACE (&job->join->m->proc, "passes slot %u", s);
      if (!member_bad_add (engine, slot_offset (place, s), grain_bytes,
                           BAD_REBUILD))
        return false;
    }
  return true;
}

static void
job_over (struct event *e)
{
  struct job *job = (struct job *)e;
  struct join *j = job->join;
  struct member_role *m;
  const struct place *p;

  if (j == NULL) { /* the process is gone */
    job_free (job);
    return;
  }
  m = j->m;
  if (process_life (&m->proc, j->life, e) == LIFE_FROZEN)
    return;
  p = &w.place[m->disk->place];
  if (job->ok && !job->over && member_join_run (m->engine) == job->run) {
    for (unsigned s = 0; s < p->slots; s++)
      if (job->have[s]) {
        if (!(m->disk->bits >> (slot_offset (m->disk->place, s) / EXTENT_BYTES)
              & 1))
          sim_fail ("member %u copies extent %llu, the bit of which is clear",
                    m->proc.number, (unsigned long long)job->extent);
        disk_write (m->disk, s, job->version[s], false);
      }
    job->ok = note_bad (job);
    j->copied += job->ok;
  }
  give_back (j, job);
  job_unlink (j, job);
  job_free (job);
  doors_retry (m);
  member_act (m);
  pull_poll (m);
}

static void
job_end (struct job *job)
{
  job->event.happen = job_over;
  event_push (&job->event, between (50 * US, 2 * MS));
}

/* To read a run of ours from the first of its copies that is in-sync and was not
 * tried: data before images.  Returns false when there is none.
 */
static bool
read_run (struct job *job, unsigned grain, uint64_t offset, uint64_t length,
          unsigned tried)
{
  struct join *j = job->join;

  for (unsigned c = 0; c < w.layout.copies; c++) {
    const struct copy *from = &w.copy[grain][c];
    struct source *s = &j->source[from->member];
    struct nbd *n;

    if ((int)from->member == j->m->disk->place || !s->data_open ||
        tried >> c & 1)
      continue;
    n = nbd_new (NBD_READ);
    n->offset = slot_offset (from->member, from->slot);
    n->length = length;
    n->bits = offset; /* where it goes to */
    n->tried = tried;
    n->job = job;
    job->reads++;
    nbd_send (s->data, n);
    return true;
  }
  return false;
}

/* A source that is to be used can't be. */
static bool
source_missing (const struct job *job, unsigned grain)
{
  const struct join *j = job->join;

  for (unsigned c = 0; c < w.layout.copies; c++) {
    unsigned m = w.copy[grain][c].member;

    if ((int)m != j->m->disk->place && j->m->last.order.source[m] &&
        !j->source[m].data_open)
      return true;
  }
  return false;
}

/* A source can't read it: grain by grain, then from another one.  What none can read
 * is passed.
 */
static void
read_again (struct job *job, const struct nbd *n)
{
  unsigned place = job->join->m->disk->place;
  unsigned slot = place_slot (place, n->bits), source = 0;

  for (; job->join->source[source].data != n->conn; source++)
    ;
  job->suspect[source] = true;
  for (unsigned i = 0; i < n->length / grain_bytes; i++) {
    unsigned grain = w.place[place].grain[slot + i], tried = n->tried;

    if (n->length == grain_bytes)
      for (unsigned c = 0; c < w.layout.copies; c++)
        tried |= (w.copy[grain][c].member == source) << c;
    if (read_run (job, grain, n->bits + i * grain_bytes, grain_bytes, tried))
      continue;
    if (source_missing (job, grain))
      job->ok = false;
    job->passed[slot + i] = true;
  }
}

/* One that has failed as a whole answers EIO to everything.  One that still flushes
 * has not.
 */
static void
check_suspects (struct job *job)
{
  struct join *j = job->join;

  job->checked = true;
  for (unsigned m = 0; m < w.layout.members; m++)
    if (job->suspect[m] && !j->source[m].data_open)
      job->ok = false;
    else if (job->suspect[m]) {
      struct nbd *n = nbd_new (NBD_FLUSH);

      n->job = job;
      job->reads++;
      nbd_send (j->source[m].data, n);
    }
}

static void
read_done (struct job *job, struct nbd *n)
{
  unsigned first;

  if (n->kind == NBD_READ && n->error == EIO && disk_spots () && job->ok)
    read_again (job, n);
  else if (n->error)
    job->ok = false;
  else if (n->kind == NBD_READ) {
    first = place_slot (job->join->m->disk->place, n->bits);
    for (unsigned i = 0; i < n->versions_count; i++) {
      job->version[first + i] = n->versions[i];
      job->have[first + i] = true;
    }
  }
  if (--job->reads > 0)
    return;
  if (!job->checked && job->ok)
    check_suspects (job);
  if (job->reads == 0)
    job_end (job);
}

static void
copy_extent (struct join *j, uint64_t extent)
{
  const struct place *p = &w.place[j->m->disk->place];
  struct job *job = make (sizeof *job);

  TRACE (&j->m->proc, "copies extent %llu", (unsigned long long)extent);
  job->join = j;
  job->run = j->run;
  job->extent = extent;
  job->ok = true;
  job->version = make (p->slots * sizeof job->version[0] + 1);
  job->have = make (p->slots * sizeof job->have[0] + 1);
  job->passed = make (p->slots * sizeof job->passed[0] + 1);
  job->next = j->job_list;
  j->job_list = job;
  j->jobs++;
  job->reads = 1;
  for (unsigned i = 0; i < p->runs; i++)
    if (p->run[i].offset / EXTENT_BYTES == extent)
      job->ok &= read_run (job, p->run[i].grain, p->run[i].offset,
                           p->run[i].length, 0);
  if (--job->reads == 0)
    job_end (job);
}

static void
flush_all (struct join *j)
{
  j->flushing = true;
  j->flush_ok = true;
  j->copied = 0;
  j->flush_at = sim_now + POLL_MS * 10 * MS;
  j->mark = member_join_mark (j->m->engine);
  j->flush_run = j->run;
  j->flushes = 1;
  for (unsigned m = 0; m < w.layout.members; m++)
    if (j->source[m].data_open) {
      j->flushes++;
      nbd_send (j->source[m].data, nbd_new (NBD_FLUSH));
    }
    else if (j->m->last.order.source[m])
      j->flush_ok = false;
  flush_done (j, true);
}

static void
copy (struct join *j)
{
  uint64_t extent;

  while (j->jobs < JOBS_MAX && !j->m->last.order.paused &&
         member_join_next (j->m->engine, j->run, &extent)) {
    steps++;
    copy_extent (j, extent);
  }
  if (j->jobs == JOBS_MAX || j->m->last.order.paused)
    member_join_rest (j->m->engine);
  if (!j->flushing && (j->copied > 3 || (j->jobs == 0 && j->copied > 0) ||
                       sim_now >= j->flush_at))
    flush_all (j);
}

/* ---- The whole ---- */

static bool
is_silent (const struct conn *c)
{
  for (const struct nbd *n = c ? c->in_flight : NULL; n; n = n->client_next)
    if (sim_now >= n->sent + SILENT_MS * MS)
      return true;
  return false;
}

static void
poll_again (void *owner)
{
  struct member_role *m = owner;

  if (m->join) {
    for (unsigned i = 0; i < w.layout.members; i++)
      if (is_silent (m->join->source[i].data) ||
          is_silent (m->join->source[i].intents))
        source_close (&m->join->source[i]);
    pull_poll (m);
    process_after (&m->proc, POLL_MS * MS, poll_again, m);
  }
}

/* Old work must have ended before new work begins: what it writes would not be
 * seen by the new one.
 */
static bool
same_run (struct join *j)
{
  uint64_t run = member_join_run (j->m->engine);

  if (j->begun && j->run == run)
    return true;
  for (struct job *job = j->job_list; job; job = job->next)
    if (job->reads > 0) { /* a fence may wait for it */
      job->ok = false;
      give_back (j, job);
    }
  member_act (j->m);
  if (j->jobs > 0 || j->flushing)
    return false;
  j->begun = true;
  j->run = run;
  for (unsigned m = 0; m < w.layout.members; m++)
    j->source[m].gathered = false;
  return true;
}

void
pull_poll (struct member_role *m)
{
  enum member_join_phase phase = member_join_phase (m->engine);
  struct join *j = m->join;

  if (!m->has_last || !m->last.has_order || phase == MEMBER_JOIN_NONE) {
    if (j && same_run (j) && j->jobs == 0 && !j->flushing)
      pull_stop (m);
    return;
  }
  if (j == NULL) {
    j = m->join = make (sizeof *j);
    j->m = m;
    j->life = m->proc.life;
    process_after (&m->proc, POLL_MS * MS, poll_again, m);
  }
  if (!same_run (j))
    return;
  sources_open (j);
  if (phase == MEMBER_JOIN_GATHERING)
    gather (j);
  else if (phase == MEMBER_JOIN_COPYING)
    copy (j);
}

void
pull_stop (struct member_role *m)
{
  struct join *j = m->join;

  if (j == NULL)
    return;
  for (unsigned s = 0; s < w.layout.members; s++)
    if (j->source[s].data) {
      j->source[s].puller = m;
      source_close (&j->source[s]);
    }
  for (struct job *job = j->job_list; job; job = job->next)
    job->join = NULL; /* their events free them */
  m->join = NULL;
  free (j);
}

void
pull_words (struct member_role *m, struct cluster_join *words)
{
  struct member_join_progress p;

  words->phase = (enum cluster_join_phase)member_join_phase (m->engine);
  if (words->phase == CLUSTER_JOIN_NONE)
    return;
  words->epoch = member_join_epoch (m->engine);
  member_join_progress (m->engine, &p);
  words->todo_bytes = p.todo * EXTENT_BYTES;
  words->total_bytes = p.total * EXTENT_BYTES;
}
