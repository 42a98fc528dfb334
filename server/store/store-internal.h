/* store-internal.h: calls between the files of server/store/. */

#ifndef WEFT_STORE_INTERNAL_H
#define WEFT_STORE_INTERNAL_H

#include "store.h"

/* The directory that the store is in. */
const char *store_dir (const struct store *s);

/* The way out of an error of SQLite, as the end of a sentence: its code, and the errno
 * that came with it.
 */
const char *store_advice (int code, int error);
#define STORE_NO_ROOM                                                          \
  "make room in its file system: nothing is lost, and weftd goes on by itself"
#define STORE_FORBIDDEN                                                        \
  "weftd's user may not read and write it: see its owner and mode"
#define STORE_IN_USE                                                           \
  "another program has it open: end that (sqlite3, a tool that makes copies)"
#define STORE_OTHER                                                            \
  "it does not look like a database of weftd's: give --state another "         \
  "directory, or see what was done to the file"
/* Says that the file system of this directory has little room; "": it has enough. */
void store_advice_room (const char *dir, char *text, size_t size);

#endif /* WEFT_STORE_INTERNAL_H */
