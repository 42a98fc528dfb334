/* array-witness.c: what a writer reads that weftd has not answered for its TTL.
 *
 * Such a writer may have been replaced, and may be cut off together with a member
 * that the next writer goes without: nobody has fenced that member, and what it has
 * is old.  But the next writer has a copy of everything, and each member that it has
 * a copy on was fenced before it was let in.  So the writer reads a copy only when
 * the members of all others that count are its *witnesses*: each has answered
 * something since the read was asked for.  Then nobody else could write when it was
 * asked.  They are asked for a sign of life, which needs no disk, one for all reads
 * that wait.
 *
 * If a witness is lost the read waits, until weftd is heard again.  Writes need no
 * witness: their own members' fence stops them.
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
  a->member[member].witness = x;
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

    if (c == copy || !member_counts (a, member) || m->witnessed > q->begun)
      continue;
    may = false;
    if (member_reachable (a, member) && !m->witness)
      ask (a, member);
  }
  return may;
}

void
witness_answered (struct array *a, struct aio *x, bool ok)
{
  struct array_member *m = &a->member[x->io.member];

  free (x->io.buf);
  if (m->witness == x)
    m->witness = NULL;
  if (ok && m->witnessed < x->start)
    m->witnessed = x->start;
  pieces_go_on (a, &a->stalled);
}
