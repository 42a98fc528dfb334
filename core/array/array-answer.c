/* array-answer.c: a member's answer goes to what it was asked for.
 *
 * A file that asks a member for something lies below this one, and notes in the
 * IO's `purpose` what for.  This file calls it when the answer comes, so nothing
 * below has to call back up.
 */

#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "array-internal.h"

/* Does the answer mean that the member is lost?  These errors do not: an error
 * that passes; a bad sector, when read; extents that a member does not know;
 * its disk's silence, which an older member does not report; a joining member's
 * refusal of reads, when only a sign of life was wanted.
 */
static bool
fatal (const struct array *a, const struct aio *x, int error)
{
  if (error == 0 || refused_for_now (a, x, error) ||
      (x->purpose == FOR_PULSE && error == EINVAL))
    return false;
  if (x->io.kind == IO_READ)
    return error != EIO && (x->purpose != FOR_PROBE || error != ESHUTDOWN ||
                            member_in_sync (a, x->io.member));
  if (x->io.kind == IO_EXTENTS)
    return error != EIO && error != EINVAL && error != ENOTSUP &&
           error != EOVERFLOW && error != ENOMEM;
  return true;
}

/* An answer has come, or it is certain that none will.  For a member that was
 * lost since the request, only an answer to a read counts: it was in-sync when
 * it read.
 */
void
answer_take (struct array *a, struct aio *x, int error)
{
  const struct array_io *io = &x->io;
  struct array_member *m = &a->member[io->member];
  struct piece *p, *next;
  bool over = x->place != AIO_SENT;

  aio_leave (a, x);
  if (!over && refused_waits (a, x, error))
    return;
  a->refused_count -= x->refused_ns > 0;
  if (!over && a->config.service && io->kind == IO_FLUSH && error == EIO) {
    flush_told (a, io->member);
    error = 0;
  }
  if (!over && fatal (a, x, error)) {
    over = true;
    m->loss.answers = error != ENOTCONN && error != ESHUTDOWN;
    /* Where its disk has failed, what the member has answered before, and not flushed,
     * may be gone as well.
     */
    m->loss.lapsed |= m->loss.answers && !a->config.service &&
                      x->io.kind != IO_READ && x->io.kind != IO_EXTENTS;
    member_lost (a, io->member, "a %s request of %llu bytes at %llu failed: %s",
                 aio_name (io->kind), (unsigned long long) io->length,
                 (unsigned long long) io->offset, strerror (error));
  }
  if (over && (io->kind != IO_READ || error != 0))
    error = ESHUTDOWN;
  else if (io->kind == IO_READ && refused_for_now (a, x, error))
    error = EIO; /* another copy is read */
  if (error == 0 && aio_writes (x)) {
    a->event++;
    m->writes.last_ns = a->now_ns;
    if (!(io->flags & ARRAY_FUA))
      m->writes.loose = a->event;
    clear_touch (a, x);
    round_touch (a);
  }
  if (error == 0 && x->purpose == FOR_PIECES && io->kind != IO_READ &&
      x->copy > 0)
    a->stats.images_sent += io->length;
  switch (x->purpose) {
  case FOR_PIECES:
  case FOR_REPAIR:
    for (p = x->pieces; p; p = next) {
      next = p->next[x->copy];
      if (x->purpose == FOR_REPAIR)
        read_repaired (a, p);
      else if (io->kind == IO_READ)
        read_answered (a, p, error);
      else
        write_answered (a, p, x->copy, error == 0);
    }
    break;
  case FOR_IMAGES:
    images_answered (a->images, x->run, error == 0);
    m->mixed &= images_any (a->images, io->member);
    a->look = true;
    pieces_go_on (a, &m->draining);
    break;
  case FOR_FLUSH:
    flush_answered (a, x, error == 0);
    break;
  case FOR_EXTENTS:
    /* The extents are kept until all members have answered. */
    extents_answered (a, x, error == 0);
    return;
  case FOR_PROOF:
    x->req->unproven |= error != 0;
    if (--x->req->answers == 0)
      req_wake (a, x->req);
    break;
  case FOR_CLEAR:
    clear_answered (a, x, error == 0);
    send_held (a, io->member);
    clear_go_on (a);
    break;
  case FOR_PROBE:
    free (x->io.buf);
    break;
  case FOR_WITNESS:
    witness_answered (a, x, error == 0 || error == EIO);
    break;
  case FOR_ROUND:
    round_answered (a, x, error == 0);
    break;
  case FOR_PULSE:
    hung_answered (a, x, error);
    break;
  }
  aio_free (a, x);
}
