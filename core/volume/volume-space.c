/* volume-space.c: segments of the pool that are granted to the volume.
 *
 * Each has a place in a table.  It is spare, has data, or is a part of the log.  A
 * segment of data that the map has left is *freed*.  It becomes spare when the log does
 * not name it any more, and no request to it is in flight: else a power cut, or that
 * request, would bring into one place of the volume what was written in another.
 *
 * Some spare segments are kept for the log, so that a FLUSH or a trim never waits for
 * space in a full pool.  They suffice for a rewritten log, and the old log then gives as
 * many back.
 */

#include <config.h>

#include <assert.h>
#include <stdlib.h>

#include "volume-internal.h"

static void
place_set (struct volume *v, uint32_t place, enum place_state state)
{
  v->count[v->places[place].state]--;
  v->count[state]++;
  v->places[place].state = state;
}

uint64_t
space_log_blocks (const struct volume *v, uint64_t more)
{
  uint64_t entries = v->count[PLACE_DATA] + more;

  return entries ? (entries + v->config.log_entries - 1) / v->config.log_entries
                 : 1;
}

uint32_t
space_log_segments (const struct volume *v, uint64_t more)
{
  uint64_t room = space_log_room (v);

  return (uint32_t) ((space_log_blocks (v, more) + room / 4 + room - 1) / room);
}

/* Spare segments that are for the log.  A rewritten log takes its segments before
 * the old one gives its own back, so twice as many belong to both.
 */
uint32_t
space_kept (const struct volume *v, uint64_t more)
{
  uint32_t segments = space_log_segments (v, more);
  uint32_t both = 2 * segments;

  if (v->count[PLACE_DATA] + more == 0 && v->count[PLACE_LOG] == 0)
    return 0;

  return both > v->count[PLACE_LOG] + segments ? both - v->count[PLACE_LOG]
                                               : segments;
}

static uint32_t
spare_for_data (const struct volume *v)
{
  uint32_t kept = space_kept (v, 1);

  return v->count[PLACE_SPARE] > kept ? v->count[PLACE_SPARE] - kept : 0;
}

static uint32_t
first_spare (struct volume *v)
{
  assert (v->count[PLACE_SPARE] > 0);
  while (v->places[v->next_spare].state != PLACE_SPARE)
    v->next_spare++;
  return v->next_spare;
}

/* Behind the segment that the neighbour has, if it can be. */
static uint32_t
near_spare (struct volume *v, uint32_t at)
{
  uint32_t left = at > 0 ? v->map[at - 1] : NONE;

  if (left != NONE && left + 1 < v->places_count &&
      v->places[left + 1].state == PLACE_SPARE &&
      v->places[left + 1].segment == v->places[left].segment + 1)
    return left + 1;
  return first_spare (v);
}

uint32_t
space_take_data (struct volume *v, uint32_t at)
{
  struct place *p;
  uint32_t place;

  assert (v->map[at] == NONE);
  if (spare_for_data (v) == 0)
    return NONE;
  place = near_spare (v, at);
  p = &v->places[place];
  assert (!p->named && p->blocks == 0 && p->reading == 0 && p->writing == 0);
  place_set (v, place, PLACE_DATA);
  v->taken_ns = v->now;
  p->at = at;
  v->map[at] = place;
  return place;
}

uint32_t
space_take_log (struct volume *v)
{
  uint32_t place = v->count[PLACE_SPARE] ? first_spare (v) : NONE;

  if (place != NONE)
    place_set (v, place, PLACE_LOG);
  return place;
}

static int
by_segment (const void *a, const void *b)
{
  uint32_t x = ((const struct place *) a)->segment;
  uint32_t y = ((const struct place *) b)->segment;

  return (x > y) - (x < y);
}

void
space_sort (struct volume *v)
{
  if (v->places_count > 0)
    qsort (v->places, v->places_count, sizeof v->places[0], by_segment);
  for (uint32_t i = 1; i < v->places_count; i++)
    assert (v->places[i - 1].segment < v->places[i].segment);
}

uint32_t
space_find (const struct volume *v, uint32_t segment)
{
  uint32_t first = 0, end = v->places_count;

  while (first < end) {
    uint32_t middle = first + (end - first) / 2;

    if (v->places[middle].segment == segment)
      return middle;
    if (v->places[middle].segment < segment)
      first = middle + 1;
    else
      end = middle;
  }
  return NONE;
}

uint32_t
space_take_this (struct volume *v, uint32_t segment, enum place_state state)
{
  uint32_t place = space_find (v, segment);

  if (place == NONE || v->places[place].state != PLACE_SPARE)
    return NONE;
  place_set (v, place, state);
  return place;
}

void
space_changed (struct volume *v, uint32_t place)
{
  if (v->places[place].changed)
    return;
  v->places[place].changed = true;
  v->changed[v->changed_count++] = place;
}

void
space_spare (struct volume *v, uint32_t place)
{
  struct place *p = &v->places[place];

  place_set (v, place, PLACE_SPARE);
  p->blocks = p->logged = p->taken = 0;
  p->at = 0;
  p->named = p->renamed = false;
  if (place < v->next_spare)
    v->next_spare = place;
  v->look = true;
}

void
space_free (struct volume *v, uint32_t place)
{
  struct place *p = &v->places[place];

  assert (p->state == PLACE_DATA && p->blocks == 0);
  v->map[p->at] = NONE;
  place_set (v, place, PLACE_FREED);
  if (v->freed_ns == 0)
    v->freed_ns = v->now;
  space_changed (v, place);
  space_settle (v, place);
}

void
space_settle (struct volume *v, uint32_t place)
{
  const struct place *p = &v->places[place];

  if (p->state != PLACE_FREED || p->named || p->in_group)
    return;
  if (p->reading > 0 || p->writing > 0)
    return;
  space_spare (v, place);
  if (v->count[PLACE_FREED] == 0)
    v->freed_ns = 0;
}

bool
space_lingers (const struct volume *v)
{
  for (uint32_t i = 0; i < v->changed_count; i++)
    if (v->places[v->changed[i]].state == PLACE_FREED &&
        v->places[v->changed[i]].named)
      return true;
  return false;
}

/* ---- Windows of granted segments ---- */

static void
table_grow (struct volume *v, uint32_t more)
{
  uint32_t room = v->places_count + more;

  if (room <= v->places_room)
    return;
  if (room < 2 * v->places_room)
    room = 2 * v->places_room;
  v->places = realloc (v->places, room * sizeof v->places[0]);
  v->changed = realloc (v->changed, room * sizeof v->changed[0]);
  v->group = realloc (v->group, room * sizeof v->group[0]);
  if (!v->places || !v->changed || !v->group)
    abort ();
  v->places_room = room;
}

/* A place for it in the table. */
static uint32_t
table_hole (struct volume *v)
{
  uint32_t place = v->places_count;

  if (v->count[PLACE_EMPTY] > 0) {
    while (v->places[v->next_empty].state != PLACE_EMPTY)
      v->next_empty++;
    place = v->next_empty;
  }
  else {
    table_grow (v, 1);
    v->places[v->places_count++] = (struct place) { .state = PLACE_EMPTY };
    v->count[PLACE_EMPTY]++;
  }
  return place;
}

void
space_granted (struct volume *v, const struct volume_run *run)
{
  for (uint32_t s = 0; s < run->count; s++) {
    uint32_t place = table_hole (v);

    v->places[place].segment = run->first + s;
    space_spare (v, place);
  }
}

void
space_window (struct volume *v, uint32_t granted)
{
  if (v->state == VOLUME_OPEN && granted >= v->window / 2 &&
      v->window < VOLUME_WINDOW_MAX)
    v->window *= 2;
}

unsigned
volume_wants (const struct volume *v, uint32_t *near, bool *waits)
{
  uint32_t have = spare_for_data (v), kept = space_kept (v, 1);

  *waits = !TAILQ_EMPTY (&v->hungry) || v->log.stage == LOG_WAITING;
  *near = v->places_count ? v->places[v->places_count - 1].segment + 1 : 0;
  if (v->state != VOLUME_OPEN || v->config.scan ||
      (!*waits && have * 2 > v->window))
    return 0;
  return v->window - (have < v->window ? have : v->window - 1) +
         (kept > v->count[PLACE_SPARE] ? kept - v->count[PLACE_SPARE] : 0);
}

unsigned
volume_gives (struct volume *v, struct volume_run *runs, unsigned max)
{
  uint32_t surplus = spare_for_data (v), kept = space_kept (v, 0);
  unsigned count = 0;

  if (v->window > v->config.window &&
      v->now >= v->taken_ns + VOLUME_WINDOW_MS * NS_PER_MS) {
    v->window /= 2;
    v->taken_ns = v->now;
  }
  if (v->state == VOLUME_CLOSED)
    surplus = v->count[PLACE_SPARE] > kept ? v->count[PLACE_SPARE] - kept : 0;
  else if (v->state == VOLUME_OPEN && surplus > 2 * v->window)
    surplus -= v->window;
  else
    return 0;
  for (uint32_t i = v->places_count; surplus > 0 && i-- > 0;) {
    struct place *p = &v->places[i];
    struct volume_run *run = count ? &runs[count - 1] : NULL;

    if (p->state != PLACE_SPARE)
      continue;
    if (run && p->segment + 1 == run->first)
      run->first--, run->count++;
    else if (count < max)
      runs[count++] = (struct volume_run) { p->segment, 1 };
    else
      break;
    place_set (v, i, PLACE_EMPTY);
    if (i < v->next_empty)
      v->next_empty = i;
    surplus--;
  }
  return count;
}
