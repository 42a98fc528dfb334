/* volume-request.c: requests of clients, in lists and answered, and requests to the array. */

#include <config.h>

#include <assert.h>

#include "volume-internal.h"

void
volume_request_add (struct request_list *l, struct volume_request *r)
{
  r->next = NULL;
  *(l->first ? l->last : &l->first) = r;
  l->last = &r->next;
}

struct volume_request *
volume_request_take (struct request_list *l)
{
  struct volume_request *r = l->first;

  if (r)
    l->first = r->next;
  return r;
}

void
volume_request_done (struct volume *v, struct volume_request *r)
{
  assert (v->requests > 0);
  v->requests--;
  if (r->client)
    r->client->requests--;
  volume_request_add (&v->done, r);
  v->look = true;
}

void
volume_request_send (struct volume *v, struct vio *x, enum volume_io_kind kind,
                     void *of)
{
  x->kind = kind;
  x->of = of;
  x->io.owner = x;
  v->flying++;
  TAILQ_INSERT_TAIL (&v->out, x, link);
}

void
volume_request_broken (struct volume *v, const char *why)
{
  if (!v->why)
    v->why = why;
  v->look = true;
}
