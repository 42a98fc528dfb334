/* cluster-verdict.c: the state of everything in a few words for people, and the
 * engine's invariants for tests.
 */

#include <config.h>

#include <assert.h>
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

/* ---- Invariants. ---- */

static void
check_change (const struct cluster *c, const struct cluster_array *a)
{
  const struct cluster_change *change = &a->rec.change;
  const struct cluster_session *s;
  uint8_t now[ARRAY_MEMBERS_MAX];
  bool waits = c->read_only[0] != '\0' || cluster_array_doubted (c, a, NULL, 0);

  assert (change->epoch > a->rec.epoch);
  cluster_array_states (a, now);
  for (unsigned m = 0; m < a->layout.members; m++) {
    enum member_state is = a->rec.member[m].state;

    waits |= cluster_change_waits_for (a, m);
    assert (!change->confirm[m] || change->states[m] != MEMBER_OUT);
    switch (change->states[m]) {
    case MEMBER_OUT:
      break;
    case MEMBER_JOINING: /* an in-sync member goes out first */
      assert (is == MEMBER_JOINING || (is == MEMBER_OUT && change->confirm[m]));
      break;
    case MEMBER_IN_SYNC:
      assert (is == MEMBER_IN_SYNC ||
              (is == MEMBER_JOINING && change->sessions));
      break;
    default:
      abort ();
    }
  }
  TAILQ_FOREACH (s, &a->sessions, array_link)
    waits |= cluster_change_waits_for_session (a, s);
  assert (waits); /* what waits for nobody is committed at once */
  assert (!change->sessions || !cluster_change_stalls (c, a, change->states));
  /* The last copy stays. */
  assert (!cluster_change_loses (a, change->states) ||
          cluster_change_loses (a, now));
}

static void
check_leases (const struct cluster *c, const struct cluster_array *a)
{
  const struct cluster_leases *l = a->leases;
  const struct cluster_session *s = cluster_array_writer (a);
  bool orphans = false, ordered = false;

  assert ((l != NULL) == (s && s->rec.leases));
  if (l == NULL)
    return;
  spans_check (&l->spans);
  for (unsigned i = 0; i < l->spans.count; i++) {
    const struct span *x = &l->spans.span[i];

    assert (x->end <= a->layout.size);
    ordered |= x->owner == LEASE_ORDERED;
    orphans |= x->owner == LEASE_ORPHAN;
    if (x->owner >= LEASE_ORDERED)
      continue;
    s = cluster_session_find (c, x->owner);
    assert (s && s->rec.leases && s->lessee.declared);
    assert (cluster_session_of (s, a));
  }
  assert (ordered == (l->order != 0) && ordered == (l->recoverer != NULL));
  assert (!ordered || cluster_session_of (l->recoverer, a));
  assert (!(ordered || orphans) || a->rec.to_recover);
}

static void
check_array (const struct cluster *c, const struct cluster_array *a)
{
  assert (a->layout.members == a->rec.n * a->rec.groups);
  assert (a->rec.epoch > 0);
  assert (!a->due && !a->is_due); /* cluster_settle has done it */
  assert (a->is_changing || (a->rec.change.epoch == 0 && !a->deferred));
  if (a->rec.change.epoch)
    check_change (c, a);
  check_leases (c, a);
  for (unsigned m = 0; m < a->layout.members; m++) {
    const struct cluster_disk *d = a->disk[m];

    assert (d && d->array == a && d->position == m);
    /* The process of a joining member is known (cluster-life.c) where nobody writes,
     * or will be with the change.
     */
    assert (a->rec.member[m].state != MEMBER_JOINING ||
            cluster_array_writer (a) || !cluster_life_unmet (d) ||
            a->rec.change.confirm[m] ||
            (a->rec.change.epoch && a->rec.change.states[m] == MEMBER_OUT));
    assert (cluster_uuid_is_zero (d->rec.release) ||
            (a->rec.member[m].reset &&
             cluster_uuid_equal (d->rec.release, a->rec.uuid)));
    assert (a->rec.member[m].fence <= a->rec.epoch);
    assert (a->rec.member[m].lapse <= a->rec.epoch);
  }
}

void
cluster_check (const struct cluster *c)
{
  const struct cluster_array *a;
  const struct cluster_session *s;
  const struct waiting *w;
  unsigned writers = 0;

  assert (c->step == NULL);
  TAILQ_FOREACH (a, &c->arrays, link) {
    check_array (c, a);
    writers -= a->writers;
  }
  TAILQ_FOREACH (s, &c->sessions, link) {
    assert (s->rec.id != 0);
    if (s->rec.ended)
      continue;
    writers += s->rec.writable;
    a = s->array;
    assert (a == cluster_array_by_uuid (c, s->rec.array));
    assert (a && s->rec.epoch <= a->rec.epoch);
    for (unsigned m = 0; m < a->layout.members; m++)
      assert (!s->lost[m] ||
              (s->rec.writable && a->rec.member[m].state == MEMBER_IN_SYNC));
    assert (s->rec.writable || s->rec.part.length == 0);
    /* No other session writes what this one does. */
    for (const struct cluster_session *other = s;
         s->rec.writable && (other = cluster_writer_next (a, other));)
      assert (s->rec.leases
                ? other->rec.leases
                : !cluster_parts_meet (&s->rec.part, &other->rec.part));
  }
  assert (writers == 0);
  TAILQ_FOREACH (w, &c->waitings, link) {
    const struct cluster_change *change = w->array ? &w->array->rec.change
                                                   : NULL;

    assert ((w->kind == WAIT_CONTENDER) == (w->heartbeat != NULL));
    assert ((w->kind != WAIT_ATTACH && w->kind != WAIT_LOST) || change->epoch);
    if (w->kind != WAIT_ATTACH || !w->fences)
      continue;
    /* Nobody writes while such an attach waits, and all that stay are to confirm. */
    assert (cluster_array_writer (w->array) == NULL);
    for (unsigned m = 0; m < w->array->layout.members; m++)
      assert (change->confirm[m] == (change->states[m] != MEMBER_OUT));
  }
}
