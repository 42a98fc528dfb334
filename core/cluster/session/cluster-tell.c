/* cluster-tell.c: writes weftd's answers to the polls and reports of disks and
 * sessions, and decides when to answer.
 *
 * An answer leaves out facts that the disk or session has reported itself, if
 * weftd agrees: nearly all heartbeats bring no news.
 */

#include <config.h>

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cluster-session.h"

/* The order to a joining member; epoch 0: none. */
static void
order_of (const struct cluster *c, const struct cluster_disk *d,
          struct cluster_join_order *order)
{
  if (d->array == NULL || !cluster_join_order (c, d->array, d->position, order))
    memset (order, 0, sizeof *order);
}

/* Is this order so nearly the one that it has that it needs no new one? */
static bool
same_order (const struct cluster_join_order *a,
            const struct cluster_join_order *b)
{
  uint64_t apart = a->rate > b->rate ? a->rate - b->rate : b->rate - a->rate;

  return a->epoch == b->epoch && a->paused == b->paused &&
         a->round == b->round && (a->rate == 0) == (b->rate == 0) &&
         apart <= a->rate / 10 &&
         memcmp (a->source, b->source, sizeof a->source) == 0;
}

/* Does the disk know, or was it just told, all that is wanted of it? */
static bool
content (const struct cluster *c, const struct cluster_disk *d)
{
  const struct cluster_disk_heartbeat *hb = d->said;
  uint64_t epoch = d->array ? d->array->rec.epoch : 0;
  uint64_t min_epoch = cluster_disk_min_epoch_wanted (d);
  struct cluster_join_order order;

  order_of (c, d, &order);
  if (cluster_shut_news (d) ||
      (d->rec.untold && !(d->told.reply && d->told.key)))
    return false;
  if (d->told.reply)
    return d->told.epoch == epoch && d->told.min_epoch == min_epoch &&
           same_order (&d->told.order, &order);
  return order.epoch == 0 &&
         cluster_uuid_equal (hb->cluster, c->identity.uuid) &&
         hb->generation == c->identity.generation &&
         cluster_uuid_is_zero (d->rec.release) &&
         (d->array == NULL || d->took_place) && hb->min_epoch >= min_epoch &&
         hb->states_epoch == epoch;
}

bool
cluster_tell_wake_disk (struct cluster *c, struct cluster_disk *d)
{
  struct cluster_over over[OVER_TOLD_MAX];
  uint64_t epoch;
  unsigned count;

  if (d->poll == NULL)
    return false;
  if (d->state != DISK_STARTING)
    d->last_live_ms = c->live_ms;
  epoch = d->array ? d->array->rec.epoch : 0;
  d->told.known = d->told.reply && d->told.epoch == epoch && d->took_place &&
                  d->states_epoch == epoch;
  d->told.reply = d->told.key = true;
  count = cluster_shut_told (d, over);
  d->told.over = count ? over[count - 1].number : d->over;
  d->told.epoch = epoch;
  d->told.min_epoch = cluster_disk_min_epoch_wanted (d);
  order_of (c, d, &d->told.order);
  cluster_join_grant (d);
  d->answer = c->step->number;
  cluster_step_reply_disk (c, d->poll->op, d);
  cluster_wait_end (c, d->poll);
  return true;
}

void
cluster_tell_disk (struct cluster *c, struct cluster_disk *d, bool at_once)
{
  if (d->poll && (at_once || !content (c, d)))
    cluster_tell_wake_disk (c, d);
}

void
cluster_tell_reply_session (struct cluster *c, uint64_t op,
                            const struct cluster_array *a,
                            struct cluster_session *s)
{
  s->last_live_ms = c->live_ms;
  s->answer = c->step->number;
  s->told.epoch = a->rec.epoch;
  s->told.change = a->rec.change.sessions ? a->rec.change.epoch : 0;
  s->told.loss = s->loss ? s->loss->number : 0;
  s->told.hold = a->moved > 0;
  s->told.leave = cluster_candidate_leaves (c, a, s);
  s->told.fences = cluster_fence_number (c);
  s->told.order = a->pool ? a->pool->newest_order : 0;
  s->lessee.told_news = s->lessee.news;
  cluster_step_reply_session (c, op, CLUSTER_REPLY_SESSION, a, s);
}

void
cluster_tell_session (struct cluster *c, struct cluster_session *s,
                      bool at_once)
{
  const struct cluster_array_record *r;

  if (s->poll == NULL)
    return;
  r = &s->poll->array->rec;
  /* Is there anything that the session has neither done nor been told of? */
  if (at_once || (s->epoch != r->epoch && s->told.epoch != r->epoch) ||
      (r->change.sessions && s->prepared != r->change.epoch &&
       s->told.change != r->change.epoch) ||
      (s->loss && s->told.loss != s->loss->number) ||
      s->lessee.told_news != s->lessee.news ||
      (s->rec.writable && s->poll->array->pool &&
       s->told.order < s->poll->array->pool->newest_order) ||
      (s->told.hold && s->poll->array->moved == 0) ||
      (!s->told.leave && cluster_candidate_leaves (c, s->poll->array, s)) ||
      (cluster_session_guarded (s) && s->fences < cluster_fence_number (c) &&
       s->told.fences < cluster_fence_number (c))) {
    cluster_tell_reply_session (c, s->poll->op, s->poll->array, s);
    cluster_wait_end (c, s->poll);
  }
}

void
cluster_tell_array (struct cluster *c, const struct cluster_array *a)
{
  struct waiting *w, *next;

  for (unsigned m = 0; m < a->layout.members; m++)
    cluster_tell_disk (c, a->disk[m], false);
  TAILQ_FOREACH_SAFE (w, &a->polls, poll_link, next)
    cluster_tell_session (c, w->session, false);
}

void
cluster_tell_changing (struct cluster *c, uint64_t op,
                       const struct cluster_array *a)
{
  cluster_step_defer (c, op, CLUSTER_CONFLICT, "changing", HEARTBEAT_MS,
                      "array %s cannot be attached just now: it is changing "
                      "from epoch %" PRIu64 "; ask again",
                      a->rec.name, a->rec.epoch);
}

void
cluster_tell_grant (struct cluster *c, uint64_t op, struct cluster_array *a,
                    const struct cluster_session_record *rec)
{
  struct cluster_session *s = alloc_zeroed (sizeof *s);
  struct cluster_node *n = cluster_node_find (c, rec->node);

  s->rec = *rec;
  s->rec.epoch = s->epoch = s->arrived = s->told.epoch = a->rec.epoch;
  s->rec.since_wall_ms = c->wall_ms;
  s->heard = s->alive = true;
  s->last_live_ms = s->steady_live_ms = c->live_ms;
  s->answer = c->step->number;
  s->fences = s->told.fences = cluster_fence_number (
    c); /* the answer has them */
  s->told.hold = a->moved > 0;
  cluster_session_insert (c, s);
  cluster_session_join (s, a);
  if (rec->part.length > 0)
    cluster_lease_begin (c, a, s);
  cluster_volume_begin (c, a);
  if (n && n->rec.shut_out) {
    n->rec.shut_out = false; /* it has a new certificate */
    cluster_step_put_node (c, n);
  }
  cluster_step_put_session (c, s);
  cluster_step_changed_session (c, s);
  cluster_step_changed_array (c, a);
  cluster_step_log (c, CLUSTER_INFO, "array", a->rec.name,
                    "Node %s, process %" PRIu64 ", has attached array %s %s.",
                    rec->node, rec->pid, a->rec.name,
                    rec->service           ? "to serve it"
                    : rec->leases          ? "to share it by leases"
                    : rec->part.length > 0 ? "for writing a part of it"
                    : rec->writable        ? "for writing"
                                           : "read-only");
  cluster_step_reply_session (c, op, CLUSTER_REPLY_GRANT, a, s);
}

void
cluster_tell_lost_end (struct cluster *c, struct waiting *w)
{
  const struct cluster_array *a = w->array;
  char text[1500];

  if (a->rec.member[w->member].state == MEMBER_OUT)
    cluster_tell_reply_session (c, w->op, a, w->session);
  else {
    if (!cluster_array_waits_for (c, a, text, sizeof text))
      snprintf (text, sizeof text, "nothing more");
    cluster_step_defer (c, w->op, CLUSTER_CONFLICT, "changing",
                        HEARTBEAT_MS / 10,
                        "array %s is changing and waits for %.500s: report "
                        "member %u again",
                        a->rec.name, text, w->member);
  }
  cluster_wait_end (c, w);
}

void
cluster_tell_committed (struct cluster *c, struct cluster_array *a,
                        bool prepared)
{
  struct waiting *w, *next;

  if (c->waiting[WAIT_ATTACH] + c->waiting[WAIT_LOST] == 0)
    return;
  TAILQ_FOREACH_SAFE (w, &c->waitings, link, next) {
    if (w->kind == WAIT_ATTACH && w->array == a) {
      for (unsigned m = 0; m < a->layout.members; m++)
        assert (!w->fences || a->rec.member[m].state == MEMBER_OUT ||
                a->rec.member[m].fence == a->rec.epoch);
      if (w->fences)
        cluster_lapse_writer (c, a);
      /* Those beside whom it was to write have ended: it asks again, and fences.  Or
       * somebody has its part, who recovers that.
       */
      if (w->grant->writable &&
          ((!w->fences && cluster_array_writer (a) == NULL) ||
           (!w->grant->leases && !cluster_lease_free (a, &w->grant->part))))
        cluster_tell_changing (c, w->op, a);
      else if (w->fences || prepared || !cluster_copies_behind (c, a))
        cluster_tell_grant (c, w->op, a, w->grant);
      else
        cluster_tell_changing (c, w->op, a);
      cluster_wait_end (c, w);
    }
    else if (w->kind == WAIT_LOST && w->array == a)
      cluster_tell_lost_end (c, w);
  }
}

void
cluster_disk_told (const struct cluster *c, const struct cluster_disk *d,
                   bool no_news, struct cluster_disk_told *r)
{
  memset (r, 0, sizeof *r);
  r->generation = c->identity.generation;
  memcpy (r->cluster, c->identity.uuid, 16);
  r->min_epoch = cluster_disk_min_epoch_wanted (d);
  memcpy (r->release, d->rec.release, 16);
  r->releases = !cluster_uuid_is_zero (d->rec.release);
  /* A disk that is to forget an array is not given a place in the same answer. */
  r->place = r->releases ? NULL : d->array;
  r->position = d->position;
  r->same = r->place && d->told.known && no_news && !d->rec.untold;
  if (!r->same)
    cluster_disk_key (d, r->key);
  r->over_count = cluster_shut_told (d, r->over);
  r->joins = r->place &&
             cluster_join_order (c, r->place, d->position, &r->order);
}

void
cluster_session_told (const struct cluster *c, const struct cluster_array *a,
                      const struct cluster_session *s, uint64_t epoch,
                      bool no_news, struct cluster_session_told *r)
{
  const struct cluster_change *change = &a->rec.change;

  r->generation = c->identity.generation;
  r->epoch = a->rec.epoch;
  r->has_map = epoch != a->rec.epoch;
  r->same = no_news && !r->has_map;
  r->change = change->epoch && change->sessions ? change : NULL;
  r->hold = a->moved > 0;
  r->leave = cluster_candidate_leaves (c, a, s);
  r->fences = cluster_session_guarded (s) &&
              s->fences < cluster_fence_number (c);
}
