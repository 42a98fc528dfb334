/* test-errors.c: the meaning of each error of a disk, by kind of request.  The test writes
 * the table of docs/PROTOCOL.md "Errors of a disk" a second time.
 */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "member/errors.h"
#include "test-random.h"

static const enum errors_place writes[] = {
  ERRORS_WRITE, ERRORS_ZERO, ERRORS_TRIM,
  ERRORS_SLOT,  ERRORS_BAD,  ERRORS_INTENTS,
};
#define WRITES (sizeof writes / sizeof writes[0])

static const struct {
  int error;
  enum errors_meaning read, write;
  int told; /* of ERRORS_AGAIN */
} table[] = {
  { ENOSPC, ERRORS_SPOT, ERRORS_AGAIN, ENOSPC },
  { EDQUOT, ERRORS_SPOT, ERRORS_AGAIN, ENOSPC },
  { EAGAIN, ERRORS_AGAIN, ERRORS_AGAIN, ENOMEM },
  { ENOMEM, ERRORS_AGAIN, ERRORS_AGAIN, ENOMEM },
  { ENOBUFS, ERRORS_AGAIN, ERRORS_AGAIN, ENOMEM },
  { EMFILE, ERRORS_AGAIN, ERRORS_AGAIN, ENOMEM },
  { ENFILE, ERRORS_AGAIN, ERRORS_AGAIN, ENOMEM },
  { EBUSY, ERRORS_AGAIN, ERRORS_AGAIN, ENOMEM },
  { ENXIO, ERRORS_AGAIN, ERRORS_AGAIN, ENOMEM },
  { ENODEV, ERRORS_AGAIN, ERRORS_AGAIN, ENOMEM },
  { ENOMEDIUM, ERRORS_AGAIN, ERRORS_AGAIN, ENOMEM },
  { ENOLINK, ERRORS_AGAIN, ERRORS_AGAIN, ENOMEM },
  { ETIMEDOUT, ERRORS_AGAIN, ERRORS_AGAIN, ENOMEM },
  { ESTALE, ERRORS_AGAIN, ERRORS_AGAIN, ENOMEM },
  { EHOSTDOWN, ERRORS_AGAIN, ERRORS_AGAIN, ENOMEM },
  { EHOSTUNREACH, ERRORS_AGAIN, ERRORS_AGAIN, ENOMEM },
};
#define ROWS (sizeof table / sizeof table[0])

/* Every errno: any errno outside the table counts as EIO. */
static void
test_all (void)
{
  for (int error = 1; error < 134; error++) {
    enum errors_meaning read = ERRORS_SPOT, write = ERRORS_FATAL;

    for (unsigned i = 0; i < ROWS; i++)
      if (table[i].error == error) {
        read = table[i].read;
        write = table[i].write;
        CHECK (errors_told (error) == table[i].told);
      }
    CHECK (errors_of (ERRORS_READ, error) == read);
    CHECK (errors_of (ERRORS_SYNC, error) == ERRORS_FATAL);
    for (unsigned w = 0; w < WRITES; w++)
      CHECK (errors_of (writes[w], error) == write);
  }
  CHECK (WRITES + 2 == ERRORS_PLACES);
  CHECK (errors_of (ERRORS_WRITE, EIO) == ERRORS_FATAL);
}

int
main (void)
{
  test_all ();
  return 0;
}
