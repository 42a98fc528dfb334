/* errors.h: the meaning of an error of a member's disk (docs/PROTOCOL.md
 * "Errors of a disk").
 */

#ifndef WEFT_ERRORS_H
#define WEFT_ERRORS_H

/* The operation of the disk.  The last three are writes of the header, before
 * they are made stable; making them stable is ERRORS_SYNC.
 */
enum errors_place {
  ERRORS_READ,
  ERRORS_WRITE,
  ERRORS_ZERO,
  ERRORS_TRIM,
  ERRORS_SYNC, /* fsync, and a write that is stable when it returns */
  ERRORS_SLOT,
  ERRORS_BAD,
  ERRORS_INTENTS,
};
#define ERRORS_PLACES (ERRORS_INTENTS + 1)

enum errors_meaning {
  /* The kernel has refused it for the moment: nothing is lost by that, and the same may
   * succeed later.
   */
  ERRORS_AGAIN,
  ERRORS_SPOT,  /* this place can't be read; the rest can */
  ERRORS_FATAL, /* the member has failed, and nothing is tried again (P14) */
};

/* error: an errno, not 0. */
enum errors_meaning errors_of (enum errors_place place, int error);

/* The errno that an array process gets for ERRORS_AGAIN: ENOSPC or ENOMEM,
 * which NBD has.
 */
int errors_told (int error);

#endif /* WEFT_ERRORS_H */
