/* test-member-join.c: a member that joins, against a model of the whole: the actions of
 * all parties, in any order.
 *
 * There is a survivor, a writer whose writes go to the survivor first and then, if
 * it has a connection, to the joiner; a weftd that fences, takes in, leaves out and
 * makes in-sync; and the disk of the joiner, whose data and header are lost, done
 * or torn when the power goes.  Each hot extent has two cells, its first and last
 * 4 KiB; a cell holds the number of the write that it is from.
 *
 * After each step:
 *   - where the joiner says SYNCED, or is in-sync, its cells are those of the
 *     survivor, but for those of writes that are on their way;
 *   - no write and no copy of one extent run at once (I5), each write has its
 *     bit (I1), and a fence is confirmed only after all copies from before it
 *     were given back (I2);
 * and after each crash: missing data has its bit, here or at the survivor.
 */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "test-member-rig.h"
#include "test-random.h"

#define BLOCK INTENT_BLOCK_EXTENTS
#define LAST (GiB (130) / EXTENT_BYTES)
#define USED_BYTES (LAST * EXTENT_BYTES + 8192) /* the last one is short */
#define DATA_BYTES (USED_BYTES + 12288)
#define HOT 8
#define CELLS (2 * HOT)
#define WRITES 8
#define COPIES 4
#define CONNS 8

/* 0 and JOIN_SLOTS share a slot; BLOCK is the first of another block. */
static const uint64_t hot[HOT] = {
  0, 1, JOIN_SLOTS, JOIN_SLOTS + 1, BLOCK - 1, BLOCK, BLOCK + 1, LAST,
};

static bool calm; /* nothing new goes wrong, nothing is written */
static bool idle; /* nothing is written */

/* The joiner's data, as it is read and as it is stable. */
static uint64_t mine[CELLS], stable[CELLS];

/* The survivor. */
static uint64_t theirs[CELLS];
static bool their_bit[HOT];
static uint64_t version;

/* weftd. */
static enum member_state state; /* committed, of the joiner */
static uint64_t fence;
static uint64_t change_epoch; /* 0: none; for the fence to be confirmed */
static enum member_state change_to;
static uint64_t wanted_min; /* the last min_epoch that the joiner got */

/* The writer, and the joiner's copying. */
static struct conn {
  struct member_pass *pass;
  bool dead; /* its writer, or its use */
} conns[CONNS];
static struct conn *writer; /* the writer's connection, if it has one */
static uint64_t session = 1;

static struct write {
  enum { FREE, NOTED, WRITTEN, SENDING, WAITING, RUNNING } at;
  uint64_t version;
  struct batch_record records[2];
  struct member_request r;
  struct conn *conn;
  unsigned record; /* the next piece */
  uint64_t done;
} writes[WRITES];

static struct copy_job {
  bool used;
  unsigned h, stage;
  uint64_t run, given_min, cell[2];
} copies[COPIES];

static struct {
  bool used;
  bool bits[HOT];
  uint64_t run;
} gather;

static struct {
  bool used;
  uint64_t run, mark, data[CELLS];
} flush;

/* ---- The world ---- */

/* Cell c is in hot extent c / 2. */
static uint64_t
cell_at (unsigned c)
{
  uint64_t e = hot[c / 2];

  return e * EXTENT_BYTES + (c % 2 == 0  ? 0
                             : e == LAST ? 4096
                                         : EXTENT_BYTES - 4096);
}

/* A disk from elsewhere: its bits are clear and its data is anything. */
static void
new_disk (void)
{
  memset (mine, 0xee, sizeof mine);
  memset (stable, 0xee, sizeof stable);
  disk_format ((struct superblock) { .data_bytes = DATA_BYTES }, 0);
}

/* A flush from beginning to end; an earlier one under way ends without effect. */
static void
data_stable (void)
{
  memcpy (stable, mine, sizeof mine);
  flush.used = false;
}

static bool
covers (const struct write *w, unsigned c)
{
  uint64_t at = cell_at (c);

  for (unsigned i = 0; i < w->r.count; i++)
    if (w->records[i].offset <= at &&
        at < w->records[i].offset + w->records[i].length)
      return true;
  return false;
}

static bool
touches (const struct write *w, unsigned h)
{
  return covers (w, 2 * h) || covers (w, 2 * h + 1);
}

static void
hear_weftd (void)
{
  wish_place (LAYOUT_CHAINED, 2, epoch);
  wish.member_bytes = USED_BYTES;
  wish.min_epoch = wanted_min = change_epoch ? change_epoch : fence;
  wish.position = 1;
  wish.states[1] = state;
  if (state == MEMBER_JOINING && !change_epoch && writer && !writer->dead)
    wish.join_epoch = fence;
  CHECK (desire ());
}

/* ---- Ends ---- */

static void
write_forget (struct write *w)
{
  if (w->at >= WAITING)
    member_leave (m, &w->r);
  w->at = FREE;
}

static void
reach_survivor (struct write *w)
{
  for (unsigned c = 0; c < CELLS; c++)
    if (covers (w, c))
      theirs[c] = w->version;
}

/* The writer, or its connection, is dead: its unsent writes are not sent. */
static void
hang_up (bool dies)
{
  if (writer)
    writer->dead = true;
  for (int i = 0; i < WRITES; i++) {
    struct write *w = &writes[i];

    if (w->at == SENDING || (dies && w->at == WRITTEN))
      w->at = FREE;
    else if (dies && w->at == NOTED) {
      if (test_random (2))
        reach_survivor (w);
      w->at = FREE;
    }
  }
}

static void
leave_out (void)
{
  hang_up (false);
  /* A change that is under way is replaced by one with a higher number. */
  epoch = 1 + (change_epoch ? change_epoch : epoch);
  change_epoch = 0;
  state = MEMBER_OUT;
}

static void
power_off (void)
{
  for (int i = 0; i < WRITES; i++)
    if (writes[i].at >= SENDING)
      write_forget (&writes[i]);
  for (int i = 0; i < CONNS; i++)
    if (conns[i].pass)
      member_close (m, conns[i].pass);
  memset (conns, 0, sizeof conns);
  memset (copies, 0, sizeof copies);
  gather.used = flush.used = false;
  writer = NULL;
  disk_crash ();
  for (unsigned c = 0; c < CELLS; c++)
    mine[c] = stable[c] = test_random (2) ? mine[c] : stable[c];
  member_free (m);
}

static void
power_on (void)
{
  disk_start (true);
  CHECK (m->joining == (m->join.phase == MEMBER_JOIN_WAITING));
  if (!format_uuid_zero (m->next.array))
    for (unsigned c = 0; c < CELLS; c++)
      CHECK (mine[c] == theirs[c] || their_bit[c / 2] ||
             intents_test (&m->orphans, hot[c / 2]));
  do_actions (false);
  wanted_min = m->gate;
}

/* ---- What holds always ---- */

static bool
same_but_for_what_is_on_its_way (void)
{
  for (unsigned c = 0; c < CELLS; c++) {
    bool same = mine[c] == theirs[c];

    for (int i = 0; i < WRITES && !same; i++)
      same = writes[i].at != FREE && covers (&writes[i], c);
    if (!same)
      return false;
  }
  return true;
}

static void
check_world (void)
{
  member_check (m);
  if (!change_epoch && writer && !writer->dead &&
      (state == MEMBER_IN_SYNC ||
       (state == MEMBER_JOINING && m->join.order == fence &&
        m->join.phase == MEMBER_JOIN_SYNCED)))
    CHECK (same_but_for_what_is_on_its_way ());
  for (int i = 0; i < COPIES; i++)
    if (copies[i].used)
      CHECK (copies[i].given_min >= member_confirmed (m)->min_epoch);
}

/* ---- Steps of a write ---- */

static void
make_record (struct batch_record *b)
{
  unsigned c = test_random (CELLS), h = c / 2;

  b->kind = BATCH_WRITE;
  b->offset = cell_at (c);
  b->length = 4096;
  if (c % 2 && h + 1 < HOT && hot[h + 1] == hot[h] + 1 && test_random (2))
    b->length = 8192; /* the next extent's first cell, too */
}

static void
step_write (void)
{
  struct write *w = &writes[test_random (WRITES)], old = *w;

  if (w->at != FREE || change_epoch || calm || idle ||
      (state == MEMBER_IN_SYNC && (!writer || writer->dead)))
    return;
  memset (w, 0, sizeof *w);
  w->r.records = w->records;
  w->r.count = 1 + test_random (2);
  for (unsigned i = 0; i < w->r.count; i++)
    make_record (&w->records[i]);
  /* The host lets one write at a time go on in any range. */
  for (unsigned c = 0; c < CELLS; c++)
    for (int i = 0; i < WRITES; i++)
      if (&writes[i] != w && writes[i].at != FREE && covers (w, c) &&
          covers (&writes[i], c)) {
        *w = old;
        return;
      }
  w->version = ++version;
  w->at = NOTED;
  for (unsigned h = 0; h < HOT; h++)
    their_bit[h] |= touches (w, h);
}

static void
verdict (struct write *w, enum member_verdict v)
{
  w->at = v == MEMBER_GO ? RUNNING : WAITING;
  if (v != MEMBER_REFUSE)
    return;
  CHECK (w->conn->dead || change_epoch || w->conn != writer);
  write_forget (w);
}

/* One part of it is carried out, or dropped. */
static void
step_run (struct write *w)
{
  const struct batch_record *b = &w->records[w->record];
  uint64_t at = b->offset + w->done, length = b->length - w->done;
  uint64_t e = at / EXTENT_BYTES;

  if (member_applies (m, &w->r, at, &length)) {
    for (unsigned c = 0; c < CELLS; c++)
      if (cell_at (c) >= at && cell_at (c) < at + length) {
        CHECK (bit_durable (hot[c / 2]));
        mine[c] = w->version;
      }
    for (int i = 0; i < COPIES && m->joining; i++)
      CHECK (!copies[i].used || hot[copies[i].h] < e ||
             hot[copies[i].h] > (at + length - 1) / EXTENT_BYTES);
  }
  CHECK (length > 0);
  w->done += length;
  if (w->done < b->length)
    return;
  w->done = 0;
  if (++w->record == w->r.count)
    write_forget (w);
}

static void
step_write_on (void)
{
  struct write *w = &writes[test_random (WRITES)];
  struct member_refusal refusal;

  switch (w->at) {
  case FREE:
    break;
  case NOTED:
    reach_survivor (w);
    w->at = WRITTEN;
    break;
  case WRITTEN:
    w->conn = writer;
    w->at = writer && !writer->dead ? SENDING : FREE;
    break;
  case SENDING:
    verdict (w, member_admit (m, w->conn->pass, &w->r, &refusal));
    break;
  case WAITING:
    verdict (w, member_retry (m, w->conn->pass, &w->r, &refusal));
    break;
  case RUNNING:
    step_run (w);
    break;
  }
}

static void
step_connect (void)
{
  char name[TOKEN_BYTES_MAX + 16];
  struct member_refusal refusal;
  struct conn *c = &conns[test_random (CONNS)];

  if (c->pass) { /* perhaps to close */
    for (int i = 0; i < WRITES; i++)
      if (writes[i].at >= SENDING && writes[i].conn == c)
        return;
    if (!c->dead)
      return;
    member_close (m, c->pass);
    c->pass = NULL;
    if (writer == c)
      writer = NULL;
  }
  else if (state != MEMBER_OUT && !change_epoch && epoch >= m->gate &&
           (writer == NULL || writer->dead)) {
    export_name (name, DOOR_DATA, session, true, epoch);
    if (member_open (m, name, NULL, &c->pass, &refusal) != MEMBER_GO)
      return;
    c->dead = false;
    writer = c;
    /* A new writer's resync, when the joiner is in-sync. */
    if (state == MEMBER_IN_SYNC) {
      memcpy (mine, theirs, sizeof mine);
      data_stable ();
    }
  }
}

static void
step_clear (void)
{
  unsigned h = test_random (HOT);

  if (state != MEMBER_IN_SYNC || change_epoch || !writer || writer->dead)
    return;
  for (int i = 0; i < WRITES; i++)
    if (writes[i].at != FREE && touches (&writes[i], h))
      return;
  data_stable ();
  their_bit[h] = false;
  member_clear (m, writer->pass, hot[h] * EXTENT_BYTES,
                hot[h] == LAST ? 8192 : EXTENT_BYTES, true);
}

/* Data is read where the joiner has it all. */
static void
step_read (void)
{
  struct member_request r = { .reads = true };
  struct member_refusal refusal;
  enum member_verdict v;

  if (!writer || writer->dead)
    return;
  v = member_admit (m, writer->pass, &r, &refusal);
  if (v == MEMBER_WAIT)
    v = member_retry (m, writer->pass, &r, &refusal);
  CHECK (v != MEMBER_WAIT);
  if (v == MEMBER_GO)
    CHECK (!m->joining || m->join.phase == MEMBER_JOIN_SYNCED);
  else
    CHECK (refusal.error == ESHUTDOWN);
  member_leave (m, &r);
}

/* ---- Steps of the copying ---- */

static void
step_gather (void)
{
  struct intents peers;

  if (!gather.used) {
    if (member_join_phase (m) != MEMBER_JOIN_GATHERING)
      return;
    gather.used = true;
    gather.run = member_join_run (m);
    memcpy (gather.bits, their_bit, sizeof gather.bits);
    return;
  }
  gather.used = false;
  CHECK (intents_init (&peers, intents_extents (DATA_BYTES)) == 0);
  for (unsigned h = 0; h < HOT; h++)
    if (gather.bits[h])
      intents_set (&peers, hot[h]);
  member_join_gathered (m, gather.run, &peers);
  intents_free (&peers);
}

static int
hot_number (uint64_t extent)
{
  for (unsigned h = 0; h < HOT; h++)
    if (hot[h] == extent)
      return h;
  return -1;
}

static void
copy_begin (struct copy_job *c)
{
  uint64_t run = member_join_run (m), extent;
  int h = -1;

  while (h == -1 && member_join_next (m, run, &extent)) {
    h = hot_number (extent);
    if (h == -1) /* nothing is ever written there */
      member_join_copied (m, run, extent, true);
  }
  if (h == -1) {
    if (test_random (10) == 0)
      member_join_rest (m);
    return;
  }
  c->used = true;
  c->run = run;
  c->h = h;
  c->stage = 0;
  c->given_min = wanted_min;
  for (int i = 0; i < COPIES; i++)
    CHECK (&copies[i] == c || !copies[i].used || copies[i].h != c->h);
  for (int i = 0; i < WRITES; i++)
    CHECK (writes[i].at != RUNNING || !touches (&writes[i], h));
}

static void
step_copy (void)
{
  struct copy_job *c = &copies[test_random (COPIES)];
  bool on, ok;

  if (!c->used) {
    copy_begin (c);
    return;
  }
  on = c->run == member_join_run (m) &&
       member_join_phase (m) == MEMBER_JOIN_COPYING;
  if (c->stage < 2)
    c->cell[c->stage] = theirs[2 * c->h + c->stage];
  else if (c->stage < 4)
    mine[2 * c->h + c->stage - 2] = c->cell[c->stage - 2];
  c->stage++;
  if (c->stage == 5 || (c->stage <= 2 && !on) || test_random (40) == 0) {
    ok = c->stage == 5;
    c->used = false;
    member_join_copied (m, c->run, hot[c->h], ok);
  }
}

static void
step_flush (void)
{
  if (!flush.used) {
    flush.used = true;
    flush.run = member_join_run (m);
    flush.mark = member_join_mark (m);
    memcpy (flush.data, mine, sizeof mine);
    return;
  }
  flush.used = false;
  memcpy (stable, flush.data, sizeof stable);
  if (test_random (8)) /* else a source did not answer */
    member_join_stable (m, flush.run, flush.mark);
}

/* ---- Steps of weftd's ---- */

static void
step_weftd (void)
{
  struct member_join_progress p;

  if (change_epoch) {
    if (member_confirmed (m)->min_epoch >= change_epoch) {
      epoch = fence = change_epoch;
      state = change_to;
      change_epoch = 0;
    }
    return;
  }
  if (state == MEMBER_OUT && test_random (2)) { /* take it back */
    change_epoch = 1 + (epoch > m->gate ? epoch : m->gate);
    change_to = MEMBER_JOINING;
    return;
  }
  member_join_progress (m, &p);
  if (state == MEMBER_JOINING && writer && !writer->dead &&
      member_join_phase (m) == MEMBER_JOIN_SYNCED &&
      member_join_epoch (m) == fence) {
    CHECK (p.todo == 0 && p.unstable == 0);
    for (int i = 0; i < WRITES; i++)
      if (writes[i].at != FREE)
        return; /* sessions are not prepared yet */
    CHECK (memcmp (mine, theirs, sizeof mine) == 0);
    data_stable ();
    epoch++;
    state = MEMBER_IN_SYNC;
  }
}

static void
step_attach (void)
{
  if (change_epoch || calm)
    return;
  hang_up (true);
  session++;
  if (state == MEMBER_OUT)
    epoch++;
  else {
    change_epoch = epoch + 1;
    change_to = state;
  }
}

static void
step_crash (void)
{
  if (calm)
    return;
  leave_out ();
  power_off ();
  if (test_random (6) == 0)
    new_disk (); /* a new disk in its place */
  power_on ();
}

static void
step_action (void)
{
  struct flight *f = &flights[test_random (FLIGHTS)];

  if (!f->used) {
    f->used = member_next_action (m, test_random (3) == 0, &f->a);
    return;
  }
  f->used = false;
  do_action (&f->a);
}

static void
step_rare (void)
{
  switch (test_random (40)) {
  case 0:
    step_attach ();
    break;
  case 1:
    step_crash ();
    break;
  case 2:
    if (!calm)
      leave_out ();
    break;
  case 3 ... 6:
    idle = !idle;
    break;
  }
}

static const struct test_step steps[] = {
  { 14, step_write }, { 32, step_write_on }, { 5, step_connect },
  { 3, step_clear },  { 1, step_read },      { 4, step_gather },
  { 16, step_copy },  { 3, step_flush },     { 4, step_weftd },
  { 4, hear_weftd },  { 12, step_action },   { 2, step_rare },
};

static void
step (void)
{
  test_random_step (steps);
  check_world ();
}

static unsigned synced; /* how often a walk got there */

static void
walk (unsigned count)
{
  new_disk ();
  memset (theirs, 0, sizeof theirs);
  memset (their_bit, 0, sizeof their_bit);
  epoch = fence = 1;
  change_epoch = 0;
  state = MEMBER_OUT;
  calm = false;
  power_on ();
  for (unsigned i = 0; i < count; i++) {
    enum member_state before = state;

    step ();
    synced += before == MEMBER_JOINING && state == MEMBER_IN_SYNC;
  }
  /* Left alone it comes to an end, and no bit is left. */
  calm = true;
  for (unsigned i = 0; state != MEMBER_IN_SYNC || member_dirty_extents (m) > 0;
       i++) {
    CHECK (i < 200000);
    step ();
  }
  power_off ();
}

int
main (int argc, char **argv)
{
  unsigned walks = argc > 1 ? atoi (argv[1]) : 20;

  test_random_start ();
  for (unsigned i = 0; i < walks; i++)
    walk (test_random (20000));
  printf ("%u times in-sync under way\n", synced);
  CHECK (synced >= walks / 2);
  return 0;
}
