/* store.c: see store.h.  One file, weftd.db, in the state directory; beside it
 * weftd.lock, which is locked as long as weftd runs.
 */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#include "alloc.h"
#include "store.h"
#include "common/refuse.h"
#include "text.h"

/* "weft" in the header of the file, and the version of what is in the table.  All
 * that was ever in it can be read; weftd of an older version refuses it:
 *
 *   1  cluster, disk, array, session, event
 *   2  also node, job, log, idempotency, and what auth keeps
 */
#define APPLICATION_ID 0x77656674
#define SCHEMA_VERSION 2

#define LOCK_WAIT_MS 3000

STAILQ_HEAD (txns, store_txn);

struct store {
  char dir[4096], path[4108];
  int lock_fd;
  sqlite3 *db; /* the loop's until store_start, then the thread's */
  sqlite3_stmt *put, *drop;

  pthread_t thread;
  bool started;
  void (*done) (void *opaque);
  void *opaque;

  pthread_mutex_t lock; /* of everything below */
  pthread_cond_t work;
  struct txns waiting, durable;
  bool closing;
  char error[512]; /* "": none */
};

struct store_txn *
store_txn_new (void)
{
  return alloc_zeroed (sizeof (struct store_txn));
}

void
store_txn_free (struct store_txn *t)
{
  if (t == NULL)
    return;
  for (size_t i = 0; i < t->count; i++)
    free (t->ops[i].json);
  free (t->ops);
  free (t);
}

void
store_txn_add (struct store_txn *t, const char *kind, const char *key,
               char *json)
{
  struct store_op *op;

  if (t->count == t->room) {
    t->room = t->room ? t->room * 2 : 8;
    t->ops = alloc_list (t->ops, t->room, sizeof *t->ops);
  }
  op = &t->ops[t->count++];
  assert (strlen (kind) < sizeof op->kind && strlen (key) < sizeof op->key);
  strcpy (op->kind, kind);
  strcpy (op->key, key);
  op->json = json;
}

void
store_txn_put (struct store_txn *t, const char *kind, const char *key,
               json_t *object)
{
  store_txn_add (t, kind, key, object ? alloc_json (object) : NULL);
  json_decref (object);
}

/* ---- Opening. ---- */

static int
take_lock (struct store *s, const char *dir, char *why, size_t why_size)
{
  char path[4096];

  if (mkdir (dir, 0700) == -1 && errno != EEXIST)
    return refuse (why, why_size, "cannot make the state directory %s: %s", dir,
                   strerror (errno));
  if ((size_t) snprintf (path, sizeof path, "%s/weftd.lock", dir) >=
      sizeof path)
    return refuse (why, why_size,
                   "the name of the state directory is too long");
  s->lock_fd = open (path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (s->lock_fd == -1)
    return refuse (why, why_size,
                   "cannot open %s: %s; give --state a directory "
                   "that weftd may write to",
                   path, strerror (errno));
  /* One that was killed has it until the last of its threads has gone. */
  for (unsigned ms = 0; flock (s->lock_fd, LOCK_EX | LOCK_NB) == -1; ms += 20) {
    if (ms < LOCK_WAIT_MS) {
      usleep (20 * 1000);
      continue;
    }
    return refuse (why, why_size,
                   "another weftd is running on the state directory "
                   "%s: stop it first, or give this one its own --state",
                   dir);
  }
  return 0;
}

static int
run_sql (struct store *s, const char *sql, char *why, size_t why_size)
{
  if (sqlite3_exec (s->db, sql, NULL, NULL, NULL) == SQLITE_OK)
    return 0;
  snprintf (why, why_size,
            "cannot use %s: %s; restore it from a backup, or "
            "give --state another directory",
            s->path, sqlite3_errmsg (s->db));
  return -1;
}

/* The first column of the first row; -1 where there is none. */
static int
ask_sql (struct store *s, const char *sql, sqlite3_int64 *number, char *text,
         size_t text_size)
{
  sqlite3_stmt *stmt;
  int r = -1;

  if (sqlite3_prepare_v2 (s->db, sql, -1, &stmt, NULL) != SQLITE_OK)
    return -1;
  if (sqlite3_step (stmt) == SQLITE_ROW) {
    if (number)
      *number = sqlite3_column_int64 (stmt, 0);
    if (text)
      snprintf (text, text_size, "%s", sqlite3_column_text (stmt, 0));
    r = 0;
  }
  sqlite3_finalize (stmt);
  return r;
}

/* Is it sound, and ours?  *empty: it is new. */
static int
check (struct store *s, bool *empty, char *why, size_t why_size)
{
  sqlite3_int64 id = 0, version = 0, tables = 0;
  char integrity[200] = "it cannot be read";

  if (ask_sql (s, "PRAGMA integrity_check(1)", NULL, integrity,
               sizeof integrity) == -1 ||
      strcmp (integrity, "ok") != 0)
    return refuse (why, why_size,
                   "the database %s is damaged (%s): restore it from "
                   "a backup",
                   s->path, integrity);
  if (ask_sql (s, "SELECT count(*) FROM sqlite_master", &tables, NULL, 0) ||
      ask_sql (s, "PRAGMA application_id", &id, NULL, 0) ||
      ask_sql (s, "PRAGMA user_version", &version, NULL, 0))
    return refuse (why, why_size, "cannot read %s: %s", s->path,
                   sqlite3_errmsg (s->db));
  *empty = tables == 0;
  if (*empty)
    return 0;
  if (id != APPLICATION_ID)
    return refuse (why, why_size,
                   "%s is some other program's database: give "
                   "--state a directory of its own",
                   s->path);
  if (version < 1 || version > SCHEMA_VERSION)
    return refuse (why, why_size,
                   "%s is of version %lld, and this weftd reads "
                   "those up to %d: use the weftd that wrote it",
                   s->path, (long long) version, SCHEMA_VERSION);
  return 0;
}

/* What it is, for whoever opens it next. */
static int
mark (struct store *s, char *why, size_t why_size)
{
  char sql[200];

  snprintf (sql, sizeof sql, "PRAGMA application_id=%d; PRAGMA user_version=%d",
            APPLICATION_ID, SCHEMA_VERSION);
  return run_sql (s, sql, why, why_size);
}

static int
make_table (struct store *s, char *why, size_t why_size)
{
  if (run_sql (s, "PRAGMA journal_mode=WAL", why, why_size) ||
      run_sql (s, "BEGIN IMMEDIATE", why, why_size) ||
      run_sql (s,
               "CREATE TABLE record (kind TEXT NOT NULL, key TEXT NOT NULL, "
               "json TEXT NOT NULL, PRIMARY KEY (kind, key)) WITHOUT ROWID",
               why, why_size) ||
      mark (s, why, why_size) || run_sql (s, "COMMIT", why, why_size))
    return -1;
  return 0;
}

static int
open_db (struct store *s, char *why, size_t why_size)
{
  bool empty;

  if (sqlite3_open_v2 (s->path, &s->db,
                       SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                       NULL) != SQLITE_OK)
    return refuse (why, why_size, "cannot open %s: %s", s->path,
                   s->db ? sqlite3_errmsg (s->db) : "out of memory");
  sqlite3_busy_timeout (s->db, 1000);
  /* Exclusive: sqlite3 and backup tools find it locked while weftd runs.  A
   * database that is refused is left as it is.
   */
  if (run_sql (s, "PRAGMA locking_mode=EXCLUSIVE", why, why_size) ||
      run_sql (s, "PRAGMA synchronous=FULL", why, why_size) ||
      check (s, &empty, why, why_size) ||
      (empty && make_table (s, why, why_size)))
    return -1;
  if (sqlite3_prepare_v2 (s->db,
                          "INSERT INTO record VALUES (?1, ?2, ?3) ON "
                          "CONFLICT (kind, key) DO UPDATE SET json = ?3",
                          -1, &s->put, NULL) != SQLITE_OK ||
      sqlite3_prepare_v2 (s->db,
                          "DELETE FROM record WHERE kind = ?1 AND "
                          "key = ?2",
                          -1, &s->drop, NULL) != SQLITE_OK)
    return refuse (why, why_size,
                   "the database %s has another shape than weftd's: "
                   "%s",
                   s->path, sqlite3_errmsg (s->db));
  return 0;
}

struct store *
store_open (const char *dir, char *why, size_t why_size)
{
  struct store *s = alloc_zeroed (sizeof *s);

  s->lock_fd = -1;
  STAILQ_INIT (&s->waiting);
  STAILQ_INIT (&s->durable);
  pthread_mutex_init (&s->lock, NULL);
  pthread_cond_init (&s->work, NULL);
  snprintf (s->dir, sizeof s->dir, "%s", dir);
  snprintf (s->path, sizeof s->path, "%s/weftd.db", s->dir);
  if (take_lock (s, dir, why, why_size) || open_db (s, why, why_size)) {
    store_close (s);
    return NULL;
  }
  return s;
}

const char *
store_dir (const struct store *s)
{
  return s->dir;
}

int
store_load (struct store *s,
            int (*each) (void *opaque, const char *kind, const char *key,
                         const char *json, char *why, size_t why_size),
            void *opaque, char *why, size_t why_size)
{
  sqlite3_stmt *stmt;
  char reason[512];
  int r;

  if (sqlite3_prepare_v2 (s->db,
                          "SELECT kind, key, json FROM record "
                          "ORDER BY kind, key",
                          -1, &stmt, NULL) != SQLITE_OK)
    return refuse (why, why_size, "cannot read %s: %s", s->path,
                   sqlite3_errmsg (s->db));
  while ((r = sqlite3_step (stmt)) == SQLITE_ROW) {
    const char *kind = (const char *) sqlite3_column_text (stmt, 0);
    const char *key = (const char *) sqlite3_column_text (stmt, 1);

    if (each (opaque, kind, key, (const char *) sqlite3_column_text (stmt, 2),
              reason, sizeof reason) == -1) {
      snprintf (why, why_size,
                "the record %s %s in %s makes no sense: %s; "
                "restore the database from a backup",
                kind, key, s->path, reason);
      sqlite3_finalize (stmt);
      return -1;
    }
  }
  if (r != SQLITE_DONE)
    snprintf (why, why_size, "cannot read %s: %s", s->path,
              sqlite3_errmsg (s->db));
  sqlite3_finalize (stmt);
  return r == SQLITE_DONE ? 0 : -1;
}

/* ---- The thread. ---- */

/* All of them as one transaction. */
static int
execute (struct store *s, const struct txns *txns)
{
  const struct store_txn *t;

  if (sqlite3_exec (s->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
    return -1;
  STAILQ_FOREACH (t, txns, link)
    for (size_t i = 0; i < t->count; i++) {
      const struct store_op *op = &t->ops[i];
      sqlite3_stmt *stmt = op->json ? s->put : s->drop;
      int r;

      sqlite3_bind_text (stmt, 1, op->kind, -1, SQLITE_STATIC);
      sqlite3_bind_text (stmt, 2, op->key, -1, SQLITE_STATIC);
      if (op->json)
        sqlite3_bind_text (stmt, 3, op->json, -1, SQLITE_STATIC);
      r = sqlite3_step (stmt);
      sqlite3_reset (stmt);
      sqlite3_clear_bindings (stmt);
      if (r != SQLITE_DONE)
        return -1;
    }
  return sqlite3_exec (s->db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK ? 0 : -1;
}

static void
free_txns (struct txns *txns)
{
  struct store_txn *t;

  while ((t = STAILQ_FIRST (txns)) != NULL) {
    STAILQ_REMOVE_HEAD (txns, link);
    store_txn_free (t);
  }
}

static void *
run (void *opaque)
{
  struct store *s = opaque;
  struct txns batch;
  char error[512];
  int r;

  STAILQ_INIT (&batch);
  for (;;) {
    pthread_mutex_lock (&s->lock);
    while (STAILQ_EMPTY (&s->waiting) && !s->closing)
      pthread_cond_wait (&s->work, &s->lock);
    STAILQ_CONCAT (&batch, &s->waiting);
    pthread_mutex_unlock (&s->lock);
    if (STAILQ_EMPTY (&batch))
      return NULL; /* closing, and nothing is left */

    r = execute (s, &batch);
    if (r == -1)
      snprintf (error, sizeof error, "cannot write to %.200s: %s", s->path,
                sqlite3_errmsg (s->db));
    pthread_mutex_lock (&s->lock);
    if (r == 0)
      STAILQ_CONCAT (&s->durable, &batch);
    else
      memcpy (s->error, error, sizeof error);
    pthread_mutex_unlock (&s->lock);
    s->done (s->opaque);
    if (r == -1)
      break;
  }
  free_txns (&batch);
  return NULL;
}

int
store_start (struct store *s, void (*done) (void *opaque), void *opaque,
             char *why, size_t why_size)
{
  s->done = done;
  s->opaque = opaque;
  /* All of it made sense: from here on it may hold what this version writes. */
  if (mark (s, why, why_size) == -1)
    return -1;
  if (pthread_create (&s->thread, NULL, run, s) != 0)
    return refuse (why, why_size, "cannot start the store's thread");
  s->started = true;
  return 0;
}

void
store_submit (struct store *s, struct store_txn *t)
{
  pthread_mutex_lock (&s->lock);
  STAILQ_INSERT_TAIL (&s->waiting, t, link);
  pthread_cond_signal (&s->work);
  pthread_mutex_unlock (&s->lock);
}

struct store_txn *
store_take (struct store *s)
{
  struct store_txn *t;

  pthread_mutex_lock (&s->lock);
  t = STAILQ_FIRST (&s->durable);
  if (t)
    STAILQ_REMOVE_HEAD (&s->durable, link);
  pthread_mutex_unlock (&s->lock);
  return t;
}

const char *
store_error (struct store *s)
{
  const char *error;

  pthread_mutex_lock (&s->lock);
  error = s->error[0] ? s->error : NULL; /* written once */
  pthread_mutex_unlock (&s->lock);
  return error;
}

void
store_close (struct store *s)
{
  if (s == NULL)
    return;
  if (s->started) {
    pthread_mutex_lock (&s->lock);
    s->closing = true;
    pthread_cond_signal (&s->work);
    pthread_mutex_unlock (&s->lock);
    pthread_join (s->thread, NULL);
  }
  free_txns (&s->durable);
  free_txns (&s->waiting); /* after a failure */
  sqlite3_finalize (s->put);
  sqlite3_finalize (s->drop);
  sqlite3_close (s->db);
  if (s->lock_fd != -1)
    close (s->lock_fd);
  pthread_cond_destroy (&s->work);
  pthread_mutex_destroy (&s->lock);
  free (s);
}
