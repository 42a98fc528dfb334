/* cluster-settle.c: the pump.
 *
 * What disks, sessions and administrators say is taken in, and marks the arrays
 * about which something has changed (cluster_due).  At the end of each input, all
 * that is due is done here, until nothing is:
 *
 *   1. a change of epoch for which nothing is missing any more is COMMITted;
 *   2. what is to be recovered is ordered, and leases are granted that are free;
 *   3. what time brings: a change that waits in vain goes on without the members
 *      for which it waits, a lost member is given back (once a tick);
 *   4. members go out, come back, move: one rule at a time.
 *
 * Each change of epoch that 3 and 4 prepare makes 1 due, so a rule never sees a
 * change that could be COMMITted already.  At last, disks and sessions that wait
 * for news are told what they do not know.
 *
 * Nothing that is called here calls cluster_settle.  An input may, where its own
 * answer depends on what comes of what it has said.
 */

#include <config.h>

#include <assert.h>

#include "cluster-internal.h"

/* There are fewer steps than that from any state to one in which nothing is due:
 * each rule takes its member further, and none takes it back at the same instant.
 */
#define ROUNDS_MAX 10000

void
cluster_moved (struct cluster *c, struct cluster_array *a)
{
  cluster_due (c, a, DUE_CHANGE | DUE_MEMBERS);
  cluster_changed_array (c, a);
}

/* All of its disks have said once that they are in their places. */
static void
become_ready (struct cluster *c, struct cluster_array *a)
{
  for (unsigned m = 0; m < a->layout.members; m++)
    if (!a->disk[m]->took_place)
      return;
  cluster_job_created (c, a);
  a->rec.ready = true;
  cluster_put_array (c, a);
  cluster_changed_array (c, a);
  cluster_log (c, CLUSTER_INFO, "array", a->rec.name,
               "Array %s is ready: all of its %u members are in place.",
               a->rec.name, a->layout.members);
}

static void
settle_array (struct cluster *c, struct cluster_array *a)
{
  unsigned rounds = 0;

  while (a->due) {
    assert (rounds++ < ROUNDS_MAX);
    if (!a->rec.ready)
      become_ready (c, a);
    if (a->due & DUE_CHANGE) {
      a->due = (a->due & ~DUE_CHANGE) | DUE_LEASES;
      cluster_epoch_advance (c, a);
    }
    else if (a->due & DUE_LEASES) {
      a->due &= ~DUE_LEASES;
      if (a->leases)
        cluster_lease_settle (c, a,
                              c->read_only[0] ||
                                cluster_array_unheard (a) < a->layout.members ||
                                cluster_array_doubted (c, a, NULL, 0));
    }
    else if (a->due & DUE_TIME) {
      if (!cluster_epoch_tick (c, a))
        a->due &= ~DUE_TIME;
    }
    /* Members that have gone on beyond an old database show that it is old: before
     * all that live have spoken, none is told anything by it.
     */
    else if (!a->rec.ready || c->read_only[0] ||
             cluster_array_unheard (a) < a->layout.members ||
             cluster_array_doubted (c, a, NULL, 0))
      a->due = 0;
    else {
      if (a->rec.change.epoch == 0)
        cluster_old_judge (c, a);
      /* The first rule that does something ends the round: the others look at what
       * has become of that.  A drain gives the place of a member away before the
       * member is taken back.
       */
      if (!cluster_rebuild_leave_out (c, a) && !cluster_rebuild_notice (c, a) &&
          !cluster_rebuild_renew (c, a) && !cluster_rebuild_anew (c, a) &&
          !cluster_rebuild_finish (c, a) && !cluster_drain_move (c, a) &&
          !cluster_rebuild_take_back (c, a) && !cluster_rekey_member (c, a) &&
          !cluster_over_renew (c, a)) {
        a->due = 0;
        cluster_rebuild_pace (c, a);
      }
    }
  }
}

/* Has all that was begun before the readers' copies moved reached them?  Who writes says
 * so; of who is over nothing is to run any more; who is silent is not waited for.
 */
static bool
arrived (const struct cluster *c, const struct cluster_array *a)
{
  const struct cluster_session *s = NULL;

  while ((s = cluster_writer_next (a, s)))
    if (s->alive && s->arrived < a->moved)
      return false;
  TAILQ_FOREACH (s, &c->sessions, link)
    for (unsigned m = 0; s->array == a && m < a->layout.members; m++)
      if (s->rec.ended && s->rec.writable && a->disk[m]->alive &&
          cluster_over_waits_for (a, m, s->rec.id))
        return false;
  return true;
}

void
cluster_settle (struct cluster *c)
{
  struct cluster_array *a;

  while ((a = TAILQ_FIRST (&c->due))) {
    settle_array (c, a);
    if (a->moved && arrived (c, a))
      a->moved = 0;
    TAILQ_REMOVE (&c->due, a, due_link);
    a->is_due = false;
    cluster_tell_array (c, a);
  }
}

void
cluster_end (struct cluster *c)
{
  struct cluster_array *a, *next;

  /* A change of an array that stands still is not COMMITted.  Where one member's word
   * about rounds is the reason, anything that another member says or becomes may end
   * it, so the end of it is looked for here, and not where each of these is taken in.
   */
  TAILQ_FOREACH_SAFE (a, &c->changing, changing_link, next)
    if (a->rec.change.epoch == 0) {
      TAILQ_REMOVE (&c->changing, a, changing_link);
      a->is_changing = a->deferred = false;
    }
    else if (a->deferred && !cluster_array_doubted (c, a, NULL, 0))
      cluster_due (c, a, DUE_CHANGE);
  cluster_settle (c);
  cluster_step_end (c);
}
