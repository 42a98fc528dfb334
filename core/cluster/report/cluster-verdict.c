/* cluster-verdict.c: the state of everything in a few words for people. */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>

#include "cluster-report.h"
#include "cluster-verdict.h"

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
      verdict_text_say (v, CLUSTER_WARNING,
                        "Refused an impossible report from %s: %s. If the "
                        "report is the same after a restart of its process, do "
                        "not trust the node: weftctl node revoke %s.",
                        cluster_words_disk (d, words, sizeof words),
                        d->doubt.claim, d->rec.node);
  TAILQ_FOREACH (s, &c->sessions, link)
    if (!s->rec.ended && s->doubt.kind &&
        !(s->doubt.kind == CLUSTER_DOUBT_OPEN && s->rec.writable))
      verdict_text_say (v, CLUSTER_WARNING,
                        "Refused an impossible report from process %" PRIu64
                        " of node %s, which has array %s attached: %s. Start "
                        "the process again; if the report is the same then, do "
                        "not trust the node: weftctl node revoke %s.",
                        s->rec.pid, s->rec.node, s->rec.array_name,
                        s->doubt.claim, s->rec.node);
}

static void
say_weftd (struct verdict *v, const struct cluster *c)
{
  uint64_t made = c->identity.backup_wall_ms;

  if (c->read_only[0])
    verdict_text_say (v, CLUSTER_ERROR, "%s.", c->read_only);
  if (c->room[0])
    verdict_text_say (v, CLUSTER_WARNING, "%s.", c->room);
  if (made)
    verdict_text_say (
      v, CLUSTER_WARNING,
      "weftd was restored from a backup that is %" PRIu64 " h old. Nodes, "
      "users and rights that were removed since are back: remove them again, "
      "then run weftctl revocations confirm.",
      c->wall_ms > made ? (c->wall_ms - made) / 3600000 : 0);
  if (c->revoked_doubt[0])
    verdict_text_say (v, CLUSTER_WARNING, "%s.", c->revoked_doubt);
  if (c->audit[0])
    verdict_text_say (v, CLUSTER_WARNING, "%s.", c->audit);
}

/* ---- Silent processes: one sentence for all that do the same. ---- */

enum silent {
  SILENT_READER_APART, /* and nothing else is heard of its node */
  SILENT_READER,       /* its node is heard: it has ended, or hangs */
  SILENT_WRITER,
  SILENT_SHARER,
  SILENT_SERVER,
  SILENT_KINDS
};

static const struct {
  enum cluster_severity severity;
  const char *does, *what;
} silent_words[SILENT_KINDS] = {
  [SILENT_READER_APART] = { CLUSTER_WARNING, "reads",
                            "A silent reader answers no read, and nothing is "
                            "lost with it. If it still runs, check its "
                            "connection to weftd." },
  [SILENT_READER] = { CLUSTER_INFO, "reads",
                      "A silent reader answers no read, and nothing is lost "
                      "with it." },
  [SILENT_WRITER] = { CLUSTER_WARNING, "writes",
                      "If the process died, writes that it acknowledged and "
                      "did not flush may be lost: attach the array again. If "
                      "it still runs, check its connection to weftd." },
  [SILENT_SHARER] = { CLUSTER_WARNING, "shares",
                      "If the process died, writes that it acknowledged and "
                      "did not flush may be lost. If it still runs, check its "
                      "connection to weftd: it is ended when another process "
                      "that shares the array is heard." },
  [SILENT_SERVER] = { CLUSTER_WARNING, "serves",
                      "Clients wait until it is heard, or another node serves "
                      "the array." },
};

static bool
node_is_heard (const struct cluster *c, const char *node)
{
  const struct cluster_session *s;
  const struct cluster_disk *d;

  TAILQ_FOREACH (d, &c->disks, link)
    if (cluster_disk_heard (d) && d->alive && strcmp (d->rec.node, node) == 0)
      return true;
  TAILQ_FOREACH (s, &c->sessions, link)
    if (!s->rec.ended && s->heard && s->alive &&
        strcmp (s->rec.node, node) == 0)
      return true;
  return false;
}

/* Has another process of its node read the array since? */
static bool
is_replaced (const struct cluster_session *s)
{
  const struct cluster_session *later = s;

  while ((later = TAILQ_NEXT (later, array_link)))
    if (strcmp (later->rec.node, s->rec.node) == 0)
      return true;
  return false;
}

/* SILENT_KINDS: nobody need know of its silence. */
static enum silent
silent_kind (const struct cluster *c, const struct cluster_session *s)
{
  if (s->rec.ended || s->alive)
    return SILENT_KINDS;
  if (s->rec.writable)
    return s->rec.service           ? SILENT_SERVER
           : s->rec.part.length > 0 ? SILENT_SHARER
                                    : SILENT_WRITER;
  if (is_replaced (s))
    return SILENT_KINDS;
  return node_is_heard (c, s->rec.node) ? SILENT_READER : SILENT_READER_APART;
}

static void
say_silent (struct verdict *v, const struct cluster *c, enum silent kind)
{
  const struct cluster_session *s, *first = NULL;
  uint64_t longest_ms = 0, ms;
  unsigned count = 0;
  char more[64] = "";

  TAILQ_FOREACH (s, &c->sessions, link) {
    if (silent_kind (c, s) != kind)
      continue;
    ms = cluster_session_silent_ms (c, s);
    longest_ms = ms > longest_ms ? ms : longest_ms;
    first = first ? first : s;
    count++;
  }
  if (count == 0)
    return;
  if (count > 1)
    snprintf (more, sizeof more, ", and %u more that %.*s", count - 1,
              (int) strlen (silent_words[kind].does) - 1,
              silent_words[kind].does);
  verdict_text_say (
    v, silent_words[kind].severity,
    "Node %s, process %" PRIu64 ", which %s array %s%s, %s been "
    "silent for%s %" PRIu64 " s. %s",
    first->rec.node, first->rec.pid, silent_words[kind].does,
    first->rec.array_name, more, count > 1 ? "have" : "has",
    count > 1 ? " up to" : "", longest_ms / 1000, silent_words[kind].what);
}

static void
say_sessions (struct verdict *v, const struct cluster *c)
{
  for (int kind = 0; kind < SILENT_KINDS; kind++)
    if (silent_words[kind].severity == v->wanted)
      say_silent (v, c, (enum silent) kind);
}

/* ---- Disks and nodes. ---- */

/* Members that may still serve a session that an administrator has ended. */
static void
say_unconfirmed (struct verdict *v, const struct cluster *c)
{
  const struct cluster_array *a;
  char words[320];

  TAILQ_FOREACH (a, &c->arrays, link)
    for (unsigned m = 0; m < a->layout.members; m++)
      if (cluster_shut_unconfirmed (a, m) &&
          c->live_ms >= a->ordered_live_ms + UNCONFIRMED_MS)
        verdict_text_say (
          v, CLUSTER_WARNING,
          "Member %u of array %s (%s) has not confirmed that it refuses who "
          "was evicted or shut out, and may serve them still: end its "
          "process, or start it again.",
          m, a->rec.name, cluster_words_disk (a->disk[m], words, sizeof words));
}

/* Disks that are no member: the array speaks of its members. */
static void
say_disks (struct verdict *v, const struct cluster *c)
{
  const struct cluster_disk *d;
  char words[320];

  TAILQ_FOREACH (d, &c->disks, link) {
    if (d->array)
      continue;
    cluster_words_disk (d, words, sizeof words);
    if (d->state == DISK_REMOVED)
      verdict_text_say (v, CLUSTER_WARNING,
                        "%s is gone: %s. Connect it again, or replace it.",
                        words, d->reason);
    else if (cluster_disk_failed (d))
      verdict_text_say (v, CLUSTER_WARNING, "%s has failed (%s): replace it.",
                        words, d->reason);
    else if (!d->alive && !cluster_uuid_is_zero (d->rec.spare_of))
      verdict_text_say (
        v, CLUSTER_WARNING,
        "The spare, %s, is silent: start its member process again, "
        "or add another spare.",
        words);
  }
}

/* Disks that are refused, for their array is not known here. */
static void
say_foreigns (struct verdict *v, const struct cluster *c)
{
  const struct cluster_foreign *f, *first = NULL;
  unsigned count = 0;
  char more[64] = "";

  TAILQ_FOREACH (f, &c->foreigns, link)
    if (cluster_import_plan_is_heard (c, f) &&
        !cluster_uuid_is_zero (f->hb.array) &&
        cluster_array_by_uuid (c, f->hb.array) == NULL) {
      first = first ? first : f;
      count++;
    }
  if (count == 0)
    return;
  if (count > 1)
    snprintf (more, sizeof more, " and %u more", count - 1);
  verdict_text_say (
    v, CLUSTER_WARNING,
    "Disk %.200s of node %s%s %s refused: weftd does not know the array of "
    "which %s a member. If its database was lost, weftctl array import lists "
    "what can be imported; else give the member process the admin URL of its "
    "own weftd, or format the disk.",
    first->hb.path, first->hb.node, more, count > 1 ? "are" : "is",
    count > 1 ? "each is" : "it is");
}

/* Disks that two processes want to serve: one of them has a copy of the disk. */
static void
say_twins (struct verdict *v, const struct cluster *c)
{
  const struct cluster_disk *d;
  char words[320];

  TAILQ_FOREACH (d, &c->disks, link)
    if (d->rival.refused_live_ms &&
        c->live_ms - d->rival.refused_live_ms < DOUBT_MS)
      verdict_text_say (
        v, CLUSTER_WARNING,
        "A second process asked to serve %s, and was refused: one of the two "
        "has a copy of the disk. Stop the process that has the copy; if that "
        "is "
        "the one at %.200s, start the other again.",
        cluster_words_disk (d, words, sizeof words), d->rec.uri);
}

/* A disk that is not known has said more than the database knows. */
static void
say_unknown (struct verdict *v, const struct cluster *c)
{
  if (c->read_only[0] || c->doubt_node[0] == '\0' ||
      c->doubt_claim[0] == '\0' || c->live_ms - c->doubt_live_ms >= DOUBT_MS)
    return;
  verdict_text_say (
    v, CLUSTER_WARNING,
    "A disk of node %s that is not known here is refused: %s. If weftd's "
    "database is an older copy that was put back, restore it by weftd "
    "--restore; if not, the node is not to be trusted: weftctl node revoke "
    "%s.",
    c->doubt_node, c->doubt_claim, c->doubt_node);
}

/* Disks that are refused, because they know more of their array than it was
 * imported with.  (An array that waits for its restore has refused all disks.)
 */
static void
say_late (struct verdict *v, const struct cluster *c)
{
  const struct cluster_foreign *f;
  const struct cluster_array *a;

  TAILQ_FOREACH (f, &c->foreigns, link) {
    a = cluster_array_by_uuid (c, f->hb.array);
    if (a && !a->rec.restoring && cluster_import_plan_is_heard (c, f))
      verdict_text_say (
        v, CLUSTER_WARNING,
        "Disk %.150s of node %s says that it is member %u of array %s and "
        "knows its epoch %" PRIu64 " and round %" PRIu64
        ", more than the disks from which the array was imported: it may have "
        "data that no other disk has, and is refused. Keep it, and import the "
        "array again with it by a weftd with an empty state directory; or "
        "format it, if its data is not needed.",
        f->hb.path, f->hb.node, f->hb.position, a->rec.name, f->hb.states_epoch,
        f->hb.round);
  }
}

static void
say_drain (struct verdict *v, const struct cluster *c, const char *node)
{
  char waits[CLUSTER_WAITS_BYTES];
  bool passes;

  if (cluster_node_drained (c, node))
    return;
  if (!cluster_node_waits (c, node, waits, sizeof waits, &passes))
    verdict_text_say (v, CLUSTER_INFO, "Node %s is being drained.", node);
  else if (passes)
    verdict_text_say (v, CLUSTER_INFO, "The drain of node %s waits for %s.",
                      node, waits);
  else
    verdict_text_say (
      v, CLUSTER_WARNING,
      "The drain of node %s cannot go on: it waits for %s. weftctl "
      "node drain %s --stop ends it.",
      node, waits, node);
}

static void
say_nodes (struct verdict *v, const struct cluster *c)
{
  const struct cluster_node *n;

  TAILQ_FOREACH (n, &c->nodes, link) {
    if (n->rec.removed)
      continue;
    if (n->rec.draining)
      say_drain (v, c, n->rec.name);
    if (n->rec.fenced)
      verdict_text_say (v, CLUSTER_WARNING,
                        "Node %s is fenced, and all its requests are refused: "
                        "weftctl node fence off %s admits it again.",
                        n->rec.name, n->rec.name);
  }
}

static void
say_problems (struct verdict *v, const struct cluster *c)
{
  const struct cluster_array *a;

  say_weftd (v, c);
  TAILQ_FOREACH (a, &c->arrays, link)
    verdict_array (v, c, a);
  TAILQ_FOREACH (a, &c->arrays, link)
    verdict_place (v, c, a);
  say_liars (v, c);
  say_sessions (v, c);
  say_unconfirmed (v, c);
  say_disks (v, c);
  say_foreigns (v, c);
  say_late (v, c);
  say_twins (v, c);
  say_unknown (v, c);
  say_nodes (v, c);
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
    verdict_text_say (
      v, CLUSTER_INFO,
      "No disk has registered yet: enroll a host that has some (weftctl "
      "node token), or format one and start its member process.");
  else if (arrays == 0)
    verdict_text_say (
      v, CLUSTER_INFO,
      "%u disk%s registered and no array exists yet: create one.", disks,
      disks == 1 ? " is" : "s are");
  else if (bare == arrays)
    verdict_text_say (
      v, CLUSTER_INFO,
      "Nothing is wrong, but no array has any redundancy: the loss of a "
      "disk is the loss of its data.");
  else
    verdict_text_say (v, CLUSTER_INFO,
                      "All is well: every byte has all of its copies%s.",
                      bare ? ", except in the arrays without redundancy" : "");
}

/* An administrator's settings of a node stand until they are taken back: weftd
 * forgets none.
 */
static void
say_notes (struct verdict *v, const struct cluster *c)
{
  const struct cluster_node *n;

  TAILQ_FOREACH (n, &c->nodes, link) {
    if (n->rec.maintenance)
      verdict_text_say (v, CLUSTER_INFO, "Node %s is in maintenance.",
                        n->rec.name);
    if (n->rec.draining && cluster_node_drained (c, n->rec.name))
      verdict_text_say (v, CLUSTER_INFO, "Node %s is drained.", n->rec.name);
    if (n->rec.shut_out && !n->rec.removed)
      verdict_text_say (v, CLUSTER_INFO,
                        "Node %s is shut out until it is enrolled again.",
                        n->rec.name);
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
  say_notes (&v, c);
  return v.worst;
}
