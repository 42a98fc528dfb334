/* member-drain.c: the member engine: waits for requests that began before the gate was
 * raised, a session ended, or the joining began.
 */

#include <config.h>

#include "member-internal.h"

/* Begin to drain for what asks for it, unless something earlier is being
 * drained for still.
 */
static void
drain_begin (struct member *m)
{
  if (m->draining || m->drains_done == m->drains_asked)
    return;
  m->draining_for = m->drains_asked;
  /* The order matters: a request that leaves the old turn after the change of
   * turn sees that a thread waits, and a request that left before it is missing
   * from `running` when member_drain_poll looks.
   */
  atomic_store (&m->draining, true);
  atomic_store (&m->turn, 1 - atomic_load (&m->turn));
}

void
member_drain_poll (struct member *m)
{
  drain_begin (m);
  while (m->draining && atomic_load (&m->running[1 - m->turn]) == 0) {
    atomic_store (&m->draining, false);
    m->drains_done = m->draining_for;
    drain_begin (m);
  }
  if (m->drains_done >= m->over_drain)
    m->over_done = m->over_told;
}
