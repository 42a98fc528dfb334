/* array-req.c: what every file of the engine builds on: memory, and requests that
 * are made and marked as able to go on (array.c).
 */

#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "array-internal.h"

void *
array_alloc (size_t bytes)
{
  void *p = calloc (1, bytes);

  if (!p)
    abort (); /* less than a page: the process is at its end */
  return p;
}

struct req *
req_new (struct array *a, struct array_request *r)
{
  struct req *q = a->spare_reqs;

  if (q) {
    a->spare_reqs = q->next;
    a->spare_reqs_count--;
    memset (q, 0, sizeof *q);
  }
  else
    q = array_alloc (sizeof *q);
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
