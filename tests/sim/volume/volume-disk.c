/* volume-disk.c: a model of the array, which keeps only its promises. */

#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "volume-world.h"

struct array_client {
  unsigned owner;
  uint64_t wrote;
  bool owed;
  uint64_t gone;
  struct array_client *next;
};

/* A write of a sector that is not stable. */
struct record {
  uint64_t sector, event;
  struct array_client *client;
  uint8_t data[SECTOR];
};

struct flight {
  struct array_request *r;
  unsigned tag;
  uint64_t begun; /* FLUSH: the event */
  bool failed;
};

static uint8_t *now, *durable;
static struct record *records;
static size_t records_count, records_room;
static struct flight flights[512];
static unsigned flights_count;
static struct array_client *clients;
static uint64_t event, gone;
static bool untold;
int disk_error;
static uint64_t cut_pages;

void
disk_begin (uint64_t bytes)
{
  now = calloc (1, bytes);
  durable = calloc (1, bytes);
  records_count = flights_count = 0;
  clients = NULL;
  event = gone = 0;
  untold = false;
  disk_error = 0;
  if (!now || !durable)
    abort ();
}

void
disk_end (void)
{
  struct array_client *c;

  while ((c = clients)) {
    clients = c->next;
    free (c);
  }
  free (now);
  free (durable);
}

struct array_client *
disk_client (unsigned owner)
{
  struct array_client *c = calloc (1, sizeof *c);

  c->owner = owner;
  c->next = clients;
  clients = c;
  return c;
}

void
disk_client_gone (unsigned owner)
{
  for (struct array_client *c = clients; c; c = c->next)
    if (c->owner == owner) {
      c->owner = NOBODY;
      c->owed = false;
    }
}

void
disk_submit (struct array_request *r, unsigned tag)
{
  struct flight *f = &flights[flights_count++];

  if (flights_count == sizeof flights / sizeof flights[0])
    sim_fail ("so many requests to the array at once");
  *f = (struct flight) { .r = r, .tag = tag, .begun = event };
  if (r->op == ARRAY_FLUSH)
    f->failed = untold || r->client->owed;
  else if (r->op == ARRAY_WRITE && !r->client)
    sim_fail ("a write without a client");
}

unsigned
disk_waiting (void)
{
  return flights_count;
}

static bool
writes (const struct array_request *r)
{
  return r->op == ARRAY_WRITE || r->op == ARRAY_ZERO || r->op == ARRAY_TRIM;
}

static bool
overlap (const struct array_request *a, const struct array_request *b)
{
  return a->offset < b->offset + b->length && b->offset < a->offset + a->length;
}

unsigned
disk_busy (uint64_t offset, uint64_t length)
{
  struct array_request range = { .offset = offset, .length = length };
  unsigned n = 0;

  for (unsigned i = 0; i < flights_count; i++)
    n += flights[i].r->op != ARRAY_FLUSH && overlap (flights[i].r, &range);
  return n;
}

/* Of writes that overlap the first comes first. */
static bool
blocked (unsigned i)
{
  if (!writes (flights[i].r))
    return false;
  for (unsigned j = 0; j < i; j++)
    if (writes (flights[j].r) && overlap (flights[i].r, flights[j].r))
      return true;
  return false;
}

static const uint8_t *
sector_data (const struct array_request *r, uint64_t i)
{
  static const uint8_t zero[SECTOR];

  return r->op == ARRAY_WRITE ? (const uint8_t *) r->buf + i * SECTOR : zero;
}

static void
forget (uint64_t sector)
{
  size_t kept = 0;

  for (size_t i = 0; i < records_count; i++)
    if (records[i].sector != sector)
      records[kept++] = records[i];
  records_count = kept;
}

static void
write_sector (const struct array_request *r, uint64_t i)
{
  uint64_t sector = r->offset / SECTOR + i;
  struct record *x;

  memcpy (now + sector * SECTOR, sector_data (r, i), SECTOR);
  if (r->flags & ARRAY_FUA) {
    memcpy (durable + sector * SECTOR, sector_data (r, i), SECTOR);
    if (records_count > 0)
      forget (sector);
    return;
  }
  if (records_count == records_room) {
    records_room = 2 * records_room + 256;
    records = realloc (records, records_room * sizeof *records);
    if (!records)
      abort ();
  }
  x = &records[records_count++];
  x->sector = sector;
  x->event = event;
  x->client = r->client;
  memcpy (x->data, sector_data (r, i), SECTOR);
}

static void
make_stable (uint64_t begun)
{
  size_t kept = 0;

  for (size_t i = 0; i < records_count; i++)
    if (records[i].event <= begun)
      memcpy (durable + records[i].sector * SECTOR, records[i].data, SECTOR);
    else
      records[kept++] = records[i];
  records_count = kept;
}

static void
flush (struct flight *f)
{
  struct array_client *c = f->r->client;

  make_stable (f->begun);
  if (!f->failed)
    return;
  f->r->error = EIO;
  if (f->begun >= c->gone)
    c->owed = false;
  if (f->begun >= gone)
    untold = false;
}

static void
carry_out (struct flight *f)
{
  struct array_request *r = f->r;

  r->error = disk_error;
  /* A request that fails may have been carried out. */
  if (disk_error && (!writes (r) || sim_chance (50)))
    return;
  if (r->op == ARRAY_FLUSH)
    flush (f);
  else if (r->op == ARRAY_READ)
    memcpy (r->buf, now + r->offset, r->length);
  else {
    if (!(r->flags & ARRAY_FUA))
      r->client->wrote = ++event;
    for (uint64_t i = 0; i < r->length / SECTOR; i++)
      write_sector (r, i);
  }
}

static struct array_request *
take (unsigned i)
{
  struct array_request *r = flights[i].r;

  memmove (&flights[i], &flights[i + 1],
           (--flights_count - i) * sizeof flights[0]);
  return r;
}

struct array_request *
disk_answer (uint64_t which, unsigned *tag)
{
  unsigned may[512], count = 0, i;

  for (i = 0; i < flights_count; i++)
    if (!blocked (i))
      may[count++] = i;
  i = may[which % count];
  carry_out (&flights[i]);
  *tag = flights[i].tag;
  return take (i);
}

struct array_request *
disk_dead (unsigned tag)
{
  for (unsigned i = 0; i < flights_count; i++)
    if (flights[i].tag == tag)
      return take (i);
  return NULL;
}

/* Is this sector, of those that are not stable, kept?  Many disks keep what was written
 * in larger pieces.
 */
static bool
kept (enum cut_kind kind, unsigned number, unsigned one, uint64_t sector)
{
  switch (kind) {
  case CUT_NONE:
    return false;
  case CUT_ALL:
    return true;
  case CUT_ANY:
    if (cut_pages)
      return (sector / 8 * 0x9e3779b97f4a7c15 ^ cut_pages) >> 40 & 1;
    return sim_chance (50);
  default:
    return number == one;
  }
}

unsigned
disk_cut (bool power, enum cut_kind kind, unsigned one)
{
  unsigned number = 0, in_flight = 0;
  struct array_client *c;

  event++;
  cut_pages = kind == CUT_ANY && sim_chance (50) ? sim_random () | 1 : 0;
  for (unsigned i = 0; i < flights_count; i++) {
    struct array_request r = *flights[i].r;

    if (!writes (&r) || disk_error)
      continue;
    r.flags = 0;
    for (uint64_t s = 0; s < r.length / SECTOR; s++, in_flight++)
      if (power ? kind != CUT_NONE
                : kept (kind, in_flight, one, r.offset / SECTOR + s))
        write_sector (&r, s);
  }
  if (power) {
    for (size_t i = 0; i < records_count; i++, number++)
      if (kept (kind, number, one, records[i].sector))
        memcpy (durable + records[i].sector * SECTOR, records[i].data, SECTOR);
    for (size_t i = 0; i < records_count; i++)
      memcpy (now + records[i].sector * SECTOR,
              durable + records[i].sector * SECTOR, SECTOR);
    records_count = 0;
  }
  untold = false;
  for (c = clients; c; c = c->next)
    c->owed = false, c->wrote = 0, c->owner = NOBODY;
  return power ? number : in_flight;
}

static void
lose_sector (size_t i)
{
  uint64_t sector = records[i].sector;

  memcpy (now + sector * SECTOR, durable + sector * SECTOR, SECTOR);
  for (size_t j = 0; j < records_count; j++)
    if (records[j].sector == sector)
      records[j].client->owed = true;
  forget (sector);
}

bool
disk_lose (void (*lost) (unsigned owner))
{
  struct array_client *c;

  if (records_count == 0)
    return false;
  for (size_t i = 0; i < records_count; i++)
    records[i].client->owed = true;
  for (unsigned n = 1 + (unsigned) sim_below (40); n > 0 && records_count > 0;
       n--)
    lose_sector (sim_below (records_count));
  untold = true;
  for (c = clients; c; c = c->next)
    if (c->owed) {
      c->gone = c->wrote;
      raise_to (&gone, c->wrote);
      lost (c->owner);
    }
  for (unsigned i = 0; i < flights_count; i++)
    flights[i].failed |= flights[i].r->op == ARRAY_FLUSH;
  return true;
}
