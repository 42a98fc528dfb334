/* history.c: see history.h.
 *
 * Two tables: subject (id, name), and sample (step, subject, at, one column a
 * series), by primary key in that order, so that a chart is one range.  Steps
 * and times are in seconds; a sample is of [at, at + step).
 */

#include <config.h>

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bsd/sys/queue.h>
#include <sqlite3.h>

#include "common/clock.h"
#include "history-internal.h"
#include "server/alloc.h"
#include "server/log.h"
#include "store-internal.h"

#define APPLICATION_ID 0x77656668 /* "wefh" */
#define SCHEMA_VERSION 1
#define BATCHES_MAX 30 /* waiting for the disk: 5 minutes */

const struct history_tier history_tiers[HISTORY_TIERS] = {
  { 10, 2 * 3600 },
  { 60, 2 * 86400 },
  { 600, 30 * 86400 },
};

const char *const history_names[HISTORY_SERIES] = {
  "read_bytes", "write_bytes",   "reads",       "writes",        "read_us",
  "write_us",   "rebuild_bytes", "image_bytes", "exposed_bytes",
};

/* Sums of what was handed in; the number of times for each series. */
struct sum {
  char subject[HISTORY_SUBJECT_BYTES];
  double value[HISTORY_SERIES];
  unsigned count[HISTORY_SERIES];
};

struct batch {
  STAILQ_ENTRY (batch) link;
  int64_t at_s;
  struct sum *sums;
  size_t count, room, next; /* next: where the next subject likely is */
};

STAILQ_HEAD (batches, batch);

struct history {
  char path[4096];
  struct batch *batch; /* the loop's: the samples in the making */

  sqlite3 *db;        /* the thread's */
  bool failing;       /* and that was logged */
  int64_t newest_s;   /* the newest sample that was found in it, 0: none, ... */
  uint64_t opened_ms; /* ... and when, by clock_boot_ms */
  pthread_t thread;

  pthread_mutex_t lock; /* of what follows */
  pthread_cond_t work;
  struct batches waiting;
  unsigned waiting_count;
  bool closing;
};

const char *
history_path (const struct history *h)
{
  return h->path;
}

/* ---- Samples in the making, on the loop's thread. ---- */

static void
batch_free (struct batch *b)
{
  if (b)
    free (b->sums);
  free (b);
}

static struct sum *
sum_of (struct batch *b, const char *subject)
{
  struct sum *s;

  /* They come in the same order each second. */
  for (size_t i = 0; i < b->count; i++) {
    s = &b->sums[(b->next + i) % b->count];
    if (strcmp (s->subject, subject) == 0) {
      b->next = (size_t) (s - b->sums) + 1;
      return s;
    }
  }
  if (b->count == b->room) {
    b->room = b->room ? b->room * 2 : 16;
    b->sums = alloc_list (b->sums, b->room, sizeof *b->sums);
  }
  s = &b->sums[b->count++];
  memset (s, 0, sizeof *s);
  snprintf (s->subject, sizeof s->subject, "%s", subject);
  b->next = b->count;
  return s;
}

void
history_add (struct history *h, const char *subject,
             const double value[HISTORY_SERIES])
{
  struct sum *s = sum_of (h->batch, subject);

  for (unsigned i = 0; i < HISTORY_SERIES; i++)
    if (!isnan (value[i])) {
      s->value[i] += value[i];
      s->count[i]++;
    }
}

void
history_begin (struct history *h, uint64_t wall_ms)
{
  int64_t step = history_tiers[0].step_s;
  int64_t at_s = (int64_t) (wall_ms / 1000) / step * step;
  struct batch *complete = h->batch;

  if (complete->at_s == 0)
    complete->at_s = at_s;
  if (complete->at_s == at_s)
    return;
  h->batch = alloc_zeroed (sizeof *h->batch);
  h->batch->at_s = at_s;
  pthread_mutex_lock (&h->lock);
  if (h->waiting_count < BATCHES_MAX) {
    STAILQ_INSERT_TAIL (&h->waiting, complete, link);
    h->waiting_count++;
    complete = NULL;
    pthread_cond_signal (&h->work);
  }
  pthread_mutex_unlock (&h->lock);
  batch_free (complete); /* the disk is far behind: it is missing later */
}

/* ---- The database, on the thread. ---- */

static int
run_sql (sqlite3 *db, const char *sql)
{
  return sqlite3_exec (db, sql, NULL, NULL, NULL);
}

static sqlite3_int64
ask_number (sqlite3 *db, const char *sql)
{
  sqlite3_stmt *stmt;
  sqlite3_int64 n = -1;

  if (sqlite3_prepare_v2 (db, sql, -1, &stmt, NULL) != SQLITE_OK)
    return -1;
  if (sqlite3_step (stmt) == SQLITE_ROW)
    n = sqlite3_column_int64 (stmt, 0);
  sqlite3_finalize (stmt);
  return n;
}

static int
make_tables (sqlite3 *db)
{
  char sql[160];

  snprintf (sql, sizeof sql, "PRAGMA application_id=%d; PRAGMA user_version=%d",
            APPLICATION_ID, SCHEMA_VERSION);
  if (run_sql (db, "BEGIN IMMEDIATE") || run_sql (db, sql) ||
      run_sql (db, "CREATE TABLE subject (id INTEGER PRIMARY KEY, "
                   "name TEXT NOT NULL UNIQUE)") ||
      run_sql (db, "CREATE TABLE rolled (step INTEGER PRIMARY KEY, "
                   "at INTEGER NOT NULL)") ||
      run_sql (db, "CREATE TABLE sample (step INTEGER NOT NULL, "
                   "subject INTEGER NOT NULL, at INTEGER NOT NULL, "
                   "read_bytes REAL, write_bytes REAL, reads REAL, "
                   "writes REAL, read_us REAL, write_us REAL, "
                   "rebuild_bytes REAL, image_bytes REAL, exposed_bytes REAL, "
                   "PRIMARY KEY (step, subject, at)) WITHOUT ROWID"))
    return -1;
  return run_sql (db, "COMMIT") == SQLITE_OK ? 0 : -1;
}

/* Is what is in the file no good, whoever reads it?  (Not: it can't be read or
 * written for now.)
 */
static bool
is_broken (const struct history *h)
{
  int error = sqlite3_errcode (h->db);
  struct stat st;

  return error == SQLITE_CORRUPT || error == SQLITE_NOTADB ||
         error == SQLITE_ERROR /* other tables than ours */ ||
         (stat (h->path, &st) == 0 && !S_ISREG (st.st_mode));
}

static int
try_open (struct history *h, bool *foreign)
{
  sqlite3_int64 tables, id, version;

  *foreign = false;
  if (sqlite3_open_v2 (h->path, &h->db,
                       SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                       NULL) != SQLITE_OK)
    return -1;
  sqlite3_busy_timeout (h->db, 1000);
  /* A power cut may take the last samples, but breaks nothing. */
  if (run_sql (h->db, "PRAGMA journal_mode=WAL") ||
      run_sql (h->db, "PRAGMA synchronous=NORMAL") ||
      (tables = ask_number (h->db, "SELECT count(*) FROM sqlite_master")) == -1)
    return -1;
  h->opened_ms = clock_boot_ms ();
  if (tables == 0) {
    h->newest_s = (int64_t) (clock_wall_ms () / 1000);
    return make_tables (h->db);
  }
  h->newest_s = ask_number (h->db, "SELECT max(at) FROM sample");
  id = ask_number (h->db, "PRAGMA application_id");
  version = ask_number (h->db, "PRAGMA user_version");
  *foreign = id != -1 && version != -1 &&
             (id != APPLICATION_ID || version != SCHEMA_VERSION);
  return id == APPLICATION_ID && version == SCHEMA_VERSION ? 0 : -1;
}

static void
close_db (struct history *h)
{
  sqlite3_close (h->db);
  h->db = NULL;
}

static void
set_aside (struct history *h, const char *why)
{
  char other[4200];

  log_line (CLUSTER_WARNING,
            "the history in %s cannot be used (%s): it is "
            "kept as history.db.broken, and a new one begins; nothing else "
            "depends on it",
            h->path, why);
  close_db (h);
  snprintf (other, sizeof other, "%s.broken", h->path);
  if (rename (h->path, other) == -1 && errno != ENOENT)
    unlink (h->path);
  snprintf (other, sizeof other, "%s-wal", h->path);
  unlink (other);
  snprintf (other, sizeof other, "%s-shm", h->path);
  unlink (other);
}

/* Said once. */
static void
fail (struct history *h)
{
  if (!h->failing)
    log_line (CLUSTER_WARNING,
              "cannot use the history %s: %s; charts will have "
              "a gap until that is mended",
              h->path, h->db ? sqlite3_errmsg (h->db) : "out of memory");
  h->failing = true;
}

static void
open_db (struct history *h)
{
  bool foreign;

  if (try_open (h, &foreign) == 0)
    return;
  if (h->db && (foreign || is_broken (h))) {
    set_aside (h, foreign ? "it is another program's, or of another version"
                          : sqlite3_errmsg (h->db));
    if (try_open (h, &foreign) == 0)
      return;
  }
  fail (h);
  close_db (h); /* the next batch tries again */
}

/* ?1.. are numbers. */
static int
run_with (sqlite3 *db, const char *sql, const int64_t numbers[], int count)
{
  sqlite3_stmt *stmt;
  int r;

  if (sqlite3_prepare_v2 (db, sql, -1, &stmt, NULL) != SQLITE_OK)
    return -1;
  for (int i = 0; i < count; i++)
    sqlite3_bind_int64 (stmt, i + 1, numbers[i]);
  r = sqlite3_step (stmt);
  sqlite3_finalize (stmt);
  return r == SQLITE_DONE ? 0 : -1;
}

static int
put_batch (struct history *h, const struct batch *b)
{
  sqlite3_stmt *subject = NULL, *sample = NULL;
  bool fine = sqlite3_prepare_v2 (h->db,
                                  "INSERT OR IGNORE INTO subject (name) "
                                  "VALUES (?1)",
                                  -1, &subject, NULL) == SQLITE_OK &&
              sqlite3_prepare_v2 (
                h->db,
                "INSERT OR REPLACE INTO sample SELECT ?1, id, "
                "?2, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12 "
                "FROM subject WHERE name = ?3",
                -1, &sample, NULL) == SQLITE_OK;

  for (size_t i = 0; fine && i < b->count; i++) {
    const struct sum *s = &b->sums[i];

    sqlite3_bind_text (subject, 1, s->subject, -1, SQLITE_STATIC);
    sqlite3_bind_int64 (sample, 1, history_tiers[0].step_s);
    sqlite3_bind_int64 (sample, 2, b->at_s);
    sqlite3_bind_text (sample, 3, s->subject, -1, SQLITE_STATIC);
    for (int k = 0; k < HISTORY_SERIES; k++)
      if (s->count[k] > 0)
        sqlite3_bind_double (sample, 4 + k, s->value[k] / s->count[k]);
      else
        sqlite3_bind_null (sample, 4 + k);
    fine = sqlite3_step (subject) == SQLITE_DONE &&
           sqlite3_step (sample) == SQLITE_DONE;
    sqlite3_reset (subject);
    sqlite3_reset (sample);
  }
  sqlite3_finalize (subject);
  sqlite3_finalize (sample);
  return fine ? 0 : -1;
}

/* Samples older than this time are dropped.  The clock may be ahead for a
 * while, and all would seem old: so the time is no later than the newest sample
 * that was found, and the time since.
 */
static int64_t
sure_s (const struct history *h, int64_t now_s)
{
  int64_t since_s = (int64_t) ((clock_boot_ms () - h->opened_ms) / 1000);

  return h->newest_s > 0 && h->newest_s + since_s < now_s
           ? h->newest_s + since_s
           : now_s;
}

/* Make the coarser samples that are complete now, and drop what is too old. */
static int
roll_up (struct history *h, size_t tier, int64_t now_s)
{
  const struct history_tier *t = &history_tiers[tier],
                            *finer = &history_tiers[tier - 1];
  int64_t until = now_s / t->step_s * t->step_s;
  const int64_t roll[] = { t->step_s, finer->step_s, until };
  const int64_t mark[] = { t->step_s, until };
  const int64_t old[] = { finer->step_s, sure_s (h, now_s) - finer->keep_s };
  const int64_t oldest[] = { t->step_s, sure_s (h, now_s) - t->keep_s };
  char sql[80];

  snprintf (sql, sizeof sql, "SELECT at FROM rolled WHERE step = %d",
            (int) t->step_s);
  if (ask_number (h->db, sql) == until)
    return 0;
  if (run_with (h->db,
                "INSERT OR REPLACE INTO sample SELECT ?1, subject.id, "
                "at / ?1 * ?1, " HISTORY_MEANS " FROM subject CROSS JOIN "
                "sample ON "
                "step = ?2 AND sample.subject = subject.id AND at < ?3 AND at "
                ">= coalesce((SELECT at FROM rolled WHERE step = ?1), 0) "
                "GROUP BY subject.id, at / ?1",
                roll, 3) ||
      run_with (h->db, "INSERT OR REPLACE INTO rolled VALUES (?1, ?2)", mark,
                2) ||
      run_with (h->db,
                "DELETE FROM sample WHERE step = ?1 AND subject IN "
                "(SELECT id FROM subject) AND at < ?2",
                old, 2))
    return -1;
  if (tier < HISTORY_TIERS - 1)
    return 0;
  return run_with (h->db,
                   "DELETE FROM sample WHERE step = ?1 AND subject IN "
                   "(SELECT id FROM subject) AND at < ?2",
                   oldest, 2) ||
             run_with (h->db,
                       "DELETE FROM subject WHERE NOT EXISTS (SELECT 1 "
                       "FROM sample WHERE sample.subject = subject.id AND "
                       "step IN (10, 60, 600))",
                       NULL, 0)
           ? -1
           : 0;
}

static void
take (struct history *h, const struct batch *b)
{
  int r;

  if (h->db == NULL)
    open_db (h);
  if (h->db == NULL)
    return;
  r = run_sql (h->db, "BEGIN IMMEDIATE") || put_batch (h, b);
  for (size_t tier = 1; r == 0 && tier < HISTORY_TIERS; tier++)
    r = roll_up (h, tier, b->at_s + history_tiers[0].step_s);
  if (r == 0 && run_sql (h->db, "COMMIT") == SQLITE_OK) {
    h->failing = false;
    return;
  }
  if (is_broken (h)) {
    set_aside (h, sqlite3_errmsg (h->db));
    return;
  }
  fail (h);
  run_sql (h->db, "ROLLBACK");
}

static void *
run (void *opaque)
{
  struct history *h = opaque;
  struct batch *b;

  for (;;) {
    pthread_mutex_lock (&h->lock);
    while (STAILQ_EMPTY (&h->waiting) && !h->closing)
      pthread_cond_wait (&h->work, &h->lock);
    b = STAILQ_FIRST (&h->waiting);
    if (b) {
      STAILQ_REMOVE_HEAD (&h->waiting, link);
      h->waiting_count--;
    }
    pthread_mutex_unlock (&h->lock);
    if (b == NULL)
      return NULL;
    take (h, b);
    batch_free (b);
  }
}

struct history *
history_new (const struct store *store)
{
  struct history *h = alloc_zeroed (sizeof *h);
  mode_t mask;

  snprintf (h->path, sizeof h->path, "%s/history.db", store_dir (store));
  h->batch = alloc_zeroed (sizeof *h->batch);
  STAILQ_INIT (&h->waiting);
  pthread_mutex_init (&h->lock, NULL);
  pthread_cond_init (&h->work, NULL);
  mask = umask (077);
  open_db (h);
  umask (mask);
  if (pthread_create (&h->thread, NULL, run, h) != 0)
    abort ();
  return h;
}

void
history_free (struct history *h)
{
  if (h == NULL)
    return;
  pthread_mutex_lock (&h->lock);
  h->closing = true;
  pthread_cond_signal (&h->work);
  pthread_mutex_unlock (&h->lock);
  pthread_join (h->thread, NULL);
  sqlite3_close (h->db);
  batch_free (h->batch);
  pthread_mutex_destroy (&h->lock);
  pthread_cond_destroy (&h->work);
  free (h);
}
