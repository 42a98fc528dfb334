/* host.c: an array process: its session with weftd, and the epochs; as
 * plugin/control.c and array-role.c do it.
 *
 *   attach -> connect -> the engine -> resync -> clients -> detach, or an end
 */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

#define ATTACH_TIMEOUT_MS 30000
#define CALL_TIMEOUT_MS 10000
#define BEAT_MS_MIN 100
#define RETRY_MS 1000
#define SETTLE_MS 20 /* how often it is looked whether images are written */

/* ---- The engine's outputs. ---- */

static void
tick (void *owner)
{
  struct host_role *h = owner;

  h->timer_at = UINT64_MAX;
  if (h->engine == NULL)
    return;
  steps++;
  array_tick (h->engine, sim_now);
  host_take (h);
}

static void
note (struct host_role *h, const struct array_notice *n)
{
  TRACE (&h->proc, "notice %d, member %u, epoch %" PRIu64 ": %s", n->kind,
         n->member, n->epoch, n->reason);
  switch (n->kind) {
  case NOTICE_LOST:
    counters.losses++;
    if (h->peer[n->member].state == LINK_UP) {
      array_lost (h->engine, n->member, n->reason, sim_now);
      peer_close (&h->peer[n->member]);
      h->peer[n->member].told = false;
      link_lost (&h->peer[n->member], n->reason);
    }
    break;
  case NOTICE_PREPARED:
    if (h->prepared < n->epoch)
      h->prepared = n->epoch;
    host_look (h);
    break;
  case NOTICE_DATA_LOST:
    break;
  }
}

/* A reader that weftd may have passed over answers nothing until it works with
 * what weftd says now.
 */
static void
hold (void *owner)
{
  struct host_role *h = owner;
  bool silent = sim_now >= h->heard + SESSION_TTL_MS * MS;
  bool holds = silent || (h->holds && h->settled < h->epoch);

  if (h->engine == NULL || h->writable || holds == h->holds)
    return;
  TRACE (&h->proc, holds ? "holds its answers" : "goes on answering");
  h->holds = holds;
  steps++;
  array_hold (h->engine, holds, sim_now);
}

void
host_take (struct host_role *h)
{
  struct array_request *r;
  struct array_notice n;
  struct array_io *io;
  uint64_t deadline;
  bool more;

  hold (h);
  do {
    more = false;
    while (h->engine && (io = array_next_io (h->engine)) != NULL) {
      peer_send (&h->peer[io->member], io);
      more = true;
    }
    while (h->engine && (r = array_next_done (h->engine)) != NULL) {
      more = true;
      if (r->owner)
        clients_done (h, r);
      else if (h->stage == HOST_RESYNC)
        resync_done (h, r);
    }
    while (h->engine && array_next_notice (h->engine, &n)) {
      more = true;
      note (h, &n);
    }
  } while (more);
  if (h->engine == NULL)
    return;
  if (steps % 8 == 0)
    array_check (h->engine);
  deadline = array_deadline (h->engine);
  if (deadline < h->timer_at) {
    h->timer_at = deadline;
    process_after (&h->proc, deadline > sim_now ? deadline - sim_now : 0, tick,
                   h);
  }
}

void
host_submit (struct host_role *h, struct array_request *r)
{
  steps++;
  array_submit (h->engine, r, sim_now);
  host_take (h);
}

/* ---- The session's end. ---- */

static void
gone (void *owner)
{
  struct host_role *h = owner;

  host_kill (h);
  h->start_at = sim_now + between (100, 2000) * MS;
}

void
host_stop (struct host_role *h, int error)
{
  if (h->stage == HOST_OVER)
    return;
  TRACE (&h->proc, "its session is over");
  h->stage = HOST_OVER;
  if (h->engine) {
    steps++;
    array_stop (h->engine, error, sim_now);
    host_take (h);
  }
  process_after (&h->proc, between (10, 1500) * MS, gone, h);
}

/* ---- What weftd says, and what we say. ---- */

/* Are those connected that the change counts on?  (Not for a reader.) */
static bool
may_prepare (const struct host_role *h)
{
  if (h->change <= h->asked || h->change <= h->epoch ||
      h->committed < h->epoch)
    return false;
  for (unsigned m = 0; m < w.layout.members; m++)
    if (h->writable && h->change_states[m] == MEMBER_IN_SYNC &&
        h->states[m] != MEMBER_IN_SYNC && h->peer[m].state != LINK_UP)
      return false;
  return true;
}

static void
prepare (struct host_role *h)
{
  TRACE (&h->proc, "prepares epoch %" PRIu64, h->change);
  h->asked = h->change;
  steps++;
  array_prepare (h->engine, h->change, h->change_states, sim_now);
  host_take (h);
}

static void
look_again (void *owner)
{
  struct host_role *h = owner;

  h->settling = false;
  host_look (h);
}

/* Do we work in the newest epoch by now? */
static void
settle (struct host_role *h)
{
  if (h->settled == h->epoch || h->committed < h->epoch || !links_settled (h))
    return;
  if (array_epoch (h->engine) < h->epoch) {
    if (!h->settling)
      process_after (&h->proc, SETTLE_MS * MS, look_again, h);
    h->settling = true;
    return;
  }
  TRACE (&h->proc, "works in epoch %" PRIu64, h->epoch);
  h->settled = h->epoch;
}

static void tell (void *owner);

void
host_look (struct host_role *h)
{
  if (h->engine == NULL || h->stage >= HOST_ENDING)
    return;
  links_connect (h);
  if (may_prepare (h))
    prepare (h);
  if (h->engine == NULL)
    return;
  settle (h);
  hold (h);
  if (h->told_settled < h->settled || h->told_prepared < h->prepared)
    tell (h);
}

void
host_learn (struct host_role *h, const struct answer *a)
{
  if (h->engine == NULL || h->stage >= HOST_ENDING)
    return;
  if (a->epoch > h->epoch) {
    TRACE (&h->proc, "hears of epoch %" PRIu64, a->epoch);
    h->epoch = a->epoch;
    for (unsigned m = 0; m < w.layout.members; m++) {
      /* From in-sync to joining there is no way but by way of out. */
      if (a->states[m] == MEMBER_OUT || (a->states[m] == MEMBER_JOINING &&
                                         h->states[m] == MEMBER_IN_SYNC))
        h->peer[m].joined = false;
      h->states[m] = a->states[m];
    }
  }
  if (a->has_map && a->epoch == h->epoch && a->epoch > h->map.epoch)
    h->map = *a;
  if (a->change_epoch > h->epoch && a->change_epoch > h->change) {
    h->change = a->change_epoch;
    memcpy (h->change_states, a->change_states, sizeof h->change_states);
  }
  links_look (h);
  if (h->committed < h->epoch)
    links_commit (h);
  host_look (h);
}

static void beat (void *owner);

static void
take (void *owner)
{
  struct host_role *h = owner;

  if (h->engine)
    host_take (h);
}

static void
beat_answered (struct call *c)
{
  struct host_role *h = c->owner;
  const struct answer *a = &c->answer;
  bool poll = h->beat == c;

  *(poll ? &h->beat : &h->tell) = NULL;
  if (a->status == 200) {
    if (c->sent > h->heard) {
      h->heard = c->sent;
      if (!h->writable && h->heard + SESSION_TTL_MS * MS > sim_now)
        process_after (&h->proc, h->heard + SESSION_TTL_MS * MS - sim_now,
                       take, h);
    }
    if (h->told_settled < c->session.epoch)
      h->told_settled = c->session.epoch;
    if (h->told_prepared < c->session.prepared)
      h->told_prepared = c->session.prepared;
    host_learn (h, a);
  }
  else if (a->status == 410)
    host_stop (h, ESHUTDOWN);
  if (poll)
    process_after (&h->proc, (a->status == 200 ? BEAT_MS_MIN : RETRY_MS) * MS,
                   beat, h);
  else if (a->status != 200)
    process_after (&h->proc, RETRY_MS * MS, tell, h);
  call_unref (c);
}

static struct call *
speak (struct host_role *h, unsigned wait_ms)
{
  struct call *c = call_new (&h->proc, CALL_SESSION, h, beat_answered);

  c->refs++;
  c->session_id = h->session;
  strcpy (c->session.instance, h->instance);
  c->session.epoch = h->settled;
  c->session.prepared = h->prepared;
  c->session.round = h->engine ? array_round (h->engine) : 0;
  c->session.wait_ms = wait_ms;
  call_send (c, wait_ms + CALL_TIMEOUT_MS);
  return c;
}

static void
beat (void *owner)
{
  struct host_role *h = owner;

  if (h->stage < HOST_ENDING && h->beat == NULL)
    h->beat = speak (h, HEARTBEAT_MS);
}

/* What can't wait for the heartbeat. */
static void
tell (void *owner)
{
  struct host_role *h = owner;

  if (h->stage < HOST_ENDING && h->tell == NULL &&
      (h->told_settled < h->settled || h->told_prepared < h->prepared))
    h->tell = speak (h, 0);
}

/* ---- The start. ---- */

static void
make_engine (struct host_role *h)
{
  struct array_config c = {
    .layout = w.layout,
    .dup = w.config.dup,
    .readonly = !h->writable,
    .batches = h->writable, /* readers have no batch door */
    .epoch = h->epoch,
    .rounds = true,
    .round = h->map.round,
    .image_buffer_bytes = w.config.image_buffer_bytes,
    .image_age_ms = w.config.image_age_ms,
    .io_timeout_ms = w.config.io_timeout_ms,
  };
  char why[256];

  for (unsigned m = 0; m < w.layout.members; m++)
    c.member_round[m] = h->map.peer[m].round;
  links_seen (h, h->states, c.states);
  h->engine = array_new (&c, sim_now, why, sizeof why);
  if (h->engine == NULL)
    sim_fail ("array_new: %s", why);
  h->timer_at = UINT64_MAX;
  for (unsigned i = 0; i < CLIENTS; i++)
    h->client[i] = array_client_open (h->engine);
}

/* Every member is connected at the start, or can't be. */
void
host_started (struct host_role *h)
{
  for (unsigned m = 0; m < w.layout.members; m++)
    if (h->states[m] == MEMBER_IN_SYNC && h->peer[m].state != LINK_UP) {
      TRACE (&h->proc, "can't reach member %u, and ends", m);
      host_detach (h);
      return;
    }
  make_engine (h);
  h->committed = h->epoch;
  h->told_settled = h->epoch - 1;
  h->settled = h->epoch - 1;
  reports_look (h);
  if (h->writable)
    resync_begin (h);
  else
    host_serve (h);
  if (h->engine == NULL)
    return;
  beat (h);
  host_look (h);
}

void
host_serve (struct host_role *h)
{
  TRACE (&h->proc, "serves clients");
  h->stage = HOST_SERVING;
  h->wants_detach = false;
  if (h->writable)
    oracle_serving (h);
  clients_poll (h);
}

static void
attach (void *owner);

static void
attached (struct call *c)
{
  struct host_role *h = c->owner;
  const struct answer *a = &c->answer;
  uint64_t wait;

  h->attach = NULL;
  if (a->status == 200) {
    counters.grants++;
    TRACE (&h->proc, "is attached in epoch %" PRIu64, a->epoch);
    h->session = a->session;
    h->map = *a;
    h->heard = c->sent;
    h->stage = HOST_CONNECTING;
    h->epoch = a->epoch;
    memcpy (h->states, a->states, sizeof h->states);
    call_unref (c);
    links_begin (h);
    return;
  }
  wait = a->retry && a->retry_after_ms ? a->retry_after_ms : RETRY_MS;
  call_unref (c);
  process_after (&h->proc, (wait < 500 ? 500 : wait) * MS, attach, h);
}

static void
attach (void *owner)
{
  struct host_role *h = owner;
  struct call *c = h->attach = call_new (&h->proc, CALL_ATTACH, h, attached);

  c->refs++;
  strcpy (c->attach.instance, h->instance);
  snprintf (c->attach.node, sizeof c->attach.node, "n%u", h->proc.party);
  c->attach.pid = h->proc.life;
  c->attach.writable = h->writable;
  c->attach.takeover = h->takeover;
  c->attach.ended = h->ended;
  call_send (c, ATTACH_TIMEOUT_MS);
}

void
host_start (struct host_role *h)
{
  struct process proc = h->proc;
  bool writable = h->writable, takeover = h->takeover;
  uint64_t ended = h->session ? h->session : h->ended;

  memset (h, 0, sizeof *h);
  h->proc = proc;
  h->ended = ended;
  h->writable = writable;
  h->takeover = takeover;
  process_start (&h->proc);
  TRACE (&h->proc, "starts");
  snprintf (h->instance, sizeof h->instance, "h%" PRIu64, h->proc.life);
  for (unsigned m = 0; m < w.layout.members; m++) {
    h->peer[m].host = h;
    h->peer[m].member = m;
  }
  h->stage = HOST_ATTACHING;
  attach (h);
}

/* ---- The end. ---- */

void
host_kill (struct host_role *h)
{
  uint64_t session = h->session;
  struct call *c[4] = { h->attach, h->beat, h->tell, h->report };
  struct array_request *r;

  TRACE (&h->proc, "is gone");
  h->proc.life = 0;
  h->stage = HOST_DOWN;
  h->attach = h->beat = h->tell = h->report = NULL;
  for (unsigned i = 0; i < 4; i++)
    if (c[i])
      call_unref (c[i]);
  if (h->engine) {
    array_stop (h->engine, ESHUTDOWN, sim_now);
    links_forget (h);
    while ((array_next_io (h->engine)) != NULL)
      abort ();
    while ((r = array_next_done (h->engine)) != NULL)
      ;
    array_free (h->engine);
    h->engine = NULL;
  }
  else
    links_forget (h);
  resync_free (h);
  clients_killed (h);
  if (h->writable && session)
    oracle_writer_gone (session);
}

static void
detached (struct call *c)
{
  struct host_role *h = c->owner;

  call_unref (c);
  gone (h);
}

/* No client is there any more, and all is flushed. */
void
host_detach (struct host_role *h)
{
  struct call *c = call_new (&h->proc, CALL_DETACH, h, detached);

  TRACE (&h->proc, "detaches");
  h->stage = HOST_ENDING;
  c->session_id = h->session;
  c->refs++;
  call_send (c, 3000);
}
