/* volume-judge.c: the judge of volumes.
 *
 * As in sim-history.c versions only grow: requests that overlap take effect in the order
 * of submission.  For each grain: acked, the latest version that was acknowledged; floor,
 * that, or the latest that was read; promised, the latest that must survive: flushed, or
 * written with FUA.  A read returns no version below the floor as it was when the read
 * was submitted.
 *
 * When a volume was opened all of it is read: each grain has its promised version or a
 * later one.  From then on that is its base, which is stable, because opening flushes.
 *
 * If the array loses unflushed writes, what is not promised is in doubt until it is
 * written again; each client that has written has one FLUSH fail, and until then the
 * FLUSHes of others may.
 */

#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "volume-world.h"

struct vgrain {
  uint64_t base;                   /* the content when it was opened */
  uint64_t acked, floor, promised; /* versions since then; 0: that */
  uint64_t last_zero;              /* since then; 0: none */
};

struct vjudged {
  unsigned volume, client;
  uint64_t version, first, count;
  uint64_t *floors;
  uint64_t at; /* of its submission */
  bool may_fail;
  bool doubt; /* a write: a part of it may be lost */
  struct vjudged *next;
};

static struct vgrain *grains;
static uint64_t grains_each, versions, moment;
static unsigned volumes;
static struct vjudged *judged;
static struct {
  uint64_t first, count;
  bool zero;
  uint64_t submitted;
} *spans;
static uint64_t spans_room;
/* Of each client: writes since its last FLUSH; a FLUSH must fail, or may. */
static struct {
  uint64_t wrote;           /* moments: of the last write, ... */
  uint64_t must_at, may_at; /* ... and of the last that is or may be lost */
  bool must, may;
} owed[VOLUMES_MAX][VOLUME_CLIENTS];
static uint64_t
  opened[VOLUMES_MAX]; /* versions up to this are of earlier lives */

void
vjudge_begin (unsigned count, uint64_t each)
{
  volumes = count;
  grains_each = each;
  versions = moment = 0;
  judged = NULL;
  grains = calloc (count * each, sizeof *grains);
  memset (owed, 0, sizeof owed);
  memset (opened, 0, sizeof opened);
}

void
vjudge_end (void)
{
  free (grains);
  free (spans);
  spans = NULL;
  spans_room = 0;
}

static bool
possible (uint64_t g, uint64_t version, uint64_t floor)
{
  const struct vgrain *x = &grains[g];

  if (floor == 0 && version == x->base)
    return true;
  if (version == 0)
    return x->last_zero > 0 && x->last_zero >= floor;
  return version > opened[g / grains_each] && version >= floor &&
         version <= versions && !spans[version].zero &&
         g >= spans[version].first &&
         g - spans[version].first < spans[version].count;
}

/* A trim of less than a block does nothing. */
static void
trim_round (struct vjudged *j, const struct volume_request *r)
{
  uint64_t block = vw.pool.segment_bytes / POOL_BLOCKS;
  uint64_t end = r->offset + r->length;
  uint64_t from = (r->offset + block - 1) / block * block;

  if (end != volume_size (vw.volume[j->volume].v))
    end = end / block * block;
  j->first = j->volume * grains_each + from / SECTOR;
  j->count = end > from ? (end - from) / SECTOR : 0;
}

struct vjudged *
vjudge_submitted (struct volume_request *r, unsigned volume, unsigned client)
{
  struct vjudged *j = calloc (1, sizeof *j);
  bool flush = r->op == ARRAY_FLUSH;

  j->volume = volume;
  j->client = client;
  j->at = ++moment;
  j->first = volume * grains_each + (flush ? 0 : r->offset / SECTOR);
  j->count = flush ? grains_each : r->length / SECTOR;
  if (r->op == ARRAY_TRIM)
    trim_round (j, r);
  j->floors = calloc (j->count + 1, sizeof j->floors[0]);
  for (uint64_t i = 0; i < j->count; i++)
    j->floors[i] = flush ? grains[j->first + i].acked
                         : grains[j->first + i].floor;
  for (unsigned c = 0; c < VOLUME_CLIENTS; c++)
    j->may_fail |= owed[volume][c].may;
  j->next = judged;
  judged = j;
  if (flush || r->op == ARRAY_READ || r->op == ARRAY_EXTENTS)
    return j;
  if (++versions >= spans_room) {
    spans_room = 2 * versions + 64;
    spans = realloc (spans, spans_room * sizeof *spans);
    if (!spans)
      abort ();
  }
  j->version = versions;
  spans[versions].first = j->first;
  spans[versions].count = j->count;
  spans[versions].zero = r->op != ARRAY_WRITE;
  if (r->op == ARRAY_WRITE)
    grain_fill (r->buf, j->first, j->count, versions);
  else
    for (uint64_t i = 0; i < j->count; i++)
      grains[j->first + i].last_zero = versions;
  return j;
}

static void
read_done (const struct vjudged *j, const struct volume_request *r)
{
  for (uint64_t i = 0; i < j->count; i++) {
    uint64_t g = j->first + i;
    uint64_t version = grain_version ((char *) r->buf + i * SECTOR, g,
                                      "what was read");

    if (!possible (g, version, j->floors[i]))
      sim_fail ("volume %u: grain %llu reads as version %llu, but was %llu "
                "(base %llu) before",
                j->volume, (unsigned long long) g, (unsigned long long) version,
                (unsigned long long) j->floors[i],
                (unsigned long long) grains[g].base);
    /* A read may meet a write that a loss takes back. */
    if (version > opened[j->volume] && version <= grains[g].acked)
      raise_to (&grains[g].floor, version);
  }
}

static void
extents_done (const struct vjudged *j, const struct volume_request *r)
{
  uint64_t at = 0;

  for (size_t e = 0; e < r->extents_count; e++)
    for (uint64_t end = at + r->extents[e].length; at < end; at += SECTOR) {
      if (at >= r->length)
        sim_fail ("extents go beyond the range");
      if (r->extents[e].zero &&
          !possible (j->first + at / SECTOR, 0, j->floors[at / SECTOR]))
        sim_fail ("volume %u: the extents have grain %llu as zero", j->volume,
                  (unsigned long long) (j->first + at / SECTOR));
    }
  if (at != r->length)
    sim_fail ("extents end at %llu of %llu", (unsigned long long) at,
              (unsigned long long) r->length);
}

static void
flush_over (const struct vjudged *j)
{
  if (owed[j->volume][j->client].must_at <= j->at)
    owed[j->volume][j->client].must = false;
  if (owed[j->volume][j->client].may_at <= j->at)
    owed[j->volume][j->client].may = false;
}

/* Versions that are not promised may be lost. */
static void
doubt (unsigned volume)
{
  for (uint64_t g = volume * grains_each; g < (volume + 1) * grains_each; g++)
    grains[g].floor = grains[g].acked = grains[g].promised;
  for (unsigned c = 0; c < VOLUME_CLIENTS; c++) {
    owed[volume][c].may = true;
    raise_to (&owed[volume][c].may_at, owed[volume][c].wrote);
  }
  for (struct vjudged *j = judged; j; j = j->next) {
    if (j->volume != volume)
      continue;
    j->may_fail = j->doubt = true;
    for (uint64_t i = 0; i < j->count; i++)
      if (j->floors[i] > grains[j->first + i].promised)
        j->floors[i] = grains[j->first + i].promised;
  }
}

static void
failed (const struct vjudged *j, const struct volume_request *r, bool may)
{
  if (!may && !(r->op == ARRAY_FLUSH && j->may_fail) &&
      !(r->flags & ARRAY_FUA && j->may_fail))
    sim_fail ("volume %u: client %u sees an error: op %d at %llu, %llu bytes: "
              "%s",
              j->volume, j->client, r->op, (unsigned long long) r->offset,
              (unsigned long long) r->length, strerror (r->error));
  doubt (j->volume); /* the FLUSH may have given up what was not stable */
  if (r->op == ARRAY_FLUSH)
    flush_over (j);
}

static void
flush_done (const struct vjudged *j)
{
  if (owed[j->volume][j->client].must &&
      owed[j->volume][j->client].must_at <= j->at)
    sim_fail ("volume %u: client %u was not told that writes are lost",
              j->volume, j->client);
  for (uint64_t i = 0; i < j->count; i++)
    raise_to (&grains[j->first + i].promised, j->floors[i]);
  for (unsigned c = 0; c < VOLUME_CLIENTS; c++)
    if (owed[j->volume][c].wrote <= j->at)
      owed[j->volume][c].wrote = 0;
  flush_over (j);
}

static void
write_done (const struct vjudged *j, const struct volume_request *r)
{
  moment++;
  if (!(r->flags & ARRAY_FUA))
    owed[j->volume][j->client].wrote = moment;
  if (j->doubt) {
    owed[j->volume][j->client].may = true;
    owed[j->volume][j->client].may_at = moment;
    for (struct vjudged *other = judged; other; other = other->next)
      other->may_fail |= other->volume == j->volume;
  }
  for (uint64_t i = 0; i < j->count; i++) {
    raise_to (&grains[j->first + i].acked, j->version);
    /* It may be lost, and a FLUSH that is asked for now says so. */
    if (!j->doubt || r->flags & ARRAY_FUA)
      raise_to (&grains[j->first + i].floor, j->version);
    if (r->flags & ARRAY_FUA)
      raise_to (&grains[j->first + i].promised, j->version);
  }
}

void
vjudge_done (struct vjudged *j, struct volume_request *r, bool may)
{
  struct vjudged **at = &judged;

  while (*at != j)
    at = &(*at)->next;
  *at = j->next;
  if (r->error)
    failed (j, r, may);
  else if (r->op == ARRAY_READ)
    read_done (j, r);
  else if (r->op == ARRAY_EXTENTS)
    extents_done (j, r);
  else if (r->op == ARRAY_FLUSH)
    flush_done (j);
  else
    write_done (j, r);
  free (j->floors);
  free (j);
}

void
vjudge_lost (unsigned owner)
{
  unsigned volume = owner / VOLUME_CLIENTS, client = owner % VOLUME_CLIENTS;

  /* A write that is not answered loses nothing: its parts are written again. */
  if (owner == NOBODY || owed[volume][client].wrote == 0)
    return;
  owed[volume][client].must = true;
  owed[volume][client].must_at = owed[volume][client].wrote;
}

void
vjudge_lost_any (void)
{
  for (unsigned v = 0; v < volumes; v++)
    doubt (v);
}

void
vjudge_killed (unsigned volume)
{
  struct vjudged **at = &judged, *j;

  while ((j = *at))
    if (j->volume == volume) {
      *at = j->next;
      free (j->floors);
      free (j);
    }
    else
      at = &j->next;
  memset (owed[volume], 0, sizeof owed[volume]);
}

void
vjudge_opened (unsigned volume, const void *content, uint64_t count)
{
  for (uint64_t i = 0; i < count; i++) {
    uint64_t g = volume * grains_each + i;
    uint64_t version = grain_version ((const char *) content + i * SECTOR, g,
                                      "a volume");

    if (!possible (g, version, grains[g].promised))
      sim_fail ("volume %u was opened: grain %llu has version %llu, but %llu "
                "(base %llu) was promised",
                volume, (unsigned long long) g, (unsigned long long) version,
                (unsigned long long) grains[g].promised,
                (unsigned long long) grains[g].base);
    grains[g] = (struct vgrain) { .base = version };
  }
  opened[volume] = versions;
}

void
vjudge_made (unsigned volume)
{
  memset (&grains[volume * grains_each], 0, grains_each * sizeof *grains);
  opened[volume] = versions;
  memset (owed[volume], 0, sizeof owed[volume]);
}
