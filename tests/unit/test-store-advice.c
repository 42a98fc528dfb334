/* test-store-advice.c: each error of SQLite has one advice, and a restore is advised where
 * the file is damaged alone.
 */

#include <config.h>

#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <sqlite3.h>

#include "server/store/store-internal.h"

static const struct {
  int code;
  const char *word;
} cases[] = {
  { SQLITE_FULL, "make room" },
  { SQLITE_IOERR, "the disk below" },
  { SQLITE_IOERR_FSYNC, "the disk below" },
  { SQLITE_IOERR_READ, "the disk below" },
  { SQLITE_CORRUPT, "weftd --restore" },
  { SQLITE_CORRUPT_INDEX, "weftd --restore" },
  { SQLITE_NOTADB, "weftd --restore" },
  { SQLITE_FORMAT, "weftd --restore" },
  { SQLITE_READONLY, "read-only" },
  { SQLITE_READONLY_DBMOVED, "read-only" },
  { SQLITE_CANTOPEN, "may read and write" },
  { SQLITE_PERM, "owner and mode" },
  { SQLITE_AUTH, "owner and mode" },
  { SQLITE_BUSY, "another program" },
  { SQLITE_LOCKED, "another program" },
  { SQLITE_PROTOCOL, "another program" },
  { SQLITE_NOMEM, "memory" },
  { SQLITE_NOLFS, "--state" },
  { SQLITE_TOOBIG, "a bug" },
};

int
main (void)
{
  char text[512];

  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const char *advice = store_advice (cases[i].code, 0);

    if (!strstr (advice, cases[i].word)) {
      fprintf (stderr, "%d: %s\n", cases[i].code, advice);
      return 1;
    }
    /* The system's error about room is right, whatever SQLite makes of it. */
    assert (strstr (store_advice (cases[i].code, ENOSPC), "make room"));
    assert (strstr (store_advice (cases[i].code, EDQUOT), "make room"));
  }
  /* Every code, including those of later versions: each gets advice, and no user is
   * advised to restore an undamaged database.
   */
  for (int code = 1; code < 256; code++) {
    bool damaged = code == SQLITE_CORRUPT || code == SQLITE_NOTADB ||
                   code == SQLITE_FORMAT;

    assert (strlen (store_advice (code, 0)) > 20);
    assert ((strstr (store_advice (code, 0), "--restore") != NULL) == damaged);
  }
  store_advice_room ("/", text, sizeof text); /* any advice will do */
  store_advice_room ("/nowhere", text, sizeof text);
  assert (text[0] == '\0');
  return 0;
}
