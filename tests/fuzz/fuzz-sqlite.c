/* fuzz-sqlite.c: see fuzz-sqlite.h. */

#include <config.h>

#include <stdio.h>

#include <sqlite3.h>

#include "fuzz.h"

#define DATABASES_MAX 2
#define STATEMENTS_MAX 64

static struct {
  char *path;
  sqlite3 *db;
} databases[DATABASES_MAX];

static struct {
  sqlite3_stmt *stmt; /* NULL: this one and those behind it are free */
  char *sql;          /* which it was asked for by */
  bool used;
} statements[STATEMENTS_MAX];

/* An input was begun: from then on databases' own figures stay the same. */
static bool begun;

int
fuzz_sqlite_open (const char *path, sqlite3 **db)
{
  unsigned i = 0;

  while (databases[i].path && strcmp (databases[i].path, path) != 0)
    assert (++i < DATABASES_MAX);
  if (databases[i].path == NULL) {
    databases[i].path = strdup (path);
    assert (sqlite3_open (":memory:", &databases[i].db) == SQLITE_OK);
    /* The statements that are kept need memory that is quickly had, too. */
    sqlite3_db_config (databases[i].db, SQLITE_DBCONFIG_LOOKASIDE, NULL, 1200,
                       1000);
  }
  *db = databases[i].db;
  return SQLITE_OK;
}

/* SQLite parses a pragma again each time that it is run: returns a statement with the
 * same result, which the caller frees.
 */
static char *
same_as_pragma (sqlite3 *db, const char *sql)
{
  sqlite3_stmt *stmt;
  char *same;

  assert (sqlite3_prepare_v2 (db, sql, -1, &stmt, NULL) == SQLITE_OK &&
          sqlite3_step (stmt) == SQLITE_ROW);
  same = sqlite3_mprintf ("SELECT %Q", sqlite3_column_text (stmt, 0));
  sqlite3_finalize (stmt);
  return same;
}

int
fuzz_sqlite_prepare (sqlite3 *db, const char *sql, sqlite3_stmt **stmt)
{
  bool pragma = begun && strncmp (sql, "PRAGMA ", 7) == 0;
  unsigned i = 0;
  char *same;
  int r;

  while (statements[i].stmt &&
         (statements[i].used || sqlite3_db_handle (statements[i].stmt) != db ||
          strcmp (statements[i].sql, sql) != 0 ||
          /* made before an input was begun */
          (pragma && strcmp (sqlite3_sql (statements[i].stmt), sql) == 0)))
    assert (++i < STATEMENTS_MAX);
  if (statements[i].stmt == NULL) {
    same = pragma ? same_as_pragma (db, sql) : NULL;
    r = sqlite3_prepare_v2 (db, same ? same : sql, -1, &statements[i].stmt,
                            NULL);
    sqlite3_free (same);
    if (r != SQLITE_OK)
      return SQLITE_ERROR;
    statements[i].sql = strdup (sql);
  }
  statements[i].used = true;
  *stmt = statements[i].stmt;
  return SQLITE_OK;
}

int
fuzz_sqlite_finalize (sqlite3_stmt *stmt)
{
  unsigned i = 0;

  if (stmt == NULL)
    return SQLITE_OK;
  while (statements[i].stmt != stmt)
    assert (++i < STATEMENTS_MAX);
  assert (statements[i].used); /* or it is finalized twice */
  statements[i].used = false;
  sqlite3_clear_bindings (stmt);
  return sqlite3_reset (stmt);
}

static int
run (sqlite3 *db, const char *sql)
{
  sqlite3_stmt *stmt;
  int r = fuzz_sqlite_prepare (db, sql, &stmt);

  if (r != SQLITE_OK)
    return r;
  r = sqlite3_step (stmt);
  fuzz_sqlite_finalize (stmt);
  return r == SQLITE_DONE ? SQLITE_OK : r;
}

void
fuzz_sqlite_begin (void)
{
  begun = true;
  for (unsigned i = 0; i < DATABASES_MAX && databases[i].db; i++)
    assert (run (databases[i].db, "BEGIN") == SQLITE_OK);
}

void
fuzz_sqlite_end (void)
{
  for (unsigned i = 0; i < STATEMENTS_MAX; i++)
    assert (!statements[i].used);
  for (unsigned i = 0; i < DATABASES_MAX && databases[i].db; i++)
    assert (run (databases[i].db, "ROLLBACK") == SQLITE_OK);
}

sqlite3_int64
fuzz_sqlite_changes (void)
{
  sqlite3_int64 changes = 0;

  for (unsigned i = 0; i < DATABASES_MAX && databases[i].db; i++)
    changes += sqlite3_total_changes64 (databases[i].db);
  return changes;
}

/* Within the transaction of the input. */
int
fuzz_sqlite_exec (sqlite3 *db, const char *sql)
{
  int r;

  if (strcmp (sql, "BEGIN IMMEDIATE") == 0)
    return run (db, "SAVEPOINT weftd");
  if (strcmp (sql, "COMMIT") == 0)
    return run (db, "RELEASE weftd");
  if (strcmp (sql, "ROLLBACK") == 0) {
    r = run (db, "ROLLBACK TO weftd");
    return r == SQLITE_OK ? run (db, "RELEASE weftd") : r;
  }
  if (strncmp (sql, "PRAGMA journal_mode", 19) == 0 ||
      strncmp (sql, "PRAGMA locking_mode", 19) == 0 ||
      strncmp (sql, "PRAGMA synchronous", 18) == 0)
    return SQLITE_OK; /* they are of files */
  return sqlite3_exec (db, sql, NULL, NULL, NULL);
}
