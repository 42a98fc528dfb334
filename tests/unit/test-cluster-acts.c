/* test-cluster-acts.c: what administrators, hosts and members do in the world of
 * test-cluster-world.h, for tests.
 */

#include <config.h>

#include "test-cluster-world.h"

struct cluster_array *
array (void)
{
  return cluster_array_find (world.c, world.name);
}

const struct cluster_array_record *
rec (void)
{
  return &array ()->rec;
}

enum member_state
state (unsigned m)
{
  return rec ()->member[m].state;
}

struct cluster_disk *
known (unsigned disk)
{
  return cluster_disk_find (world.c, world.disk[disk].uuid);
}

struct cluster_session *
session (const struct host *h)
{
  return cluster_session_find (world.c, h->session);
}

bool
whole (void)
{
  for (unsigned m = 0; m < MEMBERS; m++)
    if (state (m) != MEMBER_IN_SYNC)
      return false;
  return rec ()->change.epoch == 0;
}

static char text[4096];

enum cluster_severity
verdict (void)
{
  return cluster_verdict (world.c, text, sizeof text);
}

bool
says (const char *what)
{
  verdict ();
  return strstr (text, what) != NULL;
}

/* Ask until weftd has answered so: that it is done, or was done already. */
#define ASK_UNTIL(done, call)                                                  \
  for (;;) {                                                                   \
    struct cluster_input in_ = input (world.admin_op = ++world.next_op);       \
    const struct cluster_input *in = &in_;                                     \
    world.admin_answered = false;                                              \
    call;                                                                      \
    pump ();                                                                   \
    UNTIL (world.admin_answered || world.admin_op == 0);                       \
    if (world.admin_answered && (done))                                        \
      break;                                                                   \
    live ();                                                                   \
  }

void
make_array_of (enum layout_kind layout)
{
  struct cluster_create create = {
    .layout = layout, .groups = 1, .members = MEMBERS, .unit = KiB (256)
  };
  const struct cluster_array_record *a;

  snprintf (create.name, sizeof create.name, "%s", world.name);
  for (unsigned i = 0; i < MEMBERS; i++)
    memcpy (create.disk[i], world.disk[i].uuid, 16);
  ASK_UNTIL (world.admin.kind == CLUSTER_REPLY_ARRAY ||
               (world.admin.problem.code &&
                strcmp (world.admin.problem.code, "exists") == 0),
             cluster_array_create (world.c, in, &create));
  UNTIL ((a = stored_array_name (world.name)) && a->ready);
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
             cluster_array_delete (world.c, in, name));
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
  REFUSED (
    kind, code,
    cluster_session_lost (world.c, in, h->session, member, 0, "it is gone"));
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

/* What an attach is answered in the end, when it is refused. */
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
live_on (unsigned rounds)
{
  while (rounds-- > 0)
    live ();
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
