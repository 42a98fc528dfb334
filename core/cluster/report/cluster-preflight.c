/* cluster-preflight.c: the effects of an action, before it is done: whether it
 * is allowed, the data that is lost, the sessions that are interrupted, the
 * bytes to copy.
 *
 * The checks of the action itself (the functions that end in _refused) decide
 * whether it is allowed: they run in a step of the engine that is thrown away,
 * and the refusal, if there is one, is taken from that step.
 */

#include <config.h>

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/cluster-import.h"
#include "cluster-report.h"
#include "cluster/cluster-preflight.h"

static void line (struct cluster_preflight *f, const char *fmt, ...)
  __attribute__ ((format (printf, 2, 3)));

static void
line (struct cluster_preflight *f, const char *fmt, ...)
{
  char *text;
  va_list ap;

  if (f->lines_count == CLUSTER_LINES_MAX) {
    text = f->line[CLUSTER_LINES_MAX - 1];
    snprintf (text, sizeof f->line[0], "And there is more.");
    return;
  }
  text = f->line[f->lines_count++];
  va_start (ap, fmt);
  vsnprintf (text, sizeof f->line[0], fmt, ap);
  va_end (ap);
}

static void
begin (struct cluster *c, const struct cluster_input *in,
       struct cluster_preflight *f, const char *confirm)
{
  memset (f, 0, sizeof *f);
  snprintf (f->confirm, sizeof f->confirm, "%s", confirm);
  cluster_step_begin (c, in);
}

/* The step of the checks goes, and with it what they refused.  Returns f->allowed. */
static bool
end (struct cluster *c, struct cluster_preflight *f)
{
  struct cluster_step *s = c->step;

  assert (s->records_count == 0);
  f->allowed = true;
  for (size_t i = 0; i < s->outputs_count; i++)
    if (s->outputs[i].problem) {
      f->allowed = false;
      f->why = *s->outputs[i].problem;
    }
  c->step = NULL;
  cluster_step_free (s);
  return f->allowed;
}

/* ---- What the loss of members costs. ---- */

/* A session has left copies that may differ: a member that goes may have the newer one. */
static void
say_unequal (const struct cluster_array *a, const bool which[],
             struct cluster_preflight *f)
{
  const struct cluster_session *by;
  uint64_t unequal;
  enum cluster_unequal how = cluster_array_unequal (a, &unequal, &by);
  char bytes[32];
  bool any = false;

  for (unsigned m = 0; m < a->layout.members; m++)
    any |= which[m] && a->rec.member[m].state == MEMBER_IN_SYNC &&
           (a->disk[m]->dirty_extents > 0 || !cluster_disk_heard (a->disk[m]));
  if (!any || how == UNEQUAL_NONE)
    return;
  f->unequal_bytes += unequal;
  cluster_words_bytes (unequal, bytes, sizeof bytes);
  if (by)
    line (f,
          "Node %s, process %" PRIu64
          ", is still resynchronizing at most %s of array %s: until that is "
          "done reads there may return older data. Wait for that.",
          by->rec.node, by->rec.pid, bytes, a->rec.name);
  else if (how == UNEQUAL_GIVEN_BACK)
    line (
      f,
      "A member of array %s came back without its unflushed writes, so copies "
      "of at most %s may differ: reads there may return older data. %s",
      a->rec.name, bytes,
      a->layout.copies > 2
        ? "Detach the array everywhere, and attach it again first."
        : "Wait until it has joined again (weftctl status).");
  else
    line (f,
          "After the end or silence of a session, copies of at most %s of "
          "array %s may differ: reads there may return older data. Attach the "
          "array for writing first.",
          bytes, a->rec.name);
}

void
cluster_preflight_losing (const struct cluster *c,
                          const struct cluster_array *a, const bool which[],
                          struct cluster_preflight *f)
{
  uint64_t exposed, unreachable;
  char bytes[32], words[320];
  const char *why;
  bool any = false;

  for (unsigned m = 0; m < a->layout.members; m++)
    any |= which[m];
  if (!any)
    return;
  cluster_copies_without (c, a, which, &exposed, &unreachable);
  f->unreachable_bytes += unreachable;
  f->exposed_bytes += exposed;
  if (unreachable) {
    line (f, "Array %s could not serve %s of its data.", a->rec.name,
          cluster_words_bytes (unreachable, bytes, sizeof bytes));
    /* The node is needed because these are not there already. */
    for (unsigned m = 0; m < a->layout.members; m++)
      if (!which[m] && !cluster_member_well (a, m, &why))
        line (f, "Member %u of array %s (%s) %s already.", m, a->rec.name,
              cluster_words_disk (a->disk[m], words, sizeof words), why);
      else if (!which[m] &&
               cluster_node_in_maintenance (c, a->disk[m]->rec.node))
        line (f, "Member %u of array %s (%s) is on a node in maintenance.", m,
              a->rec.name,
              cluster_words_disk (a->disk[m], words, sizeof words));
  }
  else if (exposed)
    line (f, "Array %s goes on; %s of its data would have %s.", a->rec.name,
          cluster_words_bytes (exposed, bytes, sizeof bytes),
          a->layout.copies > 2 ? "a copy less than they should"
                               : "a single copy");
  else
    line (f, "Array %s goes on as it is.", a->rec.name);
  say_unequal (a, which, f);
}

/* The effects of the end of a node's processes. */
static void
node_stops (const struct cluster *c, const char *node,
            struct cluster_preflight *f)
{
  const struct cluster_array *a;
  const struct cluster_session *s;
  bool which[ARRAY_MEMBERS_MAX];

  TAILQ_FOREACH (a, &c->arrays, link) {
    cluster_copies_on_node (a, node, which);
    cluster_preflight_losing (c, a, which, f);
    for (unsigned m = 0; m < a->layout.members; m++)
      if (which[m] && a->rec.member[m].state == MEMBER_JOINING)
        line (f,
              "The rebuild of member %u of array %s stops until the node is "
              "back.",
              m, a->rec.name);
  }
  TAILQ_FOREACH (s, &c->sessions, link)
    if (!s->rec.ended && strcmp (s->rec.node, node) == 0)
      line (f,
            "Array %s is attached there %s (process %" PRIu64 "): its "
            "clients are interrupted.",
            s->rec.array_name, s->rec.writable ? "for writing" : "read-only",
            s->rec.pid);
}

void
cluster_preflight_ok_to_stop (const struct cluster *c, const char *node,
                              struct cluster_preflight *f)
{
  memset (f, 0, sizeof *f);
  snprintf (f->confirm, sizeof f->confirm, "%s", node);
  node_stops (c, node, f);
  if (f->lines_count == 0)
    line (f, "No array and no client needs node %s.", node);
  f->allowed = f->unreachable_bytes == 0 && f->unequal_bytes == 0;
}

/* ---- Arrays and their members. ---- */

void
cluster_preflight_create (struct cluster *c, const struct cluster_input *in,
                          const struct cluster_create *create,
                          struct cluster_array *plan,
                          struct cluster_preflight *f)
{
  char survives[600], size[32];
  uint64_t together;

  begin (c, in, f, create->name);
  cluster_array_create_refused (c, in->op, create, plan);
  if (!end (c, f))
    return;
  cluster_array_survives (plan, survives, sizeof survives);
  line (f, "Array %s is made of %u empty disks: %s of %s.", plan->rec.name,
        plan->layout.members,
        cluster_words_bytes (plan->layout.size, size, sizeof size),
        layout_name (plan->rec.layout));
  line (f, "The array survives the loss of %s.", survives);
  cluster_array_hosts_survived (plan, &together);
  if (together)
    line (f,
          "%s of it have all of their copies on one host: take disks of more "
          "hosts, or another order.",
          cluster_words_bytes (together, size, sizeof size));
}

void
cluster_preflight_delete (struct cluster *c, const struct cluster_input *in,
                          const char *array, struct cluster_preflight *f)
{
  const struct cluster_array *a = cluster_array_find (c, array);
  const struct cluster_session *s;
  const struct cluster_disk *d;
  unsigned spares = 0;
  char size[32];

  begin (c, in, f, array);
  cluster_array_delete_refused (c, in->op, array);
  end (c, f);
  if (a == NULL)
    return;
  f->lost_bytes = a->layout.size;
  line (f, "All data of array %s (%s) is lost, for good.", array,
        cluster_words_bytes (a->layout.size, size, sizeof size));
  if (a->pool && a->pool->volumes_count > 0)
    line (f, "Array %s is a pool: its %u volumes are lost, too.", array,
          a->pool->volumes_count);
  line (f, "Its %u disks become free for other arrays.", a->layout.members);
  TAILQ_FOREACH (d, &c->disks, link)
    spares += cluster_uuid_equal (d->rec.spare_of, a->rec.uuid);
  if (spares)
    line (f, "Its %u spare%s become%s free, too.", spares,
          spares == 1 ? "" : "s", spares == 1 ? "s" : "");
  TAILQ_FOREACH (s, &a->sessions, array_link)
    if (!s->alive)
      line (f,
            "Node %s, process %" PRIu64 ", which is silent, has it attached "
            "and loses it.",
            s->rec.node, s->rec.pid);
}

/* ---- Volumes. ---- */

static void
begin_volume (struct cluster *c, const struct cluster_input *in,
              struct cluster_preflight *f, const char *array, const char *name)
{
  char path[2 * NAME_BYTES_MAX + 2];

  snprintf (path, sizeof path, "%s/%s", array, name);
  begin (c, in, f, path);
}

static void
say_promised (const struct cluster_array *a, uint64_t more,
              struct cluster_preflight *f)
{
  struct cluster_pool_figures figures;
  char promised[32], total[32];

  cluster_pool_figures (a, &figures);
  if (figures.promised + more > figures.total)
    line (
      f,
      "The volumes of pool %s may then grow to %s in all, and it has %s: "
      "watch how full it is.",
      a->rec.name,
      cluster_words_bytes (figures.promised + more, promised, sizeof promised),
      cluster_words_bytes (figures.total, total, sizeof total));
}

void
cluster_preflight_volume_create (struct cluster *c,
                                 const struct cluster_input *in,
                                 const char *array, const char *name,
                                 uint64_t size, struct cluster_preflight *f)
{
  begin_volume (c, in, f, array, name);
  cluster_pool_create_refused (c, in->op, array, name, size);
  if (end (c, f))
    say_promised (cluster_array_find (c, array), size, f);
}

void
cluster_preflight_volume_resize (struct cluster *c,
                                 const struct cluster_input *in,
                                 const char *array, const char *name,
                                 uint64_t size, struct cluster_preflight *f)
{
  const struct cluster_array *a;

  begin_volume (c, in, f, array, name);
  cluster_pool_resize_refused (c, in->op, array, name, size);
  if (!end (c, f))
    return;
  a = cluster_array_find (c, array);
  say_promised (a, size - cluster_volume_find (a, name)->rec.size, f);
}

void
cluster_preflight_volume_delete (struct cluster *c,
                                 const struct cluster_input *in,
                                 const char *array, const char *name,
                                 struct cluster_preflight *f)
{
  const struct cluster_array *a = cluster_array_find (c, array);
  const struct cluster_volume *v = a ? cluster_volume_find (a, name) : NULL;
  char bytes[32];

  begin_volume (c, in, f, array, name);
  cluster_pool_delete_refused (c, in->op, array, name);
  end (c, f);
  if (v == NULL)
    return;
  f->lost_bytes = v->segments * a->rec.segment_bytes;
  line (f,
        "All data of volume %s/%s is lost, for good; %s of pool %s become "
        "free.",
        array, name, cluster_words_bytes (f->lost_bytes, bytes, sizeof bytes),
        array);
  if (v->rec.state != CLUSTER_VOLUME_NEW && cluster_array_writer (a) == NULL)
    line (f,
          "No process has pool %s open: the volume is gone at once, and the "
          "space is free when a process next attaches the pool.",
          array);
}

/* ---- Losses that are accepted, and members. ---- */

void
cluster_preflight_accept_loss (struct cluster *c,
                               const struct cluster_input *in,
                               const char *array,
                               const struct cluster_loss *loss,
                               struct cluster_preflight *f)
{
  char size[32];

  begin (c, in, f, array);
  cluster_bad_loss_refused (c, in->op, array, loss);
  if (!end (c, f))
    return;
  for (unsigned i = 0; i < loss->count; i++)
    f->lost_bytes += loss->range[i].length;
  line (f, "%s of array %s become zeroes: the data there is lost for good.",
        cluster_words_bytes (f->lost_bytes, size, sizeof size), array);
  line (f, "A block that can be read after all, or is written meanwhile, is "
           "kept.");
  for (unsigned i = 0; i < loss->count; i++)
    line (f, "%" PRIu64 " bytes at %" PRIu64 ".", loss->range[i].length,
          loss->range[i].offset);
}

/* The place of this member becomes that disk's. */
static void
say_move (const struct cluster *c, const struct cluster_array *a,
          unsigned member, const struct cluster_disk *to,
          struct cluster_preflight *f)
{
  bool which[ARRAY_MEMBERS_MAX] = { false };
  char words[320], bytes[32];
  uint64_t exposed, harm;

  which[member] = true;
  cluster_copies_without (c, a, which, &exposed, NULL);
  f->rebuild_bytes += a->rec.member_bytes;
  f->exposed_bytes += exposed;
  line (f, "Member %u of array %s becomes %s: up to %s are copied.", member,
        a->rec.name, cluster_words_disk (to, words, sizeof words),
        cluster_words_bytes (a->rec.member_bytes, bytes, sizeof bytes));
  if (exposed)
    line (f, "Until then %s of array %s have %s.",
          cluster_words_bytes (exposed, bytes, sizeof bytes), a->rec.name,
          a->layout.copies > 2 ? "a copy less than they should"
                               : "a single copy");
  line (f, "The copy on %s is given up.",
        cluster_words_disk (a->disk[member], words, sizeof words));
  harm = cluster_place_harm (a, member, to->rec.node);
  if (harm)
    line (
      f,
      "From then on the loss of host %s loses %s of array %s: other members "
      "of the group are there.",
      to->rec.node, cluster_words_bytes (harm, bytes, sizeof bytes),
      a->rec.name);
}

void
cluster_preflight_service_drop (struct cluster *c,
                                const struct cluster_input *in,
                                const char *array, struct cluster_preflight *f)
{
  const struct cluster_array *a = cluster_array_find (c, array);
  const struct cluster_session *s = a ? cluster_array_writer (a) : NULL;

  begin (c, in, f, array);
  cluster_service_drop_refused (c, in->op, array);
  if (!end (c, f))
    return;
  if (s && s->rec.service)
    line (f, "Node %s, process %" PRIu64 ", leaves off serving array %s.",
          s->rec.node, s->rec.pid, array);
  line (f,
        "Hosts that use array %s by its service wait until it has one again.",
        array);
}

void
cluster_preflight_allow (struct cluster *c, const struct cluster_input *in,
                         const char *array, const struct cluster_allow *allow,
                         bool drop, struct cluster_preflight *f)
{
  const struct cluster_array *a = cluster_array_find (c, array);
  const struct cluster_allow *n;
  const struct cluster_session *s;
  struct cluster_allow_list next;
  bool loses; /* a right that it has */

  begin (c, in, f, array);
  cluster_access_order_refused (c, in->op, array, allow, drop, &next);
  if (!end (c, f))
    return;
  n = cluster_allowed_find (&next, allow->node);
  if (n && !cluster_node_known (c, n->node))
    line (f, "weftd has not heard of a node %s yet.", n->node);
  if (!a->rec.allow.listed)
    line (
      f,
      "Until now any node might attach array %s. From now on only the nodes of "
      "its disks, and the nodes that have it attached now, may attach it.",
      array);
  if (cluster_candidate_find (a, allow->node) < a->rec.service_nodes &&
      !(n && n->writable))
    line (f, "Node %s is no candidate of the service of array %s any more.",
          allow->node, array);
  if (a->rec.service_nodes > 0 && n == NULL)
    line (f,
          "Devices of array %s on node %s, by its service, fail from now on.",
          array, allow->node);
  loses = (n == NULL && cluster_allowed (a, allow->node, false)) ||
          (!(n && n->writable) && cluster_allowed (a, allow->node, true));
  TAILQ_FOREACH (s, &a->sessions, array_link) {
    if (loses && s->rec.exports && !s->rec.service && !s->rec.by_admin &&
        strcmp (s->rec.node, allow->node) != 0)
      line (f,
            "Clients of array %s on node %s, by session %016" PRIx64
            " on node %s, which exports it, are cut off.",
            array, allow->node, s->rec.id, s->rec.node);
    if (strcmp (s->rec.node, allow->node) != 0 ||
        (n && (n->writable || !s->rec.writable)))
      continue;
    if (s->rec.by_admin)
      line (f,
            "Session %016" PRIx64 " on node %s goes on: an administrator has "
            "attached it (weftctl session evict).",
            s->rec.id, s->rec.node);
    else
      line (f,
            "Session %016" PRIx64 " on node %s, process %" PRIu64
            ", is cut off%s.",
            s->rec.id, s->rec.node, s->rec.pid,
            s->rec.writable ? ": its unflushed writes are lost" : "");
  }
}

void
cluster_preflight_replace (struct cluster *c, const struct cluster_input *in,
                           const char *array, unsigned member,
                           const uint8_t disk[16], bool force,
                           struct cluster_preflight *f)
{
  const struct cluster_array *a = cluster_array_find (c, array);
  const struct cluster_disk *d = cluster_disk_find (c, disk);

  begin (c, in, f, array);
  cluster_member_replace_refused (c, in->op, array, member, disk, force);
  if (!end (c, f))
    return;
  if (a->disk[member] == d)
    line (f, "The disk is this member already: nothing changes.");
  else
    say_move (c, a, member, d, f);
}

void
cluster_preflight_cancel (struct cluster *c, const struct cluster_input *in,
                          const char *array, unsigned member,
                          struct cluster_preflight *f)
{
  const struct cluster_array *a = cluster_array_find (c, array);
  bool out[ARRAY_MEMBERS_MAX], gone[ARRAY_MEMBERS_MAX];
  uint64_t exposed;
  char e[32];

  begin (c, in, f, array);
  cluster_member_cancel_refused (c, in->op, array, member);
  if (!end (c, f))
    return;
  cluster_copies_missing (a, out, gone);
  layout_loss (&a->layout, gone, &exposed); /* its copied data is given up */
  f->exposed_bytes = exposed;
  line (f,
        "Member %u of array %s stays out, and no spare replaces it, until "
        "weftctl rebuild join takes it back.",
        member, array);
  line (f, "Until then %s of the array have fewer copies than they should.",
        cluster_words_bytes (exposed, e, sizeof e));
}

/* ---- Nodes. ---- */

void
cluster_preflight_maintain (struct cluster *c, const struct cluster_input *in,
                            const char *node, bool on, bool force,
                            struct cluster_preflight *f)
{
  begin (c, in, f, node);
  cluster_node_maintain_refused (c, in->op, node, on, force);
  end (c, f);
  if (!cluster_node_known (c, node))
    return;
  if (on) {
    line (f,
          "No spare takes the place of a member of node %s, however long it "
          "is away.",
          node);
    node_stops (c, node, f);
  }
  else
    line (f,
          "A member of node %s that is away is replaced by a spare when it "
          "has been so for as long as its array allows, from now on.",
          node);
}

void
cluster_preflight_fence (struct cluster *c, const struct cluster_input *in,
                         const char *node, struct cluster_preflight *f)
{
  const struct cluster_session *s;

  begin (c, in, f, node);
  cluster_node_refused (c, in->op, node);
  if (!end (c, f))
    return;
  line (f,
        "Unanswered requests of node %s are not carried out; its unflushed "
        "writes may be lost.",
        node);
  TAILQ_FOREACH (s, &c->sessions, link)
    if (!s->rec.ended && strcmp (s->rec.node, node) == 0)
      line (f, "The node loses array %s (process %" PRIu64 ").",
            s->rec.array_name, s->rec.pid);
}

void
cluster_preflight_drain (struct cluster *c, const struct cluster_input *in,
                         const char *node, struct cluster_preflight *f)
{
  const struct cluster_array *a;
  const struct cluster_disk *to, **promised;
  size_t count = 0;
  char why[768];
  bool any = false;

  begin (c, in, f, node);
  cluster_node_drain_refused (c, in->op, node);
  if (!end (c, f))
    return;
  TAILQ_FOREACH (to, &c->disks, link)
    count++;
  promised = alloc_zeroed ((count + 1) * sizeof *promised);
  count = 0;
  TAILQ_FOREACH (a, &c->arrays, link)
    for (unsigned m = 0; m < a->layout.members; m++) {
      if (strcmp (a->disk[m]->rec.node, node) != 0)
        continue;
      any = true;
      if (a->layout.copies == 1)
        line (f,
              "Member %u of array %s cannot move, for the array has no "
              "redundancy: copy it off and delete it, or the drain waits.",
              m, a->rec.name);
      else if ((to = cluster_drain_pick (c, a, m, promised, why, sizeof why)) !=
               NULL) {
        promised[count++] = to;
        say_move (c, a, m, to, f);
      }
      else
        line (f, "The drain waits for %.440s.", why);
    }
  free (promised);
  if (!any)
    line (f, "Node %s has no member: it is drained at once.", node);
  line (f, "No spare and no blank disk of node %s is used from now on.", node);
}

void
cluster_preflight_remove (struct cluster *c, const struct cluster_input *in,
                          const char *node, struct cluster_preflight *f)
{
  const struct cluster_disk *d;
  char words[320];

  begin (c, in, f, node);
  cluster_node_remove_refused (c, in->op, node);
  if (!end (c, f))
    return;
  TAILQ_FOREACH (d, &c->disks, link)
    if (strcmp (d->rec.node, node) == 0)
      line (f, "%s is forgotten; it has no data of any array.",
            cluster_words_disk (d, words, sizeof words));
  line (f,
        "The certificates of node %s, if it has any, are revoked: to come "
        "back it must enroll again.",
        node);
}

/* ---- Imports. ---- */

static void
say_place (const struct cluster_import_plan *plan, unsigned m,
           struct cluster_preflight *f)
{
  const struct cluster_import_place *p = &plan->place[m];
  const struct cluster_disk_heartbeat *hb = p->disk ? p->disk : p->given_up;
  char disk[300] = "no disk of it was heard";

  if (hb)
    snprintf (disk, sizeof disk,
              "disk %.120s of node %s, which knows epoch %" PRIu64
              " and round %" PRIu64,
              hb->path, hb->node, hb->states_epoch, hb->round);
  line (f, "Member %u would be %s: %s%s.", m,
        p->state == MEMBER_IN_SYNC ? "in-sync"
        : p->disk                  ? "out, and rebuilt in full"
                                   : "out, until a disk takes its place",
        disk, p->without ? "; it is given up" : "");
  if (p->former)
    line (f,
          "Disk %.120s of node %s, which knows epoch %" PRIu64 " and round "
          "%" PRIu64 ", was member %u before: it is left as it is.",
          p->former->path, p->former->node, p->former->states_epoch,
          p->former->round, m);
  if (p->state != MEMBER_IN_SYNC && p->disk)
    f->rebuild_bytes += plan->layout.member_bytes;
}

/* An array of the backup goes on by this order. */
static void
preflight_restore (struct cluster *c, const struct cluster_input *in,
                   const struct cluster_array *a,
                   const struct cluster_import *order,
                   struct cluster_preflight *f)
{
  bool out[ARRAY_MEMBERS_MAX] = { false }, old[ARRAY_MEMBERS_MAX] = { false };
  unsigned next = 0;
  char text[600];

  begin (c, in, f, order->name);
  cluster_restore_refused (c, in->op, order, out, old);
  if (!end (c, f))
    return;
  while (cluster_restore_doubts (c, order, &next, text, sizeof text))
    line (f, "The loss is accepted: %s.", text);
  line (f, "Array %s would be restored from its members; its sessions end.",
        a->rec.name);
  for (unsigned m = 0; m < a->layout.members; m++)
    if (out[m])
      line (f, "Member %u would be out%s.", m,
            order->without[m] ? ": it is given up"
            : old[m]          ? ", and rebuilt: its disk is an old copy"
                              : "");
    else if (old[m])
      line (f,
            "The disk of member %u is an old copy, and no other copy of its "
            "data is in-sync: newer flushed data is lost.",
            m);
}

void
cluster_preflight_import (struct cluster *c, const struct cluster_input *in,
                          const struct cluster_import *import,
                          struct cluster_preflight *f)
{
  const struct cluster_array *a = cluster_array_by_uuid (c, import->array);
  struct cluster_import_plan plan;
  unsigned next = 0;
  char text[480], bytes[32];

  if (a && a->rec.restoring) {
    preflight_restore (c, in, a, import, f);
    return;
  }
  begin (c, in, f, import->name);
  cluster_import_order_refused (c, in->op, import, &plan);
  end (c, f);
  while (cluster_import_doubts (&plan, &next, text, sizeof text))
    line (f, "%s", text);
  if (next > 0 && plan.old_bytes)
    line (f, "%s of the data would have no copy on a disk that is up to date.",
          cluster_words_bytes (plan.old_bytes, bytes, sizeof bytes));
  f->lost_bytes = import->accept_loss ? plan.old_bytes : 0;
  for (unsigned m = 0; m < plan.layout.members; m++)
    say_place (&plan, m, f);
}

/* ---- The rest. ---- */

void
cluster_preflight_evict (struct cluster *c, const struct cluster_input *in,
                         uint64_t session, struct cluster_preflight *f)
{
  const struct cluster_session *s = cluster_session_find (c, session);

  begin (c, in, f, s ? s->rec.array_name : "");
  cluster_session_end_refused (c, in->op, session);
  if (!end (c, f))
    return;
  if (s->rec.ended) {
    line (f, "The session is over already: %s.", s->rec.reason);
    return;
  }
  line (f,
        "Node %s, process %" PRIu64 ", loses array %s: every request of its "
        "clients fails from then on.",
        s->rec.node, s->rec.pid, s->rec.array_name);
  if (s->rec.leases)
    line (f, "Another host that shares the array recovers its leases; writes "
             "to these ranges wait until then.");
  else if (s->rec.writable)
    line (f,
          "Copies of its last writes may differ until %s resynchronizes them.",
          s->rec.part.length > 0
            ? "another host that writes a part of the array"
            : "the next host that attaches the array for writing");
  if (s->rec.writable) {
    line (
      f,
      "Unflushed writes of its clients may be lost; flushed writes are safe.");
    if (s->load.ms && s->load.stats.image_bytes)
      line (f,
            "The process holds %" PRIu64
            " KiB of images that are not written yet.",
            s->load.stats.image_bytes / 1024);
  }
}

void
cluster_preflight_forget (struct cluster *c, const struct cluster_input *in,
                          const uint8_t disk[16], struct cluster_preflight *f)
{
  const struct cluster_disk *d = cluster_disk_find (c, disk);
  char words[320];

  begin (c, in, f, d ? d->rec.path : "");
  cluster_disk_order_forget_refused (c, in->op, disk);
  if (end (c, f))
    line (f,
          "The %s is forgotten; it has no data of any array, and registers "
          "again when its process is started.",
          cluster_words_disk (d, words, sizeof words));
}
