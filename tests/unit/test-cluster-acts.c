/* test-cluster-acts.c: what administrators, hosts and members do in the world of
 * test-cluster-world.h, for tests.
 */

#include <config.h>

#include "test-cluster-world.h"

static void
admin_create (const char *name, enum layout_kind layout)
{
  struct cluster_create create = {
    .layout = layout, .groups = 1, .members = MEMBERS, .unit = KiB (256)
  };
  struct cluster_input in = input (world.admin_op = ++world.next_op);

  snprintf (create.name, sizeof create.name, "%s", name);
  for (unsigned i = 0; i < MEMBERS; i++)
    memcpy (create.disk[i], world.disk[i].uuid, 16);
  world.admin_answered = false;
  cluster_array_create (world.c, &in, &create);
  pump ();
}

/* Ask until weftd has said yes, or that it is done already. */
void
make_array_of (const char *name, enum layout_kind layout)
{
  const struct cluster_array_record *a;

  for (;;) {
    admin_create (name, layout);
    UNTIL (world.admin_answered || world.admin_op == 0);
    if (world.admin_answered &&
        (world.admin.kind == CLUSTER_REPLY_ARRAY ||
         (world.admin.problem.code &&
          strcmp (world.admin.problem.code, "exists") == 0)))
      break;
    live ();
  }
  assert (stored_array_name (name));
  UNTIL ((a = stored_array_name (name)) && a->ready);
}

void
make_array (const char *name)
{
  make_array_of (name, LAYOUT_RAIDX);
}

void
delete_array (const char *name)
{
  struct cluster_input in;

  for (;;) {
    in = input (world.admin_op = ++world.next_op);
    world.admin_answered = false;
    cluster_array_delete (world.c, &in, name);
    pump ();
    UNTIL (world.admin_answered || world.admin_op == 0);
    if (world.admin_answered && (world.admin.kind == CLUSTER_REPLY_DONE ||
                                 world.admin.problem.kind == CLUSTER_NOT_FOUND))
      break;
    live ();
  }
  assert (stored_array_name (name) == NULL);
}

void
attach_until_granted (struct host *h, const char *name)
{
  while (!h->attached) {
    if (h->op == 0)
      host_attach (h, name);
    live ();
  }
}

void
lost (struct host *h, unsigned member)
{
  struct cluster_input in = input (h->op = ++world.next_op);

  h->answered = false;
  cluster_session_lost (world.c, &in, h->session, member, 0, "it is gone");
  pump ();
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
  struct cluster_input in;

  h->alive = false; /* it sends no more heartbeats */
  while (h->attached) {
    if (h->op == 0) {
      in = input (h->op = ++world.next_op);
      cluster_session_detach (world.c, &in, h->session);
      pump ();
    }
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
expect_refused (const struct message *m, enum cluster_problem_kind kind,
                const char *code)
{
  assert (m->op != 0 && m->kind == CLUSTER_REPLY_PROBLEM);
  assert (m->problem.kind == kind);
  assert (strcmp (m->problem.code, code) == 0);
  assert (strlen (m->problem.detail) > 20);
}

void
tick (uint64_t ms)
{
  struct cluster_input in;

  world.now_ms += ms;
  in = input (0);
  cluster_tick (world.c, &in);
  pump ();
}

/* A world with array "a", healthy, and host 0 attached for writing. */
void
healthy (void)
{
  world_init (3);
  make_array ("a");
  attach_until_granted (&world.host[0], "a");
}

/* This member's next heartbeats and answers are lost. */
void
cut_off (struct disk *d)
{
  d->alive = false;
  d->op = UINT64_MAX;
}

/* What an attach is answered in the end, when it is refused. */
const char *
attach_refusal (struct host *h, const char *name)
{
  for (;;) {
    host_attach (h, name);
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

const struct cluster_array_record *
rec (void)
{
  return &cluster_array_find (world.c, "a")->rec;
}

void
live_on (unsigned rounds)
{
  while (rounds-- > 0)
    live ();
}

bool
whole (void)
{
  for (unsigned m = 0; m < MEMBERS; m++)
    if (rec ()->member[m].state != MEMBER_IN_SYNC)
      return false;
  return rec ()->change.epoch == 0;
}

/* A member of array "a" is joining, and stays so; host 0 writes. */
void
joining (unsigned member)
{
  healthy ();
  world.disk[member].slow = true;
  report_lost (&world.host[0], member);
  UNTIL (world.disk[member].phase == CLUSTER_JOIN_COPYING);
  assert (rec ()->member[member].state == MEMBER_JOINING);
  assert (world.host[0].epoch == rec ()->epoch);
}
