/* cluster-rekey.c: a disk gets another key, while its array is in use.
 *
 * A key is drawn when an administrator asks for it, and stored as `next_key`.
 * It replaces `key` in the step that PREPAREs a change of epoch by which the
 * member is fenced (CHANGE_KEY). So the member gets its key in the same answer
 * as the epoch; it confirms with only that key in force, and with the COMMIT
 * sessions are given tokens that are made with it.  Until then requests to the
 * member wait, as for a member that the writer gets back.
 *
 * Only weftd stores keys, and a member's process takes each key that weftd
 * sends.  So the two never differ for long: if either dies, the next answer has
 * the key that is in force.
 *
 * Members of an array are fenced one at a time: the next one when all writers
 * have connected again to the last one.  A joining member keeps its key until
 * it is in-sync, because its copying uses the key (cluster_shut_source). If a
 * member is out, or a disk is no member, no session has tokens for it: it gets
 * its new key at once.
 */

#include <config.h>

#include <string.h>

#include "base/bytes.h"
#include "cluster-epoch.h"

static bool
is_asked (const struct cluster_disk *d)
{
  return !all_zero (d->rec.next_key, KEY_BYTES);
}

static void
replace (struct cluster *c, struct cluster_disk *d)
{
  memcpy (d->rec.key, d->rec.next_key, KEY_BYTES);
  memset (d->rec.next_key, 0, KEY_BYTES);
  d->rec.untold = true;
  d->told.key = false;
  d->told.key_live_ms = c->live_ms;
  cluster_step_put_disk (c, d);
  cluster_step_changed_disk (c, d);
}

/* Has each session that counts connections to all members, as far as it can? */
static bool
is_calm (const struct cluster *c, const struct cluster_array *a)
{
  const struct cluster_session *s;

  TAILQ_FOREACH (s, &a->sessions, array_link) {
    bool here = s->heard && s->alive;

    /* A silent reader gets other tokens before it reads on. */
    if (!here && !s->rec.writable)
      continue;
    if (!here || s->epoch != a->rec.epoch)
      return false;
    for (unsigned m = 0; m < a->layout.members; m++)
      if (s->path[m].lost)
        return false;
  }
  return true;
}

bool
cluster_rekey_member (struct cluster *c, struct cluster_array *a)
{
  const char *why;

  if (a->rec.change.epoch)
    return false;
  for (unsigned m = 0; m < a->layout.members; m++) {
    struct cluster_disk *d = a->disk[m];
    bool confirm[ARRAY_MEMBERS_MAX] = { false };

    if (!is_asked (d) || a->rec.member[m].state == MEMBER_JOINING)
      continue;
    if (a->rec.member[m].state == MEMBER_IN_SYNC) {
      if (!cluster_member_well (a, m, &why) ||
          cluster_process_reborn (c, a, m) || !is_calm (c, a))
        continue;
      confirm[m] = true;
      cluster_change_stay (c, a, CHANGE_KEY, confirm);
    }
    replace (c, d);
    return true;
  }
  return false;
}

void
cluster_rekey_free (struct cluster *c, struct cluster_disk *d)
{
  if (d->array == NULL && is_asked (d) && c->read_only[0] == '\0')
    replace (c, d);
}

/* Is it fenced just now for its key, and not for so long that this is given up?  As far
 * as is known: weftd may have been started since.
 */
static bool
is_fenced (const struct cluster *c, const struct cluster_array *a,
           unsigned member)
{
  const struct cluster_disk *d = a->disk[member];
  const char *why;

  return d->told.key_live_ms != 0 &&
         c->live_ms < d->told.key_live_ms + ATTACH_MS &&
         (cluster_disk_heard (d)
            ? cluster_member_well (a, member, &why) && cluster_process_met (d)
            : d->alive);
}

bool
cluster_rekey_confirms (const struct cluster *c, const struct cluster_array *a,
                        unsigned member)
{
  return a->rec.change.epoch && a->rec.change.confirm[member] &&
         is_fenced (c, a, member);
}

bool
cluster_rekey_cuts (const struct cluster *c, const struct cluster_array *a,
                    const struct cluster_session *s, unsigned member)
{
  const struct cluster_disk *d = a->disk[member];
  /* A report may be on its way when the COMMIT is sent; a later one is of
   * another loss.
   */
  bool lately = cluster_rekey_confirms (c, a, member) ||
                c->live_ms < d->fenced_live_ms + HEARTBEAT_MS;

  return lately && is_fenced (c, a, member) &&
         s->epoch < cluster_disk_min_epoch_wanted (d);
}

void
cluster_rekey_heard (struct cluster *c, struct cluster_disk *d)
{
  const struct cluster_change *change = d->array ? &d->array->rec.change : NULL;

  if (!d->rec.untold || !d->told.reply || !d->told.key ||
      (change && change->epoch && change->confirm[d->position]))
    return;
  d->rec.untold = false;
  cluster_step_put_disk (c, d);
  cluster_step_changed_disk (c, d);
  cluster_step_log (c, CLUSTER_INFO, "disk", d->rec.path,
                    "Disk %.200s of node %s has another key.", d->rec.path,
                    d->rec.node);
}

bool
cluster_disk_rekeys (const struct cluster_disk *d)
{
  return d->rec.untold || is_asked (d);
}

void
cluster_rekey_begin (struct cluster *c)
{
  struct cluster_disk *d;

  TAILQ_FOREACH (d, &c->disks, link)
    if (d->rec.untold)
      d->told.key_live_ms = c->live_ms;
}
