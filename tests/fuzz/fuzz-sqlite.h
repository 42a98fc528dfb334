/* fuzz-sqlite.h: for weftd's databases.  The code that is included behind this finds them
 * in memory, open and with their statements prepared, as the previous input left them.
 * To open a file, read its schema and prepare the same statements took most of an
 * execution.  An input's changes are one transaction, which is rolled back; weftd's
 * transactions are parts of it.
 */

#ifndef WEFT_FUZZ_SQLITE_H
#define WEFT_FUZZ_SQLITE_H

#include <sqlite3.h>

/* Around each input, whose changes are taken back. */
void fuzz_sqlite_begin (void);
void fuzz_sqlite_end (void);

/* How many rows were ever written. */
sqlite3_int64 fuzz_sqlite_changes (void);

int fuzz_sqlite_open (const char *path, sqlite3 **db);
int fuzz_sqlite_exec (sqlite3 *db, const char *sql);
int fuzz_sqlite_prepare (sqlite3 *db, const char *sql, sqlite3_stmt **stmt);
int fuzz_sqlite_finalize (sqlite3_stmt *stmt);

#define sqlite3_open_v2(path, db, flags, vfs) fuzz_sqlite_open (path, db)
#define sqlite3_close(db) ((void) (db))
#define sqlite3_exec(db, sql, each, opaque, why) fuzz_sqlite_exec (db, sql)
#define sqlite3_prepare_v2(db, sql, bytes, stmt, tail)                         \
  fuzz_sqlite_prepare (db, sql, stmt)
#define sqlite3_finalize(stmt) fuzz_sqlite_finalize (stmt)

#endif /* WEFT_FUZZ_SQLITE_H */
