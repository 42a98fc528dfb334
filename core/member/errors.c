/* errors.c: see errors.h.
 *
 * Data of a pwrite or fallocate that fails by itself has not reached the page
 * cache, so nothing was promised of it.  An error of fsync reports pages that
 * the kernel has dropped since, even if the error is ENOSPC; it does not say
 * which pages.  EIO may be such an error at any call.
 */

#include <config.h>

#include <errno.h>
#include <stdbool.h>

#include "errors.h"

/* Errors that pass: of room; of memory and descriptors; of a device, or the line to it,
 * that was away.
 */
static const struct {
  int error;
  bool of_room;
} passing[] = {
  { ENOSPC, true },        { EDQUOT, true },     { EAGAIN, false },
  { ENOMEM, false },       { ENOBUFS, false },   { EMFILE, false },
  { ENFILE, false },       { EBUSY, false },     { ENXIO, false },
  { ENODEV, false },       { ENOMEDIUM, false }, { ENOLINK, false },
  { ETIMEDOUT, false },    { ESTALE, false },    { EHOSTDOWN, false },
  { EHOSTUNREACH, false },
};
#define PASSING (sizeof passing / sizeof passing[0])

static unsigned
find (int error)
{
  unsigned i = 0;

  while (i < PASSING && passing[i].error != error)
    i++;
  return i;
}

/*              passes for want of room    passes otherwise   EIO and all others
 * read                  spot                   again                spot
 * write, zero, trim     again                  again                fatal
 * sync                  fatal                  fatal                fatal
 * header writes         again                  again                fatal
 */
enum errors_meaning
errors_of (enum errors_place place, int error)
{
  unsigned i = find (error);

  if (place == ERRORS_SYNC)
    return ERRORS_FATAL;
  if (place == ERRORS_READ)
    return i < PASSING && !passing[i].of_room ? ERRORS_AGAIN : ERRORS_SPOT;
  return i < PASSING ? ERRORS_AGAIN : ERRORS_FATAL;
}

int
errors_told (int error)
{
  unsigned i = find (error);

  return i < PASSING && passing[i].of_room ? ENOSPC : ENOMEM;
}
