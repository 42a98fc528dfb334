/* disk-role.c: a member process: its header, and its talk with weftd; as
 * plugin/member-role.c and member-control.c do it.
 */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

#define LAZY_MS 5000
#define REFUSED_MS 250 /* plugin/member-server.c */
#define PACE_MS 100
#define SETTLE_MS 1000
#define REPLY_TIMEOUT_MS 5000

/* A header write under way. */
struct action {
  struct event event;
  struct action *next;
  struct member_role *member;
  uint64_t life;
  struct member_action action;
};

static void beat (void *owner);

/* ---- The engine's wishes ---- */

static void
settled (struct member_role *m)
{
  if (!member_settled (m->engine) || m->actions_in_flight > 0)
    return;
  if (!m->listening) {
    TRACE (&m->proc, "listens");
    m->listening = true;
  }
  if (m->beat_due)
    beat (m);
}

static void
act_again (void *owner)
{
  member_act (owner);
}

static void
action_done (struct event *e)
{
  struct action *a = (struct action *) e, **p;
  struct member_role *m = a->member;
  enum life life = process_life (&m->proc, a->life, e);

  if (life == LIFE_GONE)
    free (a);
  if (life != LIFE_RUNS)
    return;
  if (disk_hangs (m->disk)) {
    event_push (e, disk_hangs (m->disk) + sim_below (MS));
    return;
  }
  for (p = &m->action; *p != a; p = &(*p)->next)
    ;
  *p = a->next;
  m->actions_in_flight--;
  m->disk->answered_at = sim_now;
  io_steps++;
  if (!m->disk->full_before && disk_refuses (m->disk)) {
    disk_header_torn (m->disk, &a->action);
    member_action_refused (m->engine, &a->action, ENOSPC);
    m->act_at = sim_now + REFUSED_MS * MS;
    process_after (&m->proc, REFUSED_MS * MS, act_again, m);
    counters.no_room++;
  }
  else if (disk_fails (m->disk)) {
    disk_header_torn (m->disk, &a->action);
    member_action_done (m->engine, &a->action, EIO);
  }
  else {
    disk_header_write (m->disk, &a->action);
    member_action_done (m->engine, &a->action, 0);
  }
  steps++;
  member_check (m->engine);
  free (a);
  doors_retry (m);
  member_act (m);
}

static void
act (struct member_role *m, bool lazy)
{
  struct action *a;
  struct member_action action;

  while (sim_now >= m->act_at &&
         member_next_action (m->engine, lazy, &action)) {
    steps++;
    a = make (sizeof *a);
    a->event.happen = action_done;
    a->member = m;
    a->life = m->proc.life;
    a->action = action;
    a->next = m->action;
    m->action = a;
    m->actions_in_flight++;
    event_push (&a->event,
                m->slow * (sim_chance (5) ? between (1 * MS, 20 * MS)
                                          : between (50 * US, 500 * US)) +
                  disk_slow_ns (m->disk));
  }
}

void
member_act (struct member_role *m)
{
  act (m, false);
  settled (m);
}

static void
lazy (void *owner)
{
  struct member_role *m = owner;

  act (m, true);
  process_after (&m->proc, LAZY_MS * MS, lazy, m);
}

/* ---- The talk with weftd ---- */

static void
words (struct member_role *m, struct cluster_disk_heartbeat *hb)
{
  const struct superblock *sb = member_confirmed (m->engine);
  const char *reason = member_reason (m->engine);

  memcpy (hb->uuid, m->disk->uuid, 16);
  strcpy (hb->instance, m->instance);
  snprintf (hb->node, sizeof hb->node, "n%u", m->proc.party);
  snprintf (hb->uri, sizeof hb->uri, "nbd://n%u:%u", m->proc.party,
            m->proc.number);
  snprintf (hb->path, sizeof hb->path, "/dev/d%u", m->proc.number);
  snprintf (hb->cache, sizeof hb->cache, "%u.%u", m->disk->number,
            m->disk->boots);
  hb->size = m->disk->data_bytes + HEADER_BYTES;
  hb->data_bytes = sb->data_bytes;
  memcpy (hb->cluster, sb->cluster, 16);
  memcpy (hb->array, sb->array, 16);
  hb->position = sb->position;
  hb->min_epoch = sb->min_epoch;
  hb->sequence = sb->sequence;
  hb->round = sb->round;
  hb->generation = sb->generation;
  hb->states_epoch = sb->states_epoch;
  hb->over = member_over_done (m->engine);
  if (!format_uuid_zero (sb->array)) {
    hb->has_place = true;
    hb->layout = sb->layout;
    hb->dup = sb->dup;
    hb->n = sb->n;
    hb->groups = sb->groups;
    hb->unit = sb->unit;
    hb->member_bytes = sb->member_bytes;
    memcpy (hb->states, sb->states, sizeof hb->states);
  }
  puller_words (m, &hb->join);
  if (sim_now >= m->disk->full_until)
    member_relieved (m->engine);
  if (member_short (m->engine))
    snprintf (hb->shortage, sizeof hb->shortage, "%s",
              member_short (m->engine));
  hb->state = reason ? DISK_FAILED : DISK_SERVING;
  if (reason)
    snprintf (hb->reason, sizeof hb->reason, "%s", reason);
  hb->bad = *member_bad (m->engine);
  hb->dirty_extents = member_dirty_extents (m->engine);
  hb->disk_stuck_ms = disk_stuck_ms (m->disk);
  hb->wait_ms = !member_settled (m->engine) || hb->disk_stuck_ms ? 0
                : hb->join.phase                                 ? 300
                                                                 : HEARTBEAT_MS;
}

static void
obey (struct member_role *m, struct answer *a)
{
  char why[512];

  steps++;
  withheld_told (m, a);
  member_shut (m->engine, a->over, a->over_count);
  if (a->same_place)
    member_desire_place (&a->desire, &m->told);
  if (!member_desire (m->engine, &a->desire, why, sizeof why)) {
    TRACE (&m->proc, "does not obey: %s", why);
    m->taken = false;
    return;
  }
  if (a->desire.assigned && w.created)
    disk_take_place (m->disk, a->desire.position);
  if (!a->same_place)
    member_set_key (m->engine, a->key);
  m->last = *a;
  m->has_last = true;
  doors_retry (m);
  member_act (m);
  puller_obey (m);
}

static void
beat_anyway (void *owner)
{
  struct member_role *m = owner;

  if (!m->beat && sim_now >= m->beat_at)
    beat (m);
}

/* The next heartbeat: at once when all that is wanted is durable, but not much
 * later in any case.
 */
static void
beat_answered (struct call *c)
{
  struct member_role *m = c->owner;
  bool good = c->answer.status == 200;
  uint64_t wait = HEARTBEAT_MS;

  m->beat = NULL;
  if (good) {
    m->refused = false;
    obey (m, &c->answer);
    member_heard (m->engine, c->sent / MS);
  }
  else {
    m->taken = false;
    if (c->answer.status) {
      m->refused = strcmp (c->answer.code, "old-copy") == 0;
      /* From now on weftd does not know which process kept the writer's data, and the
       * writer hears that it may be gone, even when the disk itself is there again.
       */
      if (m->refused)
        w.disk[disk_holder (m->disk->uuid)].erred = EVERY_HOST;
      TRACE (&m->proc, "is refused: %s", c->answer.code);
      if (strcmp (c->answer.code, "say-all") == 0)
        wait = 1;
    }
  }
  if (good && (!member_settled (m->engine) || m->actions_in_flight > 0)) {
    m->beat_due = true;
    wait = SETTLE_MS;
  }
  else if (good)
    wait = sim_now - c->sent >= PACE_MS * MS ? 1 : PACE_MS;
  settled (m);
  call_unref (c);
  m->beat_at = sim_now + wait * MS;
  process_after (&m->proc, wait * MS, beat_anyway, m);
}

/* Fields that weftd has accepted are not sent again. */
static void
shorten (struct member_role *m, struct cluster_disk_heartbeat *hb)
{
  const size_t above = offsetof (struct cluster_disk_heartbeat, uri);
  char *rest = (char *) hb + above;

  m->told = *member_confirmed (m->engine);
  hb->same = m->taken &&
             memcmp (rest, (char *) &m->said + above, sizeof *hb - above) == 0;
  hb->report = m->said.report + !hb->same;
  if (hb->wait_ms == HEARTBEAT_MS)
    hb->wait_ms = m->taken ? REST_MS : 0;
  if (hb->same)
    memset (rest, 0, sizeof *hb - above);
  else
    m->said = *hb;
  m->taken = true;
}

static void
beat (void *owner)
{
  struct member_role *m = owner;
  struct call *c;

  if (m->beat)
    return;
  m->beat_due = false;
  c = m->beat = call_new (&m->proc, CALL_DISK, m, beat_answered);
  c->refs++;
  words (m, &c->disk);
  withheld_words (m, &c->disk);
  if (c->disk.min_epoch < m->disk->told_min_epoch)
    sim_fail ("member %u had confirmed epoch %" PRIu64 " and is at %" PRIu64,
              m->proc.number, m->disk->told_min_epoch, c->disk.min_epoch);
  m->disk->told_min_epoch = c->disk.min_epoch;
  shorten (m, &c->disk);
  call_send (c, c->disk.wait_ms + REPLY_TIMEOUT_MS);
}

/* ---- Life ---- */

/* The header, with both slots the same: the process is started again and again if
 * that can't be.
 */
static int
open_disk (struct disk *d, struct superblock *sb, struct intents *map)
{
  struct member_action a = { .kind = MEMBER_WRITE_SLOT, .length = SLOT_BYTES };
  bool mend;

  while (disk_load (d, sb, &mend, map) == 0) {
    if (!mend)
      return 0;
    a.offset = sb->sequence % 2 * SLOT_BYTES;
    superblock_encode (sb, a.bytes);
    if (d->write_errors == 0 && !sim_chance (10)) {
      disk_header_write (d, &a);
      return 0;
    }
    d->write_errors -= d->write_errors > 0;
    disk_header_torn (d, &a);
    intents_free (map);
  }
  return -1;
}

void
member_start (struct member_role *m)
{
  struct superblock sb;
  struct intents map;
  struct bad_list bad;
  bool mend;

  if (m->disk->dead || open_disk (m->disk, &sb, &map) == -1) {
    m->disk->dead = true;
    TRACE (&m->proc, "finds no superblock on its disk");
    return;
  }
  process_start (&m->proc);
  TRACE (&m->proc,
         "starts: sequence %" PRIu64 ", min_epoch %" PRIu64 ", round %" PRIu64,
         sb.sequence, sb.min_epoch, sb.round);
  snprintf (m->instance, sizeof m->instance, "m%" PRIu64, m->proc.life);
  m->engine = member_new (&sb, &map);
  intents_free (&map);
  disk_load_bad (m->disk, &bad, &mend);
  member_bad_begin (m->engine, &bad, mend);
  m->listening = m->has_last = m->beat_due = m->taken = false;
  m->actions_in_flight = 0;
  m->act_at = 0;
  m->action = NULL;
  m->beat = NULL;
  m->waiting = m->running = m->settling = NULL;
  m->waiting_tail = &m->waiting;
  m->doors = NULL;
  act (m, false);
  beat (m);
  process_after (&m->proc, LAZY_MS * MS, lazy, m);
}

void
member_stop (struct member_role *m, bool power)
{
  TRACE (&m->proc, power ? "loses its power" : "is killed");
  m->proc.life = 0;
  for (struct action *a = m->action; a; a = a->next)
    if (power)
      disk_header_torn (m->disk, &a->action);
    else if (sim_chance (50))
      disk_header_write (m->disk, &a->action);
  m->action = NULL; /* their events free them */
  if (m->beat)
    call_unref (m->beat);
  m->beat = NULL;
  puller_stop (m);
  doors_stop (m, power);
  member_free (m->engine);
  m->engine = NULL;
  if (power)
    member_unplug (m);
}

void
member_unplug (struct member_role *m)
{
  if (m->proc.life) {
    member_stop (m, true);
    return;
  }
  oracle_power_cut (m->disk);
  disk_power_cut (m->disk);
}
