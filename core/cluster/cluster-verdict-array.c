/* cluster-verdict-array.c: what the verdict says of one array. */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>

#include "cluster-internal.h"
#include "cluster-verdict.h"

/* A change that takes longer is worth a word. */
#define SLOW_MS 2000
/* So is a member that has been slow for so long. */
#define SLOW_SAID_MS 10000

/* What keeps this member from being of use; NULL: nothing, or it is joining. */
static const char *
trouble (const struct cluster_array *a, unsigned m)
{
  const struct cluster_disk *d = a->disk[m];

  return a->rec.member[m].state == MEMBER_OUT
           ? d->failed                ? "has failed, and is out"
             : cluster_disk_hangs (d) ? "has a disk that hangs, and is out"
             : cluster_room_lacks (d) ? "has no room, and is out"
                                      : "is out"
         : d->old_copy                ? "is an old copy of its disk"
         : d->failed                  ? "has failed"
         : !d->alive                  ? "is silent"
         : cluster_disk_hangs (d)     ? "has a disk that hangs"
         : d->heard && !d->took_place ? "has not taken its place"
                                      : NULL;
}

/* How bad that is: the worst is named. */
static unsigned
badness (const struct cluster_array *a, unsigned m)
{
  const struct cluster_disk *d = a->disk[m];
  bool out = a->rec.member[m].state == MEMBER_OUT;

  return !out && (d->old_copy || cluster_disk_hangs (d))
           ? 2
           : out || cluster_disk_away (d);
}

/* What is to be done about it.  That a member comes back by itself is said only when
 * it has spoken since it went out: before, it may be dead, though weftd has not missed
 * it yet.
 */
static const char *
advice (const struct cluster_array *a, unsigned m)
{
  const struct cluster_disk *d = a->disk[m];

  if (a->rec.member[m].slow)
    return "It was far slower than its peers, and stays out: see to its disk "
           "and its connection; then replace it, or take it back (weftctl "
           "rebuild join).";
  if (a->rec.member[m].held)
    return "It is held out: take it back, or replace it.";
  if (d->old_copy && a->rec.member[m].state != MEMBER_OUT)
    return "Put the right disk back.";
  if (d->failed)
    return "Replace its disk.";
  if (!d->alive)
    return "Start its member process again, or replace its disk.";
  if (cluster_disk_hangs (d))
    return "Its process lives, and its disk answers nothing: see to the disk, "
           "its cables and its controller, or replace it. It comes back by "
           "itself when its disk answers.";
  if (!d->heard || !d->spoke)
    return "It has not been heard of since: if that lasts, start its member "
           "process again, or replace its disk.";
  if (a->rec.member[m].state == MEMBER_IN_SYNC)
    return "Start its member process again, or replace its disk.";
  if (a->rec.member[m].state == MEMBER_OUT && cluster_room_lacks (d))
    return "Make room where its disk lies: then it comes back by itself.";
  if (a->rec.member[m].state == MEMBER_OUT && d->backoff_ms > 0)
    return "It has gone out again soon after it was back, and says that its "
           "disk answers: see to its connection.";
  return "It comes back by itself.";
}

static void
say_joining (struct verdict *v, const struct cluster_array *a, unsigned m)
{
  const struct cluster_join *join = &a->disk[m]->join;
  char words[320], todo[32];
  unsigned percent = 0;

  if (join->total_bytes > 0 && join->todo_bytes <= join->total_bytes)
    percent = (unsigned) ((double) (join->total_bytes - join->todo_bytes) *
                          100 / (double) join->total_bytes);
  cluster_disk_words (a->disk[m], words, sizeof words);
  cluster_bytes_words (join->todo_bytes, todo, sizeof todo);
  if (join->phase < CLUSTER_JOIN_COPYING)
    verdict_say (
      v, CLUSTER_WARNING, "Member %u (%s) of array %s is to be rebuilt%s%s.", m,
      words, a->rec.name, join->waits[0] ? " and waits for " : "", join->waits);
  else
    verdict_say (
      v, CLUSTER_WARNING,
      "Member %u (%s) of array %s is being rebuilt, %u %% is done and %s is "
      "to do%s%s.",
      m, words, a->rec.name, percent, todo,
      join->waits[0] ? "; it waits for " : "", join->waits);
  if (join->unreadable_bytes > 0)
    verdict_say (
      v, CLUSTER_ERROR,
      "The rebuild of member %u of array %s found no readable copy of %s.", m,
      a->rec.name,
      cluster_bytes_words (join->unreadable_bytes, todo, sizeof todo));
}

/* Reads go around a slow member, and writes can't. */
static void
say_slow (struct verdict *v, const struct cluster *c,
          const struct cluster_array *a, unsigned m)
{
  uint64_t us, peers_us;
  char words[320];

  if (cluster_slow_for (c, a, m, SLOW_SAID_MS) &&
      cluster_member_slow (a, m, &us, &peers_us))
    verdict_say (
      v, CLUSTER_WARNING,
      "Member %u (%s) of array %s is slow: a request takes %" PRIu64
      ".%03" PRIu64 " ms, and %" PRIu64 ".%03" PRIu64
      " ms with its peers. Reads go around it, and writes wait for it: see to "
      "its disk and its connection, or replace it.",
      m, cluster_disk_words (a->disk[m], words, sizeof words), a->rec.name,
      us / 1000, us % 1000, peers_us / 1000, peers_us % 1000);
}

/* Members that are not of use: how bad it is, and what to do. */
static void
say_trouble (struct verdict *v, const struct cluster *c,
             const struct cluster_array *a)
{
  uint64_t exposed, unreachable, lost;
  char bytes[32], who[420] = "it is being rebuilt", others[64] = "";
  char words[320];
  const char *name = a->rec.name, *what = "";
  unsigned first = 0, count = 0, joining = 0;

  for (unsigned m = a->layout.members; m-- > 0;) {
    if (trouble (a, m)) {
      if (count == 0 || badness (a, m) >= badness (a, first))
        first = m;
      count++;
    }
    else if (a->rec.member[m].state == MEMBER_JOINING)
      joining++;
  }
  if (count + joining == 0)
    return;
  if (count > 1)
    snprintf (others, sizeof others, ", and %u more %s away", count - 1,
              count > 2 ? "are" : "is");
  if (count > 0) {
    snprintf (who, sizeof who, "member %u (%s) %s%s", first,
              cluster_disk_words (a->disk[first], words, sizeof words),
              trouble (a, first), others);
    what = cluster_node_in_maintenance (c, a->disk[first]->rec.node)
             ? "Its node is in maintenance: no spare takes its place."
             : advice (a, first);
  }
  cluster_array_exposure (a, &exposed, &unreachable, &lost);
  cluster_bytes_words (unreachable ? unreachable : exposed, bytes,
                       sizeof bytes);
  if (lost > 0)
    verdict_say (
      v, CLUSTER_ERROR,
      "Array %s has lost data: %s, and of %s no copy is left in its members. "
      "Do not detach it, keep the disks as they are, and copy off what can "
      "still be read.",
      name, who, bytes);
  else if (unreachable > 0)
    verdict_say (
      v, CLUSTER_ERROR,
      "Array %s cannot serve %s of its data: %s. Nothing is lost if the "
      "member comes back: %s.",
      name, bytes, who,
      a->disk[first]->old_copy              ? "put the right disk back"
      : cluster_disk_hangs (a->disk[first]) ? "see to its disk"
                                            : "start its process again");
  else if (exposed > 0)
    verdict_say (
      v, CLUSTER_WARNING,
      "Array %s is degraded: %s, and %s %s %s; the next loss can take "
      "data.%s%s",
      name, who, bytes, exposed == 1 ? "has" : "have",
      a->layout.copies > 2 ? "fewer copies than they should"
                           : "only one copy left",
      *what ? " " : "", what);
  else if (count > 0)
    verdict_say (v, CLUSTER_WARNING, "Array %s is not whole: %s. %s", name, who,
                 what);
}

/* Copies that a session has left so, and who makes them equal. */
static void
say_unequal (struct verdict *v, const struct cluster_array *a)
{
  const struct cluster_session *by;
  uint64_t unequal;
  char bytes[32];
  enum cluster_unequal how = cluster_array_unequal (a, &unequal, &by);

  if (how == UNEQUAL_NONE)
    return;
  cluster_bytes_words (unequal, bytes, sizeof bytes);
  if (how == UNEQUAL_FIXED)
    verdict_say (v, CLUSTER_WARNING,
                 "Node %s, process %" PRIu64 ", makes copies of array %s equal "
                 "that an ended session has left, of at most %s: until that is "
                 "done the loss of a member can bring back older data.",
                 by->rec.node, by->rec.pid, a->rec.name, bytes);
  else
    verdict_say (v, CLUSTER_WARNING,
                 "Copies of array %s may differ, of at most %s, for a session "
                 "that wrote there has ended or is silent. %s Until then the "
                 "loss of a member can bring back older data.",
                 a->rec.name, bytes,
                 cluster_writer_alive (a)
                   ? "Another host that shares the array makes them equal."
                   : "Attach the array for writing: that makes them equal.");
}

/* After weftd's start nobody knows yet how its members are. */
static void
say_unheard (struct verdict *v, const struct cluster_array *a)
{
  unsigned count = 0;

  for (unsigned m = 0; m < a->layout.members; m++)
    count += !trouble (a, m) && !a->disk[m]->heard;
  if (count > 0)
    verdict_say (
      v, CLUSTER_INFO,
      "weftd was started and has not yet heard of %u member%s of array %s.",
      count, count > 1 ? "s" : "", a->rec.name);
}

/* What it waits for, if that is not said of its members. */
static void
say_waits (struct verdict *v, const struct cluster *c,
           const struct cluster_array *a)
{
  const struct cluster_change *change = &a->rec.change;
  const struct cluster_session *s = NULL;
  bool slow = change->epoch == 0 || c->live_ms > a->begun_live_ms + SLOW_MS;
  bool lost = false;
  char text[1500];

  while ((s = cluster_writer_next (a, s)))
    for (unsigned m = 0; m < a->layout.members; m++)
      lost |= s->lost[m];
  if (cluster_array_waits_for (c, a, text, sizeof text) &&
      (change->epoch || lost))
    verdict_say (v, slow ? CLUSTER_WARNING : CLUSTER_INFO, "Array %s %s %s.",
                 a->rec.name, slow ? "waits for" : "changes: it asks", text);
  if (cluster_lease_waits (c, a, text, sizeof text))
    verdict_say (v, CLUSTER_WARNING, "Array %s waits for %s.", a->rec.name,
                 text);
}

/* Whom do its clients find? */
static void
say_service (struct verdict *v, const struct cluster *c,
             const struct cluster_array *a)
{
  const struct cluster_session *writer = cluster_array_writer (a);
  unsigned ready = 0;

  for (unsigned i = 0; i < a->rec.service_nodes; i++)
    ready += cluster_service_stands_by (c, a, i);
  if (a->rec.service_nodes == 0)
    return;
  if (writer == NULL)
    verdict_say (
      v, CLUSTER_WARNING,
      "Nobody serves array %s, and its clients wait: start its service on "
      "node %s%s.",
      a->rec.name, a->rec.service_node[0],
      a->rec.service_nodes > 1 ? ", or on another of its candidates" : "");
  else if (a->rec.service_nodes > 1 && ready == 0)
    verdict_say (
      v, CLUSTER_WARNING,
      "No other node stands by to serve array %s: start its service on one "
      "more of its candidates.",
      a->rec.name);
}

/* What waits for a member that has no room. */
static bool
say_refused (struct verdict *v, const struct cluster_array *a, unsigned m)
{
  const char *want = cluster_room_short (a->disk[m]);
  const struct cluster_session *s = NULL;
  char words[320];
  bool any = false;

  while ((s = cluster_writer_next (a, s))) {
    uint64_t ms = cluster_room_refused_ms (s, m);

    if (ms == 0)
      continue;
    any = true;
    verdict_say (v, CLUSTER_ERROR,
                 "Array %s waits on node %s: for %" PRIu64
                 " s member %u (%s) has refused what is written%s%s. Make room "
                 "or memory free there: it goes on by itself, and what was "
                 "flushed is safe.",
                 a->rec.name, s->rec.node, ms / 1000, m,
                 cluster_disk_words (a->disk[m], words, sizeof words),
                 want ? ": " : "", want ? want : "");
  }
  return any;
}

/* A member that has no room, or soon none. */
static void
say_room (struct verdict *v, const struct cluster_array *a, unsigned m)
{
  const struct cluster_disk *d = a->disk[m];
  const char *want = cluster_room_short (d);
  char words[320], room[32], wanted[32];

  if (say_refused (v, a, m) || a->rec.member[m].state == MEMBER_OUT)
    return;
  cluster_disk_words (d, words, sizeof words);
  if (want)
    verdict_say (v, CLUSTER_WARNING,
                 "Member %u of array %s (%s) refuses some writes for now: %s.",
                 m, a->rec.name, words, want);
  else if (cluster_room_low (d))
    verdict_say (
      v, CLUSTER_WARNING,
      "Member %u of array %s (%s) has little room: %s are left on its file "
      "system, and its file may take %s more. Make room there: when nothing "
      "is left, the member goes out, or writes wait.",
      m, a->rec.name, words,
      cluster_bytes_words (d->room.free, room, sizeof room),
      cluster_bytes_words (d->room.wanted, wanted, sizeof wanted));
}

void
verdict_array (struct verdict *v, const struct cluster *c,
               const struct cluster_array *a)
{
  const struct cluster_session *writer = NULL;
  char text[1500], words[32];
  uint64_t bad;

  if (cluster_array_doubted (c, a, text, sizeof text))
    verdict_say (v, CLUSTER_ERROR, "Array %s stands still: %s.", a->rec.name,
                 text);
  if (a->rec.restoring)
    return;
  if (!a->rec.ready) {
    bool waits = cluster_array_waits_for (c, a, text, sizeof text);

    verdict_say (v, CLUSTER_INFO, "Array %s is being made%s%s.", a->rec.name,
                 waits ? " and waits for " : "", waits ? text : "");
    return;
  }
  while ((writer = cluster_writer_next (a, writer)))
    if (writer->stopped[0])
      verdict_say (
        v, CLUSTER_ERROR,
        "Array %s has stopped: %s. Bring the member back, and it goes on by "
        "itself; what was flushed is safe.",
        a->rec.name, writer->stopped);
  for (unsigned m = 0; m < a->layout.members; m++)
    say_room (v, a, m);
  say_trouble (v, c, a);
  bad = cluster_array_bad_bytes (a);
  if (bad > 0)
    verdict_say (
      v, CLUSTER_ERROR,
      "%s of array %s can't be read: no good copy was found; write them "
      "anew from a backup (weftctl array bad-ranges %s says where they "
      "lie).",
      cluster_bytes_words (bad, words, sizeof words), a->rec.name, a->rec.name);
  for (unsigned m = 0; m < a->layout.members; m++) {
    say_slow (v, c, a, m);
    if (a->rec.member[m].state == MEMBER_JOINING && !trouble (a, m))
      say_joining (v, a, m);
    /* Nothing goes on before somebody says so. */
    if (a->rec.member[m].paused)
      verdict_say (
        v, CLUSTER_WARNING,
        "The rebuild of member %u of array %s is paused: weftctl rebuild "
        "resume %s %u lets it go on.",
        m, a->rec.name, a->rec.name, m);
  }
  say_unequal (v, a);
  say_unheard (v, a);
  say_service (v, c, a);
  say_waits (v, c, a);
}
