/* audit-log.h: a second copy of the audit trail, outside of weftd's database,
 * as lines that each have the hash of the one before (common/chain.h): in a
 * file, or to syslog.
 *
 * A line is stored with the change that it records, and written to the file
 * when that is durable.  After the file was synced, its lines are deleted in
 * the database, except the newest line, because the next one needs its hash.
 * So if weftd is killed at any point, it goes on where the file ends, also in
 * the middle of a line, and no line is missing or there twice.  (Syslog does
 * not say what has arrived: the last lines may come once more.)
 *
 * All but audit_log_write is called on the loop's thread.
 */

#ifndef WEFT_AUDIT_LOG_H
#define WEFT_AUDIT_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "common/chain.h"

struct audit_log;
struct store_txn;

#define AUDIT_LOG_KIND "audit-log"
#define AUDIT_LOG_SYSLOG "syslog"

struct audit_log *audit_log_new (void);
void audit_log_free (struct audit_log *log);
/* Lines go there from now on: a file, or AUDIT_LOG_SYSLOG. */
void audit_log_to (struct audit_log *log, const char *target);
bool audit_log_wanted (const struct audit_log *log);

/* A record of the store, at the start, in order. */
int audit_log_load (struct audit_log *log, const char *key, const json_t *json,
                    char *why, size_t why_size);
/* Up to this number lines of the trail are in the log. */
uint64_t audit_log_through (const struct audit_log *log);
/* The line `id` of the trail, as it is now. */
void audit_log_add (struct audit_log *log, struct store_txn *t, uint64_t id,
                    const json_t *line);
/* The lines in this transaction are durable. */
void audit_log_durable (struct audit_log *log, const struct store_txn *t);

/* The lines to write now. */
struct audit_job {
  char target[4096];
  int fd;       /* -1: to be opened; the job's until it ends */
  char **lines; /* oldest first, each with its end; */
  struct chain_link *links;
  size_t count;
  size_t from;    /* in the file those before are already, unless it is new */
  size_t written; /* lines that the target has, at the end */
  bool reopened;  /* as it was asked to */
  char error[128], doubt[512]; /* "": none */
};
/* NULL: there is nothing to do, or a job is not over yet.  reopen: the file may have been
 * renamed.
 */
struct audit_job *audit_log_begin (struct audit_log *log, bool reopen);
/* On any thread. */
void audit_log_write (struct audit_job *job);
/* The job is over, and freed.  t: lines that need not be stored any more are
 * removed there.
 */
void audit_log_end (struct audit_log *log, struct audit_job *job,
                    struct store_txn *t);

/* Advice for an administrator; "": all is well. */
#define AUDIT_LOG_WORDS_BYTES 768
void audit_log_words (const struct audit_log *log, char *text, size_t size);
/* {"log", "number", "hash", "waiting", "problem"}: the last line that was written. */
json_t *audit_log_view (const struct audit_log *log);

#endif /* WEFT_AUDIT_LOG_H */
