/* cluster-pump.c: the pump.
 *
 * An input takes in a message of a disk, a session or an administrator, and
 * marks the arrays that have changed (cluster_array_due). At the end of each
 * input, all due work is done here, until none is left:
 *
 *   1. a change of epoch with all its confirmations is COMMITted;
 *   2. recoveries are ordered, and free leases are granted;
 *   3. timers: a change that waits in vain goes on without the members for which
 *      it waits, a lost member is given back (once a tick);
 *   4. members go out, come back, move: one rule at a time.
 *
 * Each change of epoch that 3 and 4 prepare makes 1 due, so a rule never sees a
 * change that could be COMMITted already.  At the end, disks and sessions that
 * wait for news get it.
 *
 * No function that is called here calls cluster_pump_settle.  An input may call
 * it, if its own answer depends on the consequences of its message.
 */

#include <config.h>

#include <assert.h>

#include "cluster-pump.h"

/* There are fewer steps than that from any state to one in which nothing is due:
 * each rule takes its member further, and none takes it back at the same instant.
 */
#define ROUNDS_MAX 10000

/* All of its disks have said once that they are in their places. */
static void
become_ready (struct cluster *c, struct cluster_array *a)
{
  for (unsigned m = 0; m < a->layout.members; m++)
    if (!a->disk[m]->took_place)
      return;
  cluster_job_created (c, a);
  a->rec.ready = true;
  cluster_step_put_array (c, a);
  cluster_step_changed_array (c, a);
  cluster_step_log (c, CLUSTER_INFO, "array", a->rec.name,
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
      cluster_commit_advance (c, a);
    }
    else if (a->due & DUE_LEASES) {
      a->due &= ~DUE_LEASES;
      if (a->leases)
        cluster_lease_grant_settle (
          c, a,
          c->read_only[0] || cluster_copies_unheard (a) < a->layout.members ||
            cluster_array_doubted (c, a, NULL, 0));
    }
    else if (a->due & DUE_TIME) {
      if (!cluster_commit_tick (c, a))
        a->due &= ~DUE_TIME;
    }
    /* Members with newer state than the database show that it is old: before
     * all live ones have spoken, none gets orders by it.
     */
    else if (!a->rec.ready || c->read_only[0] ||
             cluster_copies_unheard (a) < a->layout.members ||
             cluster_array_doubted (c, a, NULL, 0))
      a->due = 0;
    else {
      if (a->rec.change.epoch == 0)
        cluster_stale_judge (c, a);
      /* The first rule that does something ends the round: the others look at what
       * has become of that.  A drain gives the place of a member away before the
       * member is taken back.
       */
      if (!cluster_rebuild_leave_out (c, a) && !cluster_rebuild_notice (c, a) &&
          !cluster_rebuild_renew (c, a) && !cluster_rebuild_anew (c, a) &&
          !cluster_rebuild_finish (c, a) && !cluster_rejoin (c, a) &&
          !cluster_drain_move (c, a) && !cluster_rebuild_take_back (c, a) &&
          !cluster_rekey_member (c, a) && !cluster_shut_renew (c, a)) {
        a->due = 0;
        cluster_rebuild_pace (c, a);
      }
    }
  }
}

/* Have all writes that began before the readers' copies moved reached them?
 * Writers report that; of sessions that are over nothing may run any more;
 * silent ones are not waited for.
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
          cluster_shut_waits_for (a, m, s->rec.id))
        return false;
  return true;
}

void
cluster_pump_settle (struct cluster *c)
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
cluster_pump_end (struct cluster *c)
{
  struct cluster_array *a, *next;

  /* A change of a frozen array is not COMMITted. If one member's report of
   * rounds is the reason, any report or change of another member may end the
   * freeze. So its end is checked here, and not at each of these inputs.
   */
  TAILQ_FOREACH_SAFE (a, &c->changing, changing_link, next)
    if (a->rec.change.epoch == 0) {
      TAILQ_REMOVE (&c->changing, a, changing_link);
      a->is_changing = a->deferred = false;
    }
    else if (a->deferred && !cluster_array_doubted (c, a, NULL, 0))
      cluster_array_due (c, a, DUE_CHANGE);
  cluster_pump_settle (c);
  cluster_step_end (c);
}
