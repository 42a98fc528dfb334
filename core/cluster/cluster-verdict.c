/* cluster-verdict.c: the state of everything in a few words for people. */

#include <config.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster-internal.h"

/* A change that takes longer is worth a word. */
#define SLOW_MS 2000

struct verdict {
  char *text;
  size_t size, used;
  enum cluster_severity severity;
};

static void say (struct verdict *v, enum cluster_severity severity,
                 const char *fmt, ...) __attribute__ ((format (printf, 3, 4)));

static void
say (struct verdict *v, enum cluster_severity severity, const char *fmt, ...)
{
  va_list ap;
  int n;

  if (severity > v->severity)
    v->severity = severity;
  if (v->used + 2 >= v->size)
    return;
  if (v->used)
    v->text[v->used++] = ' ';
  va_start (ap, fmt);
  n = vsnprintf (v->text + v->used, v->size - v->used, fmt, ap);
  va_end (ap);
  v->used += n < 0 ? 0 : (size_t) n;
  if (v->used >= v->size)
    v->used = v->size - 1;
}

/* What keeps this member from being of use; NULL: nothing, or it is joining. */
static const char *
trouble (const struct cluster_array *a, unsigned m)
{
  const struct cluster_disk *d = a->disk[m];

  return a->rec.member[m].state == MEMBER_OUT
           ? d->failed ? "has failed, and is out" : "is out"
         : d->old_copy ? "is an old copy of its disk"
         : d->failed   ? "has failed"
         : !d->alive   ? "is silent"
                       : NULL;
}

/* What is to be done about it.  That a member comes back by itself is said only when
 * it has spoken since it went out: before, it may be dead, though weftd has not missed
 * it yet.
 */
static const char *
advice (const struct cluster_array *a, unsigned m)
{
  const struct cluster_disk *d = a->disk[m];

  if (a->rec.member[m].held)
    return "It is held out: take it back, or replace it.";
  if (d->old_copy && a->rec.member[m].state != MEMBER_OUT)
    return "Put the right disk back.";
  if (d->failed)
    return "Replace its disk.";
  if (!d->alive)
    return "Start its member process again, or replace its disk.";
  if (!d->heard || !d->spoke)
    return "It has not been heard of since: if that lasts, start its member "
           "process again, or replace its disk.";
  if (a->rec.member[m].state == MEMBER_OUT && d->backoff_ms > 0)
    return "It has gone out again soon after it was back: see to its "
           "connection, or replace its disk.";
  return "It comes back by itself.";
}

static void
say_joining (struct verdict *v, const struct cluster *c,
             const struct cluster_array *a, unsigned m)
{
  const struct cluster_join *join = &a->disk[m]->join;
  enum cluster_severity severity = cluster_node_in_maintenance (
                                     c, a->disk[m]->rec.node)
                                     ? CLUSTER_INFO
                                     : CLUSTER_WARNING;
  char words[320], todo[32];
  unsigned percent = 0;

  if (join->total_bytes > 0 && join->todo_bytes <= join->total_bytes)
    percent = (unsigned) ((double) (join->total_bytes - join->todo_bytes) *
                          100 / (double) join->total_bytes);
  cluster_disk_words (a->disk[m], words, sizeof words);
  cluster_bytes_words (join->todo_bytes, todo, sizeof todo);
  if (join->phase < CLUSTER_JOIN_COPYING)
    say (v, severity, "Member %u (%s) of array %s is to be rebuilt%s%s.", m,
         words, a->rec.name, join->waits[0] ? " and waits for " : "",
         join->waits);
  else
    say (v, severity,
         "Member %u (%s) of array %s is being rebuilt, %u %% is done and %s is "
         "to do%s%s.",
         m, words, a->rec.name, percent, todo,
         join->waits[0] ? "; it waits for " : "", join->waits);
  if (join->unreadable_bytes > 0)
    say (v, CLUSTER_ERROR, "Of these, %s could be read from no copy.",
         cluster_bytes_words (join->unreadable_bytes, todo, sizeof todo));
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
  bool expected = true; /* all of these are on nodes in maintenance */

  for (unsigned m = a->layout.members; m-- > 0;) {
    if (trouble (a, m)) {
      if (count == 0 || !a->disk[first]->old_copy)
        first = m; /* an old copy is named first */
      count++;
    }
    else if (a->rec.member[m].state == MEMBER_JOINING)
      joining++;
    else
      continue;
    expected &= cluster_node_in_maintenance (c, a->disk[m]->rec.node);
  }
  if (count + joining == 0)
    return;
  if (count > 1)
    snprintf (others, sizeof others, ", and %u more are away", count - 1);
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
    say (
      v, CLUSTER_ERROR,
      "Array %s has lost data: %s, and of %s no copy is left in its members. "
      "Do not detach it, keep the disks as they are, and copy off what can "
      "still be read.",
      name, who, bytes);
  else if (unreachable > 0)
    say (v, CLUSTER_ERROR,
         "Array %s cannot serve %s of its data: %s. Nothing is lost if the "
         "member comes back: %s.",
         name, bytes, who,
         a->disk[first]->old_copy ? "put the right disk back"
                                  : "start its process again");
  else if (exposed > 0)
    say (v, expected ? CLUSTER_INFO : CLUSTER_WARNING,
         "Array %s is degraded: %s, and %s %s %s; the next loss can take "
         "data.%s%s",
         name, who, bytes, exposed == 1 ? "has" : "have",
         a->layout.copies > 2 ? "fewer copies than they should"
                              : "only one copy left",
         *what ? " " : "", what);
}

static void
say_array (struct verdict *v, const struct cluster *c,
           const struct cluster_array *a)
{
  const struct cluster_session *writer = NULL;
  const struct cluster_change *change = &a->rec.change;
  char text[1500], words[32];
  uint64_t bad;
  bool waits;

  if (cluster_array_doubted (c, a, text, sizeof text))
    say (v, CLUSTER_ERROR, "Array %s stands still: %s.", a->rec.name, text);
  waits = cluster_array_waits_for (c, a, c->wall_ms, text, sizeof text);
  if (!a->rec.ready) {
    if (waits)
      say (v, CLUSTER_INFO, "Array %s is being made and waits for %s.",
           a->rec.name, text);
    return;
  }
  while ((writer = cluster_writer_next (a, writer)))
    if (writer->stopped[0])
      say (v, CLUSTER_ERROR,
           "Array %s has stopped: %s. Bring the member back, and it goes on by "
           "itself; what was flushed is safe.",
           a->rec.name, writer->stopped);
  say_trouble (v, c, a);
  bad = cluster_array_bad_bytes (a);
  if (bad > 0)
    say (v, CLUSTER_ERROR,
         "%s of array %s can't be read: no good copy was found; write them "
         "anew from a backup (weftctl array bad-ranges %s says where they "
         "lie).",
         cluster_bytes_words (bad, words, sizeof words), a->rec.name,
         a->rec.name);
  for (unsigned m = 0; m < a->layout.members; m++) {
    if (a->rec.member[m].state == MEMBER_JOINING && !trouble (a, m))
      say_joining (v, c, a, m);
    /* Nothing goes on before somebody says so. */
    if (a->rec.member[m].paused)
      say (v, CLUSTER_WARNING,
           "The rebuild of member %u of array %s is paused: weftctl rebuild "
           "resume %s %u lets it go on.",
           m, a->rec.name, a->rec.name, m);
  }
  if (waits && change->epoch && c->wall_ms > change->since_wall_ms + SLOW_MS)
    say (v, CLUSTER_WARNING, "Array %s waits for %s.", a->rec.name, text);
}

/* Those whose word counts for nobody but themselves. */
static void
say_liars (struct verdict *v, const struct cluster *c)
{
  const struct cluster_session *s;
  const struct cluster_disk *d;
  char words[320];

  TAILQ_FOREACH (d, &c->disks, link)
    if (d->doubt.kind == CLUSTER_DOUBT_LIE ||
        (d->doubt.kind == CLUSTER_DOUBT_OPEN && d->array == NULL))
      say (v, CLUSTER_WARNING,
           "What %s says can't be so, and it is refused: %s. If its process "
           "was started again and says so still, the node is not to be "
           "trusted: weftctl node revoke %s.",
           cluster_disk_words (d, words, sizeof words), d->doubt.claim,
           d->rec.node);
  TAILQ_FOREACH (s, &c->sessions, link)
    if (!s->rec.ended && s->doubt.kind &&
        !(s->doubt.kind == CLUSTER_DOUBT_OPEN && s->rec.writable))
      say (v, CLUSTER_WARNING,
           "What process %" PRIu64 " of node %s says, which has array %s "
           "attached, can't be so, and it is refused: %s. Start it again; if "
           "that says so, too, the node is not to be trusted: weftctl node "
           "revoke %s.",
           s->rec.pid, s->rec.node, s->rec.array_name, s->doubt.claim,
           s->rec.node);
}

/* What is not wrong, but worth a word when nothing is. */
static void
say_fine (struct verdict *v, unsigned disks, unsigned arrays, unsigned bare)
{
  if (disks == 0)
    say (v, CLUSTER_INFO,
         "No disk has registered yet: enroll a host that has some (weftctl "
         "node token), or format one and start its member process.");
  else if (arrays == 0)
    say (v, CLUSTER_INFO,
         "%u disk%s registered and no array exists yet: create one.", disks,
         disks == 1 ? " is" : "s are");
  else if (bare == arrays)
    say (v, CLUSTER_INFO,
         "Nothing is wrong, but no array has any redundancy: the loss of a "
         "disk is the loss of its data.");
  else
    say (v, CLUSTER_INFO, "All is well: every byte has all of its copies%s.",
         bare ? ", except in the arrays without redundancy" : "");
}

enum cluster_severity
cluster_verdict (const struct cluster *c, char *text, size_t size)
{
  struct verdict v = { .text = text, .size = size };
  const struct cluster_array *a;
  const struct cluster_session *s;
  const struct cluster_disk *d;
  const struct cluster_node *n;
  char words[320], waits[CLUSTER_WAITS_BYTES];
  unsigned disks = 0, arrays = 0, bare = 0;
  bool passes;

  text[0] = '\0';
  if (c->read_only[0])
    say (&v, CLUSTER_ERROR, "%s.", c->read_only);
  /* The worst comes first. */
  for (int wanted = CLUSTER_ERROR; wanted >= CLUSTER_INFO; wanted--)
    TAILQ_FOREACH (a, &c->arrays, link) {
      const char *state = cluster_array_state (a);
      int is = strcmp (state, "failed") == 0     ? CLUSTER_ERROR
               : strcmp (state, "degraded") == 0 ? CLUSTER_WARNING
                                                 : CLUSTER_INFO;

      if (is == wanted)
        say_array (&v, c, a);
    }
  say_liars (&v, c);
  TAILQ_FOREACH (s, &c->sessions, link)
    if (!s->rec.ended && !s->alive)
      say (&v, CLUSTER_WARNING,
           "Node %s, process %" PRIu64 ", which has array %s attached%s, has "
           "been silent for %" PRIu64 " s: what it had not yet flushed may be "
           "lost if it died; otherwise see to its connection to weftd.",
           s->rec.node, s->rec.pid, s->rec.array_name,
           s->rec.writable ? " for writing" : " read-only",
           cluster_session_silent_ms (c, s) / 1000);
  TAILQ_FOREACH (a, &c->arrays, link)
    for (unsigned m = 0; m < a->layout.members; m++)
      if (cluster_over_unconfirmed (a, m) &&
          c->live_ms >= a->ordered_live_ms + UNCONFIRMED_MS)
        say (&v, CLUSTER_WARNING,
             "Member %u of array %s (%s) has not confirmed that it refuses who "
             "was evicted or shut out, and may serve them still: end its "
             "process, or start it again.",
             m, a->rec.name,
             cluster_disk_words (a->disk[m], words, sizeof words));
  TAILQ_FOREACH (d, &c->disks, link) {
    disks++;
    if (d->array == NULL && d->failed)
      say (&v, CLUSTER_WARNING, "%s has failed (%s): replace it.",
           cluster_disk_words (d, words, sizeof words), d->reason);
  }
  TAILQ_FOREACH (a, &c->arrays, link) {
    arrays++;
    bare += a->layout.copies == 1;
  }
  TAILQ_FOREACH (n, &c->nodes, link)
    if (cluster_node_waits (c, n->rec.name, waits, sizeof waits, &passes) &&
        !passes)
      say (&v, CLUSTER_WARNING,
           "The drain of node %s cannot go on: it waits for %s. weftctl node "
           "drain %s --stop ends it.",
           n->rec.name, waits, n->rec.name);
  if (v.used == 0)
    say_fine (&v, disks, arrays, bare);
  /* What was said of a node stands until it is taken back: nobody forgets it. */
  TAILQ_FOREACH (n, &c->nodes, link) {
    if (n->rec.maintenance)
      say (&v, CLUSTER_INFO, "Node %s is in maintenance.", n->rec.name);
    if (!n->rec.draining)
      continue;
    if (!cluster_node_waits (c, n->rec.name, waits, sizeof waits, &passes))
      say (&v, CLUSTER_INFO, "Node %s is %sdrained.", n->rec.name,
           cluster_node_drained (c, n->rec.name) ? "" : "being ");
    else if (passes)
      say (&v, CLUSTER_INFO, "The drain of node %s waits for %s.", n->rec.name,
           waits);
  }
  return v.severity;
}
