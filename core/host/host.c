/* host.c: the session: weftd's answers, and the actions that are due (host.h).
 *
 * Inputs only note their facts.  There is no list of actions: due_ms derives
 * from the facts when an action of a kind is due, and take notes that it was
 * taken.
 */

#include <config.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "host-internal.h"

#define BEAT_MS_MIN 100 /* between heartbeats, however fast the answers */
#define SETTLE_MS 20    /* how often it is asked whether images are written */

void
host_answered (struct host *h, enum host_do kind, const struct host_answer *a,
               uint64_t now_ms)
{
  struct words *w = kind == HOST_DO_BEAT ? &h->beat : &h->tell;

  assert (w->under_way);
  w->under_way = false;
  if (a->status != 200)
    w->due_ms = (kind == HOST_DO_BEAT ? w->sent_ms : now_ms) + HOST_RETRY_MS;
  else if (kind == HOST_DO_BEAT && !a->at_once)
    w->due_ms = w->sent_ms + BEAT_MS_MIN;
  else
    w->due_ms = 0;
  if (a->status == 200) {
    if (h->heard_ms < w->sent_ms)
      h->heard_ms = w->sent_ms;
    if (h->told_settled < w->epoch)
      h->told_settled = w->epoch;
    if (h->told_arrived < w->arrived)
      h->told_arrived = w->arrived;
    if (h->told_prepared < w->prepared)
      h->told_prepared = w->prepared;
    h->told_older = h->told_older || w->older;
    h->told_equal = h->told_equal || w->equal;
  }
  if (host_view_learn (h, a))
    host_links_look (h);
}

/* ---- What is due ---- */

/* The kinds that can still be due: none when the process ends; when the session
 * is over, only stopping the array engine.
 */
static unsigned
possible (const struct host *h)
{
  return h->ended ? 0 : h->over ? HOST_DO_STOP : HOST_DO_ALL;
}

/* May the array engine trust for longer?  weftd may have changed the epoch without
 * waiting for a reader that it had not heard for SESSION_TTL_MS: such a reader is to
 * work in the newest one first.
 */
static bool
trusts_on (const struct host *h, uint64_t now_ms)
{
  uint64_t until_ms = h->heard_ms + SESSION_TTL_MS;

  return until_ms > h->trusts_ms && now_ms < until_ms &&
         (!h->readonly || now_ms < h->trusts_ms || h->settled >= h->view.epoch);
}

/* When an action of this kind is due; UINT64_MAX: never. */
static uint64_t
due_ms (const struct host *h, enum host_do kind, uint64_t now_ms)
{
  uint64_t ms = 0;
  bool due = false;

  switch (kind) {
  case HOST_DO_STOP:
    due = h->over && !h->stopped;
    break;
  case HOST_DO_COMMIT:
    due = h->committing < h->view.epoch;
    break;
  case HOST_DO_PREPARE:
    due = h->view.change > h->asked && h->view.change > h->view.epoch &&
          h->committed >= h->view.epoch && host_links_may_prepare (h);
    break;
  case HOST_DO_TRUST:
    ms = trusts_on (h, now_ms) ? 0 : h->trusts_ms;
    due = ms == 0 || !h->distrusts;
    break;
  case HOST_DO_ALL_ARRIVED:
    due = h->all_arrived < h->view.all_arrived;
    break;
  case HOST_DO_ENTER: /* do we work in the newest epoch by now? */
    ms = h->enter_due_ms;
    due = (h->settled < h->view.epoch || h->arrived < h->view.epoch) &&
          h->committed >= h->view.epoch && host_links_settled (h);
    break;
  case HOST_DO_CONNECT:
    /* The array engine is to know an epoch before it gets a connection that was
     * opened in that epoch.
     */
    due = h->committed >= h->view.epoch &&
          host_links_connect_due (h) < h->members;
    break;
  case HOST_DO_REPORT:
    return host_links_report_due_ms (h);
  case HOST_DO_TELL:
    /* weftd waits for a new `settled`, `arrived` or `prepared`, or may take the loss of
     * a member for more than it is before it hears `equal`; and it may be holding its
     * answer to the heartbeat: so these are told by a call of their own.
     */
    ms = h->tell.due_ms;
    due = !h->tell.under_way &&
          (h->settled > h->told_settled || h->arrived > h->told_arrived ||
           h->prepared > h->told_prepared || h->older != h->told_older ||
           h->equal != h->told_equal);
    break;
  case HOST_DO_BEAT:
    ms = h->beat.due_ms;
    due = !h->beat.under_way;
    break;
  case HOST_DO_ALL:
    abort ();
  }
  return due ? ms : UINT64_MAX;
}

static void
say (struct host *h, struct words *w, uint64_t now_ms, struct host_action *a)
{
  w->under_way = true;
  w->sent_ms = now_ms;
  a->epoch = w->epoch = h->settled;
  a->arrived = w->arrived = h->arrived;
  a->prepared = w->prepared = h->prepared;
  a->older = w->older = h->older;
  a->equal = w->equal = h->equal;
  a->wait_ms = w == &h->beat ? HEARTBEAT_MS : 0;
  a->timeout_ms = a->wait_ms + CALL_TIMEOUT_MS;
}

/* An action of this kind is due: fill it in, and note that it was taken. */
static void
take (struct host *h, enum host_do kind, uint64_t now_ms, struct host_action *a)
{
  *a = (struct host_action) { .kind = kind };
  switch (kind) {
  case HOST_DO_STOP:
    h->stopped = true;
    break;
  case HOST_DO_COMMIT:
    a->epoch = h->committing = h->view.epoch;
    memcpy (a->states, h->view.states, sizeof a->states);
    break;
  case HOST_DO_PREPARE:
    a->epoch = h->asked = h->view.change;
    memcpy (a->states, h->view.change_states, sizeof a->states);
    break;
  case HOST_DO_TRUST:
    a->again = h->distrusts;
    h->distrusts = !trusts_on (h, now_ms);
    if (!h->distrusts)
      a->until_ms = h->trusts_ms = h->heard_ms + SESSION_TTL_MS;
    break;
  case HOST_DO_ALL_ARRIVED:
    a->epoch = h->all_arrived = h->view.all_arrived;
    break;
  case HOST_DO_ENTER:
    h->enter_due_ms = now_ms + SETTLE_MS;
    break;
  case HOST_DO_CONNECT:
    host_links_connect_take (h, a);
    break;
  case HOST_DO_REPORT:
    host_links_report_take (h, a, now_ms);
    break;
  case HOST_DO_TELL:
    say (h, &h->tell, now_ms, a);
    break;
  case HOST_DO_BEAT:
    say (h, &h->beat, now_ms, a);
    break;
  case HOST_DO_ALL:
    abort ();
  }
}

bool
host_next (struct host *h, uint64_t now_ms, unsigned kinds,
           struct host_action *a)
{
  kinds &= possible (h);
  for (unsigned kind = HOST_DO_STOP; kind <= HOST_DO_BEAT; kind *= 2)
    if ((kinds & kind) && due_ms (h, kind, now_ms) <= now_ms) {
      take (h, kind, now_ms, a);
      return true;
    }
  return false;
}

uint64_t
host_due_ms (const struct host *h, uint64_t now_ms, unsigned kinds)
{
  uint64_t first_ms = UINT64_MAX;

  kinds &= possible (h);
  for (unsigned kind = HOST_DO_STOP; kind <= HOST_DO_BEAT; kind *= 2) {
    uint64_t ms = kinds & kind ? due_ms (h, kind, now_ms) : UINT64_MAX;

    if (ms < first_ms)
      first_ms = ms;
  }
  return first_ms;
}

/* ---- What the array engine has done ---- */

void
host_prepared (struct host *h, uint64_t epoch)
{
  if (h->prepared < epoch)
    h->prepared = epoch;
}

void
host_committed (struct host *h, uint64_t epoch)
{
  if (h->committed < epoch)
    h->committed = epoch;
}

void
host_entered (struct host *h, uint64_t epoch, uint64_t arrived)
{
  if (h->arrived < arrived)
    h->arrived = arrived;
  if (epoch >= h->view.epoch && host_links_settled (h))
    h->settled = h->view.epoch;
}

void
host_equal (struct host *h)
{
  h->equal = true;
}

void
host_older (struct host *h)
{
  h->older = true;
}

bool
host_older_told (const struct host *h)
{
  return h->told_older;
}

/* ---- Life ---- */

struct host *
host_new (const struct host_config *c, uint64_t now_ms)
{
  struct host *h = calloc (1, sizeof *h);

  if (h == NULL)
    return NULL;
  h->members = c->members;
  h->readonly = c->readonly;
  h->view = c->view;
  h->heard_ms = c->heard_ms;
  h->trusts_ms = c->heard_ms + SESSION_TTL_MS;
  h->committing = h->committed = c->view.epoch;
  h->all_arrived = c->view.all_arrived;
  for (unsigned m = 0; m < h->members; m++) {
    struct link *l = &h->link[m];

    l->epoch = l->used = c->view.epoch;
    l->connection = c->connected[m];
    l->state = c->view.states[m] == MEMBER_OUT ? LINK_OUT
               : c->connected[m]               ? LINK_UP
                                               : LINK_LOST;
    l->due_ms = now_ms;
    strcpy (l->reason, "it can't be reached");
  }
  h->settled = c->view.epoch - !host_links_settled (h);
  h->told_settled = h->settled;
  h->arrived = h->told_arrived = c->view.epoch; /* nothing has begun yet */
  return h;
}

void
host_free (struct host *h)
{
  free (h);
}

void
host_end (struct host *h)
{
  h->ended = true;
}

bool
host_is_whole (const struct host *h)
{
  if (h->over || h->relinked)
    return false;
  for (unsigned m = 0; m < h->members; m++)
    if (h->view.states[m] != MEMBER_IN_SYNC || h->link[m].state != LINK_UP)
      return false;
  return true;
}

void
host_check (const struct host *h)
{
  assert (h->committed <= h->committing && h->committing <= h->view.epoch);
  assert (h->settled <= h->committed && h->told_settled <= h->settled);
  assert (h->told_arrived <= h->arrived);
  assert (h->told_prepared <= h->prepared && h->prepared <= h->asked);
  assert (h->older || !h->told_older);
  assert (h->equal || !h->told_equal);
  assert (h->view.map_epoch <= h->view.epoch);
  assert (h->all_arrived <= h->view.all_arrived);
  assert (h->trusts_ms <= h->heard_ms + SESSION_TTL_MS);
  for (unsigned m = 0; m < h->members; m++) {
    const struct link *l = &h->link[m];

    assert (l->state != LINK_CONNECTING || l->busy);
    assert (l->used <= l->epoch && l->epoch <= h->view.map_epoch);
    assert (l->state != LINK_UP || l->busy || !l->told);
  }
}
