/* test-member.c: walks the member engine through random orders of all its events.  After
 * each step the promises of member.h (I1 to I4) are compared with the disk and with a
 * model that knows only which session wrote and cleared each extent.
 */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "test-member-rig.h"
#include "test-random.h"

#define HOT 12 /* extents that are written, on both sides of block borders */
#define SESSIONS 3
#define PASSES 10
#define REQUESTS 12

/* ---- The world ---- */

/* The extent that is hot extent i. */
static uint64_t
hot (unsigned i)
{
  static const uint64_t at[HOT] = {
    0,
    1,
    2,
    63,
    64,
    65,
    INTENT_BLOCK_EXTENTS - 1,
    INTENT_BLOCK_EXTENTS,
    INTENT_BLOCK_EXTENTS + 1,
    2 * INTENT_BLOCK_EXTENTS - 1,
    2 * INTENT_BLOCK_EXTENTS,
    FOUR_DATA_BYTES / EXTENT_BYTES - 1,
  };

  return at[i];
}

/* The model's dirty extents: bit s: session s wrote; bit 7: no live session's. */
#define NOBODYS 0x80
static uint8_t dirty[HOT];

static bool errors; /* now and then a header write fails */

static struct pass {
  struct member_pass *pass;
  unsigned session;
  uint64_t epoch;
} passes[PASSES];

static struct request {
  enum { FREE, WAITING, RUNNING } state;
  struct pass *pass;
  struct batch_record records[2];
  struct member_request r;
} requests[REQUESTS];

static bool
request_touches (const struct request *q, unsigned h)
{
  uint64_t start = hot (h) * EXTENT_BYTES;

  for (unsigned i = 0; i < q->r.count; i++) {
    const struct batch_record *b = &q->records[i];

    if (batch_changes_data (b->kind) && b->offset < start + EXTENT_BYTES &&
        b->offset + b->length > start)
      return true;
  }
  return false;
}

/* ---- What holds always ---- */

static void
check_world (void)
{
  const struct superblock *sb = member_confirmed (m);

  member_check (m);
  /* I2: told once, true for ever; nothing older runs. */
  CHECK (sb->min_epoch >= confirmed_max || member_failed (m));
  if (sb->min_epoch > confirmed_max)
    confirmed_max = sb->min_epoch;
  for (int i = 0; i < REQUESTS; i++)
    if (requests[i].state == RUNNING)
      CHECK (requests[i].pass->epoch >= sb->min_epoch);
  /* I1 holds for all running requests, not only at their start; and a written extent
   * stays dirty on the disk until it was cleared (I3).
   */
  for (unsigned h = 0; h < HOT; h++) {
    bool needed = dirty[h] != 0;

    for (int i = 0; i < REQUESTS && !needed; i++)
      needed = requests[i].state == RUNNING &&
               request_touches (&requests[i], h);
    if (needed && test_random (4) == 0)
      CHECK (bit_durable (hot (h)));
  }
}

static void
run (struct request *q)
{
  q->state = RUNNING;
  CHECK (!member_failed (m));                                /* I4 */
  CHECK (q->pass->epoch >= member_confirmed (m)->min_epoch); /* I2 */
  for (unsigned h = 0; h < HOT; h++)
    if (request_touches (q, h)) {
      CHECK (bit_durable (hot (h))); /* I1 */
      dirty[h] |= 1 << q->pass->session;
    }
}

static void
answer (struct request *q, enum member_verdict v,
        const struct member_refusal *refusal)
{
  switch (v) {
  case MEMBER_GO:
    run (q);
    break;
  case MEMBER_WAIT:
    q->state = WAITING;
    break;
  case MEMBER_REFUSE:
    CHECK (refusal->error != 0 && refusal->why[0]);
    CHECK (member_failed (m) || q->pass->epoch < m->gate);
    member_leave (m, &q->r);
    q->state = FREE;
    break;
  }
}

/* ---- Steps ---- */

static void
step_open (void)
{
  struct pass *p = &passes[test_random (PASSES)];
  unsigned session = test_random (SESSIONS);
  uint64_t e = epoch - (test_random (4) == 0 ? test_random (3) : 0);
  struct member_refusal refusal = { 0 };
  char name[TOKEN_BYTES_MAX + 16];
  enum member_verdict v;

  if (p->pass || e == 0)
    return;
  export_name (name, DOOR_DATA, 100 + session, true, e);
  v = member_open (m, name, NULL, &p->pass, &refusal);
  if (v == MEMBER_GO) {
    CHECK (e >= member_confirmed (m)->min_epoch);
    CHECK (member_confirmed (m)->served_epoch >= e);
    p->session = session;
    p->epoch = e;
    if (e > served_max)
      served_max = e;
  }
  else if (v == MEMBER_REFUSE)
    CHECK (refusal.error != 0 && refusal.why[0]);
}

static void
step_close (void)
{
  struct pass *p = &passes[test_random (PASSES)];

  if (p->pass == NULL)
    return;
  for (int i = 0; i < REQUESTS; i++)
    if (requests[i].state != FREE && requests[i].pass == p)
      return;
  member_close (m, p->pass);
  p->pass = NULL;
}

static void
step_request (void)
{
  struct request *q = &requests[test_random (REQUESTS)];
  struct pass *p = &passes[test_random (PASSES)];
  struct member_refusal refusal = { 0 };

  if (q->state != FREE || p->pass == NULL)
    return;
  q->pass = p;
  q->r.records = q->records;
  q->r.count = test_random (3);
  for (unsigned i = 0; i < q->r.count; i++) {
    struct batch_record *b = &q->records[i];

    b->kind = BATCH_WRITE + test_random (3);
    b->offset = hot (test_random (HOT)) * EXTENT_BYTES;
    /* Now and then into the next extent as well. */
    b->length = test_random (3) ? 4096 : EXTENT_BYTES + 1;
    if (b->length > FOUR_DATA_BYTES - b->offset)
      b->length = FOUR_DATA_BYTES - b->offset;
  }
  answer (q, member_admit (m, p->pass, &q->r, &refusal), &refusal);
}

static void
step_retry (void)
{
  struct request *q = &requests[test_random (REQUESTS)];
  struct member_refusal refusal = { 0 };

  if (q->state == WAITING)
    answer (q, member_retry (m, q->pass->pass, &q->r, &refusal), &refusal);
}

static void
step_leave (void)
{
  struct request *q = &requests[test_random (REQUESTS)];

  if (q->state != RUNNING)
    return;
  member_leave (m, &q->r);
  q->state = FREE;
}

static void
step_clear (void)
{
  struct pass *p = &passes[test_random (PASSES)];
  unsigned h = test_random (HOT);
  uint64_t at = hot (h) * EXTENT_BYTES, length = EXTENT_BYTES;

  if (p->pass == NULL)
    return;
  for (int i = 0; i < REQUESTS; i++) /* the host's duty */
    if (requests[i].state != FREE && requests[i].pass->session == p->session &&
        request_touches (&requests[i], h))
      return;
  if (test_random (4) == 0)
    length--; /* not the whole extent: no clear, except at the end */
  if (length > FOUR_DATA_BYTES - at)
    length = FOUR_DATA_BYTES - at;
  member_clear (m, p->pass, at, length, false);
  if (length == EXTENT_BYTES && p->epoch >= m->gate && !member_failed (m) &&
      m->next.states[1] == MEMBER_IN_SYNC &&
      m->confirmed.states[1] == MEMBER_IN_SYNC && m->next.n == 4 &&
      m->confirmed.n == 4)
    dirty[h] &= ~(1 << p->session);
}

static void
step_round (void)
{
  struct pass *p = &passes[test_random (PASSES)];
  struct member_refusal refusal;
  uint64_t r = m->next.round + test_random (3);
  enum member_verdict v;

  if (p->pass == NULL)
    return;
  v = member_round (m, p->pass, r, &refusal);
  CHECK (v != MEMBER_GO || r <= member_confirmed (m)->round);
  CHECK (v != MEMBER_REFUSE || member_failed (m) || p->epoch < m->gate);
}

static void
act (bool lazy)
{
  for (int i = 0; i < FLIGHTS; i++)
    if (!flights[i].used) {
      flights[i].used = member_next_action (m, lazy, &flights[i].a);
      return;
    }
}

static void
step_action (void)
{
  act (test_random (4) == 0);
}

static void
finish (struct flight *f, int error)
{
  /* An action in flight that another one at the same place might overtake
   * would be a bug of the engine's.
   */
  for (int i = 0; i < FLIGHTS; i++)
    CHECK (&flights[i] == f || !flights[i].used ||
           flights[i].a.offset != f->a.offset);
  if (!error)
    memcpy (header + f->a.offset, f->a.bytes, f->a.length);
  f->used = false;
  member_action_done (m, &f->a, error);
}

static void
step_finish (void)
{
  struct flight *f = &flights[test_random (FLIGHTS)];

  if (f->used)
    finish (f, errors && test_random (300) == 0 ? EIO : 0);
}

static void
step_desire (void)
{
  if (test_random (3) == 0)
    out = !out;
  if (test_random (3) == 0)
    epoch += 1 + test_random (2);
  if (test_random (10) == 0)
    generation++;
  CHECK (desire_four (epoch, false));
}

static void
drop_all (void)
{
  for (int i = 0; i < REQUESTS; i++) {
    if (requests[i].state != FREE)
      member_leave (m, &requests[i].r);
    requests[i].state = FREE;
  }
  for (int i = 0; i < PASSES; i++) {
    if (passes[i].pass)
      member_close (m, passes[i].pass);
    passes[i].pass = NULL;
  }
}

/* The bits now in the map belong to no session. */
static void
start_walk (void)
{
  start ();
  for (unsigned h = 0; h < HOT; h++) {
    CHECK (!dirty[h] || intents_test (&m->orphans, hot (h)));
    dirty[h] = intents_test (&m->orphans, hot (h)) ? NOBODYS : 0;
  }
}

static void
step_crash (void)
{
  bool rot = !m->slot_flying && test_random (4) == 0 && m->slots_wanted == 0;

  if (test_random (8))
    return;
  disk_crash ();
  drop_all ();
  member_free (m);
  if (rot) /* either slot alone must do */
    header[test_random (2) * SLOT_BYTES + test_random (SLOT_BYTES)] ^= 0x10;
  start_walk ();
}

static const struct test_step steps[] = {
  { 8, step_open },    { 3, step_close },   { 20, step_request },
  { 15, step_retry },  { 13, step_leave },  { 8, step_clear },
  { 16, step_action }, { 12, step_finish }, { 2, step_desire },
  { 1, step_round },   { 2, step_crash },
};

static void
step (void)
{
  test_random_step (steps);
  check_world ();
}

/* Nothing is stuck: without new work all that waits comes to an end. */
static void
settle (void)
{
  struct member_refusal refusal;

  for (int round = 0; round < 20; round++) {
    for (int i = 0; i < FLIGHTS; i++)
      if (flights[i].used)
        finish (&flights[i], 0);
    for (int i = 0; i < REQUESTS; i++) {
      struct request *q = &requests[i];

      if (q->state == RUNNING) {
        member_leave (m, &q->r);
        q->state = FREE;
      }
      if (q->state == WAITING)
        answer (q, member_retry (m, q->pass->pass, &q->r, &refusal), &refusal);
    }
    for (int i = 0; i < 4; i++)
      act (true);
    check_world ();
  }
  for (int i = 0; i < REQUESTS; i++)
    CHECK (requests[i].state != WAITING);
  if (member_failed (m))
    return;
  CHECK (member_settled (m));
  CHECK (member_confirmed (m)->min_epoch >= epoch ||
         member_confirmed (m)->min_epoch == m->gate);
  /* The disk has exactly what is wanted. */
  for (unsigned h = 0; h < HOT; h++)
    CHECK (bit_durable (hot (h)) == intents_test (&m->wanted, hot (h)));
}

static void
walk (unsigned count)
{
  memset (dirty, 0, sizeof dirty);
  start_new ();
  for (unsigned i = 0; i < count; i++)
    step ();
  settle ();
  disk_crash ();
  drop_all ();
  member_free (m);
}

int
main (int argc, char **argv)
{
  unsigned walks = argc > 1 ? atoi (argv[1]) : 60;

  test_random_start ();
  for (unsigned i = 0; i < walks; i++) {
    errors = i % 4 == 3;
    walk (test_random (4000));
  }
  return 0;
}
