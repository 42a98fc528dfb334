/* check.c: invariants of durable state, and conditions at the end.
 */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "world.h"

/* Every epoch number that was ever recorded, with its states: one set each. */
#define EPOCHS_MAX 65536
static struct {
  uint8_t states[PLACES_MAX];
  bool known;
} epochs[EPOCHS_MAX];
static uint64_t highest;

/* Which disk each member had when weftd was looked at last, and which one was ordered. */
static struct {
  uint64_t life;  /* of weftd's process */
  bool restoring; /* the array is restored: its members report the disks */
  uint8_t disk[PLACES_MAX][16], next[PLACES_MAX][16];
  bool
    late[PLACES_MAX]; /* an import did not find its disk, which may come yet */
  /* Where the disks were that could have been taken. */
  struct {
    uint8_t disk[16];
    char node[NAME_BYTES_MAX + 1];
  } ready[64];
  unsigned ready_count;
} places;

/* Could the disk have been taken before this step, too, on the same node?  An event of
 * the same step may come after the choice.
 */
static bool
was_ready (const struct cluster_disk *d)
{
  for (unsigned i = 0; i < places.ready_count; i++)
    if (memcmp (places.ready[i].disk, d->rec.uuid, 16) == 0)
      return strcmp (places.ready[i].node, d->rec.node) == 0;
  return false;
}

void
check_begin (void)
{
  memset (epochs, 0, (highest + 1) * sizeof epochs[0]);
  highest = 0;
  places.life = 0;
}

/* ---- Places. ---- */

/* How many stripe units would have all of their copies on this node, if the member were
 * there, and have not without it?
 */
static unsigned
units_together (const struct cluster_array *a, unsigned member,
                const char *node)
{
  unsigned count = 0;

  for (uint64_t at = 0; at < a->layout.size; at += a->layout.unit) {
    struct layout_piece piece;
    bool has = false, all = true;

    layout_map (&a->layout, at, a->layout.unit, &piece);
    for (unsigned i = 0; i < piece.copies; i++) {
      unsigned m = piece.copy[i].member;

      has |= m == member;
      all &= m == member || strcmp (a->disk[m]->rec.node, node) == 0;
    }
    count += has && all;
  }
  return count;
}

/* Could a spare or a drain have taken this disk for the array? */
static bool
stood_ready (const struct cluster *c, const struct cluster_array *a,
             const struct cluster_disk *d, bool drained)
{
  static const uint8_t none[16];
  const struct cluster_node *n = cluster_node_find (c, d->rec.node);
  bool spare = memcmp (d->rec.spare_of, a->rec.uuid, 16) == 0;

  return d->array == NULL && cluster_disk_heard (d) && d->alive &&
         !cluster_disk_failed (d) && memcmp (d->rec.release, none, 16) == 0 &&
         (spare || (drained && memcmp (d->rec.spare_of, none, 16) == 0)) &&
         !(n && (n->rec.draining || n->rec.maintenance)) &&
         d->rec.data_bytes >= a->rec.member_bytes;
}

/* A spare or a drain has given the member to this disk: no better one stood ready. */
static void
check_place (const struct cluster *c, const struct cluster_array *a,
             unsigned member)
{
  bool drained = a->rec.member[member].moved_from[0] != '\0';
  unsigned is = units_together (a, member, a->disk[member]->rec.node);
  const struct cluster_disk *d;

  if (is > 0)
    TAILQ_FOREACH (d, cluster_disks (c), link)
      if (was_ready (d) && stood_ready (c, a, d, drained) &&
          units_together (a, member, d->rec.node) < is)
        sim_fail ("member %u went to node %s, whose loss loses %u units, and "
                  "a disk of node %s stood ready",
                  member, a->disk[member]->rec.node, is, d->rec.node);
}

static void
note_ready (const struct cluster *c, const struct cluster_array *a)
{
  const struct cluster_disk *d;

  TAILQ_FOREACH (d, cluster_disks (c), link)
    if (stood_ready (c, a, d, true) &&
        places.ready_count < sizeof places.ready / sizeof places.ready[0]) {
      memcpy (places.ready[places.ready_count].disk, d->rec.uuid, 16);
      strcpy (places.ready[places.ready_count++].node, d->rec.node);
    }
}

void
check_places (const struct cluster *c, bool replaced)
{
  const struct cluster_array *a = cluster_array_find (c, ARRAY_NAME);
  bool known = places.life == w.weftd.proc.life && !places.restoring;

  places.life = a ? w.weftd.proc.life : 0;
  places.restoring = a && a->rec.restoring;
  for (unsigned m = 0; a && m < a->layout.members; m++) {
    const uint8_t *disk = a->rec.member[m].disk;

    if (known && !replaced && !places.late[m] &&
        memcmp (disk, places.disk[m], 16) != 0 &&
        memcmp (disk, places.next[m], 16) != 0)
      check_place (c, a, m);
    memcpy (places.disk[m], disk, 16);
    memcpy (places.next[m], a->rec.member[m].next_disk, 16);
    places.late[m] = a->disk[m]->rec.size == 0;
  }
  places.ready_count = 0;
  if (a)
    note_ready (c, a);
}

/* ---- Epochs. ---- */

static void
one_set (uint64_t epoch, const uint8_t states[])
{
  unsigned members = w.layout.members;

  if (w.old_database)
    return; /* unknown until a member reports more */
  if (epoch >= EPOCHS_MAX)
    sim_fail ("epoch %" PRIu64 " is out of all proportion", epoch);
  if (epochs[epoch].known && memcmp (epochs[epoch].states, states, members))
    sim_fail ("epoch %" PRIu64 " has got two sets of states", epoch);
  epochs[epoch].known = true;
  memcpy (epochs[epoch].states, states, members);
  if (highest < epoch)
    highest = epoch;
}

void
check_array (const struct cluster_array_record *before,
             const struct cluster_array_record *now)
{
  uint8_t states[PLACES_MAX];
  bool lost[ARRAY_MEMBERS_MAX] = { false };
  char text[PLACES_MAX * 16] = "";

  for (unsigned m = 0; m < w.layout.members; m++) {
    states[m] = now->member[m].state;
    lost[m] = states[m] != MEMBER_IN_SYNC;
    strcat (text, " ");
    strcat (text, member_state_name (states[m]));
  }
  one_set (now->epoch, states);
  if (now->change.epoch) {
    if (now->change.epoch <= now->epoch)
      sim_fail ("epoch %" PRIu64 " is prepared in epoch %" PRIu64,
                now->change.epoch, now->epoch);
    one_set (now->change.epoch, now->change.states);
  }
  if (layout_loss (&w.layout, lost, NULL) > 0)
    sim_fail ("epoch %" PRIu64 " leaves out the last copy of something",
              now->epoch);
  if (before == NULL || before->epoch == now->epoch || w.old_database)
    return;
  if (now->epoch < before->epoch)
    sim_fail ("epoch %" PRIu64 " comes after epoch %" PRIu64, now->epoch,
              before->epoch);
  counters.commits++;
  sim_trace ("store: epoch %" PRIu64 " is committed:%s", now->epoch, text);
  for (unsigned m = 0; m < w.layout.members; m++)
    sick_check_out (before, now, m);
  for (unsigned m = 0; m < w.layout.members; m++)
    counters.joins += before->member[m].state == MEMBER_JOINING &&
                      now->member[m].state == MEMBER_IN_SYNC;
  oracle_committed (before, now);
}

/* Have they bytes in common? */
static bool
meet (const struct cluster_part *a, const struct cluster_part *b)
{
  return a->length == 0 || b->length == 0 ||
         (a->offset < b->offset + b->length &&
          b->offset < a->offset + a->length);
}

bool
check_written (uint64_t but_for)
{
  for (unsigned i = 0; i < w.store.count; i++) {
    const struct cluster_session_record *o = &w.store.record[i]->session;

    if (w.store.record[i]->kind == CLUSTER_RECORD_SESSION && !o->ended &&
        o->writable && o->id != but_for)
      return true;
  }
  return false;
}

static bool
all_in_sync (const struct cluster_array_record *a)
{
  for (unsigned m = 0; m < w.layout.members; m++)
    if (a->member[m].state != MEMBER_IN_SYNC)
      return false;
  return true;
}

static void
count_grant (const struct cluster_session_record *s)
{
  const struct cluster_array_record *a = store_array ();

  if (s->part.length == 0)
    return;
  if (!check_written (s->id)) {
    counters.first++;
    return;
  }
  counters.beside++;
  counters.beside_behind += !all_in_sync (a);
  for (unsigned i = 0; i < w.store.count; i++) {
    const struct cluster_session_record *o = &w.store.record[i]->session;

    if (w.store.record[i]->kind == CLUSTER_RECORD_SESSION && o->ended &&
        o->writable && meet (&o->part, &s->part)) {
      counters.taken_up++;
      return;
    }
  }
}

void
check_session_end (const struct cluster_session_record *s)
{
  const struct cluster_array_record *a = store_array ();

  if (s->part.length == 0 || !check_written (s->id))
    return;
  counters.ended_beside++;
  for (unsigned m = 0; m < w.layout.members; m++)
    if (a->member[m].state == MEMBER_JOINING) {
      counters.ended_beside_joiner++;
      break;
    }
  counters.silenced += strstr (s->reason, "silent") != NULL;
  counters.apart += strstr (s->reason, "can reach") != NULL;
}

void
check_session (const struct cluster_session_record *s)
{
  if (s->ended || !s->writable)
    return;
  if (store_session (s->id) == NULL)
    count_grant (s);
  oracle_granted (s, check_written (s->id));
  for (unsigned i = 0; i < w.store.count; i++) {
    const struct cluster_session_record *o = &w.store.record[i]->session;

    if (w.store.record[i]->kind == CLUSTER_RECORD_SESSION && !o->ended &&
        o->writable && o->id != s->id && meet (&o->part, &s->part) &&
        !(o->leases && s->leases))
      sim_fail ("two sessions hold the same of the array for writing");
  }
}

/* The newest superblock that stands on a disk. */
static uint64_t
disk_min_epoch (struct disk *d)
{
  struct superblock sb;
  const char *why;

  return superblock_newest (d->header, &sb, &why) == -1 ? 0 : sb.min_epoch;
}

/* When a writer gets the array, all others are really kept out. */
void
check_grant (const struct call *c)
{
  const struct answer *a = &c->answer;
  const struct cluster_array_record *array = store_array ();

  if (c->kind != CALL_ATTACH || a->status != 200 || !c->attach.writable)
    return;
  if (w.old_database && store_session (a->session) == NULL)
    sim_fail ("a weftd with an old database grants a session");
  if (store_session (a->session) == NULL)
    sim_fail ("a session is granted that is not stored");
  if (c->beside)
    return; /* it needs no fence: oracle_changes */
  for (unsigned m = 0; m < w.layout.members; m++)
    if (a->states[m] != MEMBER_OUT && disk_min_epoch (place_disk (array, m)) <
                                        store_session (a->session)->epoch)
      sim_fail ("a session is granted in epoch %" PRIu64
                ", but member %u still "
                "takes requests of epoch %" PRIu64,
                store_session (a->session)->epoch, m,
                disk_min_epoch (place_disk (array, m)));
}

/* ---- In the end ---- */

struct host_role *
check_writer (void)
{
  for (unsigned i = 0; i < w.config.hosts; i++)
    if (w.host[i].writable && w.host[i].stage == HOST_SERVING)
      return &w.host[i];
  return NULL;
}

static const char *
unfinished (const struct cluster_array_record *a, bool parts)
{
  uint64_t whole = (UINT64_C (1) << w.layout.member_bytes / EXTENT_BYTES) - 1;

  for (unsigned m = 0; m < w.layout.members; m++)
    if (a->member[m].state != MEMBER_IN_SYNC)
      return "a member is not in-sync";
  if (a->change.epoch)
    return "a change of epoch is under way";
  if (check_writer () == NULL)
    return "no writer serves";
  for (unsigned i = 0; i < w.config.hosts; i++)
    if (w.host[i].outstanding > 0)
      return "requests are outstanding";
  if (parts)
    return parts_settled () ? NULL : "a part of the array is nobody's";
  for (unsigned m = 0; m < w.layout.members; m++)
    if (place_disk (a, m)->bits & whole)
      return "intent bits are left";
  return NULL;
}

static void
describe (const struct cluster_array_record *a, char *text, size_t size)
{
  int n = 0;
  char waits[600] = "nothing";
  const struct cluster_array *array;

  for (unsigned m = 0; m < w.layout.members; m++) {
    const struct disk *d = place_disk (a, m);
    struct member *e = w.member[d->number].engine;

    n += snprintf (text + n, size - n,
                   " member %u is %s (phase %d, bits %llx)"
                   ";",
                   m, member_state_name (a->member[m].state),
                   e ? (int) member_join_phase (e) : -1,
                   (unsigned long long) d->bits);
  }
  for (unsigned i = 0; i < w.config.hosts; i++)
    n += snprintf (text + n, size - n,
                   " host %u%s stage %d, epoch %" PRIu64 ", prepared %" PRIu64
                   ", %u outstanding;",
                   i,
                   w.host[i].part_length ? " (writes a part)"
                   : w.host[i].writable  ? ""
                                         : " (reads)",
                   w.host[i].stage, w.host[i].seats.epoch,
                   w.host[i].seats.prepared, w.host[i].outstanding);
  array = cluster_array_find (w.weftd.engine, ARRAY_NAME);
  if (array)
    cluster_array_waits_for (w.weftd.engine, array, waits, sizeof waits);
  snprintf (text + n, size - n,
            " epoch %" PRIu64 " change %" PRIu64 "; the array waits for %s%s",
            a->epoch, a->change.epoch, waits,
            cluster_read_only (w.weftd.engine) ? "; READ ONLY" : "");
}

bool
check_converged (bool parts, char *why, size_t size)
{
  const struct cluster_array_record *a = store_array ();
  const char *what = unfinished (a, parts);
  int n;

  if (what && why) {
    n = snprintf (why, size, "%s;", what);
    describe (a, why + n, size - n);
  }
  return what == NULL;
}
