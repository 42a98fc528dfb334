/* store.c: see store.h.  One file, weftd.db, in the state directory; beside it
 * weftd.lock, which is locked as long as weftd runs.
 */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#include "server/alloc.h"
#include "common/refuse.h"
#include "server/text.h"
#include "store-internal.h"

/* "weft" in the header of the file, and the version of the records.  All former
 * versions can be read; weftd of an older version refuses a newer one:
 *
 *   1  cluster, disk, array, session, event
 *   2  also node, job, log, idempotency, and the records of auth
 */
#define APPLICATION_ID 0x77656674
#define SCHEMA_VERSION 2

#define LOCK_WAIT_MS 3000
/* While there is no room, so often it is tried again. */
#define STALL_MS 500

/* The mark of an unfinished restore: no weftd starts with a state that is
 * replaced by halves.
 */
#define RESTORING "restoring"

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
  char stalled
    [512]; /* why nothing is stored just now, and what to do; "": it is */
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
  free (t->dump);
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

static const char *
advice (struct store *s)
{
  return store_advice (sqlite3_errcode (s->db), sqlite3_system_errno (s->db));
}

/* Is only room missing, so that the same can be tried again?  Such a write was
 * refused; a write that failed in another way, or an fsync, never is.
 */
static bool
is_stalled (struct store *s)
{
  return sqlite3_errcode (s->db) == SQLITE_FULL;
}

/* ---- Opening. ---- */

int
store_lock (const char *dir, char *why, size_t why_size)
{
  char path[4096];
  struct stat st;
  int fd;

  if (mkdir (dir, 0700) == -1 && errno != EEXIST)
    return refuse (why, why_size, "cannot make the state directory %s: %s", dir,
                   strerror (errno));
  if (stat (dir, &st) == 0 && (st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return refuse (why, why_size,
                   "other users may write to the state directory %s, and so "
                   "put another database there: run chmod 700 on it",
                   dir);
  if ((size_t) snprintf (path, sizeof path, "%s/weftd.lock", dir) >=
      sizeof path)
    return refuse (why, why_size,
                   "the name of the state directory is too long");
  fd = open (path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd == -1)
    return refuse (why, why_size,
                   "cannot open %s: %s; give --state a directory "
                   "that weftd may write to",
                   path, strerror (errno));
  /* A weftd that was killed has it until the last of its threads has gone. */
  for (unsigned ms = 0; flock (fd, LOCK_EX | LOCK_NB) == -1; ms += 20) {
    if (ms < LOCK_WAIT_MS) {
      usleep (20 * 1000);
      continue;
    }
    close (fd);
    return refuse (why, why_size,
                   "another weftd is running on the state directory "
                   "%s: stop it first, or give this one its own --state",
                   dir);
  }
  return fd;
}

static int
run_sql (struct store *s, const char *sql, char *why, size_t why_size)
{
  if (sqlite3_exec (s->db, sql, NULL, NULL, NULL) == SQLITE_OK)
    return 0;
  return refuse (why, why_size, "cannot use %s: %s; %s", s->path,
                 sqlite3_errmsg (s->db), advice (s));
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
  char integrity[200];

  if (ask_sql (s, "PRAGMA integrity_check(1)", NULL, integrity,
               sizeof integrity) == -1)
    return refuse (why, why_size, "cannot read %s: %s; %s", s->path,
                   sqlite3_errmsg (s->db), advice (s));
  if (strcmp (integrity, "ok") != 0)
    return refuse (why, why_size, "cannot use %s: %s; %s", s->path, integrity,
                   STORE_DAMAGED);
  if (ask_sql (s, "SELECT count(*) FROM sqlite_master", &tables, NULL, 0) ||
      ask_sql (s, "PRAGMA application_id", &id, NULL, 0) ||
      ask_sql (s, "PRAGMA user_version", &version, NULL, 0))
    return refuse (why, why_size, "cannot read %s: %s; %s", s->path,
                   sqlite3_errmsg (s->db), advice (s));
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

/* The version, for the next weftd that opens it.  (If it is there already
 * nothing is written, because the file system may be full.)
 */
static int
mark (struct store *s, char *why, size_t why_size)
{
  sqlite3_int64 id = 0, version = 0;
  char sql[200];

  if (ask_sql (s, "PRAGMA application_id", &id, NULL, 0) == 0 &&
      ask_sql (s, "PRAGMA user_version", &version, NULL, 0) == 0 &&
      id == APPLICATION_ID && version == SCHEMA_VERSION)
    return 0;

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
    return refuse (why, why_size, "cannot open %s: %s; %s", s->path,
                   s->db ? sqlite3_errmsg (s->db) : "out of memory",
                   s->db ? advice (s) : store_advice (SQLITE_NOMEM, 0));
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

static int
refuse_half (const struct store *s, char *why, size_t why_size)
{
  char path[sizeof s->dir + sizeof RESTORING + 1];

  snprintf (path, sizeof path, "%s/%s", s->dir, RESTORING);
  if (access (path, F_OK) == -1)
    return 0;
  return refuse (why, why_size,
                 "a restore of the state directory %s was broken off: run the "
                 "same weftd --restore once more",
                 s->dir);
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
  snprintf (s->path, sizeof s->path, "%s/" STORE_FILE, s->dir);
  s->lock_fd = store_lock (dir, why, why_size);
  if (s->lock_fd == -1 || refuse_half (s, why, why_size) ||
      open_db (s, why, why_size)) {
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

void
store_room (const struct store *s, char *text, size_t size)
{
  store_advice_room (s->dir, text, size);
}

bool
store_is_database (const void *data, size_t bytes)
{
  static const char begin[] = "SQLite format 3";

  return bytes >= sizeof begin && memcmp (data, begin, sizeof begin) == 0;
}

void
store_identity (const struct store *s, char text[STORE_IDENTITY_BYTES])
{
  struct statx st = { 0 };

  statx (AT_FDCWD, s->path, 0, STATX_INO | STATX_BTIME, &st);
  if (st.stx_mask & STATX_BTIME)
    snprintf (text, STORE_IDENTITY_BYTES, "made %" PRId64 ".%09" PRIu32,
              (int64_t) st.stx_btime.tv_sec, st.stx_btime.tv_nsec);
  else /* few file systems do not know */
    snprintf (text, STORE_IDENTITY_BYTES, "number %" PRIu64,
              (uint64_t) st.stx_ino);
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
    return refuse (why, why_size, "cannot read %s: %s; %s", s->path,
                   sqlite3_errmsg (s->db), advice (s));
  while ((r = sqlite3_step (stmt)) == SQLITE_ROW) {
    const char *kind = (const char *) sqlite3_column_text (stmt, 0);
    const char *key = (const char *) sqlite3_column_text (stmt, 1);

    if (each (opaque, kind, key, (const char *) sqlite3_column_text (stmt, 2),
              reason, sizeof reason) == -1) {
      snprintf (why, why_size, "the record %s %s in %s makes no sense: %s; %s",
                kind, key, s->path, reason, STORE_DAMAGED);
      sqlite3_finalize (stmt);
      return -1;
    }
  }
  if (r != SQLITE_DONE)
    snprintf (why, why_size, "cannot read %s: %s; %s", s->path,
              sqlite3_errmsg (s->db), advice (s));
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

static char *
quote (const unsigned char *text)
{
  json_t *json = json_string ((const char *) text);
  char *quoted = json_dumps (json, JSON_ENCODE_ANY);

  if (quoted == NULL)
    abort ();
  json_decref (json);
  return quoted;
}

/* The records of all kinds but some, as a JSON list of [kind, key, record]. */
static char *
dump_records (struct store *s)
{
  sqlite3_stmt *stmt;
  size_t size;
  char *text = NULL, *kind, *key;
  FILE *f = open_memstream (&text, &size);
  unsigned count = 0;
  int r;

  if (f == NULL)
    return NULL;
  r = sqlite3_prepare_v2 (s->db,
                          "SELECT kind, key, json FROM record WHERE kind NOT "
                          "IN (" STORE_NOT_DUMPED ") ORDER BY kind, key",
                          -1, &stmt, NULL);
  fputc ('[', f);
  while (r == SQLITE_OK && (r = sqlite3_step (stmt)) == SQLITE_ROW) {
    kind = quote (sqlite3_column_text (stmt, 0));
    key = quote (sqlite3_column_text (stmt, 1));
    fprintf (f, "%s[%s,%s,%s]", count++ ? "," : "", kind, key,
             sqlite3_column_text (stmt, 2));
    free (kind);
    free (key);
    r = SQLITE_OK;
  }
  fputc (']', f);
  sqlite3_finalize (stmt);
  if (fclose (f) == 0 && r == SQLITE_DONE)
    return text;
  free (text);
  return NULL;
}

/* Store these.  While there is no room it is tried again, until weftd is to end. */
static int
execute_all (struct store *s, const struct txns *batch)
{
  char text[512];
  struct store_txn *t;
  bool closing = false;

  for (;;) {
    if (execute (s, batch) == 0)
      text[0] = '\0';
    else if (is_stalled (s))
      snprintf (text, sizeof text, "cannot write to %.200s: %s; %s", s->path,
                sqlite3_errmsg (s->db), advice (s));
    else
      return -1;
    pthread_mutex_lock (&s->lock);
    memcpy (s->stalled, text, sizeof text);
    closing = s->closing;
    pthread_mutex_unlock (&s->lock);
    if (text[0] == '\0')
      break;
    if (closing)
      return -1;
    sqlite3_exec (s->db, "ROLLBACK", NULL, NULL, NULL);
    s->done (s->opaque); /* call back */
    usleep (STALL_MS * 1000);
  }
  STAILQ_FOREACH (t, batch, link)
    if (t->dumps)
      t->dump = dump_records (s);
  return 0;
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

    r = execute_all (s, &batch);
    if (r == -1)
      snprintf (error, sizeof error, "cannot write to %.200s: %s; %s", s->path,
                sqlite3_errmsg (s->db), advice (s));
    pthread_mutex_lock (&s->lock);
    if (r == 0)
      STAILQ_CONCAT (&s->durable, &batch);
    else {
      memcpy (s->error, error, sizeof error);
    }
    pthread_mutex_unlock (&s->lock);
    s->done (s->opaque);
    if (r == -1)
      break;
  }
  free_txns (&batch);
  return NULL;
}

int
store_fill (struct store *s, struct store_txn *t, char *why, size_t why_size)
{
  struct txns one = STAILQ_HEAD_INITIALIZER (one);
  int r;

  STAILQ_INSERT_TAIL (&one, t, link);
  r = execute (s, &one);
  if (r == -1)
    refuse (why, why_size, "cannot write to %s: %s; %s", s->path,
            sqlite3_errmsg (s->db), advice (s));
  free_txns (&one);
  return r;
}

bool
store_stalled (struct store *s, char *text, size_t size)
{
  bool stalled;

  pthread_mutex_lock (&s->lock);
  stalled = s->stalled[0] != '\0';
  if (stalled)
    snprintf (text, size, "%s", s->stalled);
  pthread_mutex_unlock (&s->lock);
  return stalled;
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
