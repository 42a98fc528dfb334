/* world-host.c: an array process: the host engine's and the array engine's shell, as
 * plugin/control.c, engine.c and array-role.c are.
 *
 *   attach -> connect -> the engines -> resync -> clients -> detach, or an end
 */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

#define ATTACH_TIMEOUT_MS 30000

uint64_t
now_ms (void)
{
  return sim_now / MS;
}

/* ---- What weftd says, and what we say. ---- */

static void
read_answer (struct host_role *h, const struct answer *a,
             struct host_answer *to)
{
  *to = (struct host_answer) { .status = a->status,
                               .code = a->code,
                               .retry_after_ms = a->retry_after_ms };
  if (a->status != 200)
    return;
  to->view.epoch = a->epoch;
  to->view.all_arrived = a->hold ? 0 : a->epoch;
  memcpy (to->view.states, a->states, sizeof a->states);
  to->view.change = a->change_epoch;
  memcpy (to->view.change_states, a->change_states, sizeof a->change_states);
  if (a->has_map)
    to->view.map_epoch = a->epoch;
  for (unsigned m = 0; m < w.layout.members; m++) {
    to->view.fence[m] = a->peer[m].fence;
    to->view.lapse[m] = a->peer[m].lapse;
    to->view.life[m] = a->peer[m].life;
    to->view.round[m] = a->peer[m].life_round;
  }
}

static void
answered (struct call *c)
{
  struct host_role *h = c->owner;
  const struct answer *a = &c->answer;
  struct host_answer answer;

  read_answer (h, a, &answer);
  answer.at_once = leases_heard (h, c);
  if (a->status == 200 && c != h->report && h->heard_ms < c->sent / MS)
    h->heard_ms = c->sent / MS;
  if (c == h->report) {
    h->report = NULL;
    counters.given_back += h->part_length && a->status == 409 &&
                           strcmp (a->code, "in-use") == 0;
    host_reported (h->core, &answer, now_ms ());
  }
  else {
    enum host_do kind = c == h->beat ? HOST_DO_BEAT : HOST_DO_TELL;

    *(c == h->beat ? &h->beat : &h->tell) = NULL;
    host_answered (h->core, kind, &answer, now_ms ());
  }
  if (a->has_map && a->epoch > h->map.epoch &&
      a->epoch == host_view (h->core)->map_epoch)
    h->map = *a;
  call_unref (c);
  host_take (h);
}

static struct call *
call (struct host_role *h, enum call_kind kind)
{
  struct call *c = call_new (&h->proc, kind, h, answered);

  c->refs++;
  c->session_id = h->session;
  return c;
}

static void
speak (struct host_role *h, const struct host_action *a)
{
  struct call *c = call (h, CALL_SESSION);

  *(a->kind == HOST_DO_BEAT ? &h->beat : &h->tell) = c;
  strcpy (c->session.instance, h->instance);
  snprintf (c->session.process, sizeof c->session.process, "%u %" PRIu64,
            h->proc.party, h->proc.life);
  c->session.epoch = a->epoch;
  c->session.arrived = a->arrived;
  c->session.prepared = a->prepared;
  c->session.older = a->older;
  c->session.equal = a->equal;
  c->session.round = array_round (h->engine);
  c->session.round_entered = array_round_entered (h->engine);
  c->session.wait_ms = a->wait_ms;
  withheld_session (h, &c->session);
  c->session.has_stats = w.config.sick;
  if (c->session.has_stats)
    array_stats (h->engine, sim_now, &c->session.stats);
  if (h->lessee)
    c->session.order = lessee_order (h->lessee);
  call_send (c, a->timeout_ms);
}

static void
report (struct host_role *h, const struct host_action *a)
{
  const struct peer *p = &h->peer[a->member];
  struct call *c = h->report = call (h, CALL_LOST);

  if (p->seated && p->data)
    sim_fail ("host %u reports member %u as lost (%s), and is connected to it",
              h->proc.number, a->member, a->reason);
  c->member.member = a->member;
  c->member.round = array_round (h->engine);
  c->member.answers = a->answers;
  c->member.waited_ms = a->waited_ms;
  memcpy (c->member.reason, a->reason, sizeof a->reason);
  call_send (c, a->timeout_ms);
}

/* ---- The engines' outputs. ---- */

static void
carry_out (struct host_role *h, const struct host_action *a)
{
  steps++;
  switch (a->kind) {
  case HOST_DO_STOP:
    host_stop (h, ESHUTDOWN);
    break;
  case HOST_DO_COMMIT:
    TRACE (&h->proc, "commits epoch %" PRIu64, a->epoch);
    peers_commit (h, a);
    host_committed (h->core, a->epoch);
    break;
  case HOST_DO_PREPARE:
    TRACE (&h->proc, "prepares epoch %" PRIu64, a->epoch);
    seats_prepare (&h->seats, h->engine, a->epoch, a->states, sim_now);
    break;
  case HOST_DO_TRUST:
    if (a->until_ms)
      array_trust (h->engine, a->until_ms * MS, sim_now);
    if (a->again || a->until_ms == 0)
      TRACE (&h->proc, a->until_ms ? "trusts what it knows again"
                                   : "trusts what it knows no more");
    break;
  case HOST_DO_ALL_ARRIVED:
    array_all_arrived (h->engine, a->epoch, sim_now);
    break;
  case HOST_DO_ENTER:
    host_entered (h->core, array_epoch (h->engine),
                  array_arrived (h->engine, sim_now));
    break;
  case HOST_DO_CONNECT:
    peer_begin (&h->peer[a->member], a->connection);
    break;
  case HOST_DO_REPORT:
    report (h, a);
    break;
  case HOST_DO_TELL:
  case HOST_DO_BEAT:
    speak (h, a);
    break;
  case HOST_DO_ALL:
    break;
  }
}

static bool
take (struct host_role *h)
{
  struct array_request *r;
  struct array_notice n;
  struct host_action a;
  struct array_io *io;
  bool any = false;

  while (host_next (h->core, now_ms (), HOST_DO_ALL, &a)) {
    carry_out (h, &a);
    any = true;
  }
  while ((io = array_next_io (h->engine)) != NULL) {
    peer_send (&h->peer[io->member], io);
    any = true;
  }
  while ((r = array_next_done (h->engine)) != NULL) {
    if (r->owner)
      clients_done (h, r);
    else if (h->stage == HOST_RESYNC || h->stage == HOST_SERVING)
      host_resync_answered (h, r);
    any = true;
  }
  while (array_next_notice (h->engine, &n)) {
    TRACE (&h->proc, "notice %d, member %u, epoch %" PRIu64 ": %s", n.kind,
           n.member, n.epoch, n.reason);
    if (n.kind == NOTICE_LOST) {
      counters.losses++;
      peer_lost (&h->peer[n.member], &n);
    }
    else if (n.kind == NOTICE_PREPARED)
      host_prepared (h->core, n.epoch);
    else
      leases_notice (h, &n);
    any = true;
  }
  return leases_take (h) || any;
}

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

void
host_take (struct host_role *h)
{
  uint64_t due_ms, at;

  if (h->engine == NULL || h->taking)
    return;
  h->taking = true;
  while (take (h))
    ;
  h->taking = false;
  if (steps % CHECK_STEPS == 0) {
    array_check (h->engine);
    host_check (h->core);
    if (h->lessee)
      lessee_check (h->lessee);
  }
  due_ms = host_due_ms (h->core, now_ms (), HOST_DO_ALL);
  if (leases_due_ms (h) < due_ms)
    due_ms = leases_due_ms (h);
  at = due_ms == UINT64_MAX ? UINT64_MAX : due_ms * MS;
  if (array_deadline (h->engine) < at)
    at = array_deadline (h->engine);
  if (at < h->timer_at) {
    h->timer_at = at;
    process_after (&h->proc, at > sim_now ? at - sim_now : 0, tick, h);
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
    peers_forget (h); /* nothing is waited for that a member owes */
    host_take (h);
  }
  process_after (&h->proc, between (10, 1500) * MS, gone, h);
}

/* ---- The start. ---- */

static void
make_engines (struct host_role *h)
{
  bool shares = h->writable && h->part_length > 0;
  bool ordered = shares && h->map.order_number > 0;
  struct host_config host = {
    .members = w.layout.members,
    .readonly = !h->writable,
    .heard_ms = h->heard_ms,
  };
  struct array_config c = {
    .layout = w.layout,
    .dup = w.config.dup,
    .readonly = !h->writable,
    .part_offset = h->leases ? 0 : h->part_offset,
    .part_length = h->leases ? 0 : h->part_length,
    .leases = shares,
    .lease_all = ordered,
    .batches = h->writable, /* readers have no batch door */
    .pulses = h->writable,
    .epoch = h->map.epoch,
    .rounds = true,
    .round = h->map.round,
    .image_buffer_bytes = w.config.image_buffer_bytes,
    .image_age_ms = w.config.image_age_ms,
    .through_bytes = w.config.through_bytes,
    .io_timeout_ms = w.config.io_timeout_ms,
  };
  struct host_answer answer;
  char why[256];

  read_answer (h, &h->map, &answer);
  host.view = answer.view;
  h->round = h->map.round;
  for (unsigned m = 0; m < w.layout.members; m++) {
    c.member_round[m] = h->map.peer[m].round;
    if (h->round < c.member_round[m])
      h->round = c.member_round[m];
    host.connected[m] = h->peer[m].seated;
  }
  h->core = host_new (&host, now_ms ());
  h->states = host_view (h->core)->states;
  seats_begin (&h->seats, w.layout.members, c.epoch, h->states, host.connected);
  seats_seen (&h->seats, c.states);
  h->engine = array_new (&c, sim_now, why, sizeof why);
  if (h->engine == NULL)
    sim_fail ("array_new: %s", why);
  array_trust (h->engine, (h->heard_ms + SESSION_TTL_MS) * MS, sim_now);
  array_all_arrived (h->engine, host.view.all_arrived, sim_now);
  h->timer_at = UINT64_MAX;
  h->begins_with_all = ordered || !shares;
  if (shares || (h->writable && w.config.leases))
    leases_begin (h);
  for (unsigned i = 0; i < CLIENTS; i++)
    h->client[i] = array_client_open (h->engine);
}

/* Every member is connected at the start, or can't be. */
void
host_started (struct host_role *h)
{
  for (unsigned m = 0; m < w.layout.members; m++)
    if (h->states[m] == MEMBER_IN_SYNC && !h->peer[m].seated) {
      TRACE (&h->proc, "can't reach member %u, and ends", m);
      host_detach (h);
      return;
    }
  make_engines (h);
  for (unsigned m = 0; m < w.layout.members; m++)
    if (h->peer[m].seated && h->peer[m].data == NULL)
      array_lost (h->engine, m, "its connection broke", sim_now);
  if (h->writable && (h->begins_with_all || !h->leases))
    host_resync (h);
  else {
    h->resynced = h->leases; /* ranges that come to it are in sync */
    if (h->leases)
      host_equal (h->core);
    host_serve (h);
  }
  host_take (h);
}

/* It has all of the array, and others are to have parts of it. */
void
host_give_way (void *host)
{
  struct host_role *h = host;

  if (h->stage != HOST_SERVING || w.united != (h->part_length > 0))
    return;
  h->wants_detach = true;
  clients_poll (h);
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
  if ((w.config.shared || w.config.leases) && h->writable &&
      w.united == (h->part_length > 0))
    process_after (&h->proc, between (1, 10) * SECOND, host_give_way, h);
}

/* Has this process of our node ended? */
bool
host_knows_ended (const struct host_role *h, const char *process)
{
  unsigned party;
  uint64_t life;

  if (sscanf (process, "%u %" SCNu64, &party, &life) != 2 ||
      party != h->proc.party)
    return false;
  for (unsigned i = 0; i < w.config.hosts; i++)
    if (w.host[i].proc.life == life)
      return false;
  return true;
}

static void attach (void *owner);

static void
attached (struct call *c)
{
  struct host_role *h = c->owner;
  const struct answer *a = &c->answer;
  char holder[24];
  struct host_attach_answer answer = {
    .status = a->status,
    .retry_after_ms = a->retry ? a->retry_after_ms : 0,
    .holder = a->held ? holder : NULL,
    .holder_heard_ms = a->holder_heard_ms,
    .holder_ended = a->held && host_knows_ended (h, a->holder_process),
  };
  unsigned wait_ms;

  h->attach = NULL;
  snprintf (holder, sizeof holder, "%" PRIu64, a->holder);
  switch (host_attach_answered (&h->attaching, &answer, &wait_ms)) {
  case HOST_ATTACHED:
    counters.grants++;
    TRACE (&h->proc, "is attached in epoch %" PRIu64, a->epoch);
    if (a->order_number)
      TRACE (&h->proc, "begins with all, and owes order %" PRIx64,
             a->order_number);
    h->session = a->session;
    h->map = *a;
    h->heard_ms = c->sent / MS;
    h->stage = HOST_CONNECTING;
    peers_begin (h);
    break;
  case HOST_ATTACH_AGAIN:
    counters.waits += h->part_length > 0;
    process_after (&h->proc, wait_ms * MS, attach, h);
    break;
  case HOST_ATTACH_REFUSED:
    TRACE (&h->proc, "is not attached, and ends");
    process_after (&h->proc, 0, gone, h);
    break;
  }
  call_unref (c);
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
  c->attach.part = (struct cluster_part) { h->part_offset, h->part_length };
  c->attach.leases = h->leases;
  c->attach.takeover = h->takeover;
  c->attach.ended = strtoull (h->attaching.ended, NULL, 10);
  call_send (c, ATTACH_TIMEOUT_MS);
}

void
host_start (struct host_role *h)
{
  struct process proc = h->proc;
  bool writable = h->writable, takeover = h->takeover;
  uint64_t next_offset = h->next_offset, next_length = h->next_length;

  memset (h, 0, sizeof *h);
  h->proc = proc;
  h->writable = writable;
  h->takeover = takeover;
  process_start (&h->proc);
  TRACE (&h->proc, "starts");
  if (w.config.shared && h->writable)
    part_take (h);
  if (w.config.leases && h->writable && !w.united &&
      (w.healing || w.config.lone || !sim_chance (4))) {
    h->leases = true;
    h->part_length = w.layout.size;
  }
  if (next_length > 0 && !w.healing) {
    h->part_offset = next_offset;
    h->part_length = next_length;
  }
  if (h->part_length)
    TRACE (&h->proc, "is to write %" PRIu64 " bytes at %" PRIu64,
           h->part_length, h->part_offset);
  snprintf (h->instance, sizeof h->instance, "h%" PRIu64, h->proc.life);
  for (unsigned m = 0; m < w.layout.members; m++) {
    h->peer[m].host = h;
    h->peer[m].member = m;
  }
  h->states = h->map.states;
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
  leases_end (h);
  if (h->engine) {
    array_stop (h->engine, ESHUTDOWN, sim_now);
    peers_forget (h);
    while ((array_next_io (h->engine)) != NULL)
      abort ();
    while ((r = array_next_done (h->engine)) != NULL)
      ;
    array_free (h->engine);
    h->engine = NULL;
  }
  else
    peers_forget (h);
  if (h->core) {
    memcpy (h->map.states, h->states, sizeof h->map.states);
    h->states = h->map.states;
    host_free (h->core);
    h->core = NULL;
  }
  host_resync_free (h);
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
  if (h->core)
    host_end (h->core);
  c->session_id = h->session;
  c->refs++;
  call_send (c, 3000);
}
