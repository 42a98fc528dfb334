/* test-pull.c: how a joining member fetches its missing data: which source gets which
 * request, in which order, and what is repeated.  The member engine is the real one; the
 * scenes play its disk and the sources.
 */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "member/pull.h"
#include "test-member-rig.h"
#include "test-random.h"

#define EXTENTS 8
#define DATA_BYTES (EXTENTS * EXTENT_BYTES)
#define BLOCK BAD_BLOCK_BYTES

static struct pull *p;
static struct pull_order order;
static struct pull_worker worker[2];
static uint64_t t;                      /* now, in ms */
static bool linked[ARRAY_MEMBERS_MAX];  /* the director's connections */
static bool reaches[ARRAY_MEMBERS_MAX]; /* the workers' */
static uint8_t peers_map;               /* of every source */

/* The sources' answers; NULL: all is data, and can be read. */
static int (*answer) (struct copy_request *r);

/* ---- The member ---- */

static void
obey (bool any)
{
  wish.join_epoch = any ? order.epoch : 0;
  CHECK (desire ());
  pull_obey (p, any ? &order : NULL);
  CHECK (pull_wakes (p));
  do_actions (true);
}

/* Member 0 of n joins, in epoch 5; the bits of `dirty` are to do. */
static void
start_joining (enum layout_kind kind, unsigned n, uint8_t dirty)
{
  char why[256];

  disk_format ((struct superblock) { .data_bytes = DATA_BYTES }, 0);
  disk_start (true);
  wish_place (kind, n, 5);
  CHECK (desire ());
  do_actions (true);
  wish.states[0] = MEMBER_JOINING;
  wish.epoch = 6;
  t = 1000000;
  memset (worker, 0, sizeof worker);
  memset (linked, 0, sizeof linked);
  memset (reaches, 0, sizeof reaches);
  order = (struct pull_order) { .epoch = 5 };
  CHECK (layout_init (&order.layout, kind, n, 1, 65536, DATA_BYTES, why,
                      sizeof why) == 0);
  for (unsigned i = 1; i < n; i++)
    order.source[i] = reaches[i] = true;
  peers_map = dirty;
  answer = NULL;
  p = pull_new (m, 4);
  CHECK (p);
  obey (true);
}

static void
end (void)
{
  copy_free (&worker[0].copying);
  copy_free (&worker[1].copying);
  pull_free (p);
  member_free (m);
}

static uint64_t
todo (void)
{
  struct member_join_progress progress;

  member_join_progress (m, &progress);
  return progress.todo;
}

/* ---- The director ---- */

static struct pull_task task;

static void
take (enum pull_task_kind kind)
{
  CHECK (pull_next_task (p, linked, t, &task));
  CHECK (task.kind == kind);
}

static bool
idle (void)
{
  return !pull_next_task (p, linked, t, &task);
}

static void
done (enum copy_result r)
{
  struct copy_fault fault = { .member = 1, .why = "it hangs" };

  for (unsigned i = 0; task.kind == PULL_INTENTS && i < ARRAY_MEMBERS_MAX; i++)
    if (task.members[i] && r == COPY_DONE)
      pull_task_map (&task, i, &peers_map, 1);
  if (task.kind == PULL_CONNECT)
    for (unsigned i = 0; i < ARRAY_MEMBERS_MAX; i++)
      linked[i] |= task.members[i] && reaches[i];
  memcpy (task.linked, linked, sizeof linked);
  pull_task_done (p, &task, r, &fault, t);
  CHECK (pull_wakes (p));
  do_actions (true);
}

static void
act (enum pull_task_kind kind, enum copy_result r)
{
  take (kind);
  done (r);
}

/* Copied data becomes stable. */
static void
flush_all (void)
{
  act (PULL_FLUSH, COPY_DONE);
  act (PULL_SYNC, COPY_DONE);
}

/* From the order to the copying. */
static void
gather (void)
{
  uint64_t wait_ms;

  CHECK (!pull_next (p, &worker[0], reaches, t, &wait_ms));
  take (PULL_INTENTS);
  CHECK (member_join_phase (m) == MEMBER_JOIN_GATHERING);
  done (COPY_DONE);
  CHECK (member_join_phase (m) == MEMBER_JOIN_COPYING && pull_copies (p));
  if (!linked[1])
    act (PULL_CONNECT, COPY_DONE);
  CHECK (idle ());
}

static void
start_copying (enum layout_kind kind, unsigned n, uint8_t dirty)
{
  start_joining (kind, n, dirty);
  gather ();
}

/* ---- Workers ---- */

static bool
next (unsigned i)
{
  uint64_t wait_ms;

  return pull_next (p, &worker[i], reaches, t, &wait_ms);
}

/* The changes of our disk that the last worker has made. */
static char changes[32];

/* Carries out what the worker has begun. */
static void
work (unsigned i)
{
  struct copying *c = &worker[i].copying;
  struct copy_request *list;
  struct copy_change change;

  while ((list = copy_ask (c)))
    for (; list; list = list->next) {
      list->error = answer ? answer (list) : 0;
      if (copy_refused (list)) {
        copy_blame (&c->fault, list->member, "it refuses");
        copy_stop (c, COPY_FAULT);
        break;
      }
    }
  memset (changes, 0, sizeof changes);
  for (unsigned k = 0; copy_write (c, &change); k++)
    changes[k] = change.passed ? '!' : "?wzt"[change.kind];
}

static bool
give_back (unsigned i)
{
  bool counts = pull_copied (p, &worker[i], t);

  CHECK (pull_wakes (p));
  do_actions (true);
  return counts;
}

static bool
copy_one (void)
{
  CHECK (next (0));
  work (0);
  return give_back (0);
}

/* No extent is left; copied data becomes stable. */
static void
finish (void)
{
  CHECK (!next (0));
  flush_all ();
  CHECK (member_join_phase (m) == MEMBER_JOIN_SYNCED && idle ());
}

/* ---- Scenes ---- */

static void
test_whole (void)
{
  struct pull_progress progress;

  start_copying (LAYOUT_RAID1, 2, 0x15);
  CHECK (todo () == 3);
  for (unsigned i = 0; i < 3; i++)
    CHECK (copy_one ());
  CHECK (todo () == 0 && member_join_phase (m) == MEMBER_JOIN_COPYING);
  finish ();
  pull_progress (p, &progress);
  CHECK (progress.copied_bytes == 3 * EXTENT_BYTES && !progress.waits);
  CHECK (member_dirty_extents (m) == 0);
  end ();
}

/* The mark is from before the flush: data copied meanwhile is not stable. */
static void
test_copied_meanwhile (void)
{
  start_copying (LAYOUT_RAID1, 2, 0x1f);
  for (unsigned i = 0; i < 4; i++)
    CHECK (copy_one ());
  take (PULL_FLUSH);
  CHECK (task.members[1] && !task.members[0]);
  CHECK (copy_one ());
  done (COPY_DONE);
  act (PULL_SYNC, COPY_DONE);
  CHECK (member_dirty_extents (m) == 1);
  finish ();
  CHECK (member_dirty_extents (m) == 0);
  end ();
}

/* Data from a source that has reconnected since then does not count as flushed by the
 * next flush.
 */
static void
test_new_life (void)
{
  start_copying (LAYOUT_RAID1, 2, 0x3);
  CHECK (next (0));
  work (0);
  linked[1] = false;
  act (PULL_CONNECT, COPY_DONE);
  CHECK (!give_back (0) && todo () == 2);
  CHECK (next (0));
  linked[1] = false;
  CHECK (idle () || task.kind == PULL_CONNECT);
  work (0);
  CHECK (!give_back (0) && todo () == 2); /* nobody watches it */
  end ();
}

/* Copied data that is not stable is copied again when its source is gone, or is no source
 * any longer.
 */
static void
test_source_gone (void)
{
  start_copying (LAYOUT_RAID1, 2, 0x7);
  CHECK (copy_one () && copy_one () && todo () == 1);
  linked[1] = false;
  take (PULL_CONNECT);
  CHECK (todo () == 3);
  done (COPY_DONE);
  CHECK (copy_one () && todo () == 2);
  order.source[1] = false;
  obey (true);
  CHECK (idle () && todo () == 3);
  CHECK (!copy_one () && worker[0].copying.result == COPY_FAULT);
  end ();
}

/* A flush that fails, or is cancelled because the order goes, is still due. */
static void
test_flush_again (void)
{
  start_copying (LAYOUT_RAID1, 2, 0x1);
  CHECK (copy_one () && !next (0));
  act (PULL_FLUSH, COPY_FAULT);
  CHECK (idle ());
  t += 1000;
  take (PULL_FLUSH);
  obey (false);
  CHECK (pull_cancelled (p, task.run));
  done (COPY_CANCELLED);
  CHECK (idle () && !next (0));
  t += 100;
  obey (true);
  CHECK (!next (0));
  take (PULL_FLUSH);
  CHECK (task.members[1]);
  done (COPY_DONE);
  act (PULL_SYNC, COPY_DONE);
  CHECK (member_join_phase (m) == MEMBER_JOIN_SYNCED);
  end ();
}

/* The order goes between the two flushes, and is there again. */
static void
test_between_flushes (void)
{
  start_copying (LAYOUT_RAID1, 2, 0x3);
  CHECK (copy_one () && copy_one () && !next (0));
  take (PULL_FLUSH);
  obey (false);
  done (COPY_DONE);
  CHECK (idle ());
  obey (true);
  act (PULL_SYNC, COPY_DONE);
  CHECK (member_join_phase (m) == MEMBER_JOIN_SYNCED);
  end ();
}

/* Of three copies the peers are asked again; a peer's bit keeps ours. */
static void
test_third (void)
{
  start_copying (LAYOUT_RAID1, 3, 0x3);
  CHECK (copy_one () && copy_one () && !next (0));
  peers_map = 0x4 | 0x2;
  act (PULL_FLUSH, COPY_DONE);
  act (PULL_INTENTS, COPY_FAULT);
  CHECK (idle ());
  t += 1000;
  act (PULL_FLUSH, COPY_DONE);
  take (PULL_INTENTS);
  CHECK (task.members[1] && task.members[2] && !task.members[0]);
  done (COPY_DONE);
  act (PULL_SYNC, COPY_DONE);
  CHECK (member_join_phase (m) == MEMBER_JOIN_SYNCED);
  CHECK (member_dirty_extents (m) == 2);
  end ();
}

/* A fence begins another run: nothing of it begins while a worker has an extent of
 * the old one.
 */
static void
test_new_run (void)
{
  uint64_t run;

  start_copying (LAYOUT_RAID1, 2, 0x3);
  CHECK (next (0));
  run = worker[0].run;
  wish.min_epoch = wish.epoch = order.epoch = 7;
  obey (true);
  CHECK (member_join_run (m) > run && pull_cancelled (p, run));
  CHECK (idle () && !next (1));
  work (0); /* which had been written when it got the order */
  give_back (0);
  gather ();
  t += 2000;
  CHECK (idle () && todo () == 2); /* nothing of it counts */
  CHECK (copy_one () && copy_one ());
  finish ();
  end ();
}

/* A late order, from before the joining began again, is not carried out. */
static void
test_old_order (void)
{
  start_copying (LAYOUT_RAID1, 2, 0x3);
  order.epoch = 7;
  obey (true);
  gather ();
  order.epoch = 5;
  obey (true);
  CHECK (member_join_epoch (m) == 7 && !next (0));
  linked[1] = false;
  CHECK (idle ());
  order.epoch = 7;
  obey (true);
  CHECK (next (0));
  copy_stop (&worker[0].copying, COPY_CANCELLED);
  give_back (0);
  end ();
}

static void
test_paused (void)
{
  start_copying (LAYOUT_RAID1, 2, 0x7);
  CHECK (copy_one () && next (0));
  order.paused = true;
  obey (true);
  CHECK (!next (1) && !pull_cancelled (p, worker[0].run));
  work (0);
  CHECK (give_back (0) && !next (0) && idle ());
  t += 2000; /* data copied so far becomes stable nevertheless */
  flush_all ();
  order.paused = false;
  obey (true);
  CHECK (copy_one ());
  finish ();
  end ();
}

/* A write is held only for an extent that will be copied. */
static void
test_rest (void)
{
  struct member_pass *pass;
  struct one early, late;

  start_joining (LAYOUT_RAID1, 2, 0x1);
  pass = open_door (1, 5);
  gather ();
  CHECK (ask (pass, &early, 0, 1) == MEMBER_WAIT);
  CHECK (again (pass, &early) == MEMBER_GO);
  CHECK (!next (0)); /* the write runs; the next one is held */
  CHECK (ask (pass, &late, 0, 1) == MEMBER_WAIT);
  CHECK (again (pass, &late) == MEMBER_WAIT);
  pull_wakes (p);
  order.paused = true;
  obey (true);
  CHECK (!next (0) && pull_wakes (p));
  CHECK (again (pass, &late) == MEMBER_GO);
  member_leave (m, &early.r);
  member_leave (m, &late.r);
  member_close (m, pass);
  end ();
}

static void
test_rate (void)
{
  uint64_t wait_ms;

  start_joining (LAYOUT_RAID1, 2, 0x7);
  order.rate = EXTENT_BYTES / 2; /* two seconds for each */
  obey (true);
  gather ();
  t += 10000; /* nothing is saved up but for a moment */
  CHECK (next (0) && !next (1));
  work (0);
  CHECK (give_back (0));
  t += 1000;
  CHECK (!pull_next (p, &worker[0], reaches, t, &wait_ms));
  CHECK (wait_ms > 500 && wait_ms <= 1000);
  t += 1000;
  CHECK (copy_one () && !next (0));
  order.rate = 0;
  obey (true);
  CHECK (copy_one ());
  end ();
}

static int
refuses (struct copy_request *r)
{
  return ESHUTDOWN;
}

/* A waiting copy names the member that it waits for, once, and retries after a second. */
static void
test_fault (void)
{
  struct pull_progress progress;
  struct copy_fault fault;

  start_copying (LAYOUT_RAID1, 2, 0x3);
  answer = refuses;
  CHECK (!copy_one () && worker[0].copying.result == COPY_FAULT);
  CHECK (todo () == 2);
  CHECK (pull_news (p, &fault) && fault.member == 1 && !pull_news (p, &fault));
  pull_progress (p, &progress);
  CHECK (progress.waits && strcmp (progress.fault.why, "it refuses") == 0);
  CHECK (!next (0) && next (1));
  copy_stop (&worker[1].copying, COPY_CANCELLED);
  give_back (1);
  t += 1000;
  CHECK (!copy_one () && !pull_news (p, &fault));
  answer = NULL;
  t += 1000;
  CHECK (copy_one ());
  pull_progress (p, &progress);
  CHECK (!progress.waits);
  end ();
}

/* A connection is opened while no extent is held. */
static void
test_connect (void)
{
  struct copy_fault fault = { .member = 1, .why = "refused" };
  uint64_t wait_ms;

  start_copying (LAYOUT_RAID1, 2, 0x1);
  CHECK (pull_next (p, &worker[0], linked + 2, t, &wait_ms));
  CHECK (copy_ask (&worker[0].copying) == NULL);
  CHECK (worker[0].copying.result == COPY_CONNECT);
  CHECK (worker[0].copying.fault.member == 1);
  CHECK (!give_back (0) && todo () == 1);
  pull_unreachable (p, &worker[0], &fault, t);
  CHECK (pull_news (p, &fault) && !next (0));
  t += 1000;
  CHECK (copy_one ());
  end ();
}

/* The first and the last quarter of what is asked are holes, the second zeroes. */
static int
holes (struct copy_request *r)
{
  if (r->kind == COPY_STATUS) {
    uint64_t quarter = r->length / 4;

    copy_map_add (r->map, r->offset + quarter, true, true);
    copy_map_add (r->map, r->offset + 2 * quarter, false, true);
    copy_map_add (r->map, r->offset + 3 * quarter, false, false);
    copy_map_add (r->map, r->offset + r->length, true, true);
  }
  return 0;
}

static void
test_holes (void)
{
  start_copying (LAYOUT_RAID1, 2, 0x2);
  answer = holes;
  CHECK (copy_one () && strcmp (changes, "tzwt") == 0);
  CHECK (worker[0].copying.bytes == EXTENT_BYTES / 4);
  end ();
}

/* Where a source says nothing of its holes, all is data. */
static int
no_holes (struct copy_request *r)
{
  return r->kind == COPY_STATUS ? ENOTSUP : 0;
}

static void
test_no_holes (void)
{
  start_copying (LAYOUT_RAID1, 2, 0x2);
  answer = no_holes;
  CHECK (copy_one () && strcmp (changes, "w") == 0);
  end ();
}

/* Two blocks of member 1, one of which is bad at member 2 as well. */
static unsigned flushes;
static bool flush_fails;

static int
bad_places (struct copy_request *r)
{
  uint64_t first = EXTENT_BYTES + 5 * BLOCK;

  if (r->kind == COPY_FLUSH) {
    flushes++;
    return flush_fails ? EIO : 0;
  }
  if (r->kind != COPY_READ || r->offset >= first + 2 * BLOCK)
    return 0;
  return r->offset + r->length > first + (r->member == 1 ? 0 : BLOCK) ? EIO : 0;
}

static void
test_bad (void)
{
  struct pull_progress progress;
  start_copying (LAYOUT_RAID1, 3, 0x2);
  answer = bad_places;
  flushes = 0;
  flush_fails = false;
  CHECK (copy_one () && strcmp (changes, "w!w") == 0 && flushes == 2);
  CHECK (worker[0].copying.used[1] && worker[0].copying.used[2]);
  pull_progress (p, &progress);
  CHECK (progress.unreadable_bytes == BLOCK);
  CHECK (member_bad (m)->count == 1);
  CHECK (member_bad (m)->range[0].first == EXTENT_BYTES / BLOCK + 6);
  CHECK (member_bad (m)->range[0].blocks == 1);
  CHECK (member_bad (m)->range[0].reason == BAD_REBUILD);
  end ();
}

/* A source that can't even flush has failed: no range counts as bad because of it. */
static void
test_failed_source (void)
{
  start_copying (LAYOUT_RAID1, 2, 0x2);
  answer = bad_places;
  flush_fails = true;
  CHECK (!copy_one () && worker[0].copying.result == COPY_FAULT);
  CHECK (worker[0].copying.fault.member == 1);
  CHECK (member_bad (m)->count == 0 && todo () == 1);
  end ();
}

/* A bad range that can't be noted must be copied again. */
static void
test_no_room (void)
{
  uint64_t block = 4 * EXTENT_BYTES / BLOCK;
  struct copy_fault fault;

  start_copying (LAYOUT_RAID1, 2, 0x2);
  while (member_bad_add (m, block * BLOCK, BLOCK, BAD_SCRUB))
    block += 2;
  answer = bad_places;
  flush_fails = false;
  CHECK (!copy_one () && worker[0].copying.result == COPY_FAULT);
  CHECK (todo () == 1 && pull_news (p, &fault) && fault.member == 0);
  end ();
}

/* Only from members that are in-sync. */
static void
test_sources (void)
{
  start_joining (LAYOUT_RAIDX, 4, 0);
  order.source[2] = false;
  obey (true);
  peers_map = 0x1; /* of a member's data: our images of it */
  gather ();
  CHECK (todo () > 0);
  CHECK (!copy_one () && worker[0].copying.result == COPY_FAULT);
  CHECK (worker[0].copying.fault.member == 2);
  end ();
}

/* A peer's bit is ours where we have a copy of what lies there, and only there. */
static void
test_map (void)
{
  const struct layout *l = &order.layout;
  bool ours[EXTENTS] = { false };
  struct layout_piece piece;

  start_joining (LAYOUT_RAIDX, 4, 0);
  take (PULL_INTENTS);
  pull_task_map (&task, 2, (const uint8_t[]) { 0x2 }, 1);
  for (uint64_t at = 0; at < l->size; at += piece.length) {
    bool there = false;

    layout_map (l, at, l->size - at, &piece);
    for (unsigned c = 0; c < piece.copies; c++)
      there |= piece.copy[c].member == 2 &&
               piece.copy[c].offset / EXTENT_BYTES == 1;
    for (unsigned c = 0; c < piece.copies; c++)
      if (there && piece.copy[c].member == 0)
        ours[piece.copy[c].offset / EXTENT_BYTES] = true;
  }
  for (unsigned e = 0; e < EXTENTS; e++)
    CHECK (intents_test (&task.peers, e) == ours[e]);
  peers_map = 0;
  done (COPY_DONE);
  end ();
}

int
main (void)
{
  test_whole ();
  test_copied_meanwhile ();
  test_new_life ();
  test_source_gone ();
  test_flush_again ();
  test_between_flushes ();
  test_third ();
  test_new_run ();
  test_old_order ();
  test_paused ();
  test_rest ();
  test_rate ();
  test_fault ();
  test_connect ();
  test_holes ();
  test_no_holes ();
  test_bad ();
  test_failed_source ();
  test_no_room ();
  test_sources ();
  test_map ();
  return 0;
}
