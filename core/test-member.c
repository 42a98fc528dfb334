/* test-member.c: walks the member engine through random orders of everything
 * that may happen to it, on a disk whose writes are slow, may finish in any
 * order, and are lost, done or torn when the power goes.
 *
 * The disk is the header's bytes and the writes under way.  After each step
 * the promises of member.h (I1 to I4) are held against it and against a model
 * that knows only who wrote and cleared what.
 */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "member.h"
#include "member-internal.h"
#include "test-random.h"

#define DATA_BYTES (GiB (300)) /* three intent blocks */
#define HOT 12 /* extents that are written, on both sides of block borders */
#define SESSIONS 3
#define PASSES 10
#define REQUESTS 12
#define FLIGHTS 8

static const uint8_t key[KEY_BYTES] = { 9, 9, 9 };
static const uint8_t cluster[16] = { 1 }, disk_id[16] = { 2 },
                     array[16] = { 3 };

/* ---- The disk ---- */

static uint8_t header[HEADER_BYTES];
static struct flight {
  bool used;
  struct member_action a;
} flights[FLIGHTS];

static void
disk_format (void)
{
  struct superblock sb = { .data_offset = HEADER_BYTES,
                           .data_bytes = DATA_BYTES };
  struct intents map;

  memset (header, 0, sizeof header);
  memset (flights, 0, sizeof flights);
  memcpy (sb.disk, disk_id, 16);
  for (sb.sequence = 1; sb.sequence <= 2; sb.sequence++)
    superblock_encode (&sb, header + sb.sequence % 2 * SLOT_BYTES);
  CHECK (intents_init (&map, intents_extents (DATA_BYTES)) == 0);
  for (unsigned i = 0; i < intents_blocks (&map); i++)
    intents_encode (&map, i, header + INTENT_BLOCKS_OFFSET +
                    i * INTENT_BLOCK_BYTES);
  intents_free (&map);
}

static struct member *
disk_start (void)
{
  struct superblock sb, other;
  struct intents map;
  const char *why;
  int newest = superblock_newest (header, &sb, &why);
  struct member *m;
  bool stale;

  CHECK (newest >= 0);
  stale = superblock_decode (header + (1 - newest) * SLOT_BYTES, &other,
                             &why) == -1 || !superblock_same (&sb, &other);
  CHECK (intents_init (&map, intents_extents (DATA_BYTES)) == 0);
  for (unsigned i = 0; i < intents_blocks (&map); i++)
    intents_decode (&map, i, header + INTENT_BLOCKS_OFFSET +
                    i * INTENT_BLOCK_BYTES, &why);
  m = member_new (&sb, stale, &map);
  CHECK (m);
  return m;
}

/* The power goes: each write under way is not done, done, or torn. */
static void
disk_crash (void)
{
  for (int i = 0; i < FLIGHTS; i++) {
    struct flight *f = &flights[i];
    int fate = test_random (3);

    if (!f->used)
      continue;
    for (int sector = 0; sector < 8; sector++)
      if (fate == 1 || (fate == 2 && test_random (2)))
        memcpy (header + f->a.offset + sector * 512, f->a.bytes + sector * 512,
                512);
    f->used = false;
  }
}

/* A crash now, whatever becomes of the writes under way: is the bit set? */
static bool
bit_durable (uint64_t e)
{
  unsigned block = e / INTENT_BLOCK_EXTENTS;
  uint64_t offset = INTENT_BLOCKS_OFFSET + (uint64_t) block *
                    INTENT_BLOCK_BYTES;
  struct intents map;
  const char *why;
  bool set;

  CHECK (intents_init (&map, intents_extents (DATA_BYTES)) == 0);
  intents_decode (&map, block, header + offset, &why);
  set = intents_test (&map, e);
  for (int i = 0; i < FLIGHTS; i++)
    if (flights[i].used && flights[i].a.offset == offset) {
      CHECK (intents_decode (&map, block, flights[i].a.bytes, &why) == 0);
      set = set && intents_test (&map, e);
    }
  intents_free (&map);
  return set;
}

/* ---- The world ---- */

static struct member *m;
static uint64_t epoch, generation; /* weftd's */
static uint64_t confirmed_max;     /* the highest min_epoch that was told */
static uint64_t served_max;        /* the highest epoch with an open door */
static bool out;                   /* weftd has a member out */

/* What is dirty, by the model: bit s: session s wrote; bit 7: nobody's. */
#define NOBODYS 0x80
static uint8_t dirty[HOT];

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

static uint64_t
hot (unsigned i)
{
  static const uint64_t at[HOT] = {
    0, 1, 2, 63, 64, 65, INTENT_BLOCK_EXTENTS - 1, INTENT_BLOCK_EXTENTS,
    INTENT_BLOCK_EXTENTS + 1, 2 * INTENT_BLOCK_EXTENTS - 1,
    2 * INTENT_BLOCK_EXTENTS, GiB (300) / EXTENT_BYTES - 1,
  };

  return at[i];
}

static bool
record_touches (const struct batch_record *b, unsigned h)
{
  uint64_t start = hot (h) * EXTENT_BYTES;

  return batch_changes_data (b->kind) && b->offset < start + EXTENT_BYTES &&
         b->offset + b->length > start;
}

static bool
request_touches (const struct request *q, unsigned h)
{
  for (unsigned i = 0; i < q->r.count; i++)
    if (record_touches (&q->records[i], h))
      return true;
  return false;
}

static void
export_name (char name[TOKEN_BYTES_MAX + 16], enum member_door door,
             uint64_t session, bool writable, uint64_t e)
{
  struct token t = { .session = session, .writable = writable, .epoch = e };
  char text[TOKEN_BYTES_MAX + 1];

  memcpy (t.array, array, 16);
  memcpy (t.member, disk_id, 16);
  token_mint (&t, key, text);
  snprintf (name, TOKEN_BYTES_MAX + 16, "%s/%s", member_door_name (door), text);
}

static bool
desire (uint64_t min_epoch, bool release)
{
  struct member_desire d = { .generation = generation, .min_epoch = min_epoch,
                             .assigned = !release, .layout = LAYOUT_RAIDX,
                             .n = 4, .groups = 1, .unit = 65536,
                             .position = 2, .epoch = epoch };
  char why[256];

  memcpy (d.cluster, cluster, 16);
  memcpy (d.array, array, 16);
  if (release)
    memcpy (d.release, array, 16);
  d.states[1] = out ? MEMBER_OUT : MEMBER_IN_SYNC;
  return member_desire (m, &d, why, sizeof why);
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
  /* I1 for all that runs, not only as it starts; and what was written stays
   * dirty on the disk until it was cleared (I3).
   */
  for (unsigned h = 0; h < HOT; h++) {
    bool needed = dirty[h] != 0;

    for (int i = 0; i < REQUESTS && !needed; i++)
      needed = requests[i].state == RUNNING && request_touches (&requests[i], h);
    if (needed && test_random (4) == 0)
      CHECK (bit_durable (hot (h)));
  }
}

static void
run (struct request *q)
{
  q->state = RUNNING;
  CHECK (!member_failed (m));                             /* I4 */
  CHECK (q->pass->epoch >= member_confirmed (m)->min_epoch); /* I2 */
  for (unsigned h = 0; h < HOT; h++)
    if (request_touches (q, h)) {
      CHECK (bit_durable (hot (h)));                      /* I1 */
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
  v = member_open (m, name, &p->pass, &refusal);
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
    if (b->length > DATA_BYTES - b->offset)
      b->length = DATA_BYTES - b->offset;
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
  if (length > DATA_BYTES - at)
    length = DATA_BYTES - at;
  member_clear (m, p->pass, at, length, false);
  if (length == EXTENT_BYTES && p->epoch >= m->gate && !member_failed (m) &&
      m->next.states[1] == MEMBER_IN_SYNC &&
      m->confirmed.states[1] == MEMBER_IN_SYNC && m->next.n == 4 &&
      m->confirmed.n == 4)
    dirty[h] &= ~(1 << p->session);
}

static void
step_action (bool lazy)
{
  for (int i = 0; i < FLIGHTS; i++)
    if (!flights[i].used) {
      flights[i].used = member_next_action (m, lazy, &flights[i].a);
      return;
    }
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
    memcpy (header + f->a.offset, f->a.bytes, sizeof f->a.bytes);
  f->used = false;
  member_action_done (m, &f->a, error);
}

static void
step_finish (bool errors)
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
  CHECK (desire (epoch, false));
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

/* The start, as the plugin does it: all actions before it listens. */
static void
start (void)
{
  struct member_action a;

  m = disk_start ();
  while (member_next_action (m, false, &a)) {
    memcpy (header + a.offset, a.bytes, sizeof a.bytes);
    member_action_done (m, &a, 0);
  }
  CHECK (member_settled (m));
  CHECK (member_confirmed (m)->min_epoch >= confirmed_max);
  CHECK (served_max == 0 || member_confirmed (m)->min_epoch > served_max);
  confirmed_max = member_confirmed (m)->min_epoch;
  if (epoch < confirmed_max)
    epoch = confirmed_max;
  for (unsigned h = 0; h < HOT; h++) {
    CHECK (!dirty[h] || intents_test (&m->orphans, hot (h)));
    /* Whatever the map has now is nobody's. */
    dirty[h] = intents_test (&m->orphans, hot (h)) ? NOBODYS : 0;
  }
  member_set_key (m, key);
}

static void
step_crash (void)
{
  bool rot = !m->slot_flying && test_random (4) == 0 && m->slots_wanted == 0;

  disk_crash ();
  drop_all ();
  member_free (m);
  if (rot) /* either slot alone must do */
    header[test_random (2) * SLOT_BYTES + test_random (SLOT_BYTES)] ^= 0x10;
  start ();
}

static void
step (bool errors)
{
  switch (test_random (100)) {
  case 0 ... 7: step_open (); break;
  case 8 ... 10: step_close (); break;
  case 11 ... 30: step_request (); break;
  case 31 ... 45: step_retry (); break;
  case 46 ... 58: step_leave (); break;
  case 59 ... 66: step_clear (); break;
  case 67 ... 78: step_action (false); break;
  case 79 ... 82: step_action (true); break;
  case 83 ... 94: step_finish (errors); break;
  case 95 ... 96: step_desire (); break;
  case 97: member_touch (m); break;
  default:
    if (test_random (8) == 0)
      step_crash ();
  }
  check_world ();
}

/* Nothing is stuck: without new work all that waits comes to an end. */
static void
settle (void)
{
  struct member_refusal refusal;

  for (int round = 0; round < 20; round++) {
    while (flights[0].used || flights[1].used || flights[2].used ||
           flights[3].used || flights[4].used || flights[5].used ||
           flights[6].used || flights[7].used)
      step_finish (false);
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
      step_action (true);
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
walk (unsigned steps, bool errors)
{
  disk_format ();
  memset (dirty, 0, sizeof dirty);
  epoch = 1;
  generation = 1;
  confirmed_max = served_max = 0;
  out = false;
  start ();
  CHECK (desire (epoch, false));
  for (unsigned i = 0; i < steps; i++)
    step (errors);
  settle ();
  disk_crash ();
  drop_all ();
  member_free (m);
}

/* ---- Single scenes ---- */

static unsigned
do_actions (bool lazy)
{
  struct member_action a;
  unsigned n = 0;

  for (; member_next_action (m, lazy, &a); n++) {
    memcpy (header + a.offset, a.bytes, sizeof a.bytes);
    member_action_done (m, &a, 0);
    member_check (m);
  }
  return n;
}

static struct member_pass *
open_door (uint64_t session, uint64_t e)
{
  struct member_pass *p = NULL;
  struct member_refusal refusal;
  char name[TOKEN_BYTES_MAX + 16];
  enum member_verdict v;

  export_name (name, DOOR_DATA, session, true, e);
  while ((v = member_open (m, name, &p, &refusal)) == MEMBER_WAIT)
    CHECK (do_actions (false) > 0);
  if (v != MEMBER_GO)
    fprintf (stderr, "%s\n", refusal.why);
  CHECK (v == MEMBER_GO);
  return p;
}

static void
scene_start (void)
{
  disk_format ();
  confirmed_max = served_max = 0;
  memset (dirty, 0, sizeof dirty);
  epoch = generation = 1;
  out = false;
  start ();
  CHECK (desire (1, false));
  do_actions (false);
  CHECK (member_settled (m));
}

static enum member_verdict
write_at (struct member_pass *p, struct batch_record *b,
          struct member_request *r, uint64_t extent)
{
  struct member_refusal refusal;

  b->kind = BATCH_WRITE;
  b->offset = extent * EXTENT_BYTES;
  b->length = 4096;
  r->records = b;
  r->count = 1;
  return member_admit (m, p, r, &refusal);
}

/* Many writers of one block cost two header writes: the first one's, and one
 * for all who came meanwhile; after that none.
 */
static void
scene_group_commit (void)
{
  struct batch_record b[100];
  struct member_request r[100];
  struct member_refusal refusal;
  struct member_action a;
  struct member_pass *p;

  scene_start ();
  p = open_door (1, 1);
  for (int i = 0; i < 100; i++) {
    CHECK (write_at (p, &b[i], &r[i], i) == MEMBER_WAIT);
    CHECK (member_retry (m, p, &r[i], &refusal) == MEMBER_WAIT);
    if (i == 0)
      CHECK (member_next_action (m, false, &a));
  }
  CHECK (a.kind == MEMBER_WRITE_INTENTS);
  memcpy (header + a.offset, a.bytes, sizeof a.bytes);
  member_action_done (m, &a, 0);
  CHECK (member_retry (m, p, &r[0], &refusal) == MEMBER_GO);
  CHECK (member_retry (m, p, &r[1], &refusal) == MEMBER_WAIT);
  CHECK (do_actions (false) == 1);
  for (int i = 0; i < 100; i++) {
    CHECK (member_retry (m, p, &r[i], &refusal) == MEMBER_GO);
    member_leave (m, &r[i]);
    CHECK (write_at (p, &b[i], &r[i], i) == MEMBER_GO);
    member_leave (m, &r[i]);
  }
  CHECK (do_actions (true) == 0);
  CHECK (member_dirty_extents (m) == 100);
  member_close (m, p);
  member_free (m);
}

/* A bit that is set again before its clear was written costs nothing; one that
 * is set again while the clear is being written waits for a write of its own.
 */
static void
scene_set_after_clear (void)
{
  struct batch_record b;
  struct member_request r;
  struct member_refusal refusal;
  struct member_action a;
  struct member_pass *p;

  scene_start ();
  p = open_door (1, 1);
  CHECK (write_at (p, &b, &r, 5) == MEMBER_WAIT);
  CHECK (member_retry (m, p, &r, &refusal) == MEMBER_WAIT);
  CHECK (do_actions (false) == 1);
  CHECK (member_retry (m, p, &r, &refusal) == MEMBER_GO);
  member_leave (m, &r);

  member_clear (m, p, 5 * EXTENT_BYTES, EXTENT_BYTES, false);
  CHECK (member_dirty_extents (m) == 0);
  CHECK (do_actions (false) == 0 && bit_durable (5));
  CHECK (write_at (p, &b, &r, 5) == MEMBER_WAIT);
  CHECK (member_retry (m, p, &r, &refusal) == MEMBER_GO);
  member_leave (m, &r);
  CHECK (do_actions (true) == 0 && bit_durable (5));

  member_clear (m, p, 5 * EXTENT_BYTES, EXTENT_BYTES, false);
  CHECK (member_next_action (m, true, &a));
  CHECK (write_at (p, &b, &r, 5) == MEMBER_WAIT);
  CHECK (member_retry (m, p, &r, &refusal) == MEMBER_WAIT);
  memcpy (header + a.offset, a.bytes, sizeof a.bytes);
  member_action_done (m, &a, 0);
  CHECK (!bit_durable (5));
  CHECK (member_retry (m, p, &r, &refusal) == MEMBER_WAIT);
  CHECK (do_actions (false) == 1 && bit_durable (5));
  CHECK (member_retry (m, p, &r, &refusal) == MEMBER_GO);
  member_leave (m, &r);

  /* Not for a part of an extent, not while a member is out, and not for the
   * bits of another session.
   */
  member_clear (m, p, 5 * EXTENT_BYTES, EXTENT_BYTES - 1, false);
  member_clear (m, p, 5 * EXTENT_BYTES + 1, EXTENT_BYTES, false);
  CHECK (member_dirty_extents (m) == 1);
  out = true;
  CHECK (desire (1, false));
  member_clear (m, p, 5 * EXTENT_BYTES, EXTENT_BYTES, false);
  CHECK (member_dirty_extents (m) == 1);
  out = false;
  CHECK (desire (1, false));
  do_actions (false);
  struct member_pass *other = open_door (2, 1);
  member_clear (m, other, 5 * EXTENT_BYTES, EXTENT_BYTES, false);
  CHECK (member_dirty_extents (m) == 1);
  CHECK (write_at (other, &b, &r, 5) == MEMBER_WAIT);
  CHECK (member_retry (m, other, &r, &refusal) == MEMBER_GO);
  member_leave (m, &r);
  member_clear (m, p, 5 * EXTENT_BYTES, EXTENT_BYTES, false);
  CHECK (member_dirty_extents (m) == 1);
  member_clear (m, other, 5 * EXTENT_BYTES, EXTENT_BYTES, false);
  CHECK (member_dirty_extents (m) == 0);

  /* A resync settles what a session left when it went, not what is held. */
  CHECK (write_at (p, &b, &r, 5) == MEMBER_WAIT);
  CHECK (member_retry (m, p, &r, &refusal) == MEMBER_GO);
  member_leave (m, &r);
  member_clear (m, other, 5 * EXTENT_BYTES, EXTENT_BYTES, true);
  CHECK (member_dirty_extents (m) == 1);
  member_close (m, p);
  member_clear (m, other, 5 * EXTENT_BYTES, EXTENT_BYTES, false);
  CHECK (member_dirty_extents (m) == 1);
  member_clear (m, other, 5 * EXTENT_BYTES, EXTENT_BYTES, true);
  CHECK (member_dirty_extents (m) == 0);

  /* One that is fenced is gone too, though its door is open still. */
  CHECK (write_at (other, &b, &r, 5) == MEMBER_WAIT);
  CHECK (member_retry (m, other, &r, &refusal) == MEMBER_GO ||
         do_actions (false) == 1);
  member_leave (m, &r);
  epoch = 2;
  CHECK (desire (2, false));
  do_actions (false);
  p = open_door (3, 2);
  member_clear (m, p, 5 * EXTENT_BYTES, EXTENT_BYTES, false);
  CHECK (member_dirty_extents (m) == 1);
  member_clear (m, p, 5 * EXTENT_BYTES, EXTENT_BYTES, true);
  CHECK (member_dirty_extents (m) == 0);
  member_close (m, p);
  member_close (m, other);
  member_free (m);
}

/* Raising the epoch: refused at once, confirmed only when the last old request
 * has left and both slots have it.
 */
static void
scene_fence (void)
{
  struct member_request r = { .count = 0 }, r2 = { .count = 0 };
  struct member_refusal refusal;
  struct member_action a;
  struct member_pass *p, *p2;

  scene_start ();
  p = open_door (1, 1);
  CHECK (member_admit (m, p, &r, &refusal) == MEMBER_GO);
  epoch = 2;
  CHECK (desire (2, false));
  CHECK (member_admit (m, p, &r2, &refusal) == MEMBER_REFUSE);
  CHECK (refusal.error == ESHUTDOWN && strstr (refusal.why, "epoch 1 is over"));
  CHECK (!member_leave (m, &r2));
  CHECK (!member_next_action (m, true, &a)); /* it waits for r */
  CHECK (!member_settled (m) && member_confirmed (m)->min_epoch == 1);

  /* A door of the new epoch opens meanwhile. */
  p2 = open_door (1, 2);
  CHECK (member_admit (m, p2, &r2, &refusal) == MEMBER_GO);
  CHECK (member_confirmed (m)->min_epoch == 1);

  /* And another raise: it waits for r2 as well. */
  epoch = 3;
  CHECK (desire (3, false));
  CHECK (member_leave (m, &r));
  CHECK (!member_next_action (m, true, &a));
  CHECK (member_leave (m, &r2));
  CHECK (member_next_action (m, false, &a) && a.kind == MEMBER_WRITE_SLOT);
  memcpy (header + a.offset, a.bytes, sizeof a.bytes);
  member_action_done (m, &a, 0);
  CHECK (member_confirmed (m)->min_epoch == 1); /* one slot is not enough */
  CHECK (do_actions (false) == 1);
  CHECK (member_confirmed (m)->min_epoch == 3 && member_settled (m));

  /* A lower one, and an older weftd, change nothing. */
  CHECK (desire (1, false) && member_settled (m));
  generation = 0;
  CHECK (!desire (9, false) && member_settled (m));
  member_close (m, p);
  member_close (m, p2);
  member_free (m);
}

/* The power goes between the writes of the two slots: what the next life says
 * must not hang on the slot that was written alone.
 */
static void
scene_stale_slot (void)
{
  struct member_action a;

  scene_start ();
  epoch = 7;
  CHECK (desire (7, false));
  CHECK (member_next_action (m, false, &a) && a.kind == MEMBER_WRITE_SLOT);
  memcpy (header + a.offset, a.bytes, sizeof a.bytes);
  member_free (m);
  start ();
  CHECK (member_confirmed (m)->min_epoch == 7);
  member_free (m);
  header[a.offset + 100] ^= 1;
  start (); /* checks that min_epoch has not gone back */
  CHECK (member_confirmed (m)->min_epoch == 7);
  member_free (m);
}

/* Released: dirty as a whole before the array is forgotten; whoever has a door
 * open is fenced; a foreign weftd is not obeyed.
 */
static void
scene_release (void)
{
  struct member_request r = { .count = 0 };
  struct member_refusal refusal;
  struct member_desire d = { .generation = 1 };
  struct member_pass *p;
  struct superblock sb;
  const char *reason;
  char why[256];

  scene_start ();
  p = open_door (1, 1);
  memset (d.cluster, 0x77, 16);
  memcpy (d.release, array, 16);
  CHECK (!member_desire (m, &d, why, sizeof why) && member_settled (m));
  memcpy (d.cluster, cluster, 16);
  d.release[5] ^= 1;
  CHECK (member_desire (m, &d, why, sizeof why) && member_settled (m));
  CHECK (!format_uuid_zero (member_confirmed (m)->array));

  CHECK (desire (1, true));
  for (;;) {
    struct member_action a;

    CHECK (superblock_newest (header, &sb, &reason) >= 0);
    if (format_uuid_zero (sb.array))
      for (unsigned h = 0; h < HOT; h++)
        CHECK (bit_durable (hot (h)));
    if (!member_next_action (m, false, &a))
      break;
    memcpy (header + a.offset, a.bytes, sizeof a.bytes);
    member_action_done (m, &a, 0);
  }
  CHECK (member_settled (m) && format_uuid_zero (sb.array));
  CHECK (format_uuid_zero (member_confirmed (m)->array));
  CHECK (member_dirty_extents (m) == intents_extents (DATA_BYTES));
  CHECK (member_admit (m, p, &r, &refusal) == MEMBER_REFUSE);
  member_leave (m, &r);
  member_close (m, p);
  member_free (m);
}

static enum member_verdict
try_open (const char *name, int error, const char *text)
{
  struct member_pass *p = NULL;
  struct member_refusal refusal = { 0 };
  enum member_verdict v = member_open (m, name, &p, &refusal);

  if (v == MEMBER_REFUSE && (refusal.error != error ||
                             strstr (refusal.why, text) == NULL))
    fprintf (stderr, "%s: %d %s\n", name, refusal.error, refusal.why);
  CHECK (p == NULL && v == MEMBER_REFUSE);
  CHECK (refusal.error == error && strstr (refusal.why, text));
  return v;
}

static void
scene_doors (void)
{
  char name[TOKEN_BYTES_MAX + 16], text[TOKEN_BYTES_MAX + 1];
  struct token t = { .session = 1, .writable = true, .epoch = 1 };
  struct member_refusal refusal;
  struct member_request r = { .count = 0 };
  struct member_pass *p;
  struct batch_record b = { .kind = BATCH_ZERO, .length = 1 };

  disk_format ();
  m = disk_start ();
  export_name (name, DOOR_DATA, 1, true, 1);
  try_open (name, EAGAIN, "has not reached weftd");
  member_set_key (m, key);
  try_open (name, EACCES, "belongs to no array");
  generation = epoch = 1;
  CHECK (desire (1, false));
  try_open (name, EACCES, "belongs to no array"); /* not durable yet */
  do_actions (false);
  try_open ("", ENOENT, "no such export");
  try_open ("data", ENOENT, "no such export");
  try_open ("data/", EACCES, "token");
  try_open ("date/x", ENOENT, "no such export");
  try_open ("data/1.2.3", EACCES, "token");
  memcpy (t.member, disk_id, 16);
  memcpy (t.array, cluster, 16);
  token_mint (&t, key, text);
  snprintf (name, sizeof name, "data/%s", text);
  try_open (name, EACCES, "another array");
  memcpy (t.member, cluster, 16);
  memcpy (t.array, array, 16);
  token_mint (&t, key, text);
  snprintf (name, sizeof name, "intents/%s", text);
  try_open (name, EACCES, "another disk");
  export_name (name, DOOR_BATCH, 1, false, 1);
  try_open (name, EROFS, "read-only");
  export_name (name, DOOR_DATA, 1, true, 0);
  try_open (name, EINVAL, "out of range");
  export_name (name, DOOR_DATA, 1, true, EPOCH_MAX);
  try_open (name, EINVAL, "out of range");

  /* A read-only pass reads, and does not write. */
  export_name (name, DOOR_DATA, 1, false, 1);
  CHECK (member_open (m, name, &p, &refusal) == MEMBER_WAIT);
  do_actions (false);
  CHECK (member_open (m, name, &p, &refusal) == MEMBER_GO);
  CHECK (!member_pass_writable (p) && member_pass_door (p) == DOOR_DATA);
  CHECK (member_admit (m, p, &r, &refusal) == MEMBER_GO);
  member_leave (m, &r);
  r.records = &b;
  r.count = 1;
  CHECK (member_admit (m, p, &r, &refusal) == MEMBER_REFUSE &&
         refusal.error == EROFS);
  member_leave (m, &r);

  /* Failed: nothing opens, nothing runs, no header is written. */
  r.count = 0;
  member_touch (m);
  member_fail (m, EIO, "fsync of /dev/x failed");
  member_fail (m, ENOSPC, "later");
  CHECK (strstr (member_reason (m), "/dev/x") && member_failed (m));
  CHECK (member_admit (m, p, &r, &refusal) == MEMBER_REFUSE &&
         refusal.error == EIO);
  member_leave (m, &r);
  try_open (name, EIO, "has failed");
  CHECK (do_actions (true) == 0);
  member_close (m, p);
  member_free (m);
}

/* More sessions than are told apart: the bits of a forgotten one are nobody's,
 * and stay.
 */
static void
scene_many_sessions (void)
{
  struct member_pass *p, *first[MEMBER_SESSIONS_MAX];
  struct batch_record b;
  struct member_request r;
  struct member_refusal refusal;
  char name[TOKEN_BYTES_MAX + 16];
  uint8_t map[16];

  scene_start ();
  for (unsigned i = 0; i < 3 * MEMBER_SESSIONS_MAX; i++) {
    p = open_door (1000 + i, 1);
    if (write_at (p, &b, &r, i % 100) == MEMBER_WAIT)
      while (member_retry (m, p, &r, &refusal) == MEMBER_WAIT)
        do_actions (false);
    member_leave (m, &r);
    member_close (m, p);
    member_check (m);
  }
  CHECK (member_dirty_extents (m) == 100);
  p = open_door (1000, 1);
  member_clear (m, p, 0, 100 * EXTENT_BYTES, false);
  CHECK (member_dirty_extents (m) == 100);
  CHECK (member_map_bytes (m) == (intents_extents (DATA_BYTES) + 7) / 8);
  member_map_read (m, 5, 16, map);
  CHECK (map[0] == 0xff && map[6] == 0xff && map[7] == 0x0f && map[8] == 0);
  member_close (m, p);

  for (unsigned i = 0; i < MEMBER_SESSIONS_MAX; i++)
    first[i] = open_door (2000 + i, 1);
  export_name (name, DOOR_DATA, 1, true, 1);
  try_open (name, ENOMEM, "no room for one more session");
  for (unsigned i = 0; i < MEMBER_SESSIONS_MAX; i++)
    member_close (m, first[i]);
  member_free (m);
}

int
main (int argc, char **argv)
{
  unsigned walks = argc > 1 ? atoi (argv[1]) : 60;

  test_random_start ();
  scene_group_commit ();
  scene_set_after_clear ();
  scene_fence ();
  scene_stale_slot ();
  scene_release ();
  scene_doors ();
  scene_many_sessions ();
  for (unsigned i = 0; i < walks; i++)
    walk (test_random (4000), i % 4 == 3);
  return 0;
}
