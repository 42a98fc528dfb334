/* member-doors.c: the member engine: doors, sessions, requests and the intent
 * bits that they need.
 */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "member-internal.h"

static const char *const door_names[] = {
  [DOOR_DATA] = "data",
  [DOOR_BATCH] = "batch",
  [DOOR_INTENTS] = "intents",
};
#define DOORS (sizeof door_names / sizeof door_names[0])

const char *
member_door_name (enum member_door door)
{
  assert (door < DOORS);
  return door_names[door];
}

static enum member_verdict
refuse_failed (const struct member *m, struct member_refusal *r)
{
  return member_refuse (
    r, m->gone ? ESHUTDOWN : EIO,
    "this member has failed (%s) and serves nothing until it is readmitted",
    m->reason);
}

static enum member_verdict
refuse_epoch (const struct member *m, uint64_t epoch, struct member_refusal *r)
{
  return member_refuse (r, ESHUTDOWN,
                        "epoch %" PRIu64
                        " is over: this member serves epoch %" PRIu64
                        " and later; ask weftd for a new token",
                        epoch, (uint64_t) m->gate);
}

/* It waits for a write of the header. */
static enum member_verdict
wait_or_refuse (const struct member *m, struct member_refusal *r)
{
  return member_map_header_short (m, r) ? MEMBER_REFUSE : MEMBER_WAIT;
}

/* ---- Sessions ---- */

static enum member_verdict
refuse_over (uint64_t session, struct member_refusal *r)
{
  return member_refuse (
    r, ESHUTDOWN, "session %016" PRIx64 " is over: attach for another one",
    session);
}

/* Nothing of this session runs or will ever run: it has no door open, or all of
 * them are fenced or shut, and their last request has left.
 */
static bool
gone (const struct member *m, const struct session *s)
{
  return s->passes == 0 || s->epoch < m->confirmed.min_epoch ||
         (s->shut && m->drains_done >= s->shut);
}

/* Forget the oldest session that is gone; its bits are nobody's then.  Returns
 * false when there is none.
 */
static bool
session_forget (struct member *m)
{
  struct session **oldest = NULL, *s;

  for (struct session **p = &m->sessions; *p; p = &(*p)->next)
    if (gone (m, *p) && (!oldest || (*p)->epoch < (*oldest)->epoch))
      oldest = p;
  if (oldest == NULL)
    return false;
  s = *oldest;
  *oldest = s->next;
  for (uint64_t w = 0; w < map_words (&s->held); w++)
    atomic_fetch_or (&m->orphans.word[w], s->held.word[w]);
  member_join_forget (m, s);
  intents_free (&s->held);
  m->sessions_count--;
  s->forgotten = true;
  if (s->passes == 0)
    free (s);
  return true;
}

static struct session *
session_get (struct member *m, uint64_t id)
{
  struct session *s;

  for (s = m->sessions; s; s = s->next)
    if (s->id == id)
      return s;
  if (m->sessions_count == MEMBER_SESSIONS_MAX && !session_forget (m))
    return NULL;
  s = calloc (1, sizeof *s);
  if (s == NULL || intents_init (&s->held, m->wanted.extents) == -1) {
    free (s);
    return NULL;
  }
  s->id = id;
  s->next = m->sessions;
  m->sessions = s;
  m->sessions_count++;
  return s;
}

/* ---- Doors ---- */

/* Takes "DOOR/TOKEN" apart.  Returns the token, or NULL. */
static const char *
parse_name (const char *export_name, enum member_door *door)
{
  for (unsigned i = 0; i < DOORS; i++) {
    size_t n = strlen (door_names[i]);

    if (strncmp (export_name, door_names[i], n) == 0 && export_name[n] == '/') {
      *door = i;
      return export_name + n + 1;
    }
  }
  return NULL;
}

static bool
is_over (const struct member *m, uint64_t session)
{
  for (unsigned i = 0; i < m->over_count; i++)
    if (m->over[i].session == session)
      return true;
  return false;
}

/* Is this token good for this disk, here and now? */
static enum member_verdict
check_token (const struct member *m, const struct token *t,
             enum member_door door, struct member_refusal *r)
{
  char array[FORMAT_UUID_TEXT_BYTES];

  if (memcmp (t->member, m->confirmed.disk, 16) != 0)
    return member_refuse (
      r, EACCES,
      "the token is for another disk; ask weftd which member is served here");
  if (format_uuid_zero (m->confirmed.array))
    return member_refuse (
      r, EACCES, "this disk belongs to no array; create one with it first");
  if (memcmp (t->array, m->confirmed.array, 16) != 0 ||
      memcmp (t->array, m->next.array, 16) != 0) {
    format_uuid (m->confirmed.array, array);
    return member_refuse (
      r, EACCES,
      "the token is for another array; this disk belongs to array %s", array);
  }
  if (t->epoch == 0 || t->epoch >= EPOCH_MAX)
    return member_refuse (r, EINVAL, "the token's epoch is out of range");
  if (t->epoch < m->gate)
    return refuse_epoch (m, t->epoch, r);
  if (t->epoch < m->doors || is_over (m, t->session))
    return refuse_over (t->session, r);
  if (door == DOOR_BATCH && !t->writable)
    return member_refuse (
      r, EROFS,
      "the token is read-only, and the batch door is for writing; "
      "use the data door");
  return MEMBER_GO;
}

enum member_verdict
member_open (struct member *m, const char *export_name,
             const struct member_client *client, struct member_pass **pass,
             struct member_refusal *refusal)
{
  struct member_pass bound = { .joins = false };
  enum member_door door;
  struct token t;
  const char *text = parse_name (export_name, &door), *why;
  struct member_pass *p;

  if (text == NULL)
    return member_refuse (
      refusal, ENOENT,
      "there is no such export: the name of one is data/TOKEN, "
      "batch/TOKEN or intents/TOKEN, with a token of weftd's");
  if (member_failed (m))
    return refuse_failed (m, refusal);
  if (!m->has_key)
    return member_refuse (
      refusal, EAGAIN,
      "this member has not reached weftd since it started, so it cannot tell "
      "good tokens from bad ones; try again when weftd is up");
  if (token_verify (text, m->key, &t, &why) == -1)
    return member_refuse (refusal, EACCES, "%s; ask weftd for a new one", why);
  if (check_token (m, &t, door, refusal) != MEMBER_GO ||
      member_source_open (m, &t, client, &bound, refusal) != MEMBER_GO)
    return MEMBER_REFUSE;

  if (t.epoch > m->confirmed.served_epoch) {
    if (t.epoch > m->next.served_epoch) {
      m->next.served_epoch = t.epoch;
      if (m->slots_wanted == 0)
        m->slots_wanted = 1;
    }
    return wait_or_refuse (m, refusal);
  }

  p = calloc (1, sizeof *p);
  if (p && t.writable)
    p->session = session_get (m, t.session);
  if (p == NULL || (t.writable && p->session == NULL)) {
    free (p);
    return member_refuse (
      refusal, ENOMEM,
      "there is no room for one more session; detach one of those "
      "that write here");
  }
  p->joins = bound.joins;
  p->place = bound.place;
  p->own = bound.own;
  p->layout = bound.layout;
  p->door = door;
  p->writable = t.writable && door != DOOR_INTENTS;
  p->id = t.session;
  p->epoch = t.epoch;
  LIST_INSERT_HEAD (&m->passes, p, link);
  if (p->session) {
    p->session->passes++;
    if (t.epoch > p->session->epoch)
      p->session->epoch = t.epoch;
  }
  *pass = p;
  return MEMBER_GO;
}

void
member_close (struct member *m, struct member_pass *pass)
{
  LIST_REMOVE (pass, link);
  if (pass->session) {
    assert (pass->session->passes > 0);
    if (--pass->session->passes == 0 && pass->session->forgotten)
      free (pass->session);
  }
  free (pass);
}

enum member_door
member_pass_door (const struct member_pass *pass)
{
  return pass->door;
}

bool
member_pass_writable (const struct member_pass *pass)
{
  return pass->writable;
}

uint64_t
member_pass_session (const struct member_pass *pass)
{
  return pass->id;
}

bool
member_pass_writes (const struct member_pass *pass)
{
  return pass->session != NULL;
}

/* ---- Requests ---- */

static void
enter (struct member *m, struct member_request *r)
{
  r->wake = r->counted = false;
  r->run = 0;
  for (;;) {
    r->turn = atomic_load (&m->turn);
    atomic_fetch_add (&m->running[r->turn], 1);
    if (atomic_load (&m->turn) == r->turn)
      return;
    /* The turn has just changed.  For a moment this request counted among those of
     * the old turn, so the last of these may have left without waking whoever waits
     * for it: this one wakes them when it leaves.
     */
    atomic_fetch_sub (&m->running[r->turn], 1);
    r->wake = true;
  }
}

bool
member_leave (struct member *m, struct member_request *r)
{
  bool wake = r->wake, last;

  if (r->counted)
    wake |= member_join_leave (m, r);
  last = atomic_fetch_sub (&m->running[r->turn], 1) == 1;
  /* A thread that waits for our turn to be empty either has changed the turn,
   * or will look at `running` after this.
   */
  return wake || (last && atomic_load (&m->draining) &&
                  atomic_load (&m->turn) != r->turn);
}

/* Are all bits that the request needs durable, and held by its session?  Both
 * are needed: a bit that is there for somebody else may fall any time.
 */
static bool
covered (const struct member *m, const struct session *s,
         const struct member_request *r)
{
  for (unsigned i = 0; i < r->count; i++) {
    uint64_t e, end;

    record_extents (&r->records[i], &e, &end);
    assert (end <= m->wanted.extents);
    for (; e < end; e++)
      if (!intents_test (&s->held, e) || !intents_test (&m->durable, e))
        return false;
  }
  return true;
}

/* Checks that may forbid it at any time between admit and run.  A session that
 * is over needs no check of its own: its passes are of epoch 0.
 */
static enum member_verdict
check_pass (const struct member *m, const struct member_pass *pass,
            const struct member_request *r, struct member_refusal *refusal)
{
  if (member_failed (m))
    return refuse_failed (m, refusal);
  if (pass->epoch < atomic_load (&m->gate))
    return pass->epoch == 0 ? refuse_over (pass->id, refusal)
                            : refuse_epoch (m, pass->epoch, refusal);
  if (r->count > 0 && !pass->writable)
    return member_refuse (
      refusal, EROFS, "the token is read-only; attach for writing to write");
  return pass->joins ? member_source_check (m, pass, r, refusal) : MEMBER_GO;
}

enum member_verdict
member_admit (struct member *m, struct member_pass *pass,
              struct member_request *r, struct member_refusal *refusal)
{
  enter (m, r);
  if (check_pass (m, pass, r, refusal) != MEMBER_GO)
    return MEMBER_REFUSE;
  if (r->count == 0 && !r->reads)
    return MEMBER_GO;
  if (atomic_load (&m->joining))
    return MEMBER_WAIT; /* member_retry decides, which has the lock */
  return r->count == 0 || covered (m, pass->session, r) ? MEMBER_GO
                                                        : MEMBER_WAIT;
}

enum member_verdict
member_retry (struct member *m, struct member_pass *pass,
              struct member_request *r, struct member_refusal *refusal)
{
  uint64_t e, end;

  if (check_pass (m, pass, r, refusal) != MEMBER_GO)
    return MEMBER_REFUSE;
  if (m->joining && r->reads && member_join_phase (m) != MEMBER_JOIN_SYNCED)
    return member_refuse (
      refusal, ESHUTDOWN,
      "this copy is being rebuilt, and is not read before it is "
      "in-sync; read another one");
  if (m->joining)
    return member_join_retry (m, pass->session, r);
  r->run = 0;
  if (r->count == 0 || covered (m, pass->session, r))
    return MEMBER_GO;
  for (unsigned i = 0; i < r->count; i++)
    for (record_extents (&r->records[i], &e, &end); e < end; e++)
      member_map_want (m, pass->session, e);
  /* A bit whose clear has not been written yet is still on the disk. */
  return covered (m, pass->session, r) ? MEMBER_GO
                                       : wait_or_refuse (m, refusal);
}

/* ---- What can't be read ---- */

enum member_verdict
member_bad_report (struct member *m, struct member_pass *pass, uint64_t offset,
                   uint64_t length, struct member_refusal *refusal)
{
  const struct member_request r = { .count = 1 };

  if (check_pass (m, pass, &r, refusal) != MEMBER_GO)
    return MEMBER_REFUSE;
  if (m->next.states[m->next.position] != MEMBER_IN_SYNC)
    return member_refuse (
      refusal, ESHUTDOWN,
      "this copy is not in-sync: its bad ranges are found when it is rebuilt");
  if (!member_bad_add (m, offset, length, BAD_RESYNC))
    return member_refuse (
      refusal, ENOSPC,
      "there is no room in the list of bad ranges: %" PRIu64
      " bytes of this member can't be read; write them again from a backup",
      bad_bytes (&m->bad));
  return MEMBER_GO;
}

enum member_verdict
member_bad_part (struct member *m, uint64_t offset,
                 struct member_refusal *refusal)
{
  if (!bad_test (&m->bad, offset, 1) &&
      !member_bad_add (m, offset, BAD_BLOCK_BYTES, BAD_WRITE))
    return member_refuse (
      refusal, EIO,
      "there is no room in the list of bad ranges for the block at "
      "%" PRIu64 ", which can't be read; replace the disk",
      offset);
  return member_bad_settle (m, refusal);
}

enum member_verdict
member_bad_settle (const struct member *m, struct member_refusal *refusal)
{
  if (member_failed (m))
    return refuse_failed (m, refusal);
  return member_bad_settled (m) ? MEMBER_GO : wait_or_refuse (m, refusal);
}

/* ---- Rounds ---- */

enum member_verdict
member_round (struct member *m, const struct member_pass *pass, uint64_t round,
              struct member_refusal *refusal)
{
  const struct member_request none = { .count = 0 };

  if (check_pass (m, pass, &none, refusal) != MEMBER_GO)
    return MEMBER_REFUSE;
  if (m->next.round < round)
    member_map_set_round (m, round);
  return m->confirmed.round >= round ? MEMBER_GO : wait_or_refuse (m, refusal);
}

/* A slot may have a round already that is not confirmed: that one is waited for.  Where
 * a joining begins meanwhile, the disk forgets its round.
 */
enum member_verdict
member_noted (struct member *m, const struct member_pass *pass, uint64_t *round,
              struct member_refusal *refusal)
{
  const struct member_request none = { .count = 0 };

  if (check_pass (m, pass, &none, refusal) != MEMBER_GO)
    return MEMBER_REFUSE;
  if (m->next.round < *round)
    *round = m->next.round;
  if (m->confirmed.round < *round)
    return wait_or_refuse (m, refusal);
  *round = m->confirmed.round;
  return MEMBER_GO;
}

/* ---- Clears ---- */

static bool
group_in_sync (const struct superblock *sb)
{
  unsigned first;

  if (sb->n == 0)
    return false;
  first = sb->position / sb->n * sb->n;
  for (unsigned i = first; i < first + sb->n; i++)
    if (sb->states[i] != MEMBER_IN_SYNC)
      return false;
  return true;
}

void
member_clear (struct member *m, struct member_pass *pass, uint64_t offset,
              uint64_t length, bool settled)
{
  uint64_t e = (offset + EXTENT_BYTES - 1) / EXTENT_BYTES;
  uint64_t end = offset + length;

  /* The data area, and what the array uses of it, may end within an extent.  Nothing
   * is ever written past that end, so a range up to it covers its last extent.
   */
  end = end == m->confirmed.data_bytes || end == m->confirmed.member_bytes
          ? (end + EXTENT_BYTES - 1) / EXTENT_BYTES
          : end / EXTENT_BYTES;
  assert (offset <= m->confirmed.data_bytes &&
          length <= m->confirmed.data_bytes - offset);
  if (pass->session == NULL || member_failed (m) || pass->epoch < m->gate ||
      !group_in_sync (&m->next) || !group_in_sync (&m->confirmed))
    return;
  for (; e < end; e++) {
    if (!intents_test (&m->wanted, e))
      continue;
    intents_clear (&pass->session->held, e);
    if (settled) {
      intents_clear (&m->orphans, e);
      for (struct session *s = m->sessions; s; s = s->next)
        if (gone (m, s))
          intents_clear (&s->held, e);
    }
    member_map_unwant (m, e);
  }
}

/* ---- Sessions that are over ---- */

#define EVERY_SESSION 0

/* Shut its passes.  True: it had some. */
static bool
shut_passes (struct member *m, uint64_t session)
{
  struct member_pass *p;
  bool any = false;

  LIST_FOREACH (p, &m->passes, link) {
    if ((p->id != session && session != EVERY_SESSION) || p->epoch == 0)
      continue;
    /* Before the turn changes: a request that sees the old epoch is of the old turn. */
    atomic_store (&p->epoch, 0);
    any = true;
  }
  return any;
}

/* Of no use is what the gate or the doors keep out in any case. */
static void
drop_over (struct member *m)
{
  unsigned kept = 0;

  for (unsigned i = 0; i < m->over_count; i++)
    if (m->over[i].epoch >= m->gate && m->over[i].epoch >= m->doors)
      m->over[kept++] = m->over[i];
  m->over_count = kept;
}

static void
keep_over (struct member *m, const struct member_over *o)
{
  if (o->epoch < m->gate || o->epoch < m->doors)
    return;
  if (o->session != 0 && is_over (m, o->session))
    return;
  if (o->session != 0 && m->over_count < MEMBER_OVER_MAX)
    m->over[m->over_count++] = *o;
  else /* all are meant, or there is no room: no token of this epoch is good */
    m->doors = o->epoch + 1;
}

void
member_shut (struct member *m, const struct member_over *over, unsigned count)
{
  bool any = false;

  drop_over (m);
  for (unsigned i = 0; i < count; i++) {
    keep_over (m, &over[i]);
    for (struct session *s = m->sessions; s; s = s->next)
      if (s->id == over[i].session && s->shut == 0)
        s->shut = m->drains_asked + 1;
    any |= over[i].session != 0 && shut_passes (m, over[i].session);
  }
  if (count > 0)
    /* another weftd counts from the start again */
    m->over_told = over[count - 1].number;
  m->drains_asked += any;
  if (any)
    m->over_drain = m->drains_asked;
  member_join_poll (m);
}

void
member_doors_shut_all (struct member *m)
{
  m->drains_asked += shut_passes (m, EVERY_SESSION);
  member_join_poll (m);
}

uint64_t
member_over_done (const struct member *m)
{
  return m->over_done;
}
