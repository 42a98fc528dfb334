/* cluster-verdict.c: the state of everything in a few words for people. */

#include <config.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "cluster-internal.h"
#include "cluster-verdict.h"

void
verdict_say (struct verdict *v, enum cluster_severity severity, const char *fmt,
             ...)
{
  va_list ap;
  int n;

  if (severity != v->wanted)
    return;
  if (severity > v->worst)
    v->worst = severity;
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
      verdict_say (
        v, CLUSTER_WARNING,
        "What %s says can't be so, and it is refused: %s. If its process "
        "was started again and says so still, the node is not to be "
        "trusted: weftctl node revoke %s.",
        cluster_disk_words (d, words, sizeof words), d->doubt.claim,
        d->rec.node);
  TAILQ_FOREACH (s, &c->sessions, link)
    if (!s->rec.ended && s->doubt.kind &&
        !(s->doubt.kind == CLUSTER_DOUBT_OPEN && s->rec.writable))
      verdict_say (
        v, CLUSTER_WARNING,
        "What process %" PRIu64 " of node %s says, which has array %s "
        "attached, can't be so, and it is refused: %s. Start it again; if "
        "that says so, too, the node is not to be trusted: weftctl node "
        "revoke %s.",
        s->rec.pid, s->rec.node, s->rec.array_name, s->doubt.claim,
        s->rec.node);
}

static void
say_weftd (struct verdict *v, const struct cluster *c)
{
  if (c->read_only[0])
    verdict_say (v, CLUSTER_ERROR, "%s.", c->read_only);
}

static void
say_sessions (struct verdict *v, const struct cluster *c)
{
  const struct cluster_session *s;

  TAILQ_FOREACH (s, &c->sessions, link)
    if (!s->rec.ended && !s->alive)
      verdict_say (
        v, CLUSTER_WARNING,
        "Node %s, process %" PRIu64 ", which has array %s attached%s, has "
        "been silent for %" PRIu64 " s: what it had not yet flushed may be "
        "lost if it died; otherwise see to its connection to weftd.",
        s->rec.node, s->rec.pid, s->rec.array_name,
        s->rec.writable ? " for writing" : " read-only",
        cluster_session_silent_ms (c, s) / 1000);
}

/* Members that may still serve a session that an administrator has ended. */
static void
say_unconfirmed (struct verdict *v, const struct cluster *c)
{
  const struct cluster_array *a;
  char words[320];

  TAILQ_FOREACH (a, &c->arrays, link)
    for (unsigned m = 0; m < a->layout.members; m++)
      if (cluster_over_unconfirmed (a, m) &&
          c->live_ms >= a->ordered_live_ms + UNCONFIRMED_MS)
        verdict_say (
          v, CLUSTER_WARNING,
          "Member %u of array %s (%s) has not confirmed that it refuses who "
          "was evicted or shut out, and may serve them still: end its "
          "process, or start it again.",
          m, a->rec.name, cluster_disk_words (a->disk[m], words, sizeof words));
}

/* Disks that are no member: the array speaks of its members. */
static void
say_disks (struct verdict *v, const struct cluster *c)
{
  const struct cluster_disk *d;
  char words[320];

  TAILQ_FOREACH (d, &c->disks, link)
    if (d->array == NULL && d->failed)
      verdict_say (v, CLUSTER_WARNING, "%s has failed (%s): replace it.",
                   cluster_disk_words (d, words, sizeof words), d->reason);
}

static void
say_drains (struct verdict *v, const struct cluster *c)
{
  const struct cluster_node *n;
  char waits[CLUSTER_WAITS_BYTES];
  bool passes;

  TAILQ_FOREACH (n, &c->nodes, link)
    if (cluster_node_waits (c, n->rec.name, waits, sizeof waits, &passes) &&
        !passes)
      verdict_say (
        v, CLUSTER_WARNING,
        "The drain of node %s cannot go on: it waits for %s. weftctl node "
        "drain %s --stop ends it.",
        n->rec.name, waits, n->rec.name);
}

static void
say_problems (struct verdict *v, const struct cluster *c)
{
  const struct cluster_array *a;

  say_weftd (v, c);
  TAILQ_FOREACH (a, &c->arrays, link)
    verdict_array (v, c, a);
  say_liars (v, c);
  say_sessions (v, c);
  say_unconfirmed (v, c);
  say_disks (v, c);
  say_drains (v, c);
}

/* Nothing is wrong, and nothing waits. */
static void
say_fine (struct verdict *v, const struct cluster *c)
{
  const struct cluster_array *a;
  const struct cluster_disk *d;
  unsigned disks = 0, arrays = 0, bare = 0;

  TAILQ_FOREACH (d, &c->disks, link)
    disks++;
  TAILQ_FOREACH (a, &c->arrays, link) {
    arrays++;
    bare += a->layout.copies == 1;
  }
  if (disks == 0)
    verdict_say (
      v, CLUSTER_INFO,
      "No disk has registered yet: enroll a host that has some (weftctl "
      "node token), or format one and start its member process.");
  else if (arrays == 0)
    verdict_say (v, CLUSTER_INFO,
                 "%u disk%s registered and no array exists yet: create one.",
                 disks, disks == 1 ? " is" : "s are");
  else if (bare == arrays)
    verdict_say (
      v, CLUSTER_INFO,
      "Nothing is wrong, but no array has any redundancy: the loss of a "
      "disk is the loss of its data.");
  else
    verdict_say (v, CLUSTER_INFO,
                 "All is well: every byte has all of its copies%s.",
                 bare ? ", except in the arrays without redundancy" : "");
}

/* What was said of a node stands until it is taken back: nobody forgets it. */
static void
say_nodes (struct verdict *v, const struct cluster *c)
{
  const struct cluster_node *n;
  char waits[CLUSTER_WAITS_BYTES];
  bool passes;

  TAILQ_FOREACH (n, &c->nodes, link) {
    if (n->rec.maintenance)
      verdict_say (v, CLUSTER_INFO, "Node %s is in maintenance.", n->rec.name);
    if (!n->rec.draining)
      continue;
    if (!cluster_node_waits (c, n->rec.name, waits, sizeof waits, &passes))
      verdict_say (v, CLUSTER_INFO, "Node %s is %sdrained.", n->rec.name,
                   cluster_node_drained (c, n->rec.name) ? "" : "being ");
    else if (passes)
      verdict_say (v, CLUSTER_INFO, "The drain of node %s waits for %s.",
                   n->rec.name, waits);
  }
}

enum cluster_severity
cluster_verdict (const struct cluster *c, char *text, size_t size)
{
  struct verdict v = { .text = text, .size = size };

  text[0] = '\0';
  for (int severity = CLUSTER_ERROR; severity >= CLUSTER_INFO; severity--) {
    v.wanted = severity;
    say_problems (&v, c);
  }
  if (v.used == 0)
    say_fine (&v, c);
  say_nodes (&v, c);
  return v.worst;
}
