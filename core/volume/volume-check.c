/* volume-check.c: every invariant of the volume engine. */

#include <config.h>

#include <assert.h>

#include "volume-internal.h"

static void
place_check (const struct volume *v, uint32_t i)
{
  const struct place *p = &v->places[i];

  switch ((enum place_state) p->state) {
  case PLACE_EMPTY:
  case PLACE_SPARE:
  case PLACE_LOG: /* nothing asked of it runs, and the log does not name it */
    assert (p->blocks == 0 && p->logged == 0 && !p->named);
    assert (p->reading == 0 && p->writing == 0 && !p->in_group);
    break;
  case PLACE_DATA:
    assert (p->at < v->map_count && v->map[p->at] == i);
    assert ((p->logged & p->blocks) == 0 || p->named);
    break;
  case PLACE_FREED:
    assert (p->blocks == 0);
    assert (p->named || p->in_group || p->reading || p->writing);
    assert (p->at >= v->map_count || v->map[p->at] != i);
    break;
  default:
    assert (false);
  }
  /* A difference from the log is due. */
  if ((p->state == PLACE_DATA || p->state == PLACE_FREED) &&
      (p->blocks ? p->blocks != p->logged : p->named))
    assert (p->changed || p->in_group);
}

void
volume_check (const struct volume *v)
{
  uint32_t count[PLACE_STATES] = { 0 }, mapped = 0;

  if (v->state == VOLUME_OPENING || v->state == VOLUME_FAILED)
    return;
  for (uint32_t i = 0; i < v->places_count; i++) {
    place_check (v, i);
    count[v->places[i].state]++;
  }
  for (unsigned s = 0; s < PLACE_STATES; s++)
    assert (count[s] == v->count[s]);
  for (uint32_t i = 0; i < v->map_count; i++)
    mapped += v->map[i] != NONE;
  assert (mapped == v->count[PLACE_DATA]);
  assert (v->bounces_free <= VOLUME_BOUNCES);
  if (v->log.stage == LOG_IDLE)
    assert (v->log.failed || v->log.sequence - v->root->log_sequence <=
                               v->root->log_count * space_log_room (v));
  assert (v->freed_ns == 0 || v->count[PLACE_FREED] > 0);
}
