/* cluster-objects.c: the engine's objects, and how they are found: disks,
 * arrays, sessions, nodes, and operations that wait.
 */

#include <config.h>

#include <assert.h>
#include <search.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "cluster-ground.h"

bool
cluster_uuid_is_zero (const uint8_t uuid[16])
{
  return all_zero (uuid, 16);
}

bool
cluster_uuid_equal (const uint8_t a[16], const uint8_t b[16])
{
  return memcmp (a, b, 16) == 0;
}

void
cluster_uuid_make (const uint8_t random[16], uint8_t uuid[16])
{
  memcpy (uuid, random, 16);
  uuid[6] = (uint8_t) ((uuid[6] & 0x0f) | 0x40); /* version 4 */
  uuid[8] = (uint8_t) ((uuid[8] & 0x3f) | 0x80);
}

bool
cluster_object_text_copy (char *to, size_t size, const char *from)
{
  size_t n = strnlen (from, size - 1);

  if (memcmp (to, from, n) == 0 && to[n] == '\0')
    return false;
  memcpy (to, from, n);
  to[n] = '\0';
  return true;
}

double
cluster_object_rate (uint64_t now, uint64_t before, uint64_t ms)
{
  return now >= before && ms > 0 ? (double) (now - before) * 1000 / ms : 0;
}

const struct cluster_identity *
cluster_identity (const struct cluster *c)
{
  return &c->identity;
}

const struct cluster_disks *
cluster_disks (const struct cluster *c)
{
  return &c->disks;
}

const struct cluster_arrays *
cluster_arrays (const struct cluster *c)
{
  return &c->arrays;
}

const struct cluster_sessions *
cluster_sessions (const struct cluster *c)
{
  return &c->sessions;
}

const struct cluster_nodes *
cluster_nodes (const struct cluster *c)
{
  return &c->nodes;
}

void
cluster_note_room (struct cluster *c, const char *text)
{
  cluster_object_text_copy (c->room, sizeof c->room, text);
}

void
cluster_note_doubt (struct cluster *c, const char *text)
{
  cluster_object_text_copy (c->revoked_doubt, sizeof c->revoked_doubt, text);
}

void
cluster_note_audit (struct cluster *c, const char *text)
{
  cluster_object_text_copy (c->audit, sizeof c->audit, text);
}

bool
cluster_revoked_doubted (const struct cluster *c)
{
  return c->revoked_doubt[0] != '\0';
}

const char *
cluster_read_only (const struct cluster *c)
{
  return c->read_only[0] ? c->read_only : NULL;
}

static int
compare_uuids (const void *a, const void *b)
{
  return memcmp (a, b, 16);
}

struct cluster_disk *
cluster_disk_find (const struct cluster *c, const uint8_t uuid[16])
{
  char **found = tfind (uuid, &c->disks_by_uuid, compare_uuids);

  return found ? (void *) (*found - offsetof (struct cluster_disk, rec.uuid))
               : NULL;
}

void
cluster_disk_insert (struct cluster *c, struct cluster_disk *d)
{
  TAILQ_INSERT_TAIL (&c->disks, d, link);
  if (tsearch (d->rec.uuid, &c->disks_by_uuid, compare_uuids) == NULL)
    abort ();
}

void
cluster_disk_free (struct cluster *c, struct cluster_disk *d)
{
  TAILQ_REMOVE (&c->disks, d, link);
  tdelete (d->rec.uuid, &c->disks_by_uuid, compare_uuids);
  free (d->said);
  free (d);
}

uint64_t
cluster_disk_silent_ms (const struct cluster *c, const struct cluster_disk *d)
{
  return c->live_ms - d->last_live_ms;
}

bool
cluster_disk_is_name (const struct cluster_disk *d)
{
  return d->rec.size == 0;
}

bool
cluster_disk_beside (const struct cluster_disk *d, const char *node)
{
  return !cluster_disk_is_name (d) && strcmp (d->rec.node, node) == 0;
}

struct cluster_array *
cluster_array_find (const struct cluster *c, const char *name)
{
  struct cluster_array *a;

  TAILQ_FOREACH (a, &c->arrays, link)
    if (strcmp (a->rec.name, name) == 0)
      return a;
  return NULL;
}

struct cluster_array *
cluster_array_by_uuid (const struct cluster *c, const uint8_t uuid[16])
{
  struct cluster_array *a;

  TAILQ_FOREACH (a, &c->arrays, link)
    if (cluster_uuid_equal (a->rec.uuid, uuid))
      return a;
  return NULL;
}

uint64_t
cluster_array_wanted_epoch (const struct cluster_array *a)
{
  return a->rec.change.epoch ? a->rec.change.epoch : a->rec.epoch;
}

uint64_t
cluster_disk_min_epoch_wanted (const struct cluster_disk *d)
{
  const struct cluster_array_record *r;

  if (d->array == NULL)
    return 0;
  r = &d->array->rec;
  return r->change.epoch && r->change.confirm[d->position]
           ? r->change.epoch
           : r->member[d->position].fence;
}

void
cluster_array_insert (struct cluster *c, struct cluster_array *a)
{
  TAILQ_INIT (&a->sessions);
  TAILQ_INIT (&a->polls);
  TAILQ_INSERT_TAIL (&c->arrays, a, link);
}

void
cluster_array_free (struct cluster *c, struct cluster_array *a)
{
  struct cluster_session *s;
  const struct waiting *w;

  TAILQ_FOREACH (w, &c->waitings, link)
    assert (w->array != a);
  TAILQ_FOREACH (s, &c->sessions, link)
    if (s->array == a)
      s->array = NULL;
  if (a->is_due)
    TAILQ_REMOVE (&c->due, a, due_link);
  if (a->is_changing)
    TAILQ_REMOVE (&c->changing, a, changing_link);
  TAILQ_REMOVE (&c->arrays, a, link);
  free (a);
}

struct cluster_session *
cluster_session_find (const struct cluster *c, uint64_t id)
{
  struct cluster_session *s;

  LIST_FOREACH (s, &c->sessions_by_id[id % SESSION_BUCKETS], id_link)
    if (s->rec.id == id)
      return s;
  return NULL;
}

void
cluster_session_insert (struct cluster *c, struct cluster_session *s)
{
  TAILQ_INIT (&s->waitings);
  TAILQ_INSERT_TAIL (&c->sessions, s, link);
  LIST_INSERT_HEAD (&c->sessions_by_id[s->rec.id % SESSION_BUCKETS], s,
                    id_link);
}

void
cluster_session_join (struct cluster_session *s, struct cluster_array *a)
{
  s->array = a;
  if (s->rec.ended)
    return;
  TAILQ_INSERT_TAIL (&a->sessions, s, array_link);
  a->writers += s->rec.writable;
}

void
cluster_session_leave (struct cluster_session *s)
{
  TAILQ_REMOVE (&s->array->sessions, s, array_link);
  s->array->writers -= s->rec.writable;
}

void
cluster_session_free (struct cluster *c, struct cluster_session *s)
{
  if (s->array && !s->rec.ended)
    cluster_session_leave (s);
  TAILQ_REMOVE (&c->sessions, s, link);
  LIST_REMOVE (s, id_link);
  free (s->loss);
  free (s);
}

uint64_t
cluster_session_silent_ms (const struct cluster *c,
                           const struct cluster_session *s)
{
  return c->live_ms - s->last_live_ms;
}

void
cluster_array_heard (const struct cluster *c, struct cluster_array *a)
{
  const struct cluster_session *s = NULL;

  while ((s = cluster_writer_next (a, s)))
    if (cluster_session_silent_ms (c, s) < LULL_MS)
      return;
  for (unsigned i = 0; i < a->rec.service_nodes; i++)
    if (c->live_ms < a->stands[i].asked_live_ms + LULL_MS)
      return;
  a->again_live_ms = c->live_ms;
}

void
cluster_session_speaks (const struct cluster *c, struct cluster_session *s)
{
  if (s->rec.writable)
    cluster_array_heard (c, s->array);
  if (cluster_session_silent_ms (c, s) >= LULL_MS)
    s->steady_live_ms = c->live_ms;
  s->last_live_ms = c->live_ms;
}

bool
cluster_session_missed (const struct cluster *c,
                        const struct cluster_session *s)
{
  return !s->alive && c->live_ms >= s->array->again_live_ms + SESSION_TTL_MS;
}

bool
cluster_session_of (const struct cluster_session *s,
                    const struct cluster_array *a)
{
  return !s->rec.ended && s->array == a;
}

bool
cluster_array_attached (const struct cluster_array *a)
{
  return !TAILQ_EMPTY (&a->sessions);
}

struct cluster_session *
cluster_writer_next (const struct cluster_array *a,
                     const struct cluster_session *s)
{
  struct cluster_session *next = s ? TAILQ_NEXT (s, array_link)
                                   : TAILQ_FIRST (&a->sessions);

  while (next && !next->rec.writable)
    next = TAILQ_NEXT (next, array_link);
  return next;
}

struct cluster_session *
cluster_array_writer (const struct cluster_array *a)
{
  return cluster_writer_next (a, NULL);
}

struct cluster_session *
cluster_array_writer_alive (const struct cluster_array *a)
{
  struct cluster_session *s = cluster_array_writer (a);

  while (s && !s->alive)
    s = cluster_writer_next (a, s);
  return s;
}

bool
cluster_part_has (const struct cluster_part *part, uint64_t offset,
                  uint64_t length)
{
  return part->length == 0 || (offset >= part->offset &&
                               offset + length <= part->offset + part->length);
}

bool
cluster_parts_meet (const struct cluster_part *a, const struct cluster_part *b)
{
  return a->length == 0 || b->length == 0 ||
         (a->offset < b->offset + b->length &&
          b->offset < a->offset + a->length);
}

struct cluster_node *
cluster_node_find (const struct cluster *c, const char *name)
{
  struct cluster_node *n;

  TAILQ_FOREACH (n, &c->nodes, link)
    if (strcmp (n->rec.name, name) == 0)
      return n;
  return NULL;
}

void
cluster_array_member_since (const struct cluster *c, struct cluster_array *a,
                            unsigned member)
{
  a->rec.member[member].since_wall_ms = c->wall_ms;
  a->since_live_ms[member] = c->live_ms;
}

bool
cluster_node_in_maintenance (const struct cluster *c, const char *name)
{
  const struct cluster_node *n = cluster_node_find (c, name);

  return n && n->rec.maintenance;
}

bool
cluster_node_is_draining (const struct cluster *c, const char *name)
{
  const struct cluster_node *n = cluster_node_find (c, name);

  return n && n->rec.draining;
}

bool
cluster_node_is_fenced (const struct cluster *c, const char *name)
{
  const struct cluster_node *n = cluster_node_find (c, name);

  return n && n->rec.fenced;
}

bool
cluster_session_guarded (const struct cluster_session *s)
{
  return s->rec.service || s->rec.exports;
}

uint64_t
cluster_node_fenced_below (const struct cluster_node *n)
{
  return n->rec.fenced ? EPOCH_MAX : n->rec.fence;
}

struct waiting *
cluster_wait (struct cluster *c, enum waiting_kind kind, uint64_t op,
              uint64_t wait_ms)
{
  struct waiting *w = alloc_zeroed (sizeof *w);

  w->kind = kind;
  w->op = op;
  w->deadline_ms = c->now_ms + wait_ms;
  TAILQ_INSERT_TAIL (&c->waitings, w, link);
  c->waiting[kind]++;
  return w;
}

void
cluster_wait_session (struct waiting *w, struct cluster_session *s)
{
  if (w->session)
    TAILQ_REMOVE (&w->session->waitings, w, session_link);
  w->session = s;
  if (s)
    TAILQ_INSERT_TAIL (&s->waitings, w, session_link);
}

void
cluster_wait_end (struct cluster *c, struct waiting *w)
{
  if (w->kind == WAIT_DISK)
    w->disk->poll = NULL;
  else if (w->kind == WAIT_SESSION) {
    w->session->poll = NULL;
    TAILQ_REMOVE (&w->array->polls, w, poll_link);
  }
  else if (w->kind == WAIT_LEASES)
    TAILQ_REMOVE (&w->array->leases->asks, w, ask_link);
  cluster_wait_session (w, NULL);
  TAILQ_REMOVE (&c->waitings, w, link);
  c->waiting[w->kind]--;
  free (w->grant);
  free (w->heartbeat);
  free (w->challenge);
  free (w);
}

const char *
cluster_wait_node (const struct waiting *w)
{
  return w->kind == WAIT_FENCE || w->kind == WAIT_SHUT_OUT ? ""
         : w->kind == WAIT_CONTENDER                       ? w->heartbeat->node
         : w->kind == WAIT_DISK                            ? w->disk->rec.node
         : w->grant                                        ? w->grant->node
         : w->challenge ? w->challenge->attach.node
                        : "";
}

bool
cluster_node_known (const struct cluster *c, const char *name)
{
  const struct cluster_node *n = cluster_node_find (c, name);
  const struct cluster_disk *d;
  const struct cluster_session *s;

  if (n && !n->rec.removed)
    return true;
  TAILQ_FOREACH (d, &c->disks, link)
    if (strcmp (d->rec.node, name) == 0)
      return true;
  TAILQ_FOREACH (s, &c->sessions, link)
    if (!s->rec.ended && strcmp (s->rec.node, name) == 0)
      return true;
  return false;
}

void
cluster_array_due (struct cluster *c, struct cluster_array *a, unsigned what)
{
  a->due |= what;
  if (a->is_due)
    return;
  a->is_due = true;
  TAILQ_INSERT_TAIL (&c->due, a, due_link);
}

void
cluster_array_changing (struct cluster *c, struct cluster_array *a)
{
  if (a->is_changing)
    return;
  a->is_changing = true;
  TAILQ_INSERT_TAIL (&c->changing, a, changing_link);
}
