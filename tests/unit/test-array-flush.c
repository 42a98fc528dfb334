/* test-array-flush.c: which clients get an error from FLUSH after acknowledged data may
 * have been lost.
 *
 * raid-10 of two pairs: unit 0 is on members 0 and 2, unit 1 on 1 and 3.  Members
 * 2 and 3 are out from the start, so 0 and 1 have last copies: they are lost and
 * given back, with what they had not flushed or without it.
 */

#include <config.h>

#include <assert.h>
#include <errno.h>

#include "test-array-rig.h"

static struct array_client *other;

static void
begin_alone (void)
{
  config.batches = true;
  begin (LAYOUT_RAID10, 4);
  other = array_client_open (a);
  commit_states (2, "iioo");
}

static void
write_by (struct array_client *c, uint64_t offset, unsigned flags)
{
  struct array_request w = WRITE (offset, 4096, ones);

  w.client = c;
  w.flags = flags;
  assert (carry_out (&w) == 0);
}

static int
flush_by (struct array_client *c)
{
  struct array_request f = { .op = ARRAY_FLUSH, .client = c };

  carry_out (&f);
  return f.error;
}

static void
come_back (unsigned member, bool kept)
{
  lose (member);
  answer_lost (member);
  commit_states (3, "iioo");
  (kept ? return_whole : return_of) (member);
  commit_states (3, "iioo");
}

static void
test_each_is_told_once (bool closed)
{
  struct array_client *third = NULL;

  begin_alone ();
  write_by (client, 0, 0);
  write_by (other, 4096, 0);
  come_back (0, false);
  assert (flush_by (other) == EIO);
  assert (flush_by (other) == 0);
  third = array_client_open (a); /* this client was not there at the loss, and
                                  * another client got the error */
  assert (flush_by (third) == 0);
  if (closed) {
    array_client_close (a, client);
    assert (flush_by (third) == 0);
  }
  else {
    assert (flush_by (client) == EIO);
    assert (flush_by (client) == 0);
  }
  write_by (third, 0, 0);
  assert (flush_by (third) == 0 && array_differs (a));
  end ();
}

static void
test_kept (void)
{
  struct array_request f = FLUSH;

  begin_alone ();
  f.client = other;
  write_by (client, 0, 0);
  write_by (other, 4096, 0);
  submit (&f); /* it is under way, and is answered by the next process */
  come_back (0, true);
  assert (finish (&f) == 0);
  assert (flush_by (client) == 0 && !array_differs (a)); /* bits may fall */
  /* After a process that kept all data comes one that lost some. */
  write_by (other, 0, 0);
  come_back (0, true);
  come_back (0, false);
  assert (flush_by (other) == EIO && flush_by (client) == 0);
  assert (array_differs (a));
  end ();
}

/* Another process has all, by what it says; but its disk may be a copy. */
static void
test_kept_by_another (void)
{
  begin_alone ();
  write_by (client, 0, 0);
  lose (0);
  commit_states (3, "iioo");
  return_with (0, true, 1);
  commit_states (3, "iioo");
  assert (array_differs (a));
  flush_by (client);
  end ();
}

/* A process that has lost what was not flushed ends before the commit: the next one,
 * which has kept all that this one had, does not have that either.
 */
static void
test_lapse_is_remembered (void)
{
  begin_alone ();
  write_by (client, 0, 0);
  lose (0);
  return_of (0);
  lose (0); /* before the commit */
  return_whole (0);
  commit_states (3, "iioo");
  assert (flush_by (client) == EIO && flush_by (client) == 0);
  end ();
}

/* The disk answered with an error.  Earlier acknowledged data may be gone, too, even if
 * the next process has the whole cache.
 */
static void
test_disk_errors (bool of_flush)
{
  struct array_request w = WRITE (4096, 4096, ones), f = FLUSH;

  begin_alone ();
  write_by (client, 0, 0);
  submit (of_flush ? &f : &w);
  for (unsigned i = ios_count; i-- > 0;)
    answer (i, ios[i]->member == 0 ? EIO : 0);
  assert (notices_lost > 0);
  come_back (0, true);
  answer_all ();
  assert (of_flush ? done (&f) && f.error == EIO : done (&w) && w.error == 0);
  assert (flush_by (client) == (of_flush ? 0 : EIO));
  assert (flush_by (client) == 0);
  end ();
}

/* A FLUSH reports the loss of all clients until one client has got the error. */
static void
test_speaks_for_others (bool closed)
{
  begin_alone ();
  write_by (other, 0, 0);
  if (closed)
    array_client_close (a, other);
  come_back (0, false);
  assert (flush_by (client) == EIO && flush_by (client) == 0);
  if (!closed)
    assert (flush_by (other) == EIO && flush_by (other) == 0);
  end ();
}

static void
test_nothing_can_be_gone (void)
{
  begin_alone ();
  /* Nobody has written. */
  come_back (0, false);
  assert (flush_by (client) == 0);
  /* It was stable when it was acknowledged. */
  write_by (client, 0, ARRAY_FUA);
  write_by (other, 0, 0);
  come_back (0, false);
  assert (flush_by (other) == EIO && flush_by (client) == 0);
  /* It was flushed, by another. */
  write_by (client, 0, 0);
  assert (flush_by (other) == 0);
  write_by (other, 0, 0);
  come_back (0, false);
  assert (flush_by (other) == EIO && flush_by (client) == 0);
  /* It is elsewhere. */
  write_by (client, UNIT, 0);
  write_by (other, 0, 0);
  come_back (0, false);
  assert (flush_by (other) == EIO && flush_by (client) == 0);
  end ();
}

/* A member comes back, and has not kept all, while this FLUSH waits and after `w`. */
static void
flush_under_way (struct array_request *f, struct array_request *w)
{
  write_by (client, 0, 0);
  submit (f);
  if (w)
    submit (w);
  while (w && !done (w))
    for (unsigned i = ios_count; i-- > 0;)
      if (ios[i]->kind != IO_FLUSH)
        answer (i, 0);
  come_back (0, false);
}

/* Each FLUSH that speaks for something that may be gone fails. */
static void
test_under_way (bool written_since)
{
  struct array_request f[2] = { FLUSH, FLUSH }, w = WRITE (4096, 4096, ones);

  begin_alone ();
  flush_under_way (&f[0], written_since ? &w : NULL);
  submit (&f[1]);
  answer_all ();
  assert (done (&f[0]) && f[0].error == EIO);
  assert (done (&f[1]) && f[1].error == EIO);
  assert (flush_by (client) == 0);
  end ();
  /* One after the other. */
  begin_alone ();
  f[0].client = w.client = client;
  flush_under_way (&f[0], written_since ? &w : NULL);
  answer_all ();
  assert (done (&f[0]) && f[0].error == EIO);
  /* The writers get the error even if other clients got it, too. */
  assert (flush_by (other) == (written_since ? EIO : 0));
  assert (flush_by (client) == (written_since ? EIO : 0));
  assert (flush_by (client) == 0);
  end ();
}

/* Data that is lost twice is reported once; data written since then is reported again. */
static void
test_again (void)
{
  begin_alone ();
  write_by (client, 0, 0);
  come_back (0, false);
  write_by (client, 0, 0);
  come_back (0, false);
  assert (flush_by (client) == EIO && flush_by (client) == 0);
  come_back (0, false);
  assert (flush_by (client) == 0);
  write_by (client, 0, 0);
  come_back (0, false);
  assert (flush_by (client) == EIO && flush_by (client) == 0);
  end ();
}

/* The one "member" serves the array to several hosts: its FLUSH that fails tells that
 * something may be gone, of ours or of another host's; and each of ours is asked of it.
 */
static void
test_service (void)
{
  struct array_request f = FLUSH, g = FLUSH;

  config.service = true;
  begin (LAYOUT_RAID0, 1);
  other = array_client_open (a);
  /* Nothing was written, or all is stable: it speaks for other hosts. */
  for (unsigned i = 0; i < 3; i++) {
    f = (struct array_request) FLUSH;
    submit (&f);
    answer_only (IO_FLUSH, 0, 0, 0, 0);
    assert (done (&f) && f.error == 0);
  }
  /* Another host's: ours fails once, and then no other does. */
  f = (struct array_request) FLUSH;
  submit (&f);
  answer_only (IO_FLUSH, 0, 0, 0, EIO);
  assert (done (&f) && f.error == EIO);
  assert (flush_by (client) == 0 && flush_by (other) == 0);
  assert (notices_lost == 0);
  /* The writer gets the error, even if another client sent the failed FLUSH. */
  write_by (client, 0, 0);
  write_by (other, 4096, ARRAY_FUA);
  g.client = other;
  submit (&g);
  answer_only (IO_FLUSH, 0, 0, 0, EIO);
  assert (done (&g) && g.error == EIO);
  assert (flush_by (other) == 0);
  assert (flush_by (client) == EIO && flush_by (client) == 0);
  /* A request that fails with another error is sent again, and loses nothing. */
  write_by (client, 0, 0);
  f = (struct array_request) WRITE (0, 4096, ones);
  f.client = client;
  submit (&f);
  answer_only (IO_WRITE, 0, 0, 4096, EINVAL);
  assert (notices_lost == 1 && !done (&f));
  return_whole (0);
  commit_states (config.epoch, "i");
  answer_only (IO_WRITE, 0, 0, 4096, 0);
  assert (done (&f) && f.error == 0 && flush_by (client) == 0);
  /* But data that another process lost together with the connection is gone. */
  write_by (client, 0, 0);
  lose (0);
  return_of (0);
  commit_states (config.epoch, "i");
  assert (flush_by (client) == EIO && flush_by (client) == 0);
  end ();
}

/* array_losses rises in the input that tells of a loss, for data that is not stable, even
 * if another session wrote it.
 */
static void
test_losses (void)
{
  struct array_request f = FLUSH;

  begin_alone ();
  come_back (0, false); /* data that nobody has flushed since we began */
  assert (array_losses (a) == 1);
  assert (flush_by (client) == 0);
  come_back (0, false);
  write_by (client, 0, ARRAY_FUA);
  come_back (0, false);
  write_by (client, 0, 0);
  assert (flush_by (other) == 0);
  come_back (0, false);
  write_by (client, 0, 0);
  come_back (0, true);
  assert (array_losses (a) == 1);
  end ();

  begin_alone ();
  write_by (client, 0, 0);
  lose (0);
  answer_lost (0);
  return_of (0);
  assert (array_losses (a) == 0);
  commit_states (3, "iioo");
  assert (array_losses (a) == 1);
  write_by (other, 0, 0);
  array_client_close (a, other);
  come_back (0, false);
  assert (array_losses (a) == 2);
  assert (flush_by (client) == EIO && flush_by (client) == 0);
  come_back (0, false);
  assert (array_losses (a) == 2);
  /* Its disk fails, and its process has all of the cache. */
  write_by (client, 0, 0);
  submit (&f);
  for (unsigned i = ios_count; i-- > 0;)
    answer (i, ios[i]->member == 0 ? EIO : 0);
  come_back (0, true);
  assert (array_losses (a) == 3);
  answer_all ();
  assert (done (&f) && f.error == EIO);
  end ();
  /* The last copy of it goes for good. */
  begin_alone ();
  write_by (client, 0, 0);
  lose (0);
  answer_lost (0);
  commit_states (3, "oioo");
  assert (array_losses (a) == 1);
  end ();
  /* The process that serves the array says so. */
  config.service = true;
  begin (LAYOUT_RAID0, 1);
  write_by (client, 0, 0);
  f = (struct array_request) FLUSH;
  submit (&f);
  answer_only (IO_FLUSH, 0, 0, 0, EIO);
  assert (array_losses (a) == 1 && done (&f) && f.error == EIO);
  end ();
}

int
main (void)
{
  rig_init ();
  test_each_is_told_once (false);
  test_each_is_told_once (true);
  test_kept ();
  test_kept_by_another ();
  test_lapse_is_remembered ();
  test_disk_errors (false);
  test_disk_errors (true);
  test_speaks_for_others (false);
  test_speaks_for_others (true);
  test_nothing_can_be_gone ();
  test_losses ();
  test_under_way (false);
  test_under_way (true);
  test_again ();
  test_service ();
  return 0;
}
