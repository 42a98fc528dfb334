/* cluster-verdict-array.c: the verdict's sentences about one array. */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>

#include "cluster-report.h"
#include "cluster-verdict.h"

/* A change that takes longer is worth a word. */
#define SLOW_MS 2000
/* A member that has been slow for this time is named, too. */
#define SLOW_SAID_MS 10000

/* The reason for which this member is not usable; NULL: none, or it is joining.
 */
static const char *
trouble (const struct cluster_array *a, unsigned m)
{
  const struct cluster_disk *d = a->disk[m];

  return a->rec.member[m].state == MEMBER_OUT
           ? d->state == DISK_REMOVED  ? "has a disk that is gone, and is out"
             : cluster_disk_failed (d) ? "has failed, and is out"
             : cluster_copies_disk_hangs (d)
               ? "has a disk that hangs, and is out"
             : d->overdue ? "does not confirm weftd's orders, and is out"
             : cluster_room_lacks (d) ? "has no room, and is out"
                                      : "is out"
         : d->old_copy                   ? "is an old copy of its disk"
         : d->state == DISK_REMOVED      ? "has a disk that is gone"
         : cluster_disk_failed (d)       ? "has failed"
         : !d->alive                     ? "is silent"
         : cluster_copies_disk_hangs (d) ? "has a disk that hangs"
         : cluster_disk_heard (d) && !d->took_place ? "has not taken its place"
                                                    : NULL;
}

/* How bad that is: the worst is named. */
static unsigned
badness (const struct cluster_array *a, unsigned m)
{
  const struct cluster_disk *d = a->disk[m];
  bool out = a->rec.member[m].state == MEMBER_OUT;

  return !out && (d->old_copy || d->state == DISK_REMOVED ||
                  cluster_copies_disk_hangs (d))
           ? 2
           : out || cluster_copies_disk_away (d);
}

/* Advice about it.  It promises that a member comes back by itself only when the
 * member has spoken since it went out: before, the member may be dead, and weftd
 * does not know yet.
 */
static const char *
advice (const struct cluster_array *a, unsigned m, char *text, size_t size)
{
  const struct cluster_disk *d = a->disk[m];

  if (a->rec.member[m].slow)
    return "The member was far slower than its peers, and stays out: check its "
           "disk and its connection; then replace it, or take it back (weftctl "
           "rebuild join).";
  if (a->rec.member[m].held)
    return "To end the hold, take it back (weftctl rebuild join), or replace "
           "it.";
  if (d->old_copy && a->rec.member[m].state != MEMBER_OUT)
    return "Put the right disk back.";
  if (d->state == DISK_FAILED)
    return "Replace its disk.";
  if (d->state == DISK_REMOVED)
    return "The disk was removed from its host, or its path leads to another "
           "one: check the disk, its cables and its controller, or replace it. "
           "It comes back by itself when the path leads to it again.";
  if (!d->alive && d->reason[0]) {
    snprintf (text, size, "Its member process was refused: %s.", d->reason);
    return text;
  }
  if (!d->alive)
    return "Start its member process again, or replace its disk.";
  if (cluster_copies_disk_hangs (d))
    return "Its process lives, but its disk does not answer: check the disk, "
           "its cables and its controller, or replace it. It comes back by "
           "itself when its disk answers.";
  if (!cluster_disk_heard (d) || !d->spoke)
    return "No report has come since: if that lasts, start its member process "
           "again, or replace its disk.";
  if (a->rec.member[m].state == MEMBER_IN_SYNC)
    return "Start its member process again, or replace its disk.";
  if (a->rec.member[m].state == MEMBER_OUT && cluster_room_lacks (d))
    return "Free space in the file system of its disk: then it comes back by "
           "itself.";
  if (a->rec.member[m].state == MEMBER_OUT && d->overdue)
    return "Start its process again, or replace its disk; it comes back by "
           "itself when it confirms.";
  if (a->rec.member[m].state == MEMBER_OUT && d->back.backoff_ms > 0)
    return "The member went out again soon after it came back, and says that "
           "its disk answers: check its connection.";
  return "The member comes back by itself.";
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
  cluster_words_disk (a->disk[m], words, sizeof words);
  cluster_words_bytes (join->todo_bytes, todo, sizeof todo);
  if (join->phase < CLUSTER_JOIN_COPYING)
    verdict_text_say (
      v, CLUSTER_WARNING, "Member %u (%s) of array %s will be rebuilt%s%s.", m,
      words, a->rec.name, join->waits[0] ? " and waits for " : "", join->waits);
  else
    verdict_text_say (
      v, CLUSTER_WARNING,
      "Member %u (%s) of array %s is being rebuilt, %u %% is done and %s is "
      "to do%s%s.",
      m, words, a->rec.name, percent, todo,
      join->waits[0] ? "; it waits for " : "", join->waits);
  if (join->unreadable_bytes > 0)
    verdict_text_say (
      v, CLUSTER_ERROR,
      "The rebuild of member %u of array %s found no readable copy of %s.", m,
      a->rec.name,
      cluster_words_bytes (join->unreadable_bytes, todo, sizeof todo));
}

/* Reads go around a slow member, and writes can't. */
static void
say_slow (struct verdict *v, const struct cluster *c,
          const struct cluster_array *a, unsigned m)
{
  uint64_t us, peers_us;
  char words[320], peers[60] = "";

  if (!cluster_slow_for (c, a, m, SLOW_SAID_MS, &us, &peers_us))
    return;
  if (peers_us > 0) /* something was asked of them recently */
    snprintf (peers, sizeof peers,
              ", and %" PRIu64 ".%03" PRIu64 " ms with its peers",
              peers_us / 1000, peers_us % 1000);
  verdict_text_say (
    v, CLUSTER_WARNING,
    "Member %u (%s) of array %s is slow: a request takes %" PRIu64 ".%03" PRIu64
    " ms%s. Reads go around it, and writes wait for it: check "
    "its disk and its connection, or replace it.",
    m, cluster_words_disk (a->disk[m], words, sizeof words), a->rec.name,
    us / 1000, us % 1000, peers);
}

/* Members that are not usable: the effects, and advice. */
static void
say_trouble (struct verdict *v, const struct cluster *c,
             const struct cluster_array *a)
{
  uint64_t exposed, unreachable, lost;
  char bytes[32], who[420] = "it is being rebuilt", others[64] = "";
  char words[320], line[600], refused[CLUSTER_REASON_BYTES + 64];
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
              cluster_words_disk (a->disk[first], words, sizeof words),
              trouble (a, first), others);
    what = cluster_node_in_maintenance (c, a->disk[first]->rec.node)
             ? "Its node is in maintenance: no spare takes its place."
             : advice (a, first, refused, sizeof refused);
    if (cluster_member_line (c, a, first, line, sizeof line)) {
      size_t used = strlen (line);

      snprintf (line + used, sizeof line - used, " %s", what);
      what = line;
    }
  }
  cluster_array_exposure (a, &exposed, &unreachable, &lost);
  cluster_words_bytes (lost          ? lost
                       : unreachable ? unreachable
                                     : exposed,
                       bytes, sizeof bytes);
  if (lost > 0)
    verdict_text_say (
      v, CLUSTER_ERROR,
      "Array %s has lost data: %s, and of %s no copy is left in its members. "
      "Do not detach it, keep the disks as they are, and copy off what can "
      "still be read.",
      name, who, bytes);
  else if (unreachable > 0)
    verdict_text_say (
      v, CLUSTER_ERROR,
      "Array %s cannot serve %s of its data: %s. Nothing is lost if the "
      "member comes back: %s.",
      name, bytes, who,
      a->disk[first]->old_copy                     ? "put the right disk back"
      : a->disk[first]->state == DISK_REMOVED      ? "connect its disk again"
      : cluster_copies_disk_hangs (a->disk[first]) ? "check its disk"
                                                   : "start its process again");
  else if (exposed > 0)
    verdict_text_say (
      v, CLUSTER_WARNING,
      "Array %s is degraded: %s, and %s %s %s; the next loss can take "
      "data.%s%s",
      name, who, bytes, exposed == 1 ? "has" : "have",
      a->layout.copies > 2 ? "fewer copies than they should"
                           : "only one copy left",
      *what ? " " : "", what);
  else if (count > 0)
    verdict_text_say (v, CLUSTER_WARNING, "Array %s is not whole: %s. %s", name,
                      who, what);
}

/* The members that were given back without what they had not flushed. */
static const char *
given_back_words (const struct cluster_array *a, char *words, size_t size)
{
  char disk[320];

  words[0] = '\0';
  for (unsigned m = 0; m < a->layout.members; m++)
    if (a->rec.member[m].differs && words[0])
      return strcat (words, " and others");
    else if (a->rec.member[m].differs)
      snprintf (words, size - 20, "member %u (%s)", m,
                cluster_words_disk (a->disk[m], disk, sizeof disk));
  return words;
}

/* Members that count, and that not all sessions reach. */
static void
say_line (struct verdict *v, const struct cluster *c,
          const struct cluster_array *a, unsigned m)
{
  char words[320], text[600];

  if (!trouble (a, m) && cluster_member_line (c, a, m, text, sizeof text))
    verdict_text_say (v, CLUSTER_WARNING,
                      "Some hosts have lost member %u (%s) of array %s. %s", m,
                      cluster_words_disk (a->disk[m], words, sizeof words),
                      a->rec.name, text);
}

/* Copies that may differ after a session, and the session that resyncs them. */
static void
say_unequal (struct verdict *v, const struct cluster *c,
             const struct cluster_array *a)
{
  const struct cluster_session *by;
  uint64_t unequal;
  char bytes[32], words[400], waits[512];
  enum cluster_unequal how = cluster_array_unequal (a, &unequal, &by);

  waits[0] = '\0';
  if (how == UNEQUAL_NONE)
    return;
  cluster_words_bytes (unequal, bytes, sizeof bytes);
  if (how == UNEQUAL_FIXED)
    verdict_text_say (
      v, CLUSTER_WARNING,
      "Node %s, process %" PRIu64
      ", resynchronizes at most %s of array %s after the end of a session: "
      "until that is done the loss of a member can bring back older data.",
      by->rec.node, by->rec.pid, bytes, a->rec.name);
  else if (how == UNEQUAL_GIVEN_BACK && a->layout.copies > 2)
    verdict_text_say (
      v, CLUSTER_WARNING,
      "Copies of at most %s of array %s may differ: %s came back without its "
      "unflushed writes. Detach the array everywhere, and attach it again to "
      "resynchronize them. Until then the loss of a member can bring back "
      "older data.",
      bytes, a->rec.name, given_back_words (a, words, sizeof words));
  else if (how == UNEQUAL_GIVEN_BACK)
    verdict_text_say (
      v, CLUSTER_WARNING,
      "Copies of at most %s of array %s may differ: %s came back without its "
      "unflushed writes. The member joins again, which resynchronizes "
      "them%s%s. Until then the loss of a member can bring back older data.",
      bytes, a->rec.name, given_back_words (a, words, sizeof words),
      cluster_rejoin_waits (c, a, waits, sizeof waits) ? "; that waits for "
                                                       : "",
      waits);
  else
    verdict_text_say (
      v, CLUSTER_WARNING,
      "Copies of at most %s of array %s may differ, because a session that "
      "wrote there has ended or is silent. %s Until then the loss of a member "
      "can bring back older data.",
      bytes, a->rec.name,
      cluster_array_writer_alive (a)
        ? "Another host that shares the array resynchronizes them."
        : "Attach the array for writing to resynchronize them.");
}

/* After weftd's start nobody knows yet how its members are. */
static void
say_unheard (struct verdict *v, const struct cluster_array *a)
{
  unsigned count = 0;

  for (unsigned m = 0; m < a->layout.members; m++)
    count += !trouble (a, m) && !cluster_disk_heard (a->disk[m]);
  if (count > 0)
    verdict_text_say (
      v, CLUSTER_INFO,
      "weftd was started and has not yet heard of %u member%s of array %s.",
      count, count > 1 ? "s" : "", a->rec.name);
}

/* The reason for which it waits, unless a sentence about its members says it.
 */
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
      lost |= s->path[m].lost;
  if (cluster_array_waits_for (c, a, text, sizeof text) &&
      (change->epoch || lost))
    verdict_text_say (v, slow ? CLUSTER_WARNING : CLUSTER_INFO,
                      "Array %s %s %s.", a->rec.name,
                      slow ? "waits for" : "changes: it asks", text);
  if (cluster_lease_waits (c, a, text, sizeof text))
    verdict_text_say (v, CLUSTER_WARNING, "Array %s waits for %s.", a->rec.name,
                      text);
}

/* Live members and sessions that do not confirm what others wait for.
 * (say_waits names those that delay a change of epoch, too.)
 */
static void
say_owed (struct verdict *v, const struct cluster_array *a)
{
  const struct cluster_session *s;
  char text[1500];

  for (unsigned m = 0; m < a->layout.members; m++)
    if (cluster_member_owes (a, m, text, sizeof text))
      verdict_text_say (v, CLUSTER_WARNING, "%s", text);
  TAILQ_FOREACH (s, &a->sessions, array_link)
    if (cluster_session_owes (s, text, sizeof text))
      verdict_text_say (v, CLUSTER_WARNING, "%s", text);
}

/* Whom do its clients find? */
static void
say_service (struct verdict *v, const struct cluster *c,
             const struct cluster_array *a)
{
  const struct cluster_session *writer = cluster_array_writer (a);
  unsigned ready = 0;
  char text[700];

  for (unsigned i = 0; i < a->rec.service_nodes; i++)
    ready += cluster_service_stands_by (c, a, i);
  if (a->rec.service_nodes == 0)
    return;
  if (cluster_reach_words (c, a, text, sizeof text))
    verdict_text_say (v, CLUSTER_WARNING, "%s", text);
  if (writer == NULL)
    verdict_text_say (
      v, CLUSTER_WARNING,
      "Nobody serves array %s, and its clients wait: start its service on "
      "node %s%s.",
      a->rec.name, a->rec.service_node[0],
      a->rec.service_nodes > 1 ? ", or on another of its candidates" : "");
  else if (a->rec.service_nodes > 1 && ready == 0)
    verdict_text_say (
      v, CLUSTER_WARNING,
      "No other node stands by to serve array %s: start its service on one "
      "more of its candidates.",
      a->rec.name);
}

/* The requests that wait for a member that has no room. */
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
    verdict_text_say (
      v, CLUSTER_ERROR,
      "Array %s waits on node %s: for %" PRIu64
      " s member %u (%s) has refused what is written%s%s. Make room "
      "or memory free there: it goes on by itself, and what was "
      "flushed is safe.",
      a->rec.name, s->rec.node, ms / 1000, m,
      cluster_words_disk (a->disk[m], words, sizeof words), want ? ": " : "",
      want ? want : "");
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
  cluster_words_disk (d, words, sizeof words);
  if (want)
    verdict_text_say (
      v, CLUSTER_WARNING,
      "Member %u of array %s (%s) refuses some writes for now: %s.", m,
      a->rec.name, words, want);
  else if (cluster_room_low (d))
    verdict_text_say (
      v, CLUSTER_WARNING,
      "Member %u of array %s (%s) has little room: %s are left on its file "
      "system, and its file may take %s more. Make room there: when nothing "
      "is left, the member goes out, or writes wait.",
      m, a->rec.name, words,
      cluster_words_bytes (d->room.free, room, sizeof room),
      cluster_words_bytes (d->room.wanted, wanted, sizeof wanted));
}

/* Writes that wait for memory of the host of an array process. */
static void
say_memory (struct verdict *v, const struct cluster_array *a)
{
  const struct cluster_session *s = NULL;

  while ((s = cluster_writer_next (a, s)))
    if (s->load.stats.memory_wait_ns >= ROOM_REFUSED_MS * UINT64_C (1000000))
      verdict_text_say (
        v, CLUSTER_ERROR,
        "Array %s waits on node %s: for %" PRIu64
        " s that host has had no memory for what is written. Free memory "
        "there: it goes on by itself, and what was flushed is safe.",
        a->rec.name, s->rec.node, s->load.stats.memory_wait_ns / 1000000000);
}

static void
say_bad (struct verdict *v, const struct cluster_array *a)
{
  uint64_t lost = 0, mended = 0;
  struct cluster_bad *list;
  size_t count = cluster_array_bad (a, &list);
  char words[32];

  for (size_t i = 0; i < count; i++)
    *(cluster_bad_mended (&list[i]) ? &mended : &lost) += list[i].length;
  free (list);
  if (lost > 0)
    verdict_text_say (
      v, CLUSTER_ERROR,
      "%s of array %s can't be read: no good copy was found; write them again "
      "from a backup (weftctl array bad-ranges %s lists them).",
      cluster_words_bytes (lost, words, sizeof words), a->rec.name,
      a->rec.name);
  if (mended > 0)
    verdict_text_say (
      v, CLUSTER_WARNING,
      "%s of array %s could not be read on one member: the array process that "
      "writes copies them from another member (weftctl array bad-ranges %s).",
      cluster_words_bytes (mended, words, sizeof words), a->rec.name,
      a->rec.name);
}

#define FULL_WARNING 80 /* per cent of what can be granted */
#define FULL_ERROR 95

static void
say_pool (struct verdict *v, const struct cluster *c,
          const struct cluster_array *a)
{
  const char *name = a->rec.name;
  const struct cluster_volume *volume;
  struct cluster_pool_figures f;
  char free[32], total[32];
  uint64_t percent;

  if (a->rec.pool == CLUSTER_POOL_UNSCANNED)
    verdict_text_say (
      v, CLUSTER_WARNING,
      "weftd's database may be older than pool %s: none of its volumes is "
      "opened before a process has attached the pool and scanned it.",
      name);
  if (a->pool == NULL)
    return;
  cluster_pool_figures (a, &f);
  percent = f.granted * 100 / f.total;
  if (percent >= FULL_WARNING)
    verdict_text_say (
      v, percent >= FULL_ERROR ? CLUSTER_ERROR : CLUSTER_WARNING,
      "Pool %s is %" PRIu64 " %% full: %s of %s are free. Delete volumes, or "
      "discard what their file systems do not need (fstrim), before writes "
      "wait for space.",
      name, percent, cluster_words_bytes (f.free, free, sizeof free),
      cluster_words_bytes (f.total, total, sizeof total));
  TAILQ_FOREACH (volume, &a->pool->volumes, link) {
    if (volume->waits_live_ms)
      verdict_text_say (v, CLUSTER_ERROR,
                        "Writes to volume %s/%s have waited for space for "
                        "%" PRIu64 " s.",
                        name, volume->rec.name,
                        (c->live_ms - volume->waits_live_ms) / 1000);
    if (volume->rec.state == CLUSTER_VOLUME_BROKEN)
      verdict_text_say (
        v, CLUSTER_ERROR,
        "Volume %s/%s can't be read (%s): nothing of pool %s is "
        "granted until it is deleted (weftctl volume rm).",
        name, volume->rec.name, volume->rec.reason, name);
    if (volume->said.why[0])
      verdict_text_say (v, CLUSTER_ERROR, "Volume %s/%s has failed: %s", name,
                        volume->rec.name, volume->said.why);
  }
}

void
verdict_array (struct verdict *v, const struct cluster *c,
               const struct cluster_array *a)
{
  const struct cluster_session *writer = NULL;
  char text[1500];

  if (cluster_array_doubted (c, a, text, sizeof text))
    verdict_text_say (v, CLUSTER_ERROR, "Array %s is frozen: %s.", a->rec.name,
                      text);
  if (a->rec.restoring)
    return;
  if (!a->rec.ready) {
    bool waits = cluster_array_waits_for (c, a, text, sizeof text);

    verdict_text_say (v, CLUSTER_INFO, "Array %s is being made%s%s.",
                      a->rec.name, waits ? " and waits for " : "",
                      waits ? text : "");
    return;
  }
  while ((writer = cluster_writer_next (a, writer)))
    if (writer->stopped[0])
      verdict_text_say (v, CLUSTER_ERROR,
                        "Array %s has stopped: %s. Bring the member back, and "
                        "the array goes on by itself; flushed writes are safe.",
                        a->rec.name, writer->stopped);
  for (unsigned m = 0; m < a->layout.members; m++)
    say_room (v, a, m);
  say_memory (v, a);
  say_trouble (v, c, a);
  say_bad (v, a);
  say_pool (v, c, a);
  for (unsigned m = 0; m < a->layout.members; m++) {
    say_slow (v, c, a, m);
    say_line (v, c, a, m);
    if (a->rec.member[m].state == MEMBER_JOINING && !trouble (a, m))
      say_joining (v, a, m);
    /* Nothing goes on before somebody says so. */
    if (a->rec.member[m].paused)
      verdict_text_say (
        v, CLUSTER_WARNING,
        "The rebuild of member %u of array %s is paused: weftctl rebuild "
        "resume %s %u lets it go on.",
        m, a->rec.name, a->rec.name, m);
  }
  say_unequal (v, c, a);
  say_unheard (v, a);
  say_service (v, c, a);
  say_owed (v, a);
  say_waits (v, c, a);
}
