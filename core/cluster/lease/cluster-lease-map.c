/* cluster-lease-map.c: where lessees meet: regions that are hot, for which no more is
 * granted than is needed, and what people are shown.
 *
 * Source: the Redbud paper, end of section 4.1.
 *
 * Each ask that has to wait for another's lease counts in the regions of
 * LEASE_REGION_BYTES that it waits for; every LEASE_COOL_MS what was counted is halved.
 */

#include <config.h>

#include <string.h>

#include "cluster-lease.h"

#define LEASE_HOT 4
#define LEASE_COOL_MS 10000
/* In a longer range the first regions count. */
#define MEET_REGIONS_MAX 64
#define MINUTE_MS 60000

/* ---- Heat. ---- */

static void
cool (const struct cluster *c, struct lease_meetings *met)
{
  unsigned kept = 0;

  for (; met->regions > 0 && c->now_ms >= met->cooled_ms + LEASE_COOL_MS;
       met->cooled_ms += LEASE_COOL_MS) {
    for (unsigned i = kept = 0; i < met->regions; i++)
      if ((met->region[i].heat /= 2) > 0)
        met->region[kept++] = met->region[i];
    met->regions = kept;
  }
  if (met->regions == 0)
    met->cooled_ms = c->now_ms;
}

/* The first region of this number or a greater one. */
static unsigned
find (const struct lease_meetings *met, uint64_t number)
{
  unsigned low = 0, high = met->regions;

  while (low < high) {
    unsigned middle = low + (high - low) / 2;

    if (met->region[middle].number >= number)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

static void
remove_coldest (struct lease_meetings *met)
{
  unsigned coldest = 0;

  for (unsigned i = 1; i < met->regions; i++)
    if (met->region[i].heat < met->region[coldest].heat)
      coldest = i;
  memmove (&met->region[coldest], &met->region[coldest + 1],
           (--met->regions - coldest) * sizeof met->region[0]);
}

static void
warm (struct lease_meetings *met, uint64_t number)
{
  unsigned i = find (met, number);

  if (i == met->regions || met->region[i].number != number) {
    if (met->regions == LEASE_REGIONS_MAX) {
      remove_coldest (met);
      i = find (met, number);
    }
    memmove (&met->region[i + 1], &met->region[i],
             (met->regions++ - i) * sizeof met->region[0]);
    met->region[i] = (struct lease_region) { .number = number };
  }
  met->region[i].heat++;
}

uint64_t
cluster_lease_map_cool (const struct cluster *c, struct cluster_array *a,
                        uint64_t at, uint64_t end)
{
  struct lease_meetings *met = &a->leases->met;
  uint64_t begins;

  cool (c, met);
  for (unsigned i = find (met, at / LEASE_REGION_BYTES); i < met->regions;
       i++) {
    begins = met->region[i].number * LEASE_REGION_BYTES;
    if (begins >= end)
      break;
    if (met->region[i].heat >= LEASE_HOT)
      return begins > at ? begins : at;
  }
  return end;
}

uint64_t
cluster_lease_map_cool_down (const struct cluster *c, struct cluster_array *a,
                             uint64_t at, uint64_t start)
{
  struct lease_meetings *met = &a->leases->met;
  uint64_t ends;

  cool (c, met);
  for (unsigned i =
         find (met, (at + LEASE_REGION_BYTES - 1) / LEASE_REGION_BYTES);
       i-- > 0;) {
    ends = (met->region[i].number + 1) * LEASE_REGION_BYTES;
    if (ends <= start)
      break;
    if (met->region[i].heat >= LEASE_HOT)
      return ends < at ? ends : at;
  }
  return start;
}

/* ---- For people. ---- */

/* Whole leases. */
static uint64_t
cell_bytes (const struct cluster_array *a)
{
  uint64_t cell = (a->layout.size + LEASE_CELLS - 1) / LEASE_CELLS;

  return (cell + LEASE_BYTES - 1) / LEASE_BYTES * LEASE_BYTES;
}

/* This minute's counters. */
static struct lease_minute *
minute_now (const struct cluster *c, struct lease_meetings *met)
{
  uint64_t now = c->now_ms / MINUTE_MS;
  struct lease_minute *m = &met->minute[now % LEASE_MINUTES];

  if (m->minute != now)
    *m = (struct lease_minute) { .minute = now };
  return m;
}

void
cluster_lease_map_met (const struct cluster *c, struct cluster_array *a,
                       uint64_t start, uint64_t end)
{
  struct lease_meetings *met = &a->leases->met;
  struct lease_minute *m = minute_now (c, met);
  uint64_t cell = cell_bytes (a), region = start / LEASE_REGION_BYTES;

  met->conflicts++;
  for (uint64_t i = start / cell; i <= (end - 1) / cell; i++)
    m->conflicts[i]++;
  cool (c, met);
  for (unsigned i = 0;
       i < MEET_REGIONS_MAX && (region + i) * LEASE_REGION_BYTES < end; i++)
    warm (met, region + i);
}

void
cluster_lease_map_asked_back (const struct cluster *c, struct cluster_array *a,
                              uint64_t start, uint64_t end)
{
  struct lease_meetings *met = &a->leases->met;
  struct lease_minute *m = minute_now (c, met);
  uint64_t cell = cell_bytes (a);

  met->revokes++;
  for (uint64_t i = start / cell; i <= (end - 1) / cell; i++)
    m->revokes[i]++;
}

/* The holders of these bytes. */
static void
fill_cell (const struct spans *spans, uint64_t start, uint64_t end,
           struct cluster_lease_cell *cell)
{
  struct {
    uint64_t id, bytes;
  } who[WRITERS_MAX], *most = &who[0];
  unsigned count = 0, k;

  for (unsigned i = spans_find (spans, start);
       i < spans->count && spans->span[i].start < end; i++) {
    const struct span *x = &spans->span[i];
    uint64_t bytes = (x->end < end ? x->end : end) -
                     (x->start > start ? x->start : start);

    if (x->owner >= LEASE_ORDERED) {
      cell->orphan_bytes += bytes;
      continue;
    }
    for (k = 0; k < count && who[k].id != x->owner; k++)
      ;
    if (k == count) {
      who[k].id = x->owner;
      who[k].bytes = 0;
      count++;
    }
    who[k].bytes += bytes;
    cell->other_bytes += bytes;
    if (who[k].bytes > most->bytes)
      most = &who[k];
  }
  if (count == 0)
    return;
  cell->holder = most->id;
  cell->held_bytes = most->bytes;
  cell->other_bytes -= most->bytes;
}

bool
cluster_lease_map (const struct cluster *c, const struct cluster_array *a,
                   struct cluster_lease_map *map)
{
  const struct cluster_leases *l = a->leases;
  const struct cluster_session *s = NULL;
  const struct waiting *w;
  uint64_t now = c->now_ms / MINUTE_MS;

  memset (map, 0, sizeof *map);
  if (l == NULL)
    return false;
  map->cell_bytes = cell_bytes (a);
  map->conflicts = l->met.conflicts;
  map->revokes = l->met.revokes;
  map->recoverer = l->recoverer ? l->recoverer->rec.id : 0;
  TAILQ_FOREACH (w, &l->asks, ask_link)
    map->waiting++;
  while ((s = cluster_writer_next (a, s)))
    map->undeclared += !s->lessee.declared;
  for (unsigned i = 0; i < l->spans.count; i++)
    map->leases += l->spans.span[i].owner < LEASE_ORDERED;
  for (unsigned i = 0; i < LEASE_CELLS; i++) {
    struct cluster_lease_cell *cell = &map->cell[i];

    fill_cell (&l->spans, i * map->cell_bytes, (i + 1) * map->cell_bytes, cell);
    map->held_bytes += cell->held_bytes + cell->other_bytes;
    map->orphan_bytes += cell->orphan_bytes;
    for (unsigned m = 0; m < LEASE_MINUTES; m++)
      if (l->met.minute[m].minute + LEASE_MINUTES > now) {
        cell->conflicts += l->met.minute[m].conflicts[i];
        cell->revokes += l->met.minute[m].revokes[i];
      }
  }
  return true;
}
