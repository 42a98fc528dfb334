/* cluster-disk-orders.c: an administrator's orders about disks: forget a disk,
 * let another node serve it, or give it another key.
 */

#include <config.h>

#include <string.h>

#include "cluster-inputs.h"

/* There is none of this UUID (d is NULL), or nothing may be changed: refuses, and
 * answers true.
 */
static bool
change_refused (struct cluster *c, uint64_t op, const struct cluster_disk *d,
                const uint8_t uuid[16])
{
  char text[CLUSTER_UUID_TEXT_BYTES];

  if (d)
    return cluster_step_refuse_read_only (c, op);
  cluster_words_uuid (uuid, text);
  cluster_step_refuse (c, op, CLUSTER_NOT_FOUND, "unknown-disk",
                       "there is no disk %s: GET /api/v1/disks lists them",
                       text);
  return true;
}

bool
cluster_disk_order_forget_refused (struct cluster *c, uint64_t op,
                                   const uint8_t uuid[16])
{
  const struct cluster_disk *d = cluster_disk_find (c, uuid);
  char words[320];

  if (change_refused (c, op, d, uuid))
    ;
  else if (d->array)
    cluster_step_refuse (
      c, op, CLUSTER_CONFLICT, "in-use",
      "%s is member %u of array %s: replace it there, or delete "
      "the array first",
      cluster_words_disk (d, words, sizeof words), d->position,
      d->array->rec.name);
  else if (!cluster_uuid_is_zero (d->rec.spare_of))
    cluster_step_refuse (
      c, op, CLUSTER_CONFLICT, "spare",
      "%s is a spare of array %s: take it from its spares first",
      cluster_words_disk (d, words, sizeof words),
      cluster_array_by_uuid (c, d->rec.spare_of)->rec.name);
  else if (d->alive)
    cluster_step_refuse (c, op, CLUSTER_CONFLICT, "alive",
                         "%s is alive: stop the process that serves it first",
                         cluster_words_disk (d, words, sizeof words));
  else
    return false;
  return true;
}

void
cluster_disk_order_drop (struct cluster *c, struct cluster_disk *d)
{
  struct waiting *w, *next;

  TAILQ_FOREACH_SAFE (w, &c->waitings, link, next)
    if (w->disk == d) {
      cluster_step_refuse (c, w->op, CLUSTER_CONFLICT, "forgotten",
                           "the disk was forgotten just now: try again");
      cluster_wait_end (c, w);
    }
  cluster_step_drop_disk (c, d);
}

void
cluster_disk_order_remove (struct cluster *c, struct cluster_disk *d)
{
  cluster_step_log (c, CLUSTER_INFO, "disk", d->rec.path,
                    "Disk %.200s of node %s was forgotten.", d->rec.path,
                    d->rec.node);
  cluster_disk_order_drop (c, d);
}

void
cluster_disk_forget (struct cluster *c, const struct cluster_input *in,
                     const uint8_t uuid[16])
{
  cluster_step_begin (c, in);
  if (!cluster_disk_order_forget_refused (c, in->op, uuid)) {
    cluster_disk_order_remove (c, cluster_disk_find (c, uuid));
    cluster_step_reply_done (c, in->op, CLUSTER_DISK, uuid, 0, NULL);
  }
  cluster_pump_end (c);
}

void
cluster_disk_move (struct cluster *c, const struct cluster_input *in,
                   const uint8_t uuid[16], const char *node)
{
  struct cluster_disk *d = cluster_disk_find (c, uuid);
  char words[320];
  bool here = d && strcmp (d->rec.node, node) == 0;

  cluster_step_begin (c, in);
  if (change_refused (c, in->op, d, uuid))
    ;
  else if (!cluster_node_known (c, node))
    cluster_step_refuse (
      c, in->op, CLUSTER_INVALID, "unknown-node",
      "there is no node %s: enroll it first; GET /api/v1/nodes "
      "lists those that there are",
      node)
      ->field = "node";
  else if (d->alive && !here)
    cluster_step_refuse (
      c, in->op, CLUSTER_CONFLICT, "alive",
      "%s is alive: stop the process that serves it there first",
      cluster_words_disk (d, words, sizeof words));
  else {
    if (cluster_object_text_copy (d->rec.moves_to, sizeof d->rec.moves_to,
                                  here ? "" : node)) {
      cluster_step_log (c, CLUSTER_INFO, "disk", d->rec.path,
                        d->rec.moves_to[0]
                          ? "%s may be served by node %s from now on."
                          : "%s stays on node %s.",
                        cluster_words_disk (d, words, sizeof words), node);
      cluster_step_put_disk (c, d);
      cluster_step_changed_disk (c, d);
    }
    cluster_step_reply_disk (c, in->op, d);
  }
  cluster_pump_end (c);
}

void
cluster_disk_rekey (struct cluster *c, const struct cluster_input *in,
                    const uint8_t uuid[16])
{
  struct cluster_disk *d = cluster_disk_find (c, uuid);
  char words[320];

  cluster_step_begin (c, in);
  if (!change_refused (c, in->op, d, uuid)) {
    memcpy (d->rec.next_key, in->random, KEY_BYTES);
    cluster_step_put_disk (c, d);
    cluster_step_changed_disk (c, d);
    cluster_step_log (c, CLUSTER_INFO, "disk", d->rec.path,
                      "%s is to get another key.",
                      cluster_words_disk (d, words, sizeof words));
    if (d->array)
      cluster_array_due (c, d->array, DUE_MEMBERS);
    cluster_step_reply_disk (c, in->op, d);
  }
  cluster_pump_end (c);
}
