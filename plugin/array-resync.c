/* array-resync.c: carries out what the resync's engine (core/host/resync.h) says, one
 * thing at a time: by connections of its own to the members' doors, and by requests
 * to the array engine.
 */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "host/resync.h"
#include "connect.h"
#include "hangup.h"
#include "array-resync.h"
#include "role.h"

#define PROGRESS_EXTENTS 256 /* a line for each GiB */
#define CONNECT_MS 5000
#define ANSWER_MS 5000 /* a member that hangs is not waited for */
#define ENDING_CHECK_MS 100
#define BAD_TOLD_MAX 16

struct copier {
  enum resync_mode mode;
  struct resync *resync;
  struct engine *engine;
  struct control *control;
  struct array_client *client; /* whose copying it is */
  uint8_t *buf;                /* a stripe unit */
  struct nbd_handle *door[ARRAY_MEMBERS_MAX];
  /* As weftd had said when it began.  Where several write, a later map may know more or
   * less of a member, and then it would seem to be newer, or older, than those asked
   * before.
   */
  uint64_t reach[ARRAY_MEMBERS_MAX], life[ARRAY_MEMBERS_MAX];
  uint64_t told; /* extents, to people */
};

static struct nbd_handle *
open_door (const struct map_member *mm, const char *door, const char *token)
{
  struct nbd_handle *nbd = nbd_create ();
  char *uri = connect_door_uri (mm->uri, door, token);
  enum connect_failure failure = CONNECT_NBD;
  char said[CONNECT_REASON_BYTES];

  if (nbd && uri)
    failure = connect_nbd (nbd, uri, CONNECT_MS);
  if (failure == 0) {
    free (uri);
    return nbd;
  }
  nbdkit_error ("weft: member %s: can't open its door %s: %s", mm->name, door,
                nbd && uri ? connect_reason (failure, said)
                           : strerror (ENOMEM));
  free (uri);
  nbd_close (nbd);
  return NULL;
}

/* Wait for the answer to a command that was queued; 0 or EIO. */
static int
await (struct nbd_handle *nbd, int64_t cookie)
{
  bool ending = hangup_ending ();
  uint64_t until_ms = clock_ms () + (ending ? CONNECT_ENDING_MS : ANSWER_MS);
  int r;

  if (cookie == -1)
    return EIO;
  while ((r = nbd_aio_command_completed (nbd, cookie)) == 0)
    if (clock_ms () >= until_ms || (!ending && hangup_ending ()) ||
        nbd_poll (nbd, ENDING_CHECK_MS) == -1)
      return EIO;
  return r == 1 ? 0 : EIO;
}

/* libnbd's message; nothing when there was no answer in time. */
static const char *
reason (char said[CONNECT_REASON_BYTES])
{
  const char *text = connect_error (said);

  return text ? text : "no answer in time";
}

/* While others go on with rounds, those that weftd has heard of last differ. */
static uint64_t
reach_of (const struct map_member *mm)
{
  return params.shared && mm->known ? UINT64_MAX : mm->reach;
}

static int
read_map (struct copier *t, unsigned m)
{
  uint64_t data_bytes = engine_member_bytes (t->engine, m);
  struct nbd_handle *nbd = NULL;
  char said[CONNECT_REASON_BYTES];
  struct map_member mm;
  uint8_t *bits = NULL;
  int64_t size = -1;
  int error = EIO;
  bool known = control_member (t->control, m, &mm);

  if (known && mm.token_intents)
    nbd = open_door (&mm, "intents", mm.token_intents);
  else if (known) { /* it keeps no map, so it is no member of Weft's own */
    bits = calloc (1, 1);
    size = 1;
    error = bits ? 0 : ENOMEM;
  }
  if (nbd) {
    size = nbd_get_size (nbd);
    if (size > 0 && size <= (int64_t) HEADER_BYTES)
      bits = malloc (size);
    if (bits)
      error = await (
        nbd, nbd_aio_pread (nbd, bits, size, 0, NBD_NULL_COMPLETION, 0));
    if (error)
      nbdkit_error ("weft: member %s: can't read its intent map: %s", mm.name,
                    reason (said));
    nbd_close (nbd);
  }
  if (error)
    free (bits);
  else
    resync_map (t->resync,
                params.shared &&
                    (t->life[m] == mm.life || t->reach[m] < reach_of (&mm))
                  ? t->reach[m]
                  : reach_of (&mm),
                data_bytes, bits, size);
  map_member_free (&mm);
  return error;
}

static int
send_records (struct copier *t, const struct resync_action *a)
{
  size_t bytes = batch_bytes (a->records, a->count);
  struct nbd_handle *nbd = t->door[a->member];
  void *buf = malloc (bytes);
  char said[CONNECT_REASON_BYTES];
  int error = ENOMEM;

  if (buf) {
    batch_encode (a->records, a->count, buf);
    error = await (nbd,
                   nbd_aio_pwrite (nbd, buf, bytes, 0, NBD_NULL_COMPLETION, 0));
  }
  if (error)
    nbdkit_error ("weft: cannot send member %u %s: %s", a->member,
                  a->records[0].kind == BATCH_BAD ? "its unreadable ranges"
                                                  : "the intent bits to clear",
                  buf ? reason (said) : strerror (ENOMEM));
  free (buf);
  return error;
}

/* Returns 0 or an errno. */
static int
carry_out (struct copier *t, const struct resync_action *a)
{
  /* With a part the whole array may be recovered at the attach, too. */
  bool recovers = t->mode == RESYNC_OF_ORPHANS || params.part_length > 0;
  struct array_request r = {
    .client = t->client,
    .flags = recovers ? ARRAY_RECOVER : 0,
    .offset = a->offset,
    .length = a->length,
    .buf = t->buf,
  };
  struct map_member mm;
  int error;

  switch (a->kind) {
  case RESYNC_MAP:
    return read_map (t, a->member);
  case RESYNC_LOST:
    engine_break (t->engine, a->member);
    return 0;
  case RESYNC_PAUSE:
    if (hangup_ending ())
      return ESHUTDOWN;
    sleep (RESYNC_PAUSE_MS / 1000);
    return 0;
  case RESYNC_READ:
    r.op = ARRAY_READ;
    r.copy = 1 + a->copy;
    return engine_run (t->engine, &r);
  case RESYNC_OLDER:
    return control_older (t->control);
  case RESYNC_WRITE:
    r.op = ARRAY_WRITE;
    if (t->buf[0] == 0 && memcmp (t->buf, t->buf + 1, a->length - 1) == 0) {
      r.op = ARRAY_ZERO;
      r.flags |= ARRAY_MAY_TRIM;
    }
    return engine_run (t->engine, &r);
  case RESYNC_FLUSH:
    r.op = ARRAY_FLUSH;
    error = engine_run (t->engine, &r);
    if (error == EIO)
      nbdkit_error ("weft: resync: a member may have lost what was copied to "
                    "it");
    return error;
  case RESYNC_OPEN:
    if (control_member (t->control, a->member, &mm) && mm.token_batch)
      t->door[a->member] = open_door (&mm, "batch", mm.token_batch);
    map_member_free (&mm);
    return t->door[a->member] ? 0 : EIO;
  case RESYNC_SEND:
    return send_records (t, a);
  case RESYNC_CLOSE:
    nbd_close (t->door[a->member]);
    t->door[a->member] = NULL;
    return 0;
  case RESYNC_SETTLED:
    engine_settled (t->engine, a->member, a->offset, a->length);
    return 0;
  case RESYNC_OVER:
    break;
  }
  abort ();
}

static void
tell_progress (struct copier *t)
{
  uint64_t begun, extents = resync_extents (t->resync, &begun);

  if (begun > 0 && t->told == 0)
    nbdkit_error ("weft: array %s: %" PRIu64
                  " extents of 4 MiB may have copies that differ; copying %s",
                  params.array, extents,
                  t->mode == RESYNC_OF_ORPHANS
                    ? "the last writes of the host that is gone"
                    : "them before clients are served");
  else if (begun / PROGRESS_EXTENTS > t->told / PROGRESS_EXTENTS)
    nbdkit_error ("weft: resync: %" PRIu64 " of %" PRIu64 " extents", begun,
                  extents);
  t->told = begun;
}

/* As resync_run says. */
static int
run (struct engine *e, const struct layout *l, struct control *c,
     enum resync_mode mode, const struct array_range *ranges,
     unsigned ranges_count)
{
  struct copier t = { .mode = mode, .engine = e, .control = c };
  enum member_state states[ARRAY_MEMBERS_MAX];
  struct resync_action a = { .error = ENOMEM };
  const struct resync_place *bad;
  size_t count;

  t.resync = resync_new (l, ranges, ranges_count, mode);
  t.buf = malloc (l->unit);
  if (t.resync == NULL || t.buf == NULL)
    goto out;
  for (unsigned m = 0; m < l->members; m++) {
    struct map_member mm = { .reach = 0 };

    if (control_member (c, m, &mm)) {
      t.reach[m] = reach_of (&mm);
      t.life[m] = mm.life;
    }
    map_member_free (&mm);
  }
  t.client = engine_client_open (e);
  for (;;) {
    engine_recorded (e, states);
    resync_next (t.resync, states, &a);
    tell_progress (&t);
    if (a.kind == RESYNC_OVER)
      break;
    if (mode == RESYNC_OF_ORPHANS && hangup_ending ()) {
      a.error = ESHUTDOWN; /* another one must begin again */
      break;
    }
    resync_done (t.resync, carry_out (&t, &a));
  }
  engine_client_close (e, t.client);
  bad = resync_bad (t.resync, &count);
  for (size_t i = 0; i < count && i < BAD_TOLD_MAX; i++)
    nbdkit_error ("weft: resync: no copy can be read of %" PRIu32
                  " bytes at %" PRIu64,
                  bad[i].length, bad[i].offset);
  for (unsigned m = 0; m < l->members; m++)
    nbd_close (t.door[m]);
out:
  if (a.error && mode != RESYNC_AT_END && mode != RESYNC_AT_LEASES_END)
    nbdkit_error ("weft: resync: %s", strerror (a.error));
  free (t.buf);
  resync_free (t.resync);
  return a.error ? -1 : !a.settled;
}

int
resync_run (struct engine *e, const struct layout *l, struct control *c,
            bool all)
{
  struct array_range part = { params.part_offset, params.part_length };

  return run (e, l, c, RESYNC_AT_ATTACH, &part, !all);
}

int
resync_recover (struct engine *e, const struct layout *l, struct control *c,
                const struct array_range *ranges, unsigned count)
{
  return run (e, l, c, RESYNC_OF_ORPHANS, ranges, count) == -1 ? -1 : 0;
}

void
resync_settle (struct engine *e, const struct layout *l, struct control *c,
               bool leases)
{
  run (e, l, c, leases ? RESYNC_AT_LEASES_END : RESYNC_AT_END, NULL, 0);
}
