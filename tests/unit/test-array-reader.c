/* test-array-reader.c: when an array process that only reads reads nothing:
 * between an epoch that it has prepared itself for and the commit, for a writer
 * may be in the new one already; and while weftd may have passed it over.
 */

#include <config.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array/array.h"

#define MS UINT64_C (1000000)

static struct array *a;
static uint64_t now = 1000 * MS;
static uint8_t data[4096];
static struct array_io *io; /* asked, and not answered */
static bool prepared;       /* is said */

static void
take (void)
{
  struct array_io *next;
  struct array_notice notice;

  array_check (a);
  while ((next = array_next_io (a))) {
    assert (!io && next->kind == IO_READ);
    io = next;
  }
  while (array_next_notice (a, &notice))
    if (notice.kind == NOTICE_PREPARED) {
      assert (notice.epoch == 2);
      prepared = true;
    }
}

static void
answer (void)
{
  struct array_io *now_done = io;

  assert (io);
  memset (io->buf, 1, io->length);
  io = NULL;
  array_io_done (a, now_done, 0, now);
  take ();
}

static bool
done (struct array_request *r)
{
  struct array_request *d = array_next_done (a);

  assert (!d || (d == r && d->error == 0));
  return d;
}

static void
submit (struct array_request *r)
{
  array_submit (a, r, now);
  take ();
}

int
main (void)
{
  struct array_config config = {
    .epoch = 1,
    .readonly = true,
    .image_buffer_bytes = MiB (1),
    .image_age_ms = 200,
    .io_timeout_ms = 15000,
  };
  struct array_request r = { .op = ARRAY_READ,
                             .length = sizeof data,
                             .buf = data };
  const enum member_state states[] = { MEMBER_IN_SYNC, MEMBER_IN_SYNC,
                                       MEMBER_IN_SYNC, MEMBER_OUT };
  char why[200];

  if (layout_init (&config.layout, LAYOUT_RAIDX, 4, 1, KiB (16), MiB (1), why,
                   sizeof why) == -1)
    abort ();
  a = array_new (&config, now, why, sizeof why);
  assert (a);
  submit (&r);
  assert (io);
  answer ();
  assert (done (&r));

  /* What was read, but not answered before it has prepared itself, is read
   * again.
   */
  submit (&r);
  array_prepare (a, 2, states, now);
  take ();
  assert (prepared && io && !done (&r));
  answer ();
  assert (!io && !done (&r));
  array_commit (a, 2, states, now);
  take ();
  answer ();
  assert (done (&r));

  array_hold (a, true, now);
  submit (&r);
  assert (!io && !done (&r));
  array_hold (a, false, now);
  take ();
  answer ();
  assert (done (&r));
  array_free (a);
  return 0;
}
