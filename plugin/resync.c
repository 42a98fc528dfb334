/* resync.c: copies the dirty extents, before the first client is let in.
 *
 * The to-do list is the members' own: a bit of an intent map stands for 4 MiB
 * of one member, data and images alike.  Each stripe unit in there is read and
 * written again through the array engine, which brings its images up to date:
 * no second way to write exists.  A unit may be on the list twice, by its data
 * and by its image; then it is done for its data.
 *
 * Then the array engine is told which bits may fall with its own, once they are
 * idle, flushed, and all members in-sync (array_settled).  Death at any point
 * before leaves them set, and all is done again.  At a clean end, when all
 * copies are equal and stable, resync_settle lets all bits fall at once.
 *
 * What no copy can be read of is bad from then on: each member that has it is told
 * so, and has it in its list durably, before the bits may fall.  Else one that can be
 * read again some day might be old.
 * Which of the copies is read: see newest.
 *
 * A member that is out or joining is not asked: it has a list of its own, and
 * catches up by itself.
 *
 * This is the simple form: whole units, one at a time, by the host.
 */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "format/batch.h"
#include "connect.h"
#include "hangup.h"
#include "resync.h"
#include "role.h"

#define PROGRESS_EXTENTS 256 /* a line for each GiB */
#define CONNECT_MS 5000
#define ANSWER_MS 5000 /* a member that hangs is not waited for */
#define ENDING_MS 1000 /* instead, while nbdkit ends */
#define ENDING_CHECK_MS 100
#define LOAD_TRIES 10
#define COPY_TRIES 5 /* while FLUSH fails */
#define LOAD_PAUSE_S 1
#define UNREADABLE_BYTES_MIN 4096 /* around an error no more is given up */
#define UNREADABLE_TOLD_MAX 16

struct place { /* of the array */
  uint64_t offset;
  uint32_t length;
};

struct todo {
  const struct layout *layout;
  struct array_client *client; /* whose copying it is */
  struct control *control;
  uint64_t bytes[ARRAY_MEMBERS_MAX];  /* of each map */
  uint8_t *bits[ARRAY_MEMBERS_MAX];   /* NULL: the member has none */
  uint64_t reach[ARRAY_MEMBERS_MAX];  /* map.h */
  uint64_t extents;                   /* set in all of them */
  struct place *unreadable;
  size_t unreadable_count;
  /* To say what is unreadable; opened before it is found out.  A member that has
   * failed answers no read; but then it takes nothing by these either.
   */
  struct nbd_handle *door[ARRAY_MEMBERS_MAX];
  bool doors;
};

static uint64_t
now_ms (void)
{
  struct timespec ts;

  clock_gettime (CLOCK_MONOTONIC, &ts);
  return (uint64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static struct nbd_handle *
open_door (const struct map_member *mm, const char *door, const char *token)
{
  struct nbd_handle *nbd = nbd_create ();
  char *uri = connect_door_uri (mm->uri, door, token);
  bool ending = hangup_ending ();
  enum connect_failure failure = CONNECT_NBD;

  if (nbd && uri)
    failure = connect_nbd (nbd, uri, ending ? ENDING_MS : CONNECT_MS,
                            !ending);
  if (failure == 0) {
    free (uri);
    return nbd;
  }
  nbdkit_error ("weft: member %s: can't open its door %s: %s", mm->name, door,
                nbd && uri ? connect_reason (failure) : strerror (ENOMEM));
  free (uri);
  nbd_close (nbd);
  return NULL;
}

/* Wait for the answer to a command that was queued; 0 or -1. */
static int
await (struct nbd_handle *nbd, int64_t cookie)
{
  bool ending = hangup_ending ();
  uint64_t until_ms = now_ms () + (ending ? ENDING_MS : ANSWER_MS);
  int r;

  if (cookie == -1)
    return -1;
  while ((r = nbd_aio_command_completed (nbd, cookie)) == 0)
    if (now_ms () >= until_ms || (!ending && hangup_ending ()) ||
        nbd_poll (nbd, ENDING_CHECK_MS) == -1)
      return -1;
  return r == 1 ? 0 : -1;
}

/* What libnbd has to say; nothing when there was no answer in time. */
static const char *
reason (void)
{
  const char *text = nbd_get_error ();

  return text ? text : "no answer in time";
}

static bool
todo_test (const struct todo *t, unsigned member, uint64_t offset)
{
  uint64_t e = offset / EXTENT_BYTES;

  return t->bits[member] && e / 8 < t->bytes[member] &&
         (t->bits[member][e / 8] >> (e % 8) & 1);
}

static void
todo_free (struct todo *t)
{
  for (unsigned m = 0; m < ARRAY_MEMBERS_MAX; m++) {
    free (t->bits[m]);
    t->bits[m] = NULL;
    if (t->door[m])
      nbd_close (t->door[m]);
    t->door[m] = NULL;
  }
  free (t->unreadable);
  t->unreadable = NULL;
}

/* The intent map of one member. */
static int
todo_read (struct todo *t, unsigned m, const struct map_member *mm)
{
  struct nbd_handle *nbd = open_door (mm, "intents", mm->token_intents);
  int64_t size;
  int r = -1;

  if (nbd == NULL)
    return -1;
  size = nbd_get_size (nbd);
  if (size > 0 && size <= (int64_t) HEADER_BYTES)
    t->bits[m] = malloc (size);
  if (t->bits[m] &&
      await (nbd, nbd_aio_pread (nbd, t->bits[m], size, 0,
                                 NBD_NULL_COMPLETION, 0)) == 0) {
    t->bytes[m] = size;
    r = 0;
  } else
    nbdkit_error ("weft: member %s: can't read its intent map: %s", mm->name,
                  reason ());
  for (uint64_t i = 0; i < t->bytes[m]; i++)
    t->extents += __builtin_popcount (t->bits[m][i]);
  nbd_close (nbd);
  return r;
}

/* A member that can't be read is lost: it goes out, or comes back, and then with
 * another token.
 */
static int
todo_load (struct todo *t, struct engine *e, const struct layout *l,
           struct control *c)
{
  struct map_member mm;
  int r = 0;

  *t = (struct todo) { .layout = l, .control = c };
  for (unsigned m = 0; r == 0 && m < l->members; m++) {
    if (!engine_in_sync (e, m))
      continue;
    if (!control_member (c, m, &mm))
      r = -1;
    t->reach[m] = mm.reach;
    if (r == 0 && mm.token_intents && todo_read (t, m, &mm) == -1) {
      engine_break (e, m);
      r = -1;
    }
    map_member_free (&mm);
  }
  if (r == -1)
    todo_free (t);
  return r;
}

/* Which copy is the newest, as far as can be told, if it can be read?  That of the
 * member that has seen more rounds; then that where the bit stands, for what has been
 * written since a member's disk was copied away has bits at its peers; then the
 * data.
 */
static unsigned
newest (const struct todo *t, const struct layout_piece *p)
{
  unsigned best = 0;

  for (unsigned c = 1; c < p->copies; c++) {
    unsigned m = p->copy[c].member, b = p->copy[best].member;
    bool has = todo_test (t, m, p->copy[c].offset);
    bool best_has = todo_test (t, b, p->copy[best].offset);

    if (t->bits[m] &&
        (t->bits[b] == NULL || t->reach[m] > t->reach[b] ||
         (t->reach[m] == t->reach[b] && has && !best_has)))
      best = c;
  }
  return best;
}

/* Read a range within a unit and write it again; holes stay holes. */
static int
copy_whole (const struct todo *t, struct engine *e, uint64_t offset,
            uint32_t length, uint8_t *buf)
{
  struct array_request r = {
    .op = ARRAY_READ, .offset = offset, .length = length, .buf = buf
  };
  struct array_request w = {
    .op = ARRAY_WRITE, .client = t->client, .offset = offset,
    .length = length, .buf = buf
  };
  struct layout_piece p;
  int err;

  layout_map (t->layout, offset, length, &p);
  r.prefer = 1 + newest (t, &p);
  err = engine_run (e, &r);
  if (err)
    return err;
  if (buf[0] == 0 && memcmp (buf, buf + 1, length - 1) == 0) {
    w.op = ARRAY_ZERO;
    w.flags = ARRAY_MAY_TRIM;
  }
  return engine_run (e, &w);
}

static void
open_doors (struct todo *t)
{
  struct map_member mm;

  t->doors = true;
  for (unsigned m = 0; m < t->layout->members; m++)
    if (control_member (t->control, m, &mm)) {
      t->door[m] = open_door (&mm, "batch", mm.token_batch);
      map_member_free (&mm);
    }
}

static int
note_unreadable (struct todo *t, uint64_t offset, uint32_t length)
{
  struct place *p = realloc (t->unreadable,
                             (t->unreadable_count + 1) * sizeof *p);

  if (p == NULL)
    return ENOMEM;
  t->unreadable = p;
  p[t->unreadable_count++] = (struct place) { offset, length };
  if (t->unreadable_count <= UNREADABLE_TOLD_MAX)
    nbdkit_error ("weft: resync: no copy can be read of %" PRIu32 " bytes at %"
                  PRIu64, length, offset);
  return 0;
}

/* What can't be read is no reason to leave out what is beside it. */
static int
copy (struct todo *t, struct engine *e, uint64_t offset, uint32_t length,
      uint8_t *buf)
{
  uint32_t half = length / 2 / UNREADABLE_BYTES_MIN * UNREADABLE_BYTES_MIN;
  int err = copy_whole (t, e, offset, length, buf);

  if (err != EIO)
    return err;
  if (length > UNREADABLE_BYTES_MIN) {
    err = copy (t, e, offset, half, buf);
    return err ? err : copy (t, e, offset + half, length - half, buf);
  }
  if (!t->doors) {
    open_doors (t);
    return copy (t, e, offset, length, buf);
  }
  return note_unreadable (t, offset, length);
}

/* All units that have a copy in this extent of this member. */
static int
resync_extent (struct todo *t, struct engine *e, unsigned member,
               uint64_t start, uint8_t *buf)
{
  const struct layout *l = t->layout;
  uint64_t at = start, end = start + EXTENT_BYTES, offset;
  struct layout_piece p;
  uint32_t length;
  int c, err;

  if (end > l->member_bytes)
    end = l->member_bytes;
  for (; at < end; at += length) {
    c = layout_unmap (l, member, at, &offset, &length);
    if (length > end - at)
      length = end - at;
    if (c < 0)
      continue;
    layout_map (l, offset, length, &p);
    if (c > 0 && todo_test (t, p.copy[0].member, p.copy[0].offset))
      continue;
    err = copy (t, e, offset, length, buf);
    if (err)
      return err;
  }
  return 0;
}

static int
copy_all (struct todo *t, struct engine *e, uint8_t *buf)
{
  uint64_t done = 0;
  int err = 0;

  for (unsigned m = 0; m < t->layout->members; m++)
    for (uint64_t x = 0; err == 0 && x < t->bytes[m] * 8; x++) {
      if (!todo_test (t, m, x * EXTENT_BYTES))
        continue;
      if (x * EXTENT_BYTES < t->layout->member_bytes)
        err = resync_extent (t, e, m, x * EXTENT_BYTES, buf);
      if (++done % PROGRESS_EXTENTS == 0)
        nbdkit_error ("weft: resync: %" PRIu64 " of %" PRIu64 " extents", done,
                      t->extents);
    }
  return err;
}

/* A member may lose its power with what was copied and not flushed: then the FLUSH
 * fails, and all is copied again.
 */
static int
resync_copy (struct todo *t, struct engine *e)
{
  struct array_request flush = { .op = ARRAY_FLUSH };
  uint8_t *buf = malloc (t->layout->unit);
  unsigned tries = 0;
  bool again;
  int err = ENOMEM;

  t->client = flush.client = engine_client_open (e);
  do {
    again = false;
    t->unreadable_count = 0;
    if (buf)
      err = copy_all (t, e, buf);
    if (err == 0) {
      err = engine_run (e, &flush);
      again = err == EIO && ++tries < COPY_TRIES;
    }
    if (again)
      nbdkit_error ("weft: resync: a member may have lost what was copied to it: "
                    "copying again");
  } while (again);
  engine_client_close (e, flush.client);
  free (buf);
  if (err)
    nbdkit_error ("weft: resync: %s", strerror (err));
  return err ? -1 : 0;
}

static int
settle_send (struct nbd_handle *nbd, const struct batch_record *records,
             unsigned count)
{
  size_t bytes = batch_bytes (records, count);
  void *buf = malloc (bytes);
  int r = -1;

  if (buf) {
    batch_encode (records, count, buf);
    r = await (nbd, nbd_aio_pwrite (nbd, buf, bytes, 0, NBD_NULL_COMPLETION,
                                    0));
  }
  free (buf);
  return r;
}

/* The next run of extents of a member in the list, at *x or behind; returns
 * its bytes, or 0.
 */
static uint64_t
next_run (const struct todo *t, unsigned m, uint64_t data_bytes, uint64_t *x,
          uint64_t *start)
{
  uint64_t end, extents = t->bytes[m] * 8;

  while (*x < extents && !todo_test (t, m, *x * EXTENT_BYTES))
    ++*x;
  *start = *x * EXTENT_BYTES;
  while (*x < extents && todo_test (t, m, *x * EXTENT_BYTES))
    ++*x;
  end = *x * EXTENT_BYTES;
  if (end > data_bytes)
    end = data_bytes; /* the last extent may be shorter */
  return end > *start ? end - *start : 0;
}

/* Lower the bits that the list has of one member; runs become one record. */
static int
settle_member (const struct todo *t, unsigned m, const struct map_member *mm,
               uint64_t data_bytes)
{
  struct batch_record records[BATCH_RECORDS_MAX];
  struct nbd_handle *nbd;
  uint64_t x = 0, start, length;
  unsigned count = 0;
  int r;

  if (next_run (t, m, data_bytes, &x, &start) == 0)
    return 0;
  x = 0;
  nbd = open_door (mm, "batch", mm->token_batch);
  r = nbd ? 0 : -1;
  while (r == 0 && (length = next_run (t, m, data_bytes, &x, &start)) > 0) {
    if (count == BATCH_RECORDS_MAX) {
      r = settle_send (nbd, records, count);
      count = 0;
    }
    records[count++] = (struct batch_record) {
      .kind = BATCH_SETTLE, .offset = start, .length = length
    };
  }
  if (r == 0 && count > 0)
    r = settle_send (nbd, records, count);
  if (nbd && r == -1)
    nbdkit_error ("weft: member %s: can't clear its intent bits: %s", mm->name,
                  reason ());
  if (nbd)
    nbd_close (nbd);
  return r;
}

/* Tell a member which of its places no copy can be read of. */
static int
tell_bad (const struct todo *t, unsigned m)
{
  struct batch_record records[BATCH_RECORDS_MAX];
  struct layout_piece p;
  unsigned count = 0;
  int r = t->door[m] ? 0 : -1;

  for (size_t i = 0; r == 0 && i < t->unreadable_count; i++) {
    layout_map (t->layout, t->unreadable[i].offset, t->unreadable[i].length, &p);
    for (unsigned c = 0; c < p.copies; c++)
      if (p.copy[c].member == m)
        records[count++] = (struct batch_record) {
          .kind = BATCH_BAD, .offset = p.copy[c].offset, .length = p.length
        };
    if (count == BATCH_RECORDS_MAX) {
      r = settle_send (t->door[m], records, count);
      count = 0;
    }
  }
  if (r == 0 && count > 0)
    r = settle_send (t->door[m], records, count);
  return r;
}

/* Returns 0 when all members know, and so the copies agree; 1 when bits must stay.
 * Without all of its members an array keeps its bits anyway.
 */
static int
all_bad (const struct todo *t, struct engine *e)
{
  for (unsigned m = 0; m < t->layout->members; m++)
    if (!engine_in_sync (e, m))
      return 1;
  for (unsigned m = 0; m < t->layout->members; m++)
    if (tell_bad (t, m) == -1) {
      nbdkit_error ("weft: member %u can't be told what no copy can be read of: "
                    "%s", m, t->door[m] ? reason () : "no connection");
      return 1;
    }
  return 0;
}

/* The array engine lets the bits fall, in its time. */
static void
hand_over (const struct todo *t, struct engine *e)
{
  uint64_t x, start, length;

  engine_settled (e, 0, 0, 0);
  for (unsigned m = 0; m < t->layout->members; m++)
    for (x = 0; (length = next_run (t, m, engine_member_bytes (e, m), &x,
                                    &start)) > 0;)
      engine_settled (e, m, start, length);
}

int
resync_run (struct engine *e, const struct layout *l, struct control *c)
{
  struct todo t;
  int r = todo_load (&t, e, l, c);

  for (unsigned i = 0; r == -1 && i < LOAD_TRIES && !hangup_ending (); i++) {
    sleep (LOAD_PAUSE_S);
    r = todo_load (&t, e, l, c);
  }
  if (r == -1)
    return -1;
  if (t.extents > 0 && l->copies > 1) {
    nbdkit_error ("weft: array %s: %" PRIu64 " extents of 4 MiB may have copies "
                  "that differ; copying them before clients are served",
                  params.array, t.extents);
    r = resync_copy (&t, e);
    if (r == 0 && t.unreadable_count > 0)
      r = all_bad (&t, e);
  }
  if (r == 0)
    hand_over (&t, e);
  todo_free (&t);
  return r;
}

int
resync_settle (struct engine *e, const struct layout *l, struct control *c)
{
  struct map_member mm;
  struct todo t;
  int r = todo_load (&t, e, l, c);

  for (unsigned m = 0; r == 0 && m < l->members; m++) {
    if (t.bits[m] == NULL)
      continue;
    r = control_member (c, m, &mm)
            ? settle_member (&t, m, &mm, engine_member_bytes (e, m))
            : -1;
    map_member_free (&mm);
  }
  todo_free (&t);
  return r;
}
