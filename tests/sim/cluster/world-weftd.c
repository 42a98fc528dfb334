/* world-weftd.c: the cluster engine with its store.
 *
 * A step's records become durable after a while, one step after the other; its
 * answers leave then.  weftd can be killed at any moment: the step that is
 * just being stored may be durable or not, those behind it are not, and
 * everybody who waits for an answer gets none.
 */

#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "cluster/cluster-import.h"
#include "world.h"

struct pending {
  struct event event;
  uint64_t life;
  struct pending *next;
  struct cluster_step *step;
  struct call *answers; /* filled, by `next` */
};

static void store_next (void);

static struct cluster_input
input (uint64_t op)
{
  struct cluster_input in = { .op = op,
                              .now_ms = sim_now / MS,
                              .wall_ms = 1700000000000 + sim_now / MS };

  for (unsigned i = 0; i < KEY_BYTES; i += 8) {
    uint64_t r = sim_random ();

    memcpy (in.random + i, &r, 8);
  }
  return in;
}

static void
refuse_all (struct call **calls)
{
  struct call *c;

  while ((c = *calls) != NULL) {
    *calls = c->next;
    call_refuse (c);
  }
}

static void
pending_free (struct pending *p)
{
  refuse_all (&p->answers);
  cluster_step_free (p->step);
  free (p);
}

/* ---- Steps out of the engine. ---- */

static struct call *
take_call (uint64_t op)
{
  struct call **p, *c;

  for (p = &w.weftd.calls; (c = *p) != NULL; p = &c->next)
    if (c->op == op) {
      *p = c->next;
      c->next = NULL;
      return c;
    }
  sim_fail ("weftd answers operation %llu, which nobody waits for",
            (unsigned long long) op);
}

static void
take_step (struct cluster_step *s)
{
  struct pending *p = make (sizeof *p);

  p->step = s;
  for (size_t i = 0; i < s->records_count; i++)
    if (s->records[i]->kind == CLUSTER_RECORD_SESSION &&
        !s->records[i]->deleted)
      ends_judge (&s->records[i]->session);
  for (size_t i = s->outputs_count; i-- > 0;) {
    const struct cluster_output *o = &s->outputs[i];

    if (o->kind == CLUSTER_OUTPUT_LOG)
      TRACE (&w.weftd.proc, "%s", o->text);
    else if (o->kind == CLUSTER_OUTPUT_REPLY) {
      struct call *c = take_call (o->op);

      weftd_fill (c, o);
      c->next = p->answers;
      p->answers = c;
    }
  }
  *w.weftd.pending_tail = p;
  w.weftd.pending_tail = &p->next;
}

/* If a disk's copy is refused, weftd no longer knows which process kept the writer's data
 * for that member.  The writer hears that it may be gone, even when the disk itself is
 * there again, and though the copy ended before it heard of it.
 */
static void
see_refused (void)
{
  const struct cluster_array *a = cluster_array_find (w.weftd.engine,
                                                      ARRAY_NAME);

  for (unsigned m = 0; a && m < a->layout.members; m++)
    if (a->disk[m]->old_copy)
      w.disk[disk_holder (a->disk[m]->rec.uuid)].erred = EVERY_HOST;
}

static bool replaced; /* the call that is under way replaces a member */

static void
pump (void)
{
  struct cluster_step *s;

  steps++;
  if (steps % CHECK_STEPS == 0)
    cluster_check (w.weftd.engine);
  while ((s = cluster_next_step (w.weftd.engine)) != NULL)
    take_step (s);
  see_refused ();
  check_places (w.weftd.engine, replaced);
  replaced = false;
  store_next ();
}

/* ---- Stores, and the messages that wait for them.  ---- */

static void
release (struct pending *p)
{
  struct call *c;

  while ((c = p->answers) != NULL) {
    p->answers = c->next;
    check_grant (c);
    call_answer (c);
  }
}

static void
make_durable (const struct pending *p)
{
  for (size_t i = 0; i < p->step->records_count; i++)
    store_put (p->step->records[i]);
}

static void
stored (struct event *e)
{
  struct pending *p = (struct pending *) e;

  if (w.weftd.proc.life != p->life) {
    pending_free (p);
    return;
  }
  if (process_life (&w.weftd.proc, p->life, e) == LIFE_FROZEN)
    return;
  w.weftd.pending = p->next;
  if (p->next == NULL)
    w.weftd.pending_tail = &w.weftd.pending;
  w.weftd.storing = false;
  make_durable (p);
  release (p);
  pending_free (p);
  store_next ();
}

static void
store_next (void)
{
  struct pending *p;

  while (!w.weftd.storing && (p = w.weftd.pending) != NULL) {
    if (p->step->records_count == 0) { /* nothing to wait for */
      w.weftd.pending = p->next;
      if (p->next == NULL)
        w.weftd.pending_tail = &w.weftd.pending;
      release (p);
      pending_free (p);
      continue;
    }
    w.weftd.storing = true;
    p->life = w.weftd.proc.life;
    p->event.happen = stored;
    if (!w.healing && sim_chance (w.config.slow_store)) {
      uint64_t ns = between (10 * MS, STORED);

      w.weftd.slow_ns += ns;
      event_push (&p->event, ns);
    }
    else
      event_push (&p->event, between (100 * US, 3 * MS));
  }
}

static void
tick (void *owner)
{
  struct cluster_input in = input (0);

  in.unsaid = w.weftd.pending ? w.weftd.pending->step->number : 0;
  cluster_tick (w.weftd.engine, &in);
  pump ();
  process_after (&w.weftd.proc, CLUSTER_TICK_MS * MS, tick, NULL);
}

/* ---- Calls in. ---- */

static bool
written (void)
{
  const struct cluster_array *a = cluster_array_find (w.weftd.engine,
                                                      ARRAY_NAME);

  return a && cluster_array_writer (a);
}

/* An import waits until a disk was heard for each place that is not given up.  The loss
 * is accepted only if in truth nothing is lost: the disks that are taken are in-sync, but
 * weftd did not reach one of them, or has not sent it the newest epoch.
 */
static void
prepare_import (struct cluster_import *import)
{
  const struct cluster_array_record *a = store_array ();
  struct cluster_import_plan plan;
  bool all = true;

  cluster_import_look (w.weftd.engine, import, &plan);
  for (unsigned m = 0; m < w.layout.members; m++) {
    const struct cluster_disk_heartbeat *hb = plan.place[m].disk;

    all &= hb != NULL || import->without[m];
    if (hb && plan.place[m].state == MEMBER_IN_SYNC)
      import->accept_loss &= a->member[m].state == MEMBER_IN_SYNC &&
                             memcmp (hb->uuid, a->member[m].disk, 16) == 0;
  }
  if (!all)
    memset (import->array, 0xff, 16); /* no such array is known */
}

static bool
is_asking (const uint8_t uuid[16])
{
  const struct cluster_foreign *f;

  TAILQ_FOREACH (f, cluster_foreigns (w.weftd.engine), link)
    if (memcmp (f->hb.uuid, uuid, 16) == 0)
      return true;
  return false;
}

/* An administrator accepts a loss if the right disk of each in-sync member is there. */
static bool
loses_nothing (void)
{
  const struct cluster_array_record *a = store_array ();

  for (unsigned m = 0; m < w.layout.members; m++)
    if (a->member[m].state == MEMBER_IN_SYNC && !is_asking (a->member[m].disk))
      return false;
  return true;
}

void
weftd_call (struct call *c)
{
  struct cluster *e = w.weftd.engine;
  struct cluster_input in = input (++w.weftd.next_op);
  struct cluster_allow allow = { .writable = true, .failover = true };

  c->op = in.op;
  c->next = w.weftd.calls;
  w.weftd.calls = c;
  switch (c->kind) {
  case CALL_DISK:
    cluster_disk_heartbeat (e, &in, &c->disk);
    break;
  case CALL_ATTACH:
    c->beside = c->attach.part.length > 0 && written ();
    cluster_attach (e, &in, ARRAY_NAME, &c->attach);
    break;
  case CALL_SESSION:
    cluster_session_heartbeat (e, &in, c->session_id, &c->session);
    break;
  case CALL_LOST:
    cluster_session_lost (e, &in, c->session_id, c->member.member,
                          c->member.round, c->member.answers,
                          c->member.waited_ms, c->member.reason);
    break;
  case CALL_DETACH:
    cluster_session_detach (e, &in, c->session_id);
    break;
  case CALL_CREATE:
    cluster_array_create (e, &in, &c->create);
    break;
  case CALL_REPLACE:
    cluster_member_replace (e, &in, ARRAY_NAME, c->member.member,
                            c->member.disk, c->on);
    replaced = true;
    break;
  case CALL_SPARE:
    cluster_spare_add (e, &in, ARRAY_NAME, c->member.disk);
    break;
  case CALL_TUNE:
    cluster_array_tune (e, &in, ARRAY_NAME, &c->tune);
    break;
  case CALL_JOIN:
    cluster_member_join (e, &in, ARRAY_NAME, c->member.member);
    break;
  case CALL_CANCEL:
    cluster_member_cancel (e, &in, ARRAY_NAME, c->member.member);
    break;
  case CALL_DRAIN:
    cluster_node_drain (e, &in, c->node, c->on);
    break;
  case CALL_MAINTAIN:
    cluster_node_maintain (e, &in, c->node, c->on, true);
    break;
  case CALL_EVICT:
    cluster_session_evict (e, &in, c->session_id, "somebody");
    break;
  case CALL_REKEY:
    cluster_disk_rekey (e, &in, c->member.disk);
    break;
  case CALL_IMPORT:
    prepare_import (&c->import);
    cluster_array_import (e, &in, &c->import);
    break;
  case CALL_RESTORE:
    c->import.accept_loss = loses_nothing ();
    cluster_array_restore (e, &in, &c->import);
    break;
  case CALL_ALLOW:
    strcpy (allow.node, c->node);
    cluster_allow_set (e, &in, ARRAY_NAME, &allow, "somebody");
    break;
  case CALL_LEASES:
    cluster_session_leases (e, &in, c->session_id, &c->leases);
    break;
  }
  pump ();
}

/* ---- Life. ---- */

void
weftd_start (void)
{
  struct cluster_input in = input (0);
  char why[512];

  process_start (&w.weftd.proc);
  w.weftd.deaf_at = sim_now;
  TRACE (&w.weftd.proc, "starts");
  w.weftd.pending_tail = &w.weftd.pending;
  w.weftd.engine = cluster_new ();
  for (unsigned i = 0; i < w.store.count; i++)
    if (cluster_load (w.weftd.engine, w.store.record[i], why, sizeof why) == -1)
      sim_fail ("weftd does not load its store: %s", why);
  if (cluster_start (w.weftd.engine, &in, why, sizeof why) == -1)
    sim_fail ("weftd does not start: %s", why);
  pump ();
  process_after (&w.weftd.proc, CLUSTER_TICK_MS * MS, tick, NULL);
}

void
weftd_kill (void)
{
  struct pending *p;

  TRACE (&w.weftd.proc, "is killed");
  while ((p = w.weftd.pending) != NULL) {
    w.weftd.pending = p->next;
    if (w.weftd.storing) {
      w.weftd.storing = false;
      if (sim_chance (50))
        make_durable (p);
      refuse_all (&p->answers);
      continue; /* its event frees it */
    }
    pending_free (p);
  }
  refuse_all (&w.weftd.calls);
  w.weftd.proc.life = 0;
  cluster_free (w.weftd.engine);
  w.weftd.engine = NULL;
}
