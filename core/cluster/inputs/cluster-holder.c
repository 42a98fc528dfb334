/* cluster-holder.c: reports and requests of the process that has attached a pool.
 *
 * Its messages have numbers.  A number is carried out once: asked again, because the
 * answer was lost, it gets the same answer, which is stored with the grants themselves.
 * A number that leaves one out shows that the database is older than the session: then
 * segments may be in use that the database calls free, and nothing is granted before the
 * pool is scanned.
 *
 * A volume first gets segments for its log, then for data.
 */

#include <config.h>

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cluster-inputs.h"

/* May the session hear of volumes, and get segments?  True: refused. */
static bool
refuse_now (struct cluster *c, uint64_t op, struct cluster_array *a)
{
  if (cluster_step_refuse_read_only (c, op))
    return true;
  if (a->pool == NULL)
    cluster_step_refuse (c, op, CLUSTER_CONFLICT, "not-pool",
                         "array %s is no pool, and has no volumes",
                         a->rec.name);
  else if (cluster_pool_refuse_early (c, op, a))
    ;
  else if (a->rec.pool == CLUSTER_POOL_UNSCANNED)
    cluster_step_defer (c, op, CLUSTER_CONFLICT, "scanning", HEARTBEAT_MS,
                        "pool %s has to be scanned before anything of it is "
                        "granted, because weftd's database may be older than "
                        "the pool: attach it again",
                        a->rec.name);
  else
    return false;
  return true;
}

/* ---- Opening. ---- */

static void
open_volume (struct cluster *c, uint64_t op, struct cluster_array *a,
             const char *name)
{
  struct cluster_volume *v = cluster_volume_find (a, name);
  struct cluster_run run[VOLUME_RUNS_MAX];
  uint32_t want = cluster_space_for_data (a->pool);
  unsigned runs = 0;

  if (v == NULL) {
    cluster_step_refuse (c, op, CLUSTER_NOT_FOUND, "unknown-volume",
                         "pool %s has no volume %s: weftctl volume ls %s lists "
                         "them",
                         a->rec.name, name, a->rec.name);
    return;
  }
  if (v->rec.state == CLUSTER_VOLUME_DELETING) {
    cluster_step_refuse (c, op, CLUSTER_CONFLICT, "deleting",
                         "volume %s/%s is being deleted", a->rec.name, name);
    return;
  }
  if (v->rec.state == CLUSTER_VOLUME_BROKEN) {
    cluster_step_refuse (c, op, CLUSTER_CONFLICT, "broken",
                         "volume %s/%s can't be read: %s", a->rec.name, name,
                         v->rec.reason);
    return;
  }
  if (v->rec.state == CLUSTER_VOLUME_NEW) {
    v->rec.state = CLUSTER_VOLUME_TOLD;
    cluster_step_put_volume (c, v);
    cluster_step_changed_array (c, a);
  }
  /* The first window comes with the answer. */
  if (v->segments == 0 && !cluster_volume_any_broken (a)) {
    cluster_space_take (a->pool, v, 0,
                        want < VOLUME_WINDOW_MIN ? want : VOLUME_WINDOW_MIN,
                        run, &runs, VOLUME_RUNS_MAX);
    cluster_space_store (c, a);
  }
  cluster_step_reply_volume (c, op, CLUSTER_REPLY_OPENED, a, v);
}

void
cluster_volume_open (struct cluster *c, const struct cluster_input *in,
                     uint64_t session, const char *instance, const char *name)
{
  struct cluster_session *s;

  cluster_step_begin (c, in);
  s = cluster_session_end_find_own (c, in->op, session, instance);
  if (s && !refuse_now (c, in->op, s->array))
    open_volume (c, in->op, s->array, name);
  cluster_pump_end (c);
}

/* ---- What it says. ---- */

static void
said (struct cluster *c, struct cluster_array *a, struct cluster_volume *v,
      const struct cluster_volume_said *said)
{
  bool told = !v->heard || said->clients != v->said.clients ||
              (said->waiting > 0) != (v->said.waiting > 0) ||
              strcmp (said->why, v->said.why) != 0;

  v->said = *said;
  v->heard = true;
  if (said->waiting == 0)
    v->waits_live_ms = 0;
  else if (v->waits_live_ms == 0)
    v->waits_live_ms = c->live_ms;
  if (said->made &&
      (v->rec.state == CLUSTER_VOLUME_TOLD || said->size != v->rec.size)) {
    if (v->rec.state == CLUSTER_VOLUME_TOLD)
      v->rec.state = CLUSTER_VOLUME_MADE;
    v->rec.size = said->size;
    cluster_step_put_volume (c, v);
    told = true;
  }
  if (told)
    cluster_step_changed_array (c, a);
}

/* Answer all that wait for this order.  gone: the volume is. */
static void
answer (struct cluster *c, struct cluster_array *a, struct cluster_volume *v,
        const char *error)
{
  bool gone = v->order.what == CLUSTER_VOLUME_DELETE && !error[0];
  struct waiting *w;

  while ((w = cluster_volume_waiting (c, v->order.number))) {
    if (error[0])
      cluster_step_refuse (c, w->op, CLUSTER_CONFLICT,
                           v->order.what == CLUSTER_VOLUME_DELETE ? "in-use"
                                                                  : "not-done",
                           "volume %s/%s: the process that has the pool has "
                           "not done it: %s",
                           a->rec.name, v->rec.name, error);
    else if (gone)
      cluster_step_reply_done (c, w->op, CLUSTER_VOLUME, v->rec.uuid, 0,
                               v->rec.name);
    else
      cluster_step_reply_volume (c, w->op, CLUSTER_REPLY_VOLUME, a, v);
    cluster_wait_end (c, w);
  }
}

static void
done (struct cluster *c, struct cluster_array *a,
      const struct cluster_order_done *d)
{
  struct cluster_volume *v;
  char bytes[32];

  TAILQ_FOREACH (v, &a->pool->volumes, link)
    if (v->order.number == d->number)
      break;
  if (v == NULL || d->number == 0)
    return; /* of an earlier weftd; the root shows the effect */
  if (v->order.what == CLUSTER_VOLUME_RESIZE && !d->error[0]) {
    v->rec.size = v->order.size;
    cluster_step_put_volume (c, v);
    cluster_step_log (c, CLUSTER_INFO, "array", a->rec.name,
                      "Volume %s/%s has %s now.", a->rec.name, v->rec.name,
                      cluster_words_bytes (v->rec.size, bytes, sizeof bytes));
  }
  if (v->order.what == CLUSTER_VOLUME_DELETE && d->error[0]) {
    v->rec.state = v->rec.reason[0] ? CLUSTER_VOLUME_BROKEN
                                    : CLUSTER_VOLUME_TOLD;
    cluster_step_put_volume (c, v);
    cluster_step_log (c, CLUSTER_WARNING, "array", a->rec.name,
                      "Volume %s/%s was not deleted: %s", a->rec.name,
                      v->rec.name, d->error);
  }
  answer (c, a, v, d->error);
  v->order.number = 0;
  cluster_step_changed_array (c, a);
  if (v->order.what == CLUSTER_VOLUME_DELETE && !d->error[0]) {
    cluster_step_log (c, CLUSTER_INFO, "array", a->rec.name,
                      "Volume %s/%s was deleted.", a->rec.name, v->rec.name);
    cluster_volume_drop (c, a, v);
  }
}

/* ---- What it asks for. ---- */

static void
grant (struct cluster *c, struct cluster_array *a, struct cluster_session *s,
       struct cluster_volume *v, const struct cluster_volume_report *message)
{
  struct cluster_pool *p = a->pool;
  uint32_t log = message->log < message->want ? message->log : message->want;
  uint32_t data = message->want - log, room, most;

  v->rec.granted = 0;
  cluster_space_take (p, v, message->near, log, v->rec.grant, &v->rec.granted,
                      VOLUME_RUNS_MAX);
  /* Where little is free, one volume does not get all of it. */
  room = cluster_space_for_data (p);
  most = room / 4 > VOLUME_WINDOW_MIN ? room / 4 : VOLUME_WINDOW_MIN;
  if (most > VOLUME_WINDOW_MAX)
    most = VOLUME_WINDOW_MAX;
  if (most > room)
    most = room;
  cluster_space_take (p, v, message->near, data < most ? data : most,
                      v->rec.grant, &v->rec.granted, VOLUME_RUNS_MAX);
  if (v->rec.granted == 0)
    return;
  v->rec.session = s->rec.id;
  v->rec.number = s->rec.volumes;
  cluster_step_put_volume (c, v);
  cluster_step_changed_array (c, a);
}

static void
carry_out (struct cluster *c, struct cluster_array *a,
           struct cluster_session *s,
           const struct cluster_volumes_message *message)
{
  struct cluster_volume *v;

  s->rec.volumes = message->number;
  cluster_step_put_session (c, s);
  if (message->formatted && a->rec.pool == CLUSTER_POOL_BLANK) {
    a->rec.pool = CLUSTER_POOL_READY;
    cluster_step_put_array (c, a);
    cluster_step_changed_array (c, a);
  }
  for (unsigned i = 0; i < message->volumes; i++)
    if (message->volume[i].says &&
        (v = cluster_volume_by_uuid (a, message->volume[i].uuid)))
      said (c, a, v, &message->volume[i].said);
  for (unsigned i = 0; i < message->dones; i++)
    done (c, a, &message->done[i]);
  for (unsigned i = 0; i < message->volumes; i++)
    if ((v = cluster_volume_by_uuid (a, message->volume[i].uuid)))
      for (unsigned k = 0; k < message->volume[i].give_count; k++) {
        cluster_space_give (a->pool, v, &message->volume[i].give[k]);
        cluster_step_changed_array (c, a);
      }
  for (unsigned i = 0; i < message->volumes; i++)
    if (message->volume[i].want > 0 &&
        (v = cluster_volume_by_uuid (a, message->volume[i].uuid)) &&
        (v->rec.state == CLUSTER_VOLUME_TOLD ||
         v->rec.state == CLUSTER_VOLUME_MADE) &&
        !cluster_volume_any_broken (a))
      grant (c, a, s, v, &message->volume[i]);
  cluster_space_store (c, a);
}

/* Is something of this nonsense? */
static bool
refuse_message (struct cluster *c, uint64_t op, const struct cluster_array *a,
                const struct cluster_volumes_message *message)
{
  for (unsigned i = 0; i < message->volumes; i++) {
    const struct cluster_volume_report *w = &message->volume[i];

    for (unsigned k = 0; k < i; k++)
      if (cluster_uuid_equal (message->volume[k].uuid, w->uuid)) {
        cluster_step_refuse (c, op, CLUSTER_INVALID, "twice",
                             "elements %u and %u are the same volume's", k, i)
          ->field = "volumes";
        return true;
      }
    for (unsigned k = 0; k < w->give_count; k++)
      if (!cluster_space_fits (a->pool, &w->give[k])) {
        cluster_step_refuse (c, op, CLUSTER_INVALID, "run",
                             "%" PRIu32 " segments from %" PRIu32
                             " on are none that pool %s grants: it has those "
                             "from %" PRIu32 " to %" PRIu32,
                             w->give[k].count, w->give[k].first, a->rec.name,
                             a->pool->first, a->pool->geometry.segments - 1)
          ->field = "give";
        return true;
      }
    if (w->says && w->said.made &&
        (w->said.size == 0 || w->said.size % 512 != 0 ||
         w->said.size > VOLUME_BYTES_MAX)) {
      cluster_step_refuse (c, op, CLUSTER_INVALID, "size",
                           "no volume has %" PRIu64 " bytes", w->said.size)
        ->field = "said";
      return true;
    }
  }
  return false;
}

static void
volumes (struct cluster *c, uint64_t op, struct cluster_session *s,
         const struct cluster_volumes_message *message)
{
  struct cluster_array *a = s->array;

  if (a->pool && message->number > s->rec.volumes + 1)
    cluster_volume_unscanned (c, a);
  if (refuse_now (c, op, a))
    ;
  else if (message->number < s->rec.volumes || message->number == 0)
    cluster_step_refuse (c, op, CLUSTER_CONFLICT, "number",
                         "message %" PRIu64
                         " about the volumes of pool %s comes "
                         "too late: %" PRIu64 " was answered already",
                         message->number, a->rec.name, s->rec.volumes)
      ->field = "number";
  else if (message->number > s->rec.volumes &&
           refuse_message (c, op, a, message))
    ;
  else {
    if (message->number > s->rec.volumes)
      carry_out (c, a, s, message);
    cluster_step_reply_session (c, op, CLUSTER_REPLY_VOLUMES, a, s);
  }
}

void
cluster_session_volumes (struct cluster *c, const struct cluster_input *in,
                         uint64_t id,
                         const struct cluster_volumes_message *message)
{
  struct cluster_session *s;

  cluster_step_begin (c, in);
  s = cluster_session_end_find_own (c, in->op, id, message->instance);
  if (s)
    volumes (c, in->op, s, message);
  cluster_pump_end (c);
}
