/* cluster-pool.c: an administrator's orders for the volumes of a pool.
 *
 * A volume is created as a record, and a process makes it in the pool when it first opens
 * it.  From then on the process that has the pool changes the volume, by an order: see
 * cluster-volume.c.
 */

#include <config.h>

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster-inputs.h"

bool
cluster_pool_refuse_early (struct cluster *c, uint64_t op,
                           struct cluster_array *a)
{
  if (cluster_doubt_refuse (c, op, a))
    return true;
  /* Members show whether the database is an old one. */
  if (cluster_copies_unheard (a) == a->layout.members)
    return false;
  cluster_step_defer (c, op, CLUSTER_UNAVAILABLE, "starting", HEARTBEAT_MS,
                      "weftd was just started, and has not heard of all "
                      "members of pool %s yet: ask again",
                      a->rec.name);
  return true;
}

/* The array, if it is a pool whose volumes are known; NULL: refused. */
static struct cluster_array *
pool_or_refuse (struct cluster *c, uint64_t op, const char *name)
{
  struct cluster_array *a = cluster_step_array_or_refuse (c, op, name);

  if (a == NULL || cluster_step_refuse_read_only (c, op) ||
      cluster_step_refuse_restoring (c, op, a))
    return NULL;
  if (a->pool == NULL)
    cluster_step_refuse (c, op, CLUSTER_CONFLICT, "not-pool",
                         "array %s is no pool, and has no volumes: make a pool "
                         "with weftctl array create NAME --pool",
                         name);
  else if (a->rec.pool == CLUSTER_POOL_UNSCANNED)
    cluster_step_defer (
      c, op, CLUSTER_CONFLICT, "scanning", HEARTBEAT_MS,
      "the volumes of pool %s are not known for sure, because "
      "weftd's database may be older than the pool: a process "
      "has to attach the pool, and to scan it",
      name);
  else
    return a;
  return NULL;
}

static struct cluster_volume *
volume_or_refuse (struct cluster *c, uint64_t op, const struct cluster_array *a,
                  const char *name)
{
  struct cluster_volume *v = cluster_volume_find (a, name);

  if (v == NULL)
    cluster_step_refuse (c, op, CLUSTER_NOT_FOUND, "unknown-volume",
                         "pool %s has no volume %s: weftctl volume ls %s lists "
                         "them",
                         a->rec.name, name, a->rec.name);
  return v;
}

static bool
refuse_size (struct cluster *c, uint64_t op, const struct cluster_array *a,
             const char *name, uint64_t size)
{
  struct cluster_problem *p;
  struct cluster_pool_figures f;
  char bytes[32], total[32];

  cluster_pool_figures (a, &f);
  cluster_words_bytes (size, bytes, sizeof bytes);
  cluster_words_bytes (f.total, total, sizeof total);
  if (size == 0 || size % 512 != 0)
    p = cluster_step_refuse (c, op, CLUSTER_INVALID, "size",
                             "volume %s/%s cannot have %" PRIu64
                             " bytes: give a multiple of 512, above zero",
                             a->rec.name, name, size);
  else if (size > VOLUME_BYTES_MAX)
    p = cluster_step_refuse (c, op, CLUSTER_INVALID, "size",
                             "volume %s/%s cannot have %s: 64 TiB is the most",
                             a->rec.name, name, bytes);
  else if (size > f.total)
    p = cluster_step_refuse (c, op, CLUSTER_INVALID, "size",
                             "volume %s/%s cannot have %s: pool %s has %s for "
                             "its volumes, so it could "
                             "never be filled; give a smaller size",
                             a->rec.name, name, bytes, a->rec.name, total);
  else
    return false;
  p->field = "size";
  return true;
}

static void
log_promised (struct cluster *c, const struct cluster_array *a)
{
  struct cluster_pool_figures f;
  char promised[32], total[32];

  cluster_pool_figures (a, &f);
  if (f.promised > f.total)
    cluster_step_log (
      c, CLUSTER_WARNING, "array", a->rec.name,
      "The volumes of pool %s may grow to %s in all, and it has %s: watch how "
      "full it is.",
      a->rec.name, cluster_words_bytes (f.promised, promised, sizeof promised),
      cluster_words_bytes (f.total, total, sizeof total));
}

/* The administrator's call waits until the order is carried out. */
static void
await (struct cluster *c, uint64_t op, struct cluster_array *a, uint64_t order)
{
  struct waiting *w = cluster_wait (c, WAIT_ORDER, op, ORDER_MS);

  w->array = a;
  w->order = order;
}

/* ---- Creating. ---- */

bool
cluster_pool_create_refused (struct cluster *c, uint64_t op, const char *array,
                             const char *name, uint64_t size)
{
  const struct cluster_array *a = pool_or_refuse (c, op, array);

  if (a == NULL)
    return true;
  if (cluster_volume_find (a, name))
    cluster_step_refuse (c, op, CLUSTER_CONFLICT, "exists",
                         "there is a volume %s/%s already: choose another name",
                         array, name)
      ->field = "name";
  else if (cluster_volume_root (a) == UINT_MAX)
    cluster_step_refuse (c, op, CLUSTER_CONFLICT, "too-many",
                         "pool %s has %u volumes, and that is the most: delete "
                         "one first",
                         array, a->pool->volumes_count);
  else
    return refuse_size (c, op, a, name, size);
  return true;
}

void
cluster_volume_create (struct cluster *c, const struct cluster_input *in,
                       const char *array, const char *name, uint64_t size)
{
  struct cluster_array *a;
  struct cluster_volume *v;
  char bytes[32];

  cluster_step_begin (c, in);
  if (!cluster_pool_create_refused (c, in->op, array, name, size)) {
    a = cluster_array_find (c, array);
    v = alloc_zeroed (sizeof *v);
    cluster_uuid_make (in->random, v->rec.uuid);
    memcpy (v->rec.array, a->rec.uuid, 16);
    v->rec.root = cluster_volume_root (a);
    snprintf (v->rec.name, sizeof v->rec.name, "%s", name);
    v->rec.size = size;
    v->rec.since_wall_ms = c->wall_ms;
    cluster_volume_insert (a, v);
    cluster_step_put_volume (c, v);
    cluster_step_changed_array (c, a);
    cluster_step_log (c, CLUSTER_INFO, "array", array,
                      "Volume %s/%s of %s was created.", array, name,
                      cluster_words_bytes (size, bytes, sizeof bytes));
    log_promised (c, a);
    cluster_step_reply_volume (c, in->op, CLUSTER_REPLY_VOLUME, a, v);
  }
  cluster_pump_end (c);
}

/* ---- Resizing. ---- */

bool
cluster_pool_resize_refused (struct cluster *c, uint64_t op, const char *array,
                             const char *name, uint64_t size)
{
  const struct cluster_array *a = pool_or_refuse (c, op, array);
  const struct cluster_volume *v = a ? volume_or_refuse (c, op, a, name) : NULL;
  char is[32], to[32];

  if (v == NULL)
    return true;
  if (v->rec.state == CLUSTER_VOLUME_DELETING)
    cluster_step_refuse (c, op, CLUSTER_CONFLICT, "deleting",
                         "volume %s/%s is being deleted", array, name);
  else if (v->rec.state == CLUSTER_VOLUME_BROKEN)
    cluster_step_refuse (c, op, CLUSTER_CONFLICT, "broken",
                         "volume %s/%s can't be read: %s", array, name,
                         v->rec.reason);
  else if (size < v->rec.size)
    cluster_step_refuse (c, op, CLUSTER_INVALID, "size",
                         "volume %s/%s has %s (%" PRIu64
                         " bytes), and cannot shrink to %s: create "
                         "a smaller volume, and copy the data",
                         array, name,
                         cluster_words_bytes (v->rec.size, is, sizeof is),
                         v->rec.size, cluster_words_bytes (size, to, sizeof to))
      ->field = "size";
  else if (refuse_size (c, op, a, name, size))
    ;
  else if (v->order.number)
    cluster_step_defer (c, op, CLUSTER_CONFLICT, "busy", HEARTBEAT_MS,
                        "an earlier order for volume %s/%s is still being "
                        "carried out: ask again",
                        array, name);
  else if (v->rec.state != CLUSTER_VOLUME_NEW && size != v->rec.size &&
           cluster_array_writer (a) == NULL)
    cluster_step_refuse (
      c, op, CLUSTER_CONFLICT, "no-holder",
      "no process has pool %s open, and one has to write the "
      "size of volume %s: attach the volume (weftctl attach "
      "%s/%s), then try again",
      array, name, array, name);
  else
    return false;
  return true;
}

void
cluster_volume_resize (struct cluster *c, const struct cluster_input *in,
                       const char *array, const char *name, uint64_t size)
{
  struct cluster_array *a;
  struct cluster_volume *v;

  cluster_step_begin (c, in);
  if (!cluster_pool_resize_refused (c, in->op, array, name, size)) {
    a = cluster_array_find (c, array);
    v = cluster_volume_find (a, name);
    if (v->rec.state == CLUSTER_VOLUME_NEW || size == v->rec.size) {
      if (size != v->rec.size) {
        v->rec.size = size;
        cluster_step_put_volume (c, v);
        cluster_step_changed_array (c, a);
      }
      cluster_step_reply_volume (c, in->op, CLUSTER_REPLY_VOLUME, a, v);
    }
    else
      await (c, in->op, a,
             cluster_volume_order (c, a, v, CLUSTER_VOLUME_RESIZE, size));
  }
  cluster_pump_end (c);
}

/* ---- Deleting. ---- */

bool
cluster_pool_delete_refused (struct cluster *c, uint64_t op, const char *array,
                             const char *name)
{
  const struct cluster_array *a = pool_or_refuse (c, op, array);
  const struct cluster_volume *v = a ? volume_or_refuse (c, op, a, name) : NULL;

  if (v == NULL)
    return true;
  if (v->heard && v->said.clients > 0 &&
      v->rec.state != CLUSTER_VOLUME_DELETING)
    cluster_step_refuse (c, op, CLUSTER_CONFLICT, "in-use",
                         "volume %s/%s has %" PRIu64
                         " connected clients: disconnect them first (weftctl "
                         "detach %s/%s on their hosts)",
                         array, name, v->said.clients, array, name);
  else if (v->order.number && v->order.what != CLUSTER_VOLUME_DELETE)
    cluster_step_defer (c, op, CLUSTER_CONFLICT, "busy", HEARTBEAT_MS,
                        "an earlier order for volume %s/%s is still being "
                        "carried out: ask again",
                        array, name);
  else
    return false;
  return true;
}

void
cluster_volume_delete (struct cluster *c, const struct cluster_input *in,
                       const char *array, const char *name)
{
  struct cluster_array *a;
  struct cluster_volume *v;
  uint8_t uuid[16];

  cluster_step_begin (c, in);
  if (!cluster_pool_delete_refused (c, in->op, array, name)) {
    a = cluster_array_find (c, array);
    v = cluster_volume_find (a, name);
    memcpy (uuid, v->rec.uuid, 16);
    if (v->rec.state == CLUSTER_VOLUME_NEW) {
      cluster_volume_drop (c, a, v);
      cluster_step_log (c, CLUSTER_INFO, "array", array,
                        "Volume %s/%s was deleted.", array, name);
      cluster_step_reply_done (c, in->op, CLUSTER_VOLUME, uuid, 0, name);
    }
    else {
      if (v->rec.state != CLUSTER_VOLUME_DELETING) {
        v->rec.state = CLUSTER_VOLUME_DELETING;
        cluster_step_put_volume (c, v);
        cluster_step_changed_array (c, a);
      }
      if (v->order.number == 0 && cluster_array_writer (a))
        cluster_volume_order (c, a, v, CLUSTER_VOLUME_DELETE, 0);
      if (v->order.number)
        await (c, in->op, a, v->order.number);
      else
        cluster_step_reply_volume (c, in->op, CLUSTER_REPLY_VOLUME, a, v);
    }
  }
  cluster_pump_end (c);
}
