/* world-store.c: weftd's database, and a backup of it. */

#include <config.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

static struct store backup, newest;

static struct cluster_record *
record_copy (const struct cluster_record *r)
{
  size_t bytes = cluster_record_bytes (r->kind);

  return memcpy (make (bytes), r, bytes);
}

unsigned
process_at (const char *uri)
{
  return strtoul (strrchr (uri, ':') + 1, NULL, 10);
}

unsigned
disk_holder (const uint8_t uuid[16])
{
  unsigned number = uuid[0] - 1u;

  return number < w.disks &&
             memcmp (w.disk[w.holder[number]].uuid, uuid, 16) == 0
           ? w.holder[number]
           : w.roles;
}

struct disk *
place_disk (const struct cluster_array_record *a, unsigned member)
{
  return &w.disk[disk_holder (a->member[member].disk)];
}

/* Which process is the disk's, now that weftd says where it is served?  Not one that
 * has died since it spoke, and with it its copy of the disk.  While the member counts,
 * another process is unproven until an epoch is committed that it has confirmed:
 * weftd may find out before that that it has an old copy.
 */
static void
note_holder (const struct cluster_disk_record *r,
             const struct cluster_array_record *before,
             const struct cluster_array_record *now)
{
  unsigned holder = process_at (r->uri), was = disk_holder (r->uuid);
  bool counts = false, proven = false;

  if (memcmp (w.disk[holder].uuid, r->uuid, 16) != 0 || holder == was)
    return;
  for (unsigned m = 0; w.created && now && m < w.layout.members; m++)
    if (memcmp (now->member[m].disk, r->uuid, 16) == 0) {
      counts = now->member[m].state == MEMBER_IN_SYNC;
      proven = before && before->member[m].confirmed < now->member[m].confirmed;
    }
  if (counts && !proven)
    return;
  w.holder[r->uuid[0] - 1] = holder;
  if (counts)
    oracle_taken (&w.disk[holder], &w.disk[was]);
}

static void
note_holders (const struct cluster_array_record *before,
              const struct cluster_array_record *now)
{
  for (unsigned m = 0; m < w.layout.members; m++) {
    const struct cluster_disk_record *r = store_disk (now->member[m].disk);

    if (r && r->uri[0])
      note_holder (r, before, now);
  }
}

static void store_free (struct store *s);

/* The sessions of the database that is lost are over. */
static void
sessions_gone (void)
{
  for (unsigned i = 0; i < newest.count; i++) {
    const struct cluster_session_record *s = &newest.record[i]->session;

    if (newest.record[i]->kind == CLUSTER_RECORD_SESSION && !s->ended &&
        s->writable)
      oracle_writer_gone (s->id);
  }
}

/* The array is restored from the backup: from now on the store is what is true, and each
 * epoch is above all that the lost database had.
 */
static void
restored (const struct cluster_array_record *now)
{
  const struct cluster_array_record was = *store_array ();

  sim_trace ("store: the array is restored in epoch %" PRIu64
             ", the lost database had epoch %" PRIu64,
             now->epoch, was.epoch);
  counters.restores++;
  sessions_gone ();
  w.old_database = w.restoring = false;
  store_free (&newest);
  check_array (&was, now);
}

/* Look at what is about to be durable, and note what follows from it. */
static void
look (const struct cluster_record *before, const struct cluster_record *now)
{
  if (now->kind == CLUSTER_RECORD_ARRAY && before && before->array.restoring &&
      !now->array.restoring)
    restored (&now->array);
  else if (now->kind == CLUSTER_RECORD_ARRAY) {
    if (!w.old_database)
      note_holders (before ? &before->array : NULL, &now->array);
    check_array (before ? &before->array : NULL, &now->array);
  }
  else if (now->kind == CLUSTER_RECORD_DISK && !w.old_database)
    note_holder (&now->disk, NULL, store_array ());
  else if (now->kind == CLUSTER_RECORD_SESSION && !w.old_database) {
    check_session (&now->session);
    if (now->session.ended && before && !before->session.ended) {
      oracle_writer_gone (now->session.id);
      check_session_end (&now->session);
    }
  }
}

static void
store_free (struct store *s)
{
  while (s->count > 0)
    free (s->record[--s->count]);
}

/* The former record of the array that is imported. */
static const struct cluster_record *
former (const struct cluster_record *r)
{
  for (unsigned i = 0; w.no_database && i < newest.count; i++)
    if (cluster_record_same (newest.record[i], r))
      return newest.record[i];
  return NULL;
}

void
store_put (const struct cluster_record *r)
{
  struct store *s = &w.store;
  unsigned i;

  for (i = 0; i < s->count && !cluster_record_same (s->record[i], r); i++)
    ;
  if (!r->deleted)
    look (i < s->count ? s->record[i] : former (r), r);
  if (i < s->count)
    free (s->record[i]);
  if (r->deleted) {
    if (i < s->count)
      s->record[i] = s->record[--s->count];
    return;
  }
  if (i == STORE_MAX)
    sim_fail ("the store is full");
  s->record[i] = record_copy (r);
  if (i == s->count)
    s->count++;
  if (w.no_database && r->kind == CLUSTER_RECORD_ARRAY) {
    w.no_database = false;
    sessions_gone ();
    store_free (&newest);
  }
}

/* The true records: an old database has past ones. */
static const struct store *
truth (void)
{
  return w.old_database || w.no_database ? &newest : &w.store;
}

const struct cluster_array_record *
store_array (void)
{
  const struct store *s = truth ();

  for (unsigned i = 0; i < s->count; i++)
    if (s->record[i]->kind == CLUSTER_RECORD_ARRAY)
      return &s->record[i]->array;
  return NULL;
}

const struct cluster_session_record *
store_session (uint64_t id)
{
  const struct store *s = truth ();

  for (unsigned i = 0; i < s->count; i++)
    if (s->record[i]->kind == CLUSTER_RECORD_SESSION &&
        s->record[i]->session.id == id)
      return &s->record[i]->session;
  return NULL;
}

const struct cluster_node_record *
store_node (const char *name)
{
  const struct store *s = truth ();

  for (unsigned i = 0; i < s->count; i++)
    if (s->record[i]->kind == CLUSTER_RECORD_NODE &&
        strcmp (s->record[i]->node.name, name) == 0)
      return &s->record[i]->node;
  return NULL;
}

const struct cluster_disk_record *
store_disk (const uint8_t uuid[16])
{
  const struct store *s = truth ();

  for (unsigned i = 0; i < s->count; i++)
    if (s->record[i]->kind == CLUSTER_RECORD_DISK &&
        memcmp (s->record[i]->disk.uuid, uuid, 16) == 0)
      return &s->record[i]->disk;
  return NULL;
}

static void
store_copy (struct store *to, const struct store *from)
{
  store_free (to);
  for (; to->count < from->count; to->count++)
    to->record[to->count] = record_copy (from->record[to->count]);
}

void
store_backup (void)
{
  store_copy (&backup, &w.store);
}

/* Does every member know that the database is old, even when weftd has started with it?
 * Otherwise its age is invisible, and it is as good as the newest.
 */
static bool
is_old (const struct store *s)
{
  uint64_t generation = 0;
  struct superblock sb;
  const char *why;

  for (unsigned i = 0; i < s->count; i++)
    if (s->record[i]->kind == CLUSTER_RECORD_IDENTITY)
      generation = s->record[i]->identity.generation;
  for (unsigned i = 0; i < w.disks; i++)
    if (superblock_newest (w.disk[w.holder[i]].header, &sb, &why) == -1 ||
        sb.generation <= generation + 1)
      return false;
  return true;
}

bool
store_restore (void)
{
  if (backup.count == 0 || !is_old (&backup))
    return false;
  store_copy (&newest, &w.store);
  store_copy (&w.store, &backup);
  return true;
}

/* Does an in-sync member know of the newest epoch?  An agreement of a writer and weftd
 * alone is lost with the database.
 */
static bool
is_told (void)
{
  const struct cluster_array_record *a = store_array ();
  struct superblock sb;
  const char *why;

  for (unsigned m = 0; a && a->ready && m < w.layout.members; m++)
    if (a->member[m].state == MEMBER_IN_SYNC &&
        superblock_newest (place_disk (a, m)->header, &sb, &why) == 0 &&
        sb.states_epoch == a->epoch)
      return true;
  return false;
}

bool
store_begin_restore (void)
{
  if (backup.count == 0 || !is_told ())
    return false;
  store_copy (&newest, &w.store);
  store_copy (&w.store, &backup);
  for (unsigned i = 0; i < w.store.count; i++)
    if (w.store.record[i]->kind == CLUSTER_RECORD_IDENTITY)
      w.store.record[i]->identity.restore = true;
  return true;
}

void
store_unrestore (void)
{
  store_copy (&w.store, &newest);
  store_free (&newest);
}

void
store_lose (void)
{
  store_free (&newest);
  newest = w.store;
  w.store.count = 0;
  store_free (&backup);
  w.no_database = true;
}

void
store_forget (void)
{
  store_free (&w.store);
  store_free (&backup);
  store_free (&newest);
}
