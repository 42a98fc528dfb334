/* cluster-doubt.c: rejects reports of epochs and generations that weftd has not
 * made.
 *
 * weftd makes all epochs and generations itself.  If a node reports a higher
 * number than weftd has made, either weftd's database is older than the one
 * that made the number, or the node lies.  The report of a single node does not
 * decide that for the others:
 *
 * - If the node's process has spoken to this weftd before, or got its session
 *   from it, the node lies: the process is refused, and the verdict names it,
 *   until it reports possible numbers.
 * - A disk without a place in the array, or a reading session, is refused as
 *   well: the array does not depend on it.
 * - A member or a writer may be right in its first report after weftd's start.
 *   It is refused, and its array is frozen: no session begins, no member goes
 *   out or comes back.  Present sessions go on.  An administrator restores
 *   weftd, if the database is a backup (cluster-restore.c), or revokes the
 *   node.
 * - If two nodes report so, or the only one that there is, the database is old,
 *   and weftd takes no changes at all.
 *
 * The same holds for rounds, which the writer makes: cluster-rounds.c.
 */

#include <config.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cluster-trust.h"

static void claims (char claim[], size_t size, const char *fmt, ...)
  __attribute__ ((format (printf, 3, 4)));

static void
claims (char claim[], size_t size, const char *fmt, ...)
{
  va_list ap;

  va_start (ap, fmt);
  vsnprintf (claim, size, fmt, ap);
  va_end (ap);
}

/* Has this cluster no other node? */
static bool
only_node (const struct cluster *c, const char *node)
{
  const struct cluster_disk *d;
  bool any = false;

  TAILQ_FOREACH (d, &c->disks, link) {
    if (cluster_disk_is_name (d))
      continue;
    if (strcmp (d->rec.node, node) != 0)
      return false;
    any = true;
  }
  return any;
}

/* This node has said what only a newer database than ours can have told it. */
static void
count_node (struct cluster *c, const char *node, const char *who,
            const char *claim)
{
  bool other = c->doubt_node[0] && strcmp (c->doubt_node, node) != 0 &&
               c->live_ms - c->doubt_live_ms < DOUBT_MS;

  if (other)
    cluster_step_set_read_only (c, "%s says: %s; and so does node %s", who,
                                claim, c->doubt_node);
  else if (only_node (c, node))
    cluster_step_set_read_only (c, "%s says: %s", who, claim);
  snprintf (c->doubt_node, sizeof c->doubt_node, "%s", node);
  c->doubt_live_ms = c->live_ms;
}

/* Refuse it, by *problem (or because weftd takes no changes any more).  doubt: NULL: of a
 * disk that is not known.  True: this is new of it.
 */
static bool
refuse (struct cluster *c, uint64_t op, struct cluster_doubt *doubt,
        enum cluster_doubt_kind kind, const char *node, const char *who,
        const char *claim, struct cluster_problem **problem)
{
  struct cluster_doubt unknown = { .kind = CLUSTER_DOUBT_NONE };
  bool open = kind == CLUSTER_DOUBT_OPEN, differs;

  if (open)
    snprintf (c->doubt_claim, sizeof c->doubt_claim, "%s",
              doubt == NULL ? claim : "");
  if (doubt == NULL) {
    doubt = &unknown;
    if (strcmp (c->doubt_node, node) == 0)
      unknown.live_ms = c->doubt_live_ms;
  }
  if (open)
    count_node (c, node, who, claim);
  *problem = cluster_step_refuse_read_only (c, op);
  if (*problem)
    return false;
  /* A repeated report must not fill the log. */
  if (doubt->live_ms == 0 || c->live_ms - doubt->live_ms >= DOUBT_MS)
    cluster_step_log (c, CLUSTER_ERROR, "node", node,
                      "%s says: %s. %s Otherwise node %s is not to be trusted: "
                      "weftctl node revoke %s shuts it out.",
                      who, claim,
                      open
                        ? "If weftd's database is an older copy that was put "
                          "back, restore it by: weftd --restore."
                        : "The report is impossible and refused: start the "
                          "process there again.",
                      node, node);
  differs = doubt->kind != kind;
  doubt->kind = kind;
  doubt->live_ms = c->live_ms;
  snprintf (doubt->claim, sizeof doubt->claim, "%s", claim);
  if (open)
    *problem = cluster_step_defer (
      c, op, CLUSTER_UNAVAILABLE, "doubted", HEARTBEAT_MS,
      "%s says: %s: if weftd's database is an older copy that was put back, "
      "restore it by weftd --restore",
      who, claim);
  else
    *problem = cluster_step_refuse (
      c, op, CLUSTER_CONFLICT, "untrue",
      "%s says: %s: that is impossible; check that node, and start the process "
      "there again",
      who, claim);
  return differs;
}

/* ---- Disks. ---- */

bool
cluster_doubt_nonsense (struct cluster *c, uint64_t op,
                        const struct cluster_disk_heartbeat *hb)
{
  const struct cluster_array *a;
  uint64_t epoch = 0, round = 0;
  const char *field;

  TAILQ_FOREACH (a, &c->arrays, link) {
    if (cluster_array_wanted_epoch (a) > epoch)
      epoch = cluster_array_wanted_epoch (a);
    if (a->rec.round > round)
      round = a->rec.round;
  }
  field = hb->min_epoch > epoch + AHEAD_MAX                     ? "min_epoch"
          : hb->states_epoch > epoch + AHEAD_MAX                ? "states_epoch"
          : hb->round > round + AHEAD_MAX                       ? "round"
          : hb->generation > c->identity.generation + AHEAD_MAX ? "generation"
                                                                : NULL;
  /* So says the record of a member that an import did not find, of its disk. */
  if (hb->size == 0) {
    cluster_step_refuse (
      c, op, CLUSTER_INVALID, "nonsense",
      "disk %.200s of node %s says that it has no bytes: see the "
      "log of its process, and start that again",
      hb->path, hb->node)
      ->field = "size";
    return true;
  }
  if (field == NULL)
    return false;
  cluster_step_refuse (c, op, CLUSTER_INVALID, "nonsense",
                       "disk %.200s of node %s says %s is %" PRIu64
                       ", and no real value is that large: format it",
                       hb->path, hb->node, field,
                       *field == 'm'   ? hb->min_epoch
                       : *field == 's' ? hb->states_epoch
                       : *field == 'r' ? hb->round
                                       : hb->generation)
    ->field = field;
  return true;
}

/* A process raises min_epoch once by itself, at its start: to one above an
 * epoch in which a door was opened.  Higher values come from weftd.
 */
static uint64_t
min_epoch_max (const struct cluster_disk *d,
               const struct cluster_disk_heartbeat *hb)
{
  uint64_t wanted = cluster_array_wanted_epoch (d->array);

  if (!cluster_disk_heard (d) || strcmp (d->instance, hb->instance) != 0)
    return wanted + 1;
  return d->raise_max > wanted ? d->raise_max : wanted;
}

/* Was this place imported?  Then a disk that is not known may know more than weftd, and
 * cluster-admit.c says what becomes of it.
 */
static bool
imported_place (const struct cluster_array *a, unsigned position)
{
  return position < a->layout.members && a->rec.member[position].imported > 0;
}

/* The impossible numbers in its report, in words. */
static enum cluster_doubt_kind
weigh (const struct cluster *c, struct cluster_disk *d,
       const struct cluster_disk_heartbeat *hb, char claim[], size_t size)
{
  /* The array that the disk names counts: its place in the database may be old. */
  const struct cluster_array *a = cluster_array_by_uuid (c, hb->array);
  bool in_place = d && a && d->array == a && hb->position == d->position;
  bool late = d == NULL && a && imported_place (a, hb->position);
  enum cluster_doubt_kind kind = d && d->presence != DISK_UNHEARD
                                   ? CLUSTER_DOUBT_LIE
                                   : CLUSTER_DOUBT_OPEN;

  if (hb->generation > c->identity.generation && !late)
    claims (claim, size,
            "it has seen generation %" PRIu64 ", and this is %" PRIu64,
            hb->generation, c->identity.generation);
  else if (a && hb->states_epoch > cluster_array_wanted_epoch (a) && !late)
    claims (claim, size,
            "it has seen epoch %" PRIu64
            " of array %s, which is here at %" PRIu64,
            hb->states_epoch, a->rec.name, cluster_array_wanted_epoch (a));
  /* The disk of a member that is out may have another array's min_epoch. */
  else if (d && d->array &&
           d->array->rec.member[d->position].state != MEMBER_OUT &&
           hb->min_epoch > min_epoch_max (d, hb))
    claims (claim, size,
            "it refuses epochs below %" PRIu64
            " of array %s, which is here at %" PRIu64,
            hb->min_epoch, d->array->rec.name,
            cluster_array_wanted_epoch (d->array));
  else if (in_place && cluster_rounds_refute (c, a, d->position, hb->round)) {
    claims (claim, size,
            "it has seen round %" PRIu64
            " of the writing of array %s, which ended with round %" PRIu64,
            hb->round, a->rec.name, a->rec.round);
    if (d->refuted == 0 || hb->round < d->refuted)
      d->refuted = hb->round;
    return CLUSTER_DOUBT_LIE;
  }
  else {
    if (d)
      d->refuted = 0;
    return CLUSTER_DOUBT_NONE;
  }
  return kind;
}

struct cluster_problem *
cluster_doubt_disk (struct cluster *c, uint64_t op, struct cluster_disk *d,
                    const struct cluster_disk_heartbeat *hb)
{
  char claim[sizeof d->doubt.claim], who[320];
  struct cluster_problem *p;
  enum cluster_doubt_kind kind;

  kind = weigh (c, d, hb, claim, sizeof claim);
  if (kind == CLUSTER_DOUBT_NONE) {
    if (d && d->doubt.kind) {
      d->doubt.kind = CLUSTER_DOUBT_NONE;
      cluster_step_changed_disk (c, d);
      if (d->array)
        cluster_step_member_moved (c, d->array);
    }
    if (d)
      cluster_rounds_hear (c, d, hb);
  }
  p = cluster_step_refuse_read_only (c, op);
  if (p || kind == CLUSTER_DOUBT_NONE)
    return p;
  snprintf (who, sizeof who, "disk %.120s of node %s", hb->path, hb->node);
  if (refuse (c, op, d ? &d->doubt : NULL, kind, hb->node, who, claim, &p) && d)
    cluster_step_changed_disk (c, d);
  return p;
}

/* ---- Sessions. ---- */

bool
cluster_doubt_session (struct cluster *c, uint64_t op,
                       struct cluster_session *s, struct cluster_array *a,
                       const struct cluster_session_heartbeat *hb)
{
  struct cluster_problem *p;
  uint64_t epoch = hb->epoch > hb->prepared ? hb->epoch : hb->prepared;
  char claim[sizeof s->doubt.claim], who[320];

  if (cluster_step_refuse_restoring (c, op, a))
    return true;
  if (hb->epoch <= a->rec.epoch &&
      hb->prepared <= cluster_array_wanted_epoch (a)) {
    if (s->doubt.kind) {
      s->doubt.kind = CLUSTER_DOUBT_NONE;
      cluster_array_due (c, a, DUE_CHANGE | DUE_MEMBERS);
    }
    return cluster_step_refuse_read_only (c, op);
  }
  claims (claim, sizeof claim,
          "it has seen epoch %" PRIu64
          " of array %s, which is here at %" PRIu64,
          epoch, a->rec.name, cluster_array_wanted_epoch (a));
  snprintf (who, sizeof who, "process %" PRIu64 " of node %s", s->rec.pid,
            s->rec.node);
  refuse (c, op, &s->doubt, s->heard ? CLUSTER_DOUBT_LIE : CLUSTER_DOUBT_OPEN,
          s->rec.node, who, claim, &p);
  return true;
}

/* ---- Arrays. ---- */

bool
cluster_array_doubted (const struct cluster *c, const struct cluster_array *a,
                       char *text, size_t size)
{
  const struct cluster_session *writer = cluster_array_writer (a);
  char words[320];
  uint64_t others;
  unsigned m;

  if (a->rec.restoring) {
    if (text)
      snprintf (text, size, "it is not restored from the backup yet: %s",
                a->waits[0] ? a->waits : "its members have not spoken yet");
    return true;
  }
  for (m = 0; m < a->layout.members; m++)
    if (a->disk[m]->doubt.kind == CLUSTER_DOUBT_OPEN)
      break;
  if (m < a->layout.members) {
    if (text)
      snprintf (text, size,
                "member %u (%s) says: %s; if weftd's database is an older copy "
                "that was put back, restore it by weftd --restore; if not, the "
                "node is not to be trusted (weftctl node revoke %s)",
                m, cluster_words_disk (a->disk[m], words, sizeof words),
                a->disk[m]->doubt.claim, a->disk[m]->rec.node);
    return true;
  }
  while (writer && writer->doubt.kind != CLUSTER_DOUBT_OPEN)
    writer = cluster_writer_next (a, writer);
  if (writer) {
    if (text)
      snprintf (
        text, size,
        "node %s, process %" PRIu64
        ", which writes, says: %s; if weftd's database is an older copy "
        "that was put back, restore it by weftd --restore; if not, end "
        "that session (weftctl session evict %016" PRIx64 ")",
        writer->rec.node, writer->rec.pid, writer->doubt.claim, writer->rec.id);
    return true;
  }
  if (!cluster_rounds_alone (c, a, &m, &others))
    return false;
  if (text)
    snprintf (text, size,
              "member %u (%s) says that it has seen round %" PRIu64
              " of the array's writing, and no other has seen more than "
              "%" PRIu64
              "; if the disks of the others are old copies, put the right ones "
              "back; if not, shut that node out (weftctl node revoke %s)",
              m, cluster_words_disk (a->disk[m], words, sizeof words),
              a->disk[m]->round, others, a->disk[m]->rec.node);
  return true;
}

bool
cluster_doubt_refuse (struct cluster *c, uint64_t op,
                      const struct cluster_array *a)
{
  char text[1000];

  if (!cluster_array_doubted (c, a, text, sizeof text))
    return false;
  cluster_step_defer (c, op, CLUSTER_CONFLICT, "doubted", HEARTBEAT_MS,
                      "array %s is frozen: %.640s", a->rec.name, text);
  return true;
}
