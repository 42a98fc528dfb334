/* test-cluster-store.c: the store of the world of test-cluster-world.h, and what
 * every transaction must keep.
 */

#include <config.h>

#include "test-cluster-world.h"

const struct cluster_array_record *
stored_array (const uint8_t uuid[16])
{
  for (size_t i = 0; i < weftd.stored; i++)
    if (weftd.store[i].kind == CLUSTER_RECORD_ARRAY &&
        memcmp (weftd.store[i].array.uuid, uuid, 16) == 0)
      return &weftd.store[i].array;
  return NULL;
}

const struct cluster_array_record *
stored_array_name (const char *name)
{
  for (size_t i = 0; i < weftd.stored; i++)
    if (weftd.store[i].kind == CLUSTER_RECORD_ARRAY &&
        strcmp (weftd.store[i].array.name, name) == 0)
      return &weftd.store[i].array;
  return NULL;
}

const struct cluster_session_record *
stored_session (uint64_t id)
{
  for (size_t i = 0; i < weftd.stored; i++)
    if (weftd.store[i].kind == CLUSTER_RECORD_SESSION &&
        weftd.store[i].session.id == id)
      return &weftd.store[i].session;
  return NULL;
}

/* Durable records must make sense at every moment. */
void
store_check (void)
{
  for (size_t i = 0; i < weftd.stored; i++) {
    const struct cluster_session_record *s = &weftd.store[i].session;

    if (weftd.store[i].kind != CLUSTER_RECORD_SESSION || s->ended ||
        !s->writable)
      continue;
    assert (stored_array (s->array));
    for (size_t j = i + 1; j < weftd.stored; j++)
      assert (weftd.store[j].kind != CLUSTER_RECORD_SESSION ||
              weftd.store[j].session.ended ||
              !weftd.store[j].session.writable ||
              memcmp (weftd.store[j].session.array, s->array, 16) != 0 ||
              (weftd.store[j].session.leases && s->leases) ||
              !cluster_parts_meet (&weftd.store[j].session.part, &s->part));
  }
}

/* ---- What every transaction must keep. ---- */

static const struct host *
host_of (const struct cluster_session_record *s)
{
  for (unsigned i = 0; i < HOSTS; i++)
    if (strcmp (world.host[i].instance, s->instance) == 0)
      return &world.host[i];
  return NULL;
}

void
prepared (uint64_t session, uint64_t epoch)
{
  uint64_t *p = world.prepared[epoch];

  while (*p != 0 && *p != session)
    assert (++p < world.prepared[epoch] + 8);
  *p = session;
}

static bool
has_prepared (uint64_t session, uint64_t epoch)
{
  for (unsigned i = 0; i < 8; i++)
    if (world.prepared[epoch][i] == session)
      return true;
  return false;
}

/* Has every session of the array prepared for this number, or is it a reader that has
 * stopped by itself?  The answer is for readers and for writers.  first: a number that
 * may have been COMMITted in the same step before it, with the same states.  alone: a
 * single session that reports its loss need not prepare.
 */
static void
sessions_prepared (const uint8_t array[16], uint64_t epoch, uint64_t first,
                   bool alone, bool *readers, bool *writers)
{
  unsigned reading = 0, writing = 0;

  for (size_t i = 0; i < weftd.stored; i++) {
    const struct cluster_session_record *s = &weftd.store[i].session;
    const struct host *h;

    if (weftd.store[i].kind != CLUSTER_RECORD_SESSION || s->ended ||
        memcmp (s->array, array, 16) != 0 || s->epoch == epoch)
      continue;
    h = host_of (s);
    if (has_prepared (s->id, epoch) || has_prepared (s->id, first) ||
        (h && (!h->attached || h->session != s->id)))
      continue;
    if (s->writable)
      writing++;
    else if (h && weftd.now_ms - h->fresh_ms < SESSION_TTL_MS)
      reading++;
  }
  *readers = reading == 0 || (alone && reading + writing == 1);
  *writers = writing == 0;
}

static void
commit_check (const struct cluster_array_record *old,
              const struct cluster_array_record *new)
{
  uint64_t first = old->change.epoch ? old->change.epoch : new->epoch;
  bool readers, writers;

  for (unsigned m = 0; m < MEMBERS; m++)
    if (new->member[m].state != old->change.states[m])
      first = new->epoch;
  sessions_prepared (new->uuid, new->epoch, first,
                     old->change.epoch != new->epoch, &readers, &writers);
  for (unsigned m = 0; m < MEMBERS; m++) {
    enum member_state was = old->member[m].state, is = new->member[m].state;

    /* Readers never read a copy that writers do without. */
    if (was == MEMBER_IN_SYNC && is == MEMBER_OUT)
      assert (readers);
    if (was == MEMBER_OUT && is != MEMBER_OUT) {
      assert (is == MEMBER_JOINING && new->member[m].fence > old->epoch);
      assert (world.disk[m].min_epoch >= new->member[m].fence);
    }
    /* A member becomes in-sync only if each writer writes to it and it has all earlier
     * writes. */
    if (was == MEMBER_JOINING && is == MEMBER_IN_SYNC)
      assert (readers && writers && old->member[m].fence > world.writer_end);
    assert (was != MEMBER_IN_SYNC || is != MEMBER_JOINING);
  }
}

static void
record_check (const struct cluster_array_record *new)
{
  const struct cluster_array_record *old = stored_array (new->uuid);

  if (old == NULL)
    return;
  assert (new->epoch >= old->epoch);
  /* PREPARED is never taken back, only replaced. */
  assert (new->change.epoch >= old->change.epoch ||
          new->epoch >= old->change.epoch);
  if (new->epoch > old->epoch)
    commit_check (old, new);
}

void
transaction (const struct step_out *s)
{
  const struct cluster_record *r;
  const struct cluster_session_record *was;

  /* Ends come with the fence that they are followed by. */
  for (size_t i = 0; i < s->step->records_count; i++) {
    r = s->step->records[i];
    if (r->kind != CLUSTER_RECORD_SESSION || r->deleted)
      continue;
    was = stored_session (r->session.id);
    if (r->session.ended && r->session.writable && was && !was->ended &&
        stored_array (r->session.array))
      world.writer_end = stored_array (r->session.array)->epoch;
    store_put (r);
  }
  for (size_t i = 0; i < s->step->records_count; i++) {
    r = s->step->records[i];
    if (r->kind == CLUSTER_RECORD_ARRAY && !r->deleted)
      record_check (&r->array);
    store_put (r);
  }
}
