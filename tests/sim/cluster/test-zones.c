/* test-zones.c: the judge of what several hosts read lets good histories pass, and none
 * that is wrong.
 */

#include <config.h>

#include <stdio.h>
#include <stdlib.h>

#include "zones.h"

static struct zones *z;
static uint64_t moment;
static const char *name;

static void
begin (const char *what)
{
  name = what;
  moment = 0;
  if (z)
    zones_free (z);
  z = zones_new (2);
}

static void
want (bool good, const char *why, int line)
{
  if (good == (why == NULL))
    return;
  fprintf (stderr, "test-zones: line %d: %s: %s\n", line, name,
           why ? why : "is let pass");
  abort ();
}
#define GOOD(why) want (true, why, __LINE__)
#define BAD(why) want (false, why, __LINE__)

/* Of grain 0; host h writes in session 10 + h. */
static void
asks (uint64_t version, unsigned h)
{
  zones_write (z, 0, version, false, 10 + h, ++moment);
}

static const char *
answered (uint64_t version, unsigned h)
{
  return zones_written (z, 0, version, h, ++moment);
}

static void
writes (uint64_t version, unsigned h)
{
  asks (version, h);
  GOOD (answered (version, h));
}

/* A read that begins now and ends at once. */
static const char *
reads (uint64_t version)
{
  uint64_t at = ++moment;

  return zones_read (z, 0, version, zones_promised (z, 0), at, ++moment);
}

static void
flushes (unsigned h)
{
  zones_flushed (z, 0, h, ++moment);
}

/* Of host 0. */
static bool
is_over (uint64_t session)
{
  return session == 10;
}

static void
test_reads (void)
{
  begin ("what was written is read");
  GOOD (reads (0));
  writes (1, 0);
  GOOD (reads (1));
  writes (2, 1);
  GOOD (reads (2));
  GOOD (reads (2));

  begin ("what was written over is not");
  writes (1, 0);
  writes (2, 1);
  BAD (reads (1));

  begin ("nor what was there at first");
  writes (1, 0);
  BAD (reads (0));

  begin ("nor what nobody has written");
  BAD (reads (1));

  begin ("nor what another one was read after");
  asks (1, 0);
  GOOD (reads (1));
  BAD (reads (0));

  begin ("a write under way may be seen or not, and then stays");
  asks (1, 0);
  GOOD (reads (0));
  GOOD (reads (1));
  BAD (reads (0));

  begin ("two that are written at once may end either way, once");
  asks (1, 0);
  asks (2, 1);
  GOOD (answered (1, 0));
  GOOD (answered (2, 1));
  GOOD (reads (1));
  BAD (reads (2));

  begin ("the first is read, and then its write is answered late");
  asks (1, 0);
  asks (2, 1);
  GOOD (reads (1));
  GOOD (reads (2));
  GOOD (answered (2, 1));
  GOOD (answered (1, 0));
  BAD (reads (1));

  begin ("old, new, old");
  writes (1, 0);
  asks (2, 1);
  GOOD (reads (1));
  GOOD (reads (2));
  BAD (reads (1));

  begin ("a long read may find either");
  writes (1, 0);
  uint64_t at = ++moment;
  writes (2, 1);
  GOOD (zones_read (z, 0, 1, 0, at, ++moment));
  GOOD (zones_read (z, 0, 2, 0, at, ++moment));

  begin ("but not what was over before it");
  writes (1, 0);
  writes (2, 1);
  at = ++moment;
  writes (3, 1);
  BAD (zones_read (z, 0, 1, 0, at, ++moment));
}

static void
test_closed (void)
{
  begin ("an unanswered write may come late");
  asks (1, 0);
  writes (2, 1);
  GOOD (reads (2));
  GOOD (reads (1));

  begin ("but not after its range was granted to another one who wrote");
  asks (1, 0);
  zones_close (z, 0, is_over, ++moment);
  writes (2, 1);
  BAD (reads (1));

  begin ("it has happened by then, or never");
  asks (1, 0);
  zones_close (z, 0, is_over, ++moment);
  GOOD (reads (0));
  BAD (reads (1));

  begin ("a write of who is not over is not closed by that");
  asks (1, 1);
  zones_close (z, 0, is_over, ++moment);
  GOOD (reads (0));
  GOOD (reads (1));
}

static void
test_flush (void)
{
  begin ("what was not flushed may fall");
  writes (1, 0);
  writes (2, 0);
  zones_fall (z, 0);
  GOOD (zones_kept (z, 0, 0));
  GOOD (reads (1));
  GOOD (reads (2));
  BAD (reads (1));

  begin ("and is one thing when that was recovered");
  writes (1, 0);
  writes (2, 0);
  zones_fall (z, 0);
  zones_close (z, 0, is_over, ++moment);
  GOOD (reads (1));
  BAD (reads (2));
  BAD (reads (0));

  begin ("what was flushed may not");
  writes (1, 0);
  flushes (0);
  writes (2, 0);
  zones_fall (z, 0);
  BAD (reads (0));
  BAD (zones_kept (z, 0, 0));
  GOOD (zones_kept (z, 0, 1));
  GOOD (reads (2));
  BAD (reads (0));

  begin ("another host's FLUSH speaks for none of it");
  writes (1, 0);
  flushes (1);
  GOOD (zones_kept (z, 0, 0));

  begin ("but for what came with a lease");
  writes (1, 0);
  zones_came (z, 0, 1, ++moment);
  writes (2, 0);
  flushes (1);
  BAD (zones_kept (z, 0, 0));
  GOOD (zones_kept (z, 0, 1));

  begin ("not for what was answered after it began");
  uint64_t at = ++moment;
  writes (1, 0);
  zones_flushed (z, 0, 0, at);
  GOOD (zones_kept (z, 0, 0));

  begin ("nor for what one before has told that it may be gone");
  writes (1, 0);
  zones_flush_failed (z, 0, ++moment);
  flushes (0);
  GOOD (zones_kept (z, 0, 0));
  writes (2, 0);
  flushes (0);
  BAD (zones_kept (z, 0, 0));

  begin ("a FUA write stays");
  writes (1, 0);
  zones_promise (z, 0, 1);
  zones_fall (z, 0);
  BAD (reads (0));

  begin ("what a lease brought was not there any more");
  writes (1, 0);
  zones_fall (z, 0);
  zones_came (z, 0, 1, ++moment);
  flushes (1);
  GOOD (zones_kept (z, 0, 0));

  begin ("nor is it for whoever reads it again");
  writes (1, 0);
  zones_fall (z, 0);
  GOOD (reads (1));
  zones_came (z, 0, 1, ++moment);
  flushes (1);
  GOOD (zones_kept (z, 0, 0));

  begin ("who has another session speaks for nothing of the former");
  writes (1, 0);
  zones_host_anew (z, 0);
  flushes (0);
  GOOD (zones_kept (z, 0, 0));

  begin ("what was read before a fall binds nobody after it");
  writes (1, 0);
  asks (2, 1);
  at = ++moment;
  GOOD (reads (2));
  zones_fall (z, 0);
  GOOD (zones_read (z, 0, 1, 0, at, ++moment));
  GOOD (reads (0));
  GOOD (reads (1));
  BAD (reads (0));
}

static void
test_undo (void)
{
  begin (
    "a write without an answer may be gone and come again with its member");
  writes (1, 0);
  asks (2, 0);
  GOOD (reads (2));
  zones_undo (z, 0);
  GOOD (reads (1));
  GOOD (reads (2));
  GOOD (answered (2, 0));
  BAD (reads (1));

  begin ("and a long read may find what was there meanwhile");
  writes (1, 0);
  asks (2, 0);
  GOOD (reads (2));
  zones_undo (z, 0);
  uint64_t at = ++moment;
  GOOD (answered (2, 0));
  flushes (0);
  zones_forget (z, 0, at);
  GOOD (zones_read (z, 0, 1, 0, at, ++moment));

  begin ("not one with an answer");
  writes (1, 0);
  writes (2, 0);
  zones_undo (z, 0);
  BAD (reads (1));
}

/* Host 0 is gone, and others read a copy now that has this version. */
static void
test_left (void)
{
  begin ("an unanswered write is gone that the present content lacks");
  writes (1, 0);
  asks (2, 0);
  GOOD (reads (2));
  zones_left (z, 0, 10, 1, moment);
  GOOD (reads (1));
  GOOD (reads (2)); /* a recovery may bring it back */
  zones_close (z, 0, is_over, ++moment);
  BAD (reads (1));

  begin ("or that never comes back");
  writes (1, 0);
  asks (2, 0);
  GOOD (reads (2));
  zones_left (z, 0, 10, 1, moment);
  zones_close (z, 0, is_over, ++moment);
  GOOD (reads (1));
  BAD (reads (2));

  begin ("one that is the present content stays");
  writes (1, 0);
  asks (2, 0);
  GOOD (reads (2));
  zones_left (z, 0, 10, 2, moment);
  BAD (reads (1));

  begin ("so do zeroes");
  writes (1, 0);
  zones_write (z, 0, 2, true, 10, ++moment);
  GOOD (reads (0));
  zones_left (z, 0, 10, 0, moment);
  BAD (reads (1));

  begin ("and one that was read since they read that copy");
  writes (1, 0);
  asks (2, 0);
  uint64_t moved = moment;
  GOOD (reads (2));
  zones_left (z, 0, 10, 1, moved);
  BAD (reads (1));

  begin ("and one with an answer");
  writes (1, 0);
  writes (2, 0);
  zones_left (z, 0, 10, 1, moment);
  BAD (reads (1));

  begin ("and one of another host");
  writes (1, 0);
  asks (2, 1);
  GOOD (reads (2));
  zones_left (z, 0, 10, 1, moment);
  BAD (reads (1));
}

static void
zeroes (uint64_t version, unsigned h)
{
  zones_write (z, 0, version, true, 10 + h, ++moment);
  GOOD (answered (version, h));
}

static void
test_zeroes (void)
{
  begin ("zeroes are read as the last that may be");
  writes (1, 0);
  zeroes (2, 1);
  GOOD (reads (0));
  BAD (reads (1));
  writes (3, 0);
  BAD (reads (0));
}

static void
test_forget (void)
{
  begin ("what is forgotten can't be read");
  for (uint64_t v = 1; v < 100; v++) {
    writes (v, v % 2);
    flushes (v % 2);
    zones_forget (z, 0, ++moment);
  }
  GOOD (reads (99));
  BAD (reads (1));
  if (zones_owes (z, 0, 10) || zones_owes (z, 0, 12))
    BAD ("it owes what was flushed");
  writes (100, 0);
  if (!zones_owes (z, 0, 10))
    BAD (NULL);

  begin ("what never came keeps nothing out");
  writes (1, 1);
  asks (2, 0);
  zones_close (z, 0, is_over, ++moment);
  uint64_t at = ++moment;
  writes (3, 1);
  flushes (1);
  zones_forget (z, 0, at);
  GOOD (zones_read (z, 0, 1, 0, at, ++moment));

  begin ("a write may come after one that began later and was flushed");
  asks (1, 0);
  writes (2, 1);
  flushes (1);
  if (!zones_owes (z, 0, 10))
    BAD (NULL);
}

int
main (void)
{
  test_reads ();
  test_closed ();
  test_flush ();
  test_undo ();
  test_left ();
  test_zeroes ();
  test_forget ();
  zones_free (z);
  return 0;
}
