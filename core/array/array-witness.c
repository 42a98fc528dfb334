/* array-witness.c: the reads of a writer without an answer from weftd for its
 * TTL.
 *
 * Such a writer may have been replaced.  It may also be cut off together with a
 * member that the next writer goes without: that member has not been fenced,
 * and its data is old.  But the next writer has a copy of everything, and each
 * member with a copy was fenced before that writer was admitted.  So the writer
 * reads a copy only when the members of all other copies that count are its
 * *witnesses*: each has answered something since the read was submitted.  Then
 * no other session could write when the read was submitted.  Witnesses are
 * asked for a sign of life, which needs no disk, one for all reads that wait.
 *
 * If a witness is lost the read waits, until weftd answers again.  Writes need
 * no witness: their own members' fence stops them.
 */

#include <config.h>

#include <stdlib.h>

#include "array-internal.h"

bool
witness_needed (const struct array *a, const struct req *q)
{
  return !a->config.readonly && q->begun_ns >= a->trust_ns;
}

static void
ask (struct array *a, unsigned member)
{
  struct aio *x = aio_sign (a, FOR_WITNESS, member);

  x->start = ++a->event;
  a->member[member].witness.asked = x;
  aio_send (a, x);
}

bool
witness_all (struct array *a, struct piece *p, unsigned copy)
{
  struct req *q = p->req;
  bool may = true;

  if (!witness_needed (a, q))
    return true;
  if (q->begun == 0)
    q->begun = ++a->event;
  for (unsigned c = 0; c < p->at.copies; c++) {
    unsigned member = p->at.copy[c].member;
    const struct array_member *m = &a->member[member];

    if (c == copy || !member_counts (a, member) || m->witness.event > q->begun)
      continue;
    may = false;
    if (member_reachable (a, member) && !m->witness.asked)
      ask (a, member);
  }
  return may;
}

void
witness_answered (struct array *a, struct aio *x, bool ok)
{
  struct array_member *m = &a->member[x->io.member];

  free (x->io.buf);
  if (m->witness.asked == x)
    m->witness.asked = NULL;
  if (ok && m->witness.event < x->start)
    m->witness.event = x->start;
  pieces_go_on (a, &a->stalled);
}
