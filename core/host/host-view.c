/* host-view.c: takes in weftd's answers (host.h). */

#include <config.h>

#include <string.h>

#include "host-internal.h"

bool
host_view_learn (struct host *h, const struct host_answer *a)
{
  const struct host_view *v = &a->view;

  if (a->status == 410)
    h->over = true;
  if (a->status != 200)
    return false;
  if (v->epoch > h->view.epoch) {
    h->view.epoch = v->epoch;
    memcpy (h->view.states, v->states, sizeof v->states);
    h->enter_due_ms = 0;
  }
  if (v->map_epoch == h->view.epoch && v->map_epoch > h->view.map_epoch) {
    h->view.map_epoch = v->map_epoch;
    memcpy (h->view.fence, v->fence, sizeof v->fence);
    memcpy (h->view.lapse, v->lapse, sizeof v->lapse);
    memcpy (h->view.life, v->life, sizeof v->life);
    memcpy (h->view.round, v->round, sizeof v->round);
  }
  if (v->change > h->view.epoch && v->change > h->view.change) {
    h->view.change = v->change;
    memcpy (h->view.change_states, v->change_states, sizeof v->change_states);
  }
  if (v->all_arrived > h->view.all_arrived)
    h->view.all_arrived = v->all_arrived;
  return true;
}

const struct host_view *
host_view (const struct host *h)
{
  return &h->view;
}

bool
host_is_over (const struct host *h)
{
  return h->over;
}
