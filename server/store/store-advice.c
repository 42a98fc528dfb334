/* store-advice.c: the meaning of SQLite's errors, with advice, and a warning
 * when the disk is almost full.
 */

#include <config.h>

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/statvfs.h>

#include <sqlite3.h>

#include "store-internal.h"

/* Little room is less than this, and less than a tenth of the file system. */
#define ROOM_LOW_BYTES (UINT64_C (64) << 20)

static const struct {
  int code;
  const char *advice;
} advices[] = {
  { SQLITE_FULL, STORE_NO_ROOM },
  { SQLITE_IOERR,
    "the disk below does not read or write: see the kernel's log, "
    "and mend or replace it" },
  { SQLITE_CORRUPT, STORE_DAMAGED },
  { SQLITE_NOTADB, STORE_DAMAGED },
  { SQLITE_FORMAT, STORE_DAMAGED },
  { SQLITE_READONLY, "the file or its file system is read-only: see the "
                     "kernel's log for why, and make it writable for weftd" },
  { SQLITE_CANTOPEN, "see that the directory and the file are there, and that "
                     "weftd's user may read and write them" },
  { SQLITE_PERM, STORE_FORBIDDEN },
  { SQLITE_AUTH, STORE_FORBIDDEN },
  { SQLITE_BUSY, STORE_IN_USE },
  { SQLITE_LOCKED, STORE_IN_USE },
  { SQLITE_PROTOCOL, STORE_IN_USE },
  { SQLITE_NOMEM, "there is too little memory: end other programs, or give "
                  "this host more" },
  { SQLITE_NOLFS, "this file system can't have files that large: give --state "
                  "a directory on another one" },
  { SQLITE_TOOBIG, "a record is too large: report this as a bug" },
};

const char *
store_advice (int code, int error)
{
  if (error == ENOSPC || error == EDQUOT)
    return STORE_NO_ROOM;
  for (size_t i = 0; i < sizeof advices / sizeof advices[0]; i++)
    if (advices[i].code == (code & 0xff))
      return advices[i].advice;
  return STORE_OTHER;
}

void
store_advice_room (const char *dir, char *text, size_t size)
{
  struct statvfs v;
  uint64_t left, all;

  text[0] = '\0';
  if (statvfs (dir, &v) == -1)
    return;
  left = (uint64_t) v.f_bavail * v.f_frsize;
  all = (uint64_t) v.f_blocks * v.f_frsize;
  if (left >= ROOM_LOW_BYTES || left >= all / 10)
    return;
  snprintf (text, size,
            "The file system of weftd's state directory %.120s has only %llu "
            "MiB left, and weftd stores nothing when it is full: make room "
            "there",
            dir, (unsigned long long) (left >> 20));
}
