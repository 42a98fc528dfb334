/* cluster.c: the engine's frame: loading, waiting operations, time.
 * See cluster.h for how it is used and cluster-ground.h for its parts.
 */

#include <config.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster-inputs.h"

struct cluster *
cluster_new (void)
{
  struct cluster *c = calloc (1, sizeof *c);

  if (c == NULL)
    return NULL;
  TAILQ_INIT (&c->disks);
  TAILQ_INIT (&c->arrays);
  TAILQ_INIT (&c->due);
  TAILQ_INIT (&c->changing);
  TAILQ_INIT (&c->sessions);
  TAILQ_INIT (&c->nodes);
  TAILQ_INIT (&c->foreigns);
  TAILQ_INIT (&c->waitings);
  TAILQ_INIT (&c->ended);
  TAILQ_INIT (&c->loaded_volumes);
  STAILQ_INIT (&c->loaded_space);
  STAILQ_INIT (&c->steps);
  return c;
}

void
cluster_free (struct cluster *c)
{
  struct cluster_disk *d, *next_d;
  struct cluster_array *a, *next_a;
  struct cluster_session *s, *next_s;
  struct cluster_node *n, *next_n;
  struct cluster_foreign *f, *next_f;
  struct cluster_job *job, *next_job;
  struct cluster_step *step;
  struct waiting *w, *next_w;
  struct cluster_volume *v;
  struct loaded_space *space;

  if (c == NULL)
    return;
  TAILQ_FOREACH_SAFE (w, &c->waitings, link, next_w)
    cluster_wait_end (c, w);
  TAILQ_FOREACH_SAFE (d, &c->disks, link, next_d)
    cluster_disk_free (c, d);
  TAILQ_FOREACH_SAFE (a, &c->arrays, link, next_a) {
    cluster_leases_free (a);
    cluster_volume_pool_free (a);
    cluster_array_free (c, a);
  }
  TAILQ_FOREACH_SAFE (s, &c->sessions, link, next_s)
    cluster_session_free (c, s);
  TAILQ_FOREACH_SAFE (n, &c->nodes, link, next_n)
    free (n);
  TAILQ_FOREACH_SAFE (f, &c->foreigns, link, next_f)
    free (f);
  TAILQ_FOREACH_SAFE (job, &c->ended, link, next_job)
    free (job);
  while ((v = TAILQ_FIRST (&c->loaded_volumes))) {
    TAILQ_REMOVE (&c->loaded_volumes, v, link);
    free (v);
  }
  while ((space = STAILQ_FIRST (&c->loaded_space))) {
    STAILQ_REMOVE_HEAD (&c->loaded_space, link);
    free (space);
  }
  while ((step = cluster_next_step (c)) != NULL)
    cluster_step_free (step);
  free (c);
}

/* ---- Loading. ---- */

static int
load_array (struct cluster *c, const struct cluster_array_record *r, char *why,
            size_t why_size)
{
  struct cluster_array *a;
  struct layout l;

  if (cluster_array_find (c, r->name) || cluster_array_by_uuid (c, r->uuid)) {
    snprintf (why, why_size, "array %s is stored twice", r->name);
    return -1;
  }
  if (layout_init (&l, r->layout, r->n, r->groups, r->unit, r->member_bytes,
                   why, why_size) == -1)
    return -1;
  a = alloc_zeroed (sizeof *a);
  a->rec = *r;
  a->moved = r->epoch; /* nobody has told this weftd what has arrived */
  /* Older weftds let a member be paused that is in-sync: nobody meant that to hold
   * its next rebuild.
   */
  for (unsigned m = 0; m < l.members; m++)
    if (a->rec.member[m].state == MEMBER_IN_SYNC)
      a->rec.member[m].paused = false;
  a->layout = l;
  cluster_array_insert (c, a);
  return 0;
}

int
cluster_load (struct cluster *c, const struct cluster_record *r, char *why,
              size_t why_size)
{
  struct cluster_disk *d;
  struct cluster_session *s;
  struct cluster_node *n;
  struct cluster_volume *v;
  struct loaded_space *space;

  assert (!c->started && !r->deleted);
  switch (r->kind) {
  case CLUSTER_RECORD_IDENTITY:
    c->identity = r->identity;
    c->has_identity = true;
    return 0;
  case CLUSTER_RECORD_DISK:
    if (cluster_disk_find (c, r->disk.uuid)) {
      snprintf (why, why_size, "a disk is stored twice");
      return -1;
    }
    d = alloc_zeroed (sizeof *d);
    d->rec = r->disk;
    cluster_disk_insert (c, d);
    return 0;
  case CLUSTER_RECORD_ARRAY:
    return load_array (c, &r->array, why, why_size);
  case CLUSTER_RECORD_SESSION:
    if (r->session.id == 0 || cluster_session_find (c, r->session.id)) {
      snprintf (why, why_size, "a session is stored twice");
      return -1;
    }
    s = alloc_zeroed (sizeof *s);
    s->rec = r->session;
    s->epoch = s->arrived = s->told.epoch = s->rec.epoch;
    cluster_session_insert (c, s);
    return 0;
  case CLUSTER_RECORD_NODE:
    if (cluster_node_find (c, r->node.name)) {
      snprintf (why, why_size, "node %s is stored twice", r->node.name);
      return -1;
    }
    n = alloc_zeroed (sizeof *n);
    n->rec = r->node;
    TAILQ_INSERT_TAIL (&c->nodes, n, link);
    return 0;
  case CLUSTER_RECORD_JOB:
    cluster_job_load (c, &r->job);
    return 0;
  case CLUSTER_RECORD_VOLUME:
    v = alloc_zeroed (sizeof *v);
    v->rec = r->volume;
    TAILQ_INSERT_TAIL (&c->loaded_volumes, v, link);
    return 0;
  case CLUSTER_RECORD_SPACE:
    space = alloc_zeroed (sizeof *space);
    space->rec = r->space;
    STAILQ_INSERT_TAIL (&c->loaded_space, space, link);
    return 0;
  case CLUSTER_RECORD_KINDS:
    break;
  }
  abort ();
}

int
cluster_start (struct cluster *c, const struct cluster_input *in, char *why,
               size_t why_size)
{
  struct cluster_disk *d;
  struct cluster_array *a;
  struct cluster_session *s;

  assert (!c->started);
  if (!c->has_identity) {
    if (!TAILQ_EMPTY (&c->disks) || !TAILQ_EMPTY (&c->arrays)) {
      snprintf (why, why_size,
                "it holds disks or arrays, but not the cluster's identity");
      return -1;
    }
    cluster_uuid_make (in->random, c->identity.uuid);
    c->has_identity = true;
  }
  TAILQ_FOREACH (a, &c->arrays, link) {
    for (unsigned m = 0; m < a->layout.members; m++)
      if (!cluster_disk_find (c, a->rec.member[m].disk)) {
        snprintf (why, why_size, "the disk of member %u of array %s is missing",
                  m, a->rec.name);
        return -1;
      }
    cluster_place_link (c, a);
  }
  TAILQ_FOREACH (s, &c->sessions, link)
    if ((a = cluster_array_by_uuid (c, s->rec.array)))
      cluster_session_join (s, a);
    else if (!s->rec.ended) {
      snprintf (why, why_size, "array %s, which a session holds, is missing",
                s->rec.array_name);
      return -1;
    }

  if (cluster_volume_link (c, why, why_size) == -1)
    return -1;
  if (c->identity.generation == GENERATION_MAX) {
    snprintf (why, why_size, "it can't count another start of weftd");
    return -1;
  }

  c->started = true;
  c->now_ms = in->now_ms;
  c->live_ms = 1;
  cluster_step_begin (c, in);
  c->identity.generation++;
  if (c->identity.fences == 0)
    cluster_fence_number_begin (c);
  cluster_restore_begin (c, in);
  cluster_step_put_identity (c);
  memcpy (&c->life, in->random + 16, sizeof c->life);
  c->life &= INT32_MAX;
  TAILQ_FOREACH (a, &c->arrays, link) {
    for (unsigned i = 0; i < a->rec.over_count; i++)
      cluster_shut_number (c, &a->rec.over[i]);
    /* It may have waited only for the end of a doubt, which is not known any more. */
    if (a->rec.change.epoch) {
      cluster_array_changing (c, a);
      cluster_array_due (c, a, DUE_CHANGE);
    }
  }
  cluster_jobs_prune (c);
  cluster_rekey_begin (c);
  /* Silence counts from now: earlier reports are not known after weftd's start.
   */
  TAILQ_FOREACH (d, &c->disks, link) {
    d->last_live_ms = c->live_ms;
    d->alive = true;
  }
  TAILQ_FOREACH (s, &c->sessions, link) {
    s->last_live_ms = s->steady_live_ms = c->live_ms;
    s->alive = !s->rec.ended;
    if (s->alive && s->rec.part.length > 0)
      cluster_lease_start (s->array);
    if (s->alive && s->rec.writable)
      cluster_volume_begin (c, s->array);
  }
  cluster_pump_end (c);
  return 0;
}

/* ---- Waiting operations and time. ---- */

/* Is it time to end this wait? */
static bool
waiting_due (const struct cluster *c, const struct waiting *w)
{
  if (w->kind == WAIT_CONTENDER)
    return c->live_ms >= w->disk->rival.since_live_ms + TAKEOVER_MS;
  if ((w->kind == WAIT_SERVICE &&
       cluster_candidate_turn (c, w->array, &w->challenge->attach)) ||
      (w->kind == WAIT_MEMBERS && cluster_attach_heard (w)))
    return true;
  if ((w->kind == WAIT_FENCE && cluster_fence_done (c, w)) ||
      (w->kind == WAIT_SHUT_OUT && cluster_node_shut_out_done (c)))
    return true;
  /* A poll ends with the tick that is nearest, so that many end at once. */
  if (w->kind == WAIT_DISK || w->kind == WAIT_SESSION)
    return c->now_ms + CLUSTER_TICK_MS / 2 >= w->deadline_ms;
  return c->now_ms >= w->deadline_ms;
}

static void
waiting_end (struct cluster *c, struct waiting *w)
{
  switch (w->kind) {
  case WAIT_DISK:
    cluster_tell_wake_disk (c, w->disk);
    break;
  case WAIT_CONTENDER:
    cluster_disk_take_over (c, w);
    break;
  case WAIT_SESSION:
    cluster_tell_session (c, w->session, true);
    break;
  case WAIT_ATTACH:
    cluster_attach_late (c, w);
    break;
  case WAIT_HOLDER:
  case WAIT_MEMBERS:
  case WAIT_SERVICE:
    cluster_attach_unchallenged (c, w);
    break;
  case WAIT_FENCE:
    cluster_fence_end (c, w);
    break;
  case WAIT_SHUT_OUT:
    cluster_node_shut_out_end (c, w);
    break;
  case WAIT_LOST:
    cluster_tell_lost_end (c, w);
    break;
  case WAIT_LEASES:
    cluster_lease_grant_late (c, w);
    break;
  case WAIT_ORDER:
    cluster_volume_late (c, w);
    break;
  case WAIT_KINDS:
    abort ();
  }
}

void
cluster_tick (struct cluster *c, const struct cluster_input *in)
{
  struct waiting *w;
  struct cluster_disk *d;
  struct cluster_array *a;
  struct cluster_session *s, *next_s;

  cluster_step_begin (c, in);
  c->unsaid = in->unsaid;
  c->hurry = false;

  /* The end of one session may end others and begin new ones: so the list is
   * searched again from its start.
   */
again:
  TAILQ_FOREACH (w, &c->waitings, link)
    if (waiting_due (c, w)) {
      waiting_end (c, w);
      cluster_pump_settle (c);
      goto again;
    }
  TAILQ_FOREACH (d, &c->disks, link)
    cluster_disk_tick (c, d);
  TAILQ_FOREACH_SAFE (s, &c->sessions, link, next_s)
    cluster_session_end_tick (c, s);
  cluster_node_tick (c);
  cluster_session_end_prune (c); /* not before: it frees sessions */
  TAILQ_FOREACH (a, &c->arrays, link) {
    cluster_candidate_tick (c, a);
    cluster_reach_tick (c, a);
    cluster_overdue_tick (c, a);
    cluster_array_due (c, a, DUE_LEASES | DUE_TIME | DUE_MEMBERS);
  }
  cluster_restore_tick (c, in);
  cluster_import_tick (c);
  cluster_pump_end (c);
}
