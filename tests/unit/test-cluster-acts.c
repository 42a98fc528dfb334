/* test-cluster-acts.c: actions of administrators, hosts and members in the world of
 * test-cluster-world.h, for tests.
 */

#include <config.h>

#include "test-cluster-world.h"

const struct cluster_array_record *
rec (void)
{
  return &array ()->rec;
}

struct cluster_session *
session (const struct host *h)
{
  return cluster_session_find (engine, h->session);
}

/* Ask until weftd has answered so: that it is done, or was done already. */
#define ASK_UNTIL(done, call)                                                  \
  for (;;) {                                                                   \
    world.admin_answered = false;                                              \
    CALL (world.admin_op = ++weftd.op, call);                                  \
    UNTIL (world.admin_answered || world.admin_op == 0);                       \
    if (world.admin_answered && (done))                                        \
      break;                                                                   \
    live ();                                                                   \
  }

void
make_array_of (enum layout_kind layout)
{
  struct cluster_create create = create_of (weftd.name, layout, 0, MEMBERS);
  const struct cluster_array_record *a;

  ASK_UNTIL (world.admin.kind == CLUSTER_REPLY_ARRAY ||
               (world.admin.problem.code &&
                strcmp (world.admin.problem.code, "exists") == 0),
             cluster_array_create (engine, in, &create));
  assert (stored_array_name (weftd.name));
  UNTIL ((a = stored_array_name (weftd.name)) && a->ready);
}

void
begin_array_of (enum layout_kind layout)
{
  world_init (3);
  make_array_of (layout);
}

void
begin_array (void)
{
  begin_array_of (LAYOUT_RAIDX);
}

void
delete_array (const char *name)
{
  ASK_UNTIL (world.admin.kind == CLUSTER_REPLY_DONE ||
               world.admin.problem.kind == CLUSTER_NOT_FOUND,
             cluster_array_delete (engine, in, name));
  assert (stored_array_name (name) == NULL);
}

void
attach_until_granted (struct host *h)
{
  while (!h->attached) {
    if (h->op == 0)
      host_attach (h);
    live ();
  }
}

void
lost (struct host *h, unsigned member)
{
  h->answered = false;
  CALL (h->op = ++weftd.op,
        cluster_session_lost (engine, in, h->session, member, 0, h->answers,
                              h->waited_ms, "it is gone"));
  carry_out ();
}

void
report_lost (struct host *h, unsigned member)
{
  while (h->states[member] != MEMBER_OUT) {
    if (h->op == 0)
      lost (h, member);
    if (h->states[member] != MEMBER_OUT)
      live ();
  }
}

void
detach (struct host *h)
{
  h->alive = false; /* it sends no more heartbeats */
  while (h->attached) {
    if (h->op == 0)
      CALL (h->op = ++weftd.op,
            cluster_session_detach (engine, in, h->session));
    live ();
  }
}

/* Answers of single calls, without the world's obedience. */
struct message
said (uint64_t op)
{
  struct message found = { .op = 0 };

  while (world.steps) {
    struct step_out *s = world.steps;

    transaction (s);
    for (struct message *m = s->messages; m; m = m->next)
      if (m->op == op) {
        assert (found.op == 0); /* answered once */
        found = *m;
      }
    drop_step ();
  }
  return found;
}

void
expect_refused (struct message m, enum cluster_problem_kind kind,
                const char *code)
{
  assert (m.op != 0 && m.kind == CLUSTER_REPLY_PROBLEM);
  assert (m.problem.kind == kind);
  assert (strcmp (m.problem.code, code) == 0);
  assert (strlen (m.problem.detail) > 20);
}

void
refuse_loss (struct host *h, unsigned member, enum cluster_problem_kind kind,
             const char *code)
{
  REFUSED (kind, code,
           cluster_session_lost (engine, in, h->session, member, 0, false, 0,
                                 "it is gone"));
}

void
tick (uint64_t ms)
{
  weftd.now_ms += ms;
  CALL (0, cluster_tick (engine, in));
}

void
healthy_of (enum layout_kind layout)
{
  begin_array_of (layout);
  attach_until_granted (writer);
}

void
healthy (void)
{
  healthy_of (LAYOUT_RAIDX);
}

void
healthy_with_reader (void)
{
  healthy ();
  attach_until_granted (reader);
}

void
cut_off (unsigned member)
{
  world.disk[member].alive = false;
  world.disk[member].op = UINT64_MAX;
}

void
heard_again (unsigned member)
{
  world.disk[member].alive = true;
  world.disk[member].op = 0;
}

void
start_again (unsigned member)
{
  snprintf (world.disk[member].instance, 16, "d%u again", member);
  heard_again (member);
}

void
die (unsigned member)
{
  cut_off (member);
  report_lost (writer, member);
}

void
fall_silent (struct host *h)
{
  h->alive = false;
  h->beat_op = 0;
}

void
come_again (struct host *h)
{
  h->alive = true;
  h->over = false;
  h->session = 0;
}

/* The code with which an attach is finally refused. */
const char *
attach_refusal (struct host *h)
{
  for (;;) {
    host_attach (h);
    while (h->op != 0)
      live ();
    if (!h->answered)
      continue; /* weftd was killed */
    assert (!h->attached);
    /* Just after weftd's start it has not heard of everybody. */
    if (h->code && strcmp (h->code, "member-missing") == 0) {
      live ();
      continue;
    }
    return h->code;
  }
}

struct message
beat (struct disk *d)
{
  struct message m;

  disk_beat (d, 0);
  m = said (d->op);
  d->op = 0;
  return m;
}

void
joining (unsigned member)
{
  healthy ();
  world.disk[member].slow = true;
  report_lost (writer, member);
  UNTIL (world.disk[member].phase == CLUSTER_JOIN_COPYING);
  assert (state (member) == MEMBER_JOINING);
  assert (writer->epoch == rec ()->epoch);
}

void
nearly_joined (unsigned member)
{
  joining (member);
  writer->busy = true;
  world.disk[member].slow = false;
  UNTIL (rec ()->change.epoch != 0);
  assert (rec ()->change.sessions);
  assert (rec ()->change.states[member] == MEMBER_IN_SYNC);
}

void
kill_at_each (void (*day) (void))
{
  unsigned long actions;

  world_init (1);
  day ();
  actions = world.actions;
  for (unsigned long k = 1; k <= actions; k++) {
    world_init (1);
    weftd.kill_at = k;
    day ();
    /* The kill at the start of world_init is not reached: it acts before. */
    assert (world.kills <= 1);
  }
  printf ("a kill after each of %lu actions\n", actions);
}
