/* volume-flush.c: FLUSH, the promise (docs/DESIGN.md 6.2, 12).
 *
 * Where the map has not changed, a FLUSH is the array's.  FLUSHes of changes are done in
 * groups, one at a time: (1) the changed entries are taken, with the blocks that they
 * have now; (2) the array is flushed, by the array_client of each client that asks;
 * (3) the entries are brought into the log; (4) the clients are answered.  A FLUSH that
 * comes meanwhile is of the next group.
 *
 * If the array may have lost data, blocks that the log lacks leave the map, because
 * another volume's data may stand there.  A FLUSH (2) that fails tells of such a loss, of
 * which the engine has heard before (volume_lost): later blocks stay, and the next group has
 * them.  The rule
 * of core/array/array-flush.c holds here, too: one FLUSH of each client fails that has
 * written since its last FLUSH, and until one such FLUSH has failed, the FLUSHes of all
 * other clients fail.  A client that is writing counts as well, for the array may have
 * acknowledged a part of its write.
 * If (3) fails, the volume's FLUSHes fail until it was opened again.
 *
 * Entries of segments that are gone need no (2).  A group of them alone is made when
 * space is wanted, or some time after a trim.
 */

#include <config.h>

#include <assert.h>
#include <errno.h>

#include "volume-internal.h"

struct volume_client *
volume_client_open (struct volume *v, struct array_client *array)
{
  struct volume_client *c = alloc_zeroed (sizeof *c);

  c->array = array;
  TAILQ_INSERT_TAIL (&v->clients, c, link);
  return c;
}

void
volume_client_close (struct volume *v, struct volume_client *c)
{
  const struct volume_client *other;
  bool any = false;

  assert (c->requests == 0);
  TAILQ_REMOVE (&v->clients, c, link);
  free (c);
  TAILQ_FOREACH (other, &v->clients, link)
    any |= other->owed;
  if (!any)
    v->untold = false; /* no client of the lost writes is left */
}

void
volume_flush_add (struct volume *v, struct volume_request *r)
{
  r->begun = v->event; /* its client knows of no later answer */
  volume_request_add (&v->flush.waiting, r);
  v->look = true;
}

static void
raise_to (uint64_t *to, uint64_t event)
{
  if (*to < event)
    *to = event;
}

void
volume_flush_owe (struct volume *v, struct volume_client *c)
{
  c->owed = v->untold = true;
  raise_to (&c->gone, c->wrote);
  raise_to (&v->gone, c->wrote);
}

/* Writes may be lost that the array has acknowledged. */
static void
tell_all (struct volume *v)
{
  struct volume_client *c;

  v->losses++;
  TAILQ_FOREACH (c, &v->clients, link)
    if (c->wrote > v->stable)
      volume_flush_owe (v, c);
}

static void
answer (struct volume *v, struct volume_request *r, int error)
{
  struct volume_client *c = r->client;

  r->error = error ? error : r->failed ? EIO : 0;
  if (!r->error)
    raise_to (&v->stable, r->begun);
  else if (r->op == ARRAY_FLUSH) {
    if (r->begun >= c->gone)
      c->owed = false;
    if (r->begun >= v->gone)
      v->untold = false;
  }
  volume_request_done (v, r);
}

static void
flush_array (struct volume *v, struct volume_request *r,
             struct array_client *client)
{
  struct vio *x = spares_take (&v->vios_spare, sizeof *x);

  x->io = (struct array_request) { .op = ARRAY_FLUSH, .client = client };
  volume_request_send (v, x, VIO_FLUSH, r);
}

static void
begin (struct volume *v, struct volume_request *r)
{
  r->failed = v->untold || r->client->owed;
}

/* ---- Groups ---- */

/* If the log lacks the latest blocks of this place, add the place to the group. */
static void
take (struct volume *v, uint32_t place)
{
  struct place *p = &v->places[place];

  if (p->state != PLACE_DATA && p->state != PLACE_FREED)
    return;
  if (p->blocks == 0 ? !p->named : p->blocks == p->logged && p->named)
    return;
  p->taken = p->blocks;
  p->in_group = true;
  v->group[v->group_count++] = place;
}

/* All changes; or with `freed` only those of segments that were freed. */
static void
take_all (struct volume *v, bool freed)
{
  uint32_t kept = 0;

  assert (v->group_count == 0);
  for (uint32_t i = 0; i < v->changed_count; i++) {
    uint32_t place = v->changed[i];

    if (freed && v->places[place].state != PLACE_FREED)
      v->changed[kept++] = place;
    else {
      v->places[place].changed = false;
      take (v, place);
    }
  }
  v->changed_count = kept;
}

/* Blocks that are not stable leave the map. */
static void
drop (struct volume *v, uint32_t place)
{
  struct place *p = &v->places[place];

  p->blocks &= p->logged | (v->flush.stage == FLUSH_LOGGED ? p->taken : 0);
  if (p->state == PLACE_DATA)
    turn_settle (v, p->at);
}

void
volume_flush_lost (struct volume *v)
{
  struct volume_request *r;

  for (uint32_t i = v->changed_count; i-- > 0;)
    if (v->places[v->changed[i]].state == PLACE_DATA)
      drop (v, v->changed[i]);
  for (uint32_t i = 0; i < v->group_count; i++)
    drop (v, v->group[i]);
  tell_all (v);
  v->flush.failed = true;
  for (r = v->flush.present.first; r; r = r->next)
    r->failed = true;
}

static void
end_group (struct volume *v, bool logged)
{
  for (uint32_t i = 0; i < v->group_count; i++) {
    struct place *p = &v->places[v->group[i]];

    p->in_group = false;
    if (logged) {
      p->logged = p->taken;
      p->named = p->taken != 0;
    }
    if (p->blocks != p->logged || (p->blocks == 0 && p->named))
      space_changed (v, v->group[i]);
    if (p->state == PLACE_DATA)
      turn_settle (v, p->at);
    else
      space_settle (v, v->group[i]);
  }
  v->group_count = 0;
  v->flush.stage = FLUSH_IDLE;
  v->look = true;
}

static void
answer_group (struct volume *v, int error)
{
  struct volume_request *r;

  while ((r = volume_request_take (&v->flush.present)))
    answer (v, r, error);
}

static void
begin_group (struct volume *v)
{
  struct volume_request *r;

  take_all (v, false);
  while ((r = volume_request_take (&v->flush.waiting))) {
    begin (v, r);
    flush_array (v, r, r->client->array);
    if (v->group_count == 0) {
      v->flush.passing++;
      r->left = 0;
    }
    else {
      v->flush.flying++;
      r->left = 1;
      volume_request_add (&v->flush.present, r);
    }
  }
  v->flush.failed = false;
  if (v->group_count > 0)
    v->flush.stage = FLUSH_ARRAY;
}

static void
log_group (struct volume *v)
{
  v->flush.stage = FLUSH_LOGGED;
  volume_log_begin (v);
}

void
volume_flush_last (struct volume *v)
{
  assert (v->flush.stage == FLUSH_IDLE && v->group_count == 0);
  take_all (v, false);
  flush_array (v, NULL, v->config.array);
  v->flush.flying++;
  v->flush.failed = false;
  v->flush.stage = FLUSH_ARRAY;
}

void
volume_flush_answered (struct volume *v, struct vio *x, int error)
{
  struct volume_request *r = x->of;

  spares_give (&v->vios_spare, x);
  v->look = true;
  if (r && r->left == 0) { /* it passes */
    v->flush.passing--;
    answer (v, r, error);
    return;
  }
  v->flush.flying--;
  v->flush.failed |= error != 0;
}

static bool
wants_space (const struct volume *v)
{
  if (v->count[PLACE_FREED] == 0 || v->state == VOLUME_FAILED)
    return false;
  return !TAILQ_EMPTY (&v->hungry) ||
         v->now >= v->freed_ns + VOLUME_FREED_MS * NS_PER_MS;
}

static void
idle_pump (struct volume *v)
{
  struct volume_request *r;

  if (v->log.failed) {
    while ((r = volume_request_take (&v->flush.waiting))) {
      begin (v, r);
      answer (v, r, EIO);
    }
    return;
  }
  if (v->flush.waiting.first)
    begin_group (v);
  else if (wants_space (v) && space_lingers (v)) {
    take_all (v, true);
    log_group (v);
  }
}

void
volume_flush_pump (struct volume *v)
{
  switch (v->flush.stage) {
  case FLUSH_IDLE:
    idle_pump (v);
    break;
  case FLUSH_ARRAY:
    if (v->flush.flying > 0)
      break;
    if (!v->flush.failed) {
      log_group (v);
      break;
    }
    end_group (v, false);
    answer_group (v, EIO);
    break;
  case FLUSH_LOGGED:
    if (v->log.stage != LOG_IDLE)
      break;
    end_group (v, !v->log.failed);
    answer_group (v, v->log.failed ? EIO : 0);
    break;
  }
}
