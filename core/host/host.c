/* host.c: the session: what is learnt from weftd, and what is due (host.h).
 *
 * Inputs only note what they say.  There is no list of things to do: each kind
 * of action has a function here that finds out from what is known when it is
 * due (NAME_due_ms), and one that notes that it was taken (NAME_take).
 */

#include <config.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "host-internal.h"

#define BEAT_MS_MIN 100 /* between heartbeats, however fast the answers */
#define SETTLE_MS 20    /* how often it is asked whether images are written */

/* ---- What weftd says ---- */

static void
learn_states (struct host *h, const struct host_view *v)
{
  if (v->epoch <= h->view.epoch)
    return;
  h->view.epoch = v->epoch;
  memcpy (h->view.states, v->states, sizeof v->states);
  h->enter_due_ms = 0;
}

void
host_learn (struct host *h, const struct host_answer *a)
{
  const struct host_view *v = &a->view;

  if (a->status == 410)
    h->over = true;
  if (a->status != 200)
    return;
  learn_states (h, v);
  if (v->map_epoch == h->view.epoch && v->map_epoch > h->view.map_epoch) {
    h->view.map_epoch = v->map_epoch;
    memcpy (h->view.fence, v->fence, sizeof v->fence);
    memcpy (h->view.lapse, v->lapse, sizeof v->lapse);
  }
  if (v->change > h->view.epoch && v->change > h->view.change) {
    h->view.change = v->change;
    memcpy (h->view.change_states, v->change_states, sizeof v->change_states);
  }
  host_links_look (h);
}

void
host_answered (struct host *h, enum host_do kind, const struct host_answer *a,
               uint64_t now_ms)
{
  struct words *w = kind == HOST_DO_BEAT ? &h->beat : &h->tell;

  assert (w->under_way);
  w->under_way = false;
  if (kind == HOST_DO_BEAT)
    w->due_ms = w->sent_ms + (a->status == 200 ? BEAT_MS_MIN : HOST_RETRY_MS);
  else
    w->due_ms = a->status == 200 ? 0 : now_ms + HOST_RETRY_MS;
  if (a->status == 200) {
    if (h->heard_ms < w->sent_ms)
      h->heard_ms = w->sent_ms;
    if (h->told_settled < w->epoch)
      h->told_settled = w->epoch;
    if (h->told_prepared < w->prepared)
      h->told_prepared = w->prepared;
  }
  host_learn (h, a);
}

/* ---- What is due ---- */

static uint64_t
stop_due_ms (const struct host *h, uint64_t now_ms)
{
  return h->over && !h->stopped ? 0 : UINT64_MAX;
}

static void
stop_take (struct host *h, uint64_t now_ms, struct host_action *a)
{
  h->stopped = true;
}

static uint64_t
commit_due_ms (const struct host *h, uint64_t now_ms)
{
  return h->committing < h->view.epoch ? 0 : UINT64_MAX;
}

static void
commit_take (struct host *h, uint64_t now_ms, struct host_action *a)
{
  a->epoch = h->committing = h->view.epoch;
  memcpy (a->states, h->view.states, sizeof a->states);
}

static uint64_t
prepare_due_ms (const struct host *h, uint64_t now_ms)
{
  return h->view.change > h->asked && h->view.change > h->view.epoch &&
             h->committed >= h->view.epoch && host_links_may_prepare (h)
           ? 0
           : UINT64_MAX;
}

static void
prepare_take (struct host *h, uint64_t now_ms, struct host_action *a)
{
  a->epoch = h->asked = h->view.change;
  memcpy (a->states, h->view.change_states, sizeof a->states);
}

/* weftd may have changed the epoch without waiting for a reader that it has not
 * heard for SESSION_TTL_MS.  Such a reader answers nothing until weftd has
 * answered it again and it works in the newest epoch.
 */
static uint64_t
hold_due_ms (const struct host *h, uint64_t now_ms)
{
  uint64_t deadline_ms = h->heard_ms + SESSION_TTL_MS;

  if (!h->readonly)
    return UINT64_MAX;
  if (!h->held)
    return deadline_ms;
  return now_ms < deadline_ms && h->settled >= h->view.epoch ? 0 : UINT64_MAX;
}

static void
hold_take (struct host *h, uint64_t now_ms, struct host_action *a)
{
  a->hold = h->held = !h->held;
}

/* Do we work in the newest epoch by now? */
static uint64_t
enter_due_ms (const struct host *h, uint64_t now_ms)
{
  return h->settled < h->view.epoch && h->committed >= h->view.epoch &&
             host_links_settled (h)
           ? h->enter_due_ms
           : UINT64_MAX;
}

static void
enter_take (struct host *h, uint64_t now_ms, struct host_action *a)
{
  h->enter_due_ms = now_ms + SETTLE_MS;
}

static void
say (struct host *h, struct words *w, uint64_t now_ms, struct host_action *a)
{
  w->under_way = true;
  w->sent_ms = now_ms;
  a->epoch = w->epoch = h->settled;
  a->prepared = w->prepared = h->prepared;
  a->wait_ms = w == &h->beat ? HEARTBEAT_MS : 0;
  a->timeout_ms = a->wait_ms + CALL_TIMEOUT_MS;
}

static uint64_t
beat_due_ms (const struct host *h, uint64_t now_ms)
{
  return h->beat.under_way ? UINT64_MAX : h->beat.due_ms;
}

static void
beat_take (struct host *h, uint64_t now_ms, struct host_action *a)
{
  say (h, &h->beat, now_ms, a);
}

/* weftd waits for a new `settled` or `prepared`, and may be holding its answer
 * to the heartbeat: so these are told by a call of their own.
 */
static uint64_t
tell_due_ms (const struct host *h, uint64_t now_ms)
{
  return !h->tell.under_way &&
             (h->settled > h->told_settled || h->prepared > h->told_prepared)
           ? h->tell.due_ms
           : UINT64_MAX;
}

static void
tell_take (struct host *h, uint64_t now_ms, struct host_action *a)
{
  say (h, &h->tell, now_ms, a);
}

/* The kinds of actions, in the order in which they are taken: those that hold
 * up clients' requests come first.
 */
static const struct {
  enum host_do kind;
  uint64_t (*due_ms) (const struct host *h, uint64_t now_ms);
  void (*take) (struct host *h, uint64_t now_ms, struct host_action *a);
} all[] = {
  { HOST_DO_STOP, stop_due_ms, stop_take },
  { HOST_DO_COMMIT, commit_due_ms, commit_take },
  { HOST_DO_PREPARE, prepare_due_ms, prepare_take },
  { HOST_DO_HOLD, hold_due_ms, hold_take },
  { HOST_DO_ENTER, enter_due_ms, enter_take },
  { HOST_DO_CONNECT, host_connect_due_ms, host_connect_take },
  { HOST_DO_REPORT, host_report_due_ms, host_report_take },
  { HOST_DO_TELL, tell_due_ms, tell_take },
  { HOST_DO_BEAT, beat_due_ms, beat_take },
};
#define KINDS (sizeof all / sizeof all[0])

/* The kinds that can still be due: none when the process ends; when the session
 * is over, only stopping the array engine.
 */
static unsigned
possible (const struct host *h)
{
  return h->ended ? 0 : h->over ? HOST_DO_STOP : HOST_DO_ALL;
}

bool
host_next (struct host *h, uint64_t now_ms, unsigned kinds,
           struct host_action *a)
{
  kinds &= possible (h);
  for (unsigned i = 0; i < KINDS; i++)
    if ((kinds & all[i].kind) && all[i].due_ms (h, now_ms) <= now_ms) {
      *a = (struct host_action) { .kind = all[i].kind };
      all[i].take (h, now_ms, a);
      return true;
    }
  return false;
}

uint64_t
host_due_ms (const struct host *h, uint64_t now_ms, unsigned kinds)
{
  uint64_t first_ms = UINT64_MAX, ms;

  kinds &= possible (h);
  for (unsigned i = 0; i < KINDS; i++) {
    ms = kinds & all[i].kind ? all[i].due_ms (h, now_ms) : UINT64_MAX;
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
host_entered (struct host *h, uint64_t epoch)
{
  if (epoch >= h->view.epoch && host_links_settled (h))
    h->settled = h->view.epoch;
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
  h->committing = h->committed = c->view.epoch;
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
  assert (h->told_prepared <= h->prepared && h->prepared <= h->asked);
  assert (h->view.map_epoch <= h->view.epoch);
  assert (!h->held || h->readonly);
  for (unsigned m = 0; m < h->members; m++) {
    const struct link *l = &h->link[m];

    assert (l->state != LINK_CONNECTING || l->busy);
    assert (l->used <= l->epoch && l->epoch <= h->view.map_epoch);
    assert (l->state != LINK_UP || l->busy || !l->told);
  }
}
