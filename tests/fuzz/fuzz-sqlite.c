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
  bool used;
} statements[STATEMENTS_MAX];

static void
run (sqlite3 *db, const char *sql)
{
  if (sqlite3_exec (db, sql, NULL, NULL, NULL) == SQLITE_OK)
    return;
  fprintf (stderr, "%s: %s\n", sql, sqlite3_errmsg (db));
  abort ();
}

void
fuzz_sqlite_begin (void)
{
  for (unsigned i = 0; i < DATABASES_MAX && databases[i].db; i++)
    run (databases[i].db, "BEGIN");
}

void
fuzz_sqlite_end (void)
{
  for (unsigned i = 0; i < STATEMENTS_MAX; i++)
    assert (!statements[i].used);
  for (unsigned i = 0; i < DATABASES_MAX && databases[i].db; i++)
    run (databases[i].db, "ROLLBACK");
}

sqlite3_int64
fuzz_sqlite_changes (void)
{
  sqlite3_int64 changes = 0;

  for (unsigned i = 0; i < DATABASES_MAX && databases[i].db; i++)
    changes += sqlite3_total_changes64 (databases[i].db);
  return changes;
}

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

/* Within the transaction of the input. */
int
fuzz_sqlite_exec (sqlite3 *db, const char *sql)
{
  if (strcmp (sql, "BEGIN IMMEDIATE") == 0)
    sql = "SAVEPOINT weftd";
  else if (strcmp (sql, "COMMIT") == 0)
    sql = "RELEASE weftd";
  else if (strcmp (sql, "ROLLBACK") == 0)
    sql = "ROLLBACK TO weftd; RELEASE weftd";
  else if (strncmp (sql, "PRAGMA journal_mode", 19) == 0 ||
           strncmp (sql, "PRAGMA locking_mode", 19) == 0 ||
           strncmp (sql, "PRAGMA synchronous", 18) == 0)
    return SQLITE_OK; /* they are of files */
  return sqlite3_exec (db, sql, NULL, NULL, NULL);
}

int
fuzz_sqlite_prepare (sqlite3 *db, const char *sql, sqlite3_stmt **stmt)
{
  unsigned i = 0;

  while (statements[i].stmt &&
         (statements[i].used || sqlite3_db_handle (statements[i].stmt) != db ||
          strcmp (sqlite3_sql (statements[i].stmt), sql) != 0))
    assert (++i < STATEMENTS_MAX);
  if (statements[i].stmt == NULL &&
      sqlite3_prepare_v2 (db, sql, -1, &statements[i].stmt, NULL) != SQLITE_OK)
    return SQLITE_ERROR;
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
