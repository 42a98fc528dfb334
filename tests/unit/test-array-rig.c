/* test-array-rig.c: an array engine with members in memory. */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "test-array-rig.h"

struct array_config config;
struct array *a;
struct array_client *client;
uint64_t now;
uint8_t *members[ARRAY_MEMBERS_MAX];
uint64_t rig_member_bytes = 24 * UNIT;
uint64_t noted[ARRAY_MEMBERS_MAX];
uint64_t stuck_ms[ARRAY_MEMBERS_MAX];
struct array_io *ios[IOS_MAX];
unsigned ios_count;
unsigned notices_lost, notices_data, notices_prepared, done_count;
unsigned notices_lease, notices_left;
struct array_notice notice;
uint8_t ones[MiB (8)], twos[MiB (1)], back[MiB (1)];

static const struct array_config usual = { .image_buffer_bytes = MiB (1),
                                           .image_age_ms = 200,
                                           .io_timeout_ms = 15000 };

void
rig_init (void)
{
  memset (ones, 1, sizeof ones);
  memset (twos, 2, sizeof twos);
  config = usual;
}

void
rig_take (void)
{
  struct array_io *io;
  struct array_request *r;
  struct array_notice n;

  array_check (a);
  while ((io = array_next_io (a))) {
    assert (ios_count < IOS_MAX);
    io->owner = a;
    ios[ios_count++] = io;
  }
  while ((r = array_next_done (a))) {
    assert (!r->owner);
    r->owner = r; /* done */
    done_count++;
  }
  while (array_next_notice (a, &n)) {
    notice = n;
    notices_lost += n.kind == NOTICE_LOST;
    notices_data += n.kind == NOTICE_DATA_LOST;
    notices_prepared += n.kind == NOTICE_PREPARED;
    notices_lease += n.kind == NOTICE_LEASE;
    notices_left += n.kind == NOTICE_LEFT;
  }
  array_check (a);
}

void
begin (enum layout_kind kind, unsigned n)
{
  char why[200];

  if (layout_init (&config.layout, kind, n, 1, UNIT, rig_member_bytes, why,
                   sizeof why) == -1)
    abort ();
  now = 1000 * MS;
  config.epoch = 1;
  a = array_new (&config, now, why, sizeof why);
  if (!a)
    fprintf (stderr, "%s\n", why);
  assert (a);
  client = array_client_open (a);
  for (unsigned i = 0; i < n; i++) {
    members[i] = calloc (1, config.layout.member_bytes);
    noted[i] = config.member_round[i];
  }
  ios_count = notices_lost = notices_data = notices_prepared = done_count = 0;
  notices_lease = notices_left = 0;
}

void
end (void)
{
  assert (ios_count == 0);
  array_free (a);
  for (unsigned i = 0; i < config.layout.members; i++)
    free (members[i]);
  rig_member_bytes = 24 * UNIT;
  config = usual;
}

int
batch_of (unsigned i, const struct batch_record **records)
{
  static struct batch_record r[BATCH_RECORDS_MAX];
  const char *why;

  *records = r;
  if (i >= ios_count || ios[i]->kind != IO_BATCH)
    return -1;
  return batch_decode (ios[i]->buf, ios[i]->length, config.layout.member_bytes,
                       r, &why);
}

static void
apply_batch (unsigned i)
{
  const struct array_io *io = ios[i];
  const struct batch_record *r;
  int count = batch_of (i, &r);

  assert (count >= 0 && io->offset == 0);
  for (int k = 0; k < count; k++)
    if (r[k].kind == BATCH_WRITE)
      memcpy (members[io->member] + r[k].offset, r[k].payload, r[k].length);
    else if (r[k].kind == BATCH_ROUND) {
      if (noted[io->member] < r[k].length)
        noted[io->member] = r[k].length;
    }
    else if (batch_changes_data (r[k].kind))
      memset (members[io->member] + r[k].offset, 0, r[k].length);
}

void
answer (unsigned i, int error)
{
  struct array_io *io = ios[i];
  struct array *asked = io->owner, *now_used = a;
  uint8_t *m = members[io->member];

  if (!error)
    switch (io->kind) {
    case IO_READ:
      memcpy (io->buf, m + io->offset, io->length);
      break;
    case IO_WRITE:
      memcpy (m + io->offset, io->buf, io->length);
      break;
    case IO_ZERO:
      memset (m + io->offset, 0, io->length);
      break;
    case IO_BATCH:
      apply_batch (i);
      break;
    case IO_EXTENTS: /* written or not, unit by unit */
      io->extents = calloc (io->length / UNIT + 2, sizeof *io->extents);
      for (uint64_t at = io->offset; at < io->offset + io->length;) {
        uint64_t next = (at / UNIT + 1) * UNIT;
        bool zero = m[at] == 0;

        if (next > io->offset + io->length)
          next = io->offset + io->length;
        io->extents[io->extents_count++] = (struct array_extent) {
          .length = next - at, .hole = zero, .zero = zero
        };
        at = next;
      }
      break;
    case IO_ROUND:
      assert (io->offset == 0 && io->length == ROUND_BYTES);
      put_le64 (io->buf, noted[io->member]);
      break;
    case IO_PULSE:
      assert (io->offset == PULSE_OFFSET && io->length == PULSE_BYTES);
      put_le64 (io->buf, stuck_ms[io->member]);
      break;
    default:
      break;
    }
  ios_count--;
  memmove (&ios[i], &ios[i + 1], (ios_count - i) * sizeof ios[0]);
  a = asked;
  array_io_done (a, io, error, now);
  rig_take ();
  a = now_used;
}

void
answer_all (void)
{
  while (ios_count > 0)
    answer (0, 0);
}

void
answer_lost (unsigned member)
{
  while (ios_count > 0)
    answer (0, ios[0]->member == member ? ENOTCONN : 0);
}

void
answer_all_flushes (void)
{
  for (unsigned i = 0; i < ios_count;)
    if (ios[i]->kind == IO_FLUSH) {
      answer (i, 0);
      i = 0;
    }
    else
      i++;
}

void
submit (struct array_request *r)
{
  r->owner = NULL;
  if (!r->client)
    r->client = client;
  array_submit (a, r, now);
  rig_take ();
}

int
finish (const struct array_request *r)
{
  answer_all ();
  assert (done (r));
  return r->error;
}

int
carry_out (struct array_request *r)
{
  submit (r);
  return finish (r);
}

void
commit (unsigned out_mask)
{
  enum member_state states[ARRAY_MEMBERS_MAX] = { 0 };

  for (unsigned i = 0; i < config.layout.members; i++)
    states[i] = out_mask & 1u << i ? MEMBER_OUT : MEMBER_IN_SYNC;
  array_commit (a, ++config.epoch, states, now);
  rig_take ();
}

void
lose (unsigned member)
{
  array_lost (a, member, "the connection is broken", now);
  rig_take ();
}

void
tick (void)
{
  now = array_deadline (a);
  array_tick (a, now);
  rig_take ();
}

bool
done (const struct array_request *r)
{
  return r->owner == r;
}

bool
is_io (unsigned i, enum array_io_kind kind, unsigned member, uint64_t offset,
       uint64_t length)
{
  return i < ios_count && ios[i]->kind == kind && ios[i]->member == member &&
         (kind == IO_FLUSH ||
          (ios[i]->offset == offset && ios[i]->length == length));
}

void
answer_only (enum array_io_kind kind, unsigned member, uint64_t offset,
             uint64_t length, int error)
{
  assert (ios_count == 1 && is_io (0, kind, member, offset, length));
  answer (0, error);
}

bool
all_are (const uint8_t *p, uint8_t c, size_t bytes)
{
  for (size_t i = 0; i < bytes; i++)
    if (p[i] != c)
      return false;
  return true;
}

void
return_with (unsigned member, bool kept, uint64_t reach)
{
  array_back (a, member, kept, reach, now);
  rig_take ();
}

void
return_of (unsigned member)
{
  return_with (member, false, UINT64_MAX);
}

void
return_whole (unsigned member)
{
  return_with (member, true, UINT64_MAX);
}

void
hold (bool hold)
{
  array_trust (a, hold ? now : UINT64_MAX, now);
  rig_take ();
}

void
stop (void)
{
  array_stop (a, ESHUTDOWN, now);
  rig_take ();
}

void
rig_states (const char *letters, enum member_state states[])
{
  for (unsigned i = 0; letters[i]; i++)
    states[i] = letters[i] == 'i'   ? MEMBER_IN_SYNC
                : letters[i] == 'j' ? MEMBER_JOINING
                                    : MEMBER_OUT;
}

void
commit_states (uint64_t epoch, const char *letters)
{
  enum member_state states[ARRAY_MEMBERS_MAX] = { 0 };

  rig_states (letters, states);
  array_commit (a, epoch, states, now);
  rig_take ();
}

void
give_back (unsigned member, uint64_t epoch, const char *letters)
{
  return_of (member);
  commit_states (epoch, letters);
}

void
prepare (uint64_t epoch, const char *letters)
{
  enum member_state states[ARRAY_MEMBERS_MAX] = { 0 };

  rig_states (letters, states);
  array_prepare (a, epoch, states, now);
  rig_take ();
}

void
tick_after (uint64_t ns)
{
  now += ns;
  array_tick (a, now);
  rig_take ();
}
