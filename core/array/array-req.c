/* array-req.c: what every file of the engine builds on: requests that are made, and
 * marked as able to go on (array.c).
 */

#include <config.h>

#include "array-internal.h"

struct req *
req_new (struct array *a, struct array_request *r)
{
  struct req *q = spares_take (&a->spare_reqs, sizeof *q);

  q->r = r;
  q->begun_ns = a->now_ns;
  q->commits = a->commits;
  TAILQ_INIT (&q->pieces);
  r->state = q;
  TAILQ_INSERT_TAIL (&a->requests, q, link);
  a->requests_count++;
  return q;
}

void
req_wake (struct array *a, struct req *q)
{
  if (q->runnable)
    return;
  q->runnable = true;
  TAILQ_INSERT_TAIL (&a->runnable, q, run_link);
}

/* The first error is what the client sees. */
void
req_fail (struct array *a, struct req *q, int error)
{
  if (!q->error)
    q->error = error;
  req_wake (a, q);
}
