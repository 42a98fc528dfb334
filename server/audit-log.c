/* audit-log.c: see audit-log.h.
 *
 * Records {"line", "through", "written"}, whose key is the line's number; `line` is the text.
 */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <syslog.h>
#include <unistd.h>

#include <bsd/sys/queue.h>

#include "alloc.h"
#include "audit-log.h"
#include "common/refuse.h"
#include "store/store.h"
#include "fields.h"
#include "text.h"

#define LINE_BYTES_MAX 65536
#define LINES_AT_ONCE 1000
#define SYSLOG_SOCKET "/dev/log"

struct line {
  STAILQ_ENTRY (line) link;
  struct chain_link chain;
  char *text; /* with its end */
  bool durable, written;
};

struct audit_log {
  const char *target;              /* NULL: none */
  STAILQ_HEAD (lines, line) lines; /* that are stored, in order */
  struct chain_link last;          /* the newest of them */
  uint64_t through;
  bool busy; /* a job is not over */
  bool opened;
  int fd;                    /* of the file, between jobs; -1: it is not open */
  struct chain_link written; /* the newest line that was */
  size_t waiting;
  char error[128], doubt[512];
};

struct audit_log *
audit_log_new (void)
{
  struct audit_log *log = alloc_zeroed (sizeof *log);

  STAILQ_INIT (&log->lines);
  log->fd = -1;
  strcpy (log->last.hash, CHAIN_BEGIN);
  log->written = log->last;
  return log;
}

static void
free_line (struct line *line)
{
  free (line->text);
  free (line);
}

void
audit_log_free (struct audit_log *log)
{
  struct line *line;

  while ((line = STAILQ_FIRST (&log->lines)) != NULL) {
    STAILQ_REMOVE_HEAD (&log->lines, link);
    free_line (line);
  }
  if (log->fd != -1)
    close (log->fd);
  free (log);
}

void
audit_log_to (struct audit_log *log, const char *target)
{
  log->target = target;
}

bool
audit_log_wanted (const struct audit_log *log)
{
  return log->target;
}

uint64_t
audit_log_through (const struct audit_log *log)
{
  return log->through;
}

/* ---- What is stored. ---- */

static struct line *
append (struct audit_log *log, const struct chain_link *chain, char *text)
{
  struct line *line = alloc_zeroed (sizeof *line);

  line->chain = *chain;
  line->text = alloc_print ("%s\n", text);
  STAILQ_INSERT_TAIL (&log->lines, line, link);
  log->last = *chain;
  return line;
}

static void
put (const struct audit_log *log, struct store_txn *t, const struct line *line)
{
  char key[STORE_KEY_BYTES];

  snprintf (key, sizeof key, STORE_NUMBER, line->chain.number);
  store_txn_put (
    t, AUDIT_LOG_KIND, key,
    json_pack ("{ss% sI sb}", "line", line->text, strlen (line->text) - 1,
               "through", (json_int_t) log->through, "written", line->written));
}

static void
drop (struct audit_log *log, struct store_txn *t, struct line *line)
{
  char key[STORE_KEY_BYTES];

  snprintf (key, sizeof key, STORE_NUMBER, line->chain.number);
  store_txn_put (t, AUDIT_LOG_KIND, key, NULL);
  STAILQ_REMOVE_HEAD (&log->lines, link);
  free_line (line);
}

int
audit_log_load (struct audit_log *log, const char *key, const json_t *json,
                char *why, size_t why_size)
{
  const char *text = json_string_value (json_object_get (json, "line"));
  json_t *through = json_object_get (json, "through"),
         *written = json_object_get (json, "written");
  struct chain_link chain;
  struct line *line;

  if (text == NULL || !json_is_integer (through) || !json_is_boolean (written))
    return refuse (why, why_size, "it is no line of the audit log");
  if (chain_read (text, strlen (text), &chain, why, why_size) == -1)
    return -1;
  if (chain.number != strtoull (key, NULL, 10) ||
      (log->last.number > 0 && strcmp (chain.previous, log->last.hash) != 0))
    return refuse (why, why_size, "it does not follow the one before");
  line = append (log, &chain, (char *) (uintptr_t) text);
  line->durable = true;
  line->written = json_is_true (written);
  log->through = (uint64_t) json_integer_value (through);
  if (line->written)
    log->written = chain;
  else
    log->waiting++;
  return 0;
}

void
audit_log_add (struct audit_log *log, struct store_txn *t, uint64_t id,
               const json_t *json)
{
  struct chain_link chain = { .number = log->last.number + 1 };
  json_t *whole;
  char *text;

  if (log->target == NULL)
    return;
  whole = json_pack ("{so}", "id", text_number (id));
  json_object_update (whole, (json_t *) (uintptr_t) json);
  json_object_del (whole, "exported");
  strcpy (chain.previous, log->last.hash);
  text = chain_line (whole, &chain);
  json_decref (whole);
  if (text == NULL)
    abort ();
  if (id > log->through)
    log->through = id;
  put (log, t, append (log, &chain, text));
  free (text);
  log->waiting++;
}

void
audit_log_durable (struct audit_log *log, const struct store_txn *t)
{
  uint64_t number = 0;
  struct line *line;

  for (size_t i = 0; i < t->count; i++)
    if (t->ops[i].json && strcmp (t->ops[i].kind, AUDIT_LOG_KIND) == 0)
      number = strtoull (t->ops[i].key, NULL, 10);
  if (number > 0)
    STAILQ_FOREACH (line, &log->lines, link)
      line->durable = line->durable || line->chain.number <= number;
}

/* ---- Jobs. ---- */

struct audit_job *
audit_log_begin (struct audit_log *log, bool reopen)
{
  struct audit_job *job;
  struct line *line;
  bool wants = reopen || !log->opened;

  if (log->target == NULL || log->busy)
    return NULL;
  STAILQ_FOREACH (line, &log->lines, link)
    wants = wants || (line->durable && !line->written);
  if (!wants)
    return NULL;
  job = alloc_zeroed (sizeof *job);
  job->lines = alloc_zeroed (LINES_AT_ONCE * sizeof *job->lines);
  job->links = alloc_zeroed (LINES_AT_ONCE * sizeof *job->links);
  snprintf (job->target, sizeof job->target, "%s", log->target);
  job->fd = log->fd;
  job->reopened = reopen;
  if (reopen && job->fd != -1) {
    close (job->fd);
    job->fd = -1;
  }
  STAILQ_FOREACH (line, &log->lines, link) {
    if (!line->durable || job->count == LINES_AT_ONCE)
      break;
    job->from += line->written;
    job->lines[job->count] = alloc_copy (line->text);
    job->links[job->count++] = line->chain;
  }
  log->fd = -1;
  log->busy = true;
  return job;
}

void
audit_log_end (struct audit_log *log, struct audit_job *job,
               struct store_txn *t)
{
  struct line *line;
  size_t left = job->written;

  log->busy = false;
  log->opened = true;
  log->fd = job->fd;
  memcpy (log->error, job->error, sizeof log->error);
  if (job->doubt[0] || job->reopened) /* another file: another matter */
    memcpy (log->doubt, job->doubt, sizeof log->doubt);
  STAILQ_FOREACH (line, &log->lines, link) {
    if (left-- == 0)
      break;
    log->waiting -= !line->written;
    if (!line->written && STAILQ_NEXT (line, link) == NULL) {
      line->written = true;
      put (log, t, line);
    }
    line->written = true;
    log->written = line->chain;
  }
  while ((line = STAILQ_FIRST (&log->lines)) != NULL && line->written &&
         STAILQ_NEXT (line, link))
    drop (log, t, line);
  for (size_t i = 0; i < job->count; i++)
    free (job->lines[i]);
  free (job->lines);
  free (job->links);
  free (job);
}

/* ---- Writing, on any thread. ---- */

static bool
write_all (int fd, const char *text, size_t bytes)
{
  while (bytes > 0) {
    ssize_t n = write (fd, text, bytes);

    if (n == -1 && errno == EINTR)
      continue;
    if (n == -1)
      return false;
    text += n;
    bytes -= (size_t) n;
  }
  return true;
}

/* Find the last line that is whole in what the file ends with, and what follows it. */
static int
read_end (int fd, char *buffer, char **last, size_t *last_bytes, char **torn,
          size_t *torn_bytes)
{
  off_t size = lseek (fd, 0, SEEK_END);
  off_t from = size > LINE_BYTES_MAX ? size - LINE_BYTES_MAX : 0;
  size_t bytes = (size_t) (size - from);
  char *end, *before;

  if (size == -1 || pread (fd, buffer, bytes, from) != (ssize_t) bytes)
    return -1;
  end = bytes ? memrchr (buffer, '\n', bytes) : NULL;
  *torn = end ? end + 1 : buffer;
  *torn_bytes = bytes - (size_t) (*torn - buffer);
  before = end ? memrchr (buffer, '\n', (size_t) (end - buffer)) : NULL;
  *last = before ? before + 1 : buffer;
  *last_bytes = end ? (size_t) (end - *last) : 0;
  return 0;
}

/* Where in the job is the file now?  Lines in the file are skipped, also a part
 * of a line.
 */
static bool
find_place (struct audit_job *job)
{
  char buffer[LINE_BYTES_MAX], *last, *torn, why[256];
  size_t last_bytes, torn_bytes, next = job->from;
  struct chain_link link;
  bool fine = false, known = false, fits;

  if (read_end (job->fd, buffer, &last, &last_bytes, &torn, &torn_bytes) == 0) {
    fine = true;
    if (last_bytes > 0 &&
        chain_read (last, last_bytes, &link, why, sizeof why) == 0)
      for (size_t i = 0; i <= job->count && job->count > 0 && !known; i++) {
        known = strcmp (link.hash, i < job->count
                                     ? job->links[i].previous
                                     : job->links[i - 1].hash) == 0;
        next = known ? i : job->from;
      }
    if (last_bytes > 0 && !known && job->count > 0)
      snprintf (job->doubt, sizeof job->doubt,
                "The audit log %.200s does not end with the last line that "
                "weftd wrote to it: it was changed, or weftd's database is "
                "another or an older one. weftd goes on below it; weftctl "
                "audit verify names the place",
                job->target);
    fits = torn_bytes > 0 && next < job->count &&
           torn_bytes < strlen (job->lines[next]) &&
           memcmp (torn, job->lines[next], torn_bytes) == 0;
    if (fits)
      fine = write_all (job->fd, job->lines[next] + torn_bytes,
                        strlen (job->lines[next]) - torn_bytes);
    else if (torn_bytes > 0) {
      snprintf (job->doubt, sizeof job->doubt,
                "The audit log %.200s ends in the middle of a line that weftd "
                "did not write. weftd goes on below it; weftctl audit verify "
                "names the place",
                job->target);
      fine = write_all (job->fd, "\n", 1);
    }
    job->written = next + (fits && fine);
  }
  return fine;
}

static bool
open_file (struct audit_job *job)
{
  struct stat st;

  job->fd = open (job->target,
                  O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC |
                    O_NOCTTY | O_NONBLOCK,
                  0600);
  if (job->fd == -1 || fstat (job->fd, &st) == -1)
    return false;
  if (!S_ISREG (st.st_mode)) {
    errno = EINVAL;
    return false;
  }
  return find_place (job);
}

static bool
write_file (struct audit_job *job)
{
  bool fine = job->fd != -1;

  if (fine)
    job->written = job->from;
  else
    fine = open_file (job);
  while (fine && job->written < job->count) {
    const char *line = job->lines[job->written];

    fine = write_all (job->fd, line, strlen (line));
    job->written += fine;
  }
  return fine && fdatasync (job->fd) == 0;
}

/* A line is one message, and a line that was not taken is sent once more:
 * syslog (3) would not report that.
 */
static bool
write_syslog (struct audit_job *job)
{
  struct sockaddr_un to = { .sun_family = AF_UNIX, .sun_path = SYSLOG_SOCKET };
  bool fine = true;

  job->written = job->from;
  if (job->fd == -1) {
    job->fd = socket (AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    fine = job->fd != -1 &&
           connect (job->fd, (struct sockaddr *) &to, sizeof to) == 0;
  }
  while (fine && job->written < job->count) {
    char *text = alloc_print ("<%d>weftd-audit: %s", LOG_AUTHPRIV | LOG_NOTICE,
                              job->lines[job->written]);

    fine = send (job->fd, text, strlen (text) - 1, MSG_DONTWAIT) != -1;
    job->written += fine;
    free (text);
  }
  return fine;
}

void
audit_log_write (struct audit_job *job)
{
  bool to_syslog = strcmp (job->target, AUDIT_LOG_SYSLOG) == 0;

  if (to_syslog ? write_syslog (job) : write_file (job))
    return;
  /* The next job looks at what the file has. */
  job->written = to_syslog ? job->written : 0;
  snprintf (job->error, sizeof job->error, "%s", strerror (errno));
  if (job->fd != -1)
    close (job->fd);
  job->fd = -1;
}

/* ---- Advice and state, in words.  ---- */

void
audit_log_words (const struct audit_log *log, char *text, size_t size)
{
  text[0] = '\0';
  if (log->error[0])
    snprintf (
      text, size,
      "The audit log %.200s cannot be written: %s. %zu lines wait in "
      "weftd's database, and none is lost: make room, or let weftd's user "
      "write there",
      log->target, log->error, log->waiting);
  else
    snprintf (text, size, "%s", log->doubt);
}

json_t *
audit_log_view (const struct audit_log *log)
{
  char problem[AUDIT_LOG_WORDS_BYTES];

  audit_log_words (log, problem, sizeof problem);
  return fields_object ((const struct field_value[]) {
    { "log", log->target ? text_string (log->target) : json_null () },
    { "number", text_number (log->written.number) },
    { "hash", text_string (log->written.hash) },
    { "waiting", text_number (log->waiting) },
    { "problem", text_or_null (problem) },
    { NULL } });
}
