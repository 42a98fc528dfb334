/* test-cluster-acts.c: what administrators, hosts and members do in the world of
 * test-cluster-world.h, for tests.
 */

#include <config.h>

#undef NDEBUG
#include <assert.h>
#include <string.h>

#include "test-cluster-world.h"

static void
admin_create (struct world *w, const char *name, enum layout_kind layout)
{
  struct cluster_create create = {
    .layout = layout, .groups = 1, .members = MEMBERS, .unit = KiB (256)
  };
  struct cluster_input in = input (w, w->admin_op = ++w->next_op);

  snprintf (create.name, sizeof create.name, "%s", name);
  for (unsigned i = 0; i < MEMBERS; i++)
    memcpy (create.disk[i], w->disk[i].uuid, 16);
  w->admin_answered = false;
  cluster_array_create (w->c, &in, &create);
  pump (w);
}

/* Ask until weftd has said yes, or that it is done already. */
void
make_array_of (struct world *w, const char *name, enum layout_kind layout)
{
  const struct cluster_array_record *a;

  for (;;) {
    admin_create (w, name, layout);
    UNTIL (w, w->admin_answered || w->admin_op == 0);
    if (w->admin_answered && (w->admin.kind == CLUSTER_REPLY_ARRAY ||
                              (w->admin.problem.code &&
                               strcmp (w->admin.problem.code, "exists") == 0)))
      break;
    live (w);
  }
  assert (stored_array_name (w, name));
  UNTIL (w, (a = stored_array_name (w, name)) && a->ready);
}

void
make_array (struct world *w, const char *name)
{
  make_array_of (w, name, LAYOUT_RAIDX);
}

void
delete_array (struct world *w, const char *name)
{
  struct cluster_input in;

  for (;;) {
    in = input (w, w->admin_op = ++w->next_op);
    w->admin_answered = false;
    cluster_array_delete (w->c, &in, name);
    pump (w);
    UNTIL (w, w->admin_answered || w->admin_op == 0);
    if (w->admin_answered && (w->admin.kind == CLUSTER_REPLY_DONE ||
                              w->admin.problem.kind == CLUSTER_NOT_FOUND))
      break;
    live (w);
  }
  assert (stored_array_name (w, name) == NULL);
}

void
attach_until_granted (struct world *w, struct host *h, const char *name)
{
  while (!h->attached) {
    if (h->op == 0)
      host_attach (w, h, name);
    live (w);
  }
}

void
lost (struct world *w, struct host *h, unsigned member)
{
  struct cluster_input in = input (w, h->op = ++w->next_op);

  h->answered = false;
  cluster_session_lost (w->c, &in, h->session, member, 0, "it is gone");
  pump (w);
  carry_out (w);
}

void
report_lost (struct world *w, struct host *h, unsigned member)
{
  while (h->states[member] != MEMBER_OUT) {
    if (h->op == 0)
      lost (w, h, member);
    if (h->states[member] != MEMBER_OUT)
      live (w);
  }
}

void
detach (struct world *w, struct host *h)
{
  struct cluster_input in;

  h->alive = false; /* it sends no more heartbeats */
  while (h->attached) {
    if (h->op == 0) {
      in = input (w, h->op = ++w->next_op);
      cluster_session_detach (w->c, &in, h->session);
      pump (w);
    }
    live (w);
  }
}

/* Answers of single calls, without the world's obedience. */
struct message
said (struct world *w, uint64_t op)
{
  struct message found = { .op = 0 };

  while (w->steps) {
    struct step_out *s = w->steps;

    transaction (w, s);
    for (struct message *m = s->messages; m; m = m->next)
      if (m->op == op) {
        assert (found.op == 0); /* answered once */
        found = *m;
      }
    drop_step (w);
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
tick (struct world *w, uint64_t ms)
{
  struct cluster_input in;

  w->now_ms += ms;
  in = input (w, 0);
  cluster_tick (w->c, &in);
  pump (w);
}

/* A world with array "a", healthy, and host 0 attached for writing. */
void
healthy (struct world *w)
{
  world_init (w, 3);
  make_array (w, "a");
  attach_until_granted (w, &w->host[0], "a");
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
attach_refusal (struct world *w, struct host *h, const char *name)
{
  for (;;) {
    host_attach (w, h, name);
    while (h->op != 0)
      live (w);
    if (!h->answered)
      continue; /* weftd was killed */
    assert (!h->attached);
    /* Just after weftd's start it has not heard of everybody. */
    if (h->code && strcmp (h->code, "member-missing") == 0) {
      live (w);
      continue;
    }
    return h->code;
  }
}

struct message
beat (struct world *w, struct disk *d)
{
  struct message m;

  disk_beat (w, d, 0);
  m = said (w, d->op);
  d->op = 0;
  return m;
}

const struct cluster_array_record *
rec (const struct world *w)
{
  return &cluster_array_find (w->c, "a")->rec;
}

void
live_on (struct world *w, unsigned rounds)
{
  while (rounds-- > 0)
    live (w);
}

bool
whole (const struct world *w)
{
  for (unsigned m = 0; m < MEMBERS; m++)
    if (rec (w)->member[m].state != MEMBER_IN_SYNC)
      return false;
  return rec (w)->change.epoch == 0;
}

/* A member of array "a" is joining, and stays so; host 0 writes. */
void
joining (struct world *w, unsigned member)
{
  healthy (w);
  w->disk[member].slow = true;
  report_lost (w, &w->host[0], member);
  UNTIL (w, w->disk[member].phase == CLUSTER_JOIN_COPYING);
  assert (rec (w)->member[member].state == MEMBER_JOINING);
  assert (w->host[0].epoch == rec (w)->epoch);
}
