/* test-audit-log.c: the audit log outside of weftd's database: weftd is ended at each point
 * of a write, and each line is changed, cut off, removed, moved and added.
 */

#include <config.h>

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <signal.h>

#include "server/audit-log.h"
#include "server/store/store.h"

#define LINES 6
#define BYTES_MAX 8192

static char dir[] = "/tmp/test-audit-log.XXXXXX", file[64], other[64];

/* ---- A store: keeps the transactions' entries by number.  ---- */

static json_t *stored;

static void
store (struct audit_log *log, struct store_txn *t)
{
  for (size_t i = 0; i < t->count; i++)
    if (t->ops[i].json)
      json_object_set_new (stored, t->ops[i].key,
                           json_loads (t->ops[i].json, 0, NULL));
    else
      json_object_del (stored, t->ops[i].key);
  audit_log_durable (log, t);
  store_txn_free (t);
}

static void
add (struct audit_log *log, unsigned id)
{
  struct store_txn *t = store_txn_new ();
  json_t *line = json_pack ("{ss si}", "action", "DELETE /arrays/{name}",
                            "status", 200);

  audit_log_add (log, t, id, line);
  store (log, t);
  json_decref (line);
}

/* weftd is started with what is stored. */
static struct audit_log *
start (void)
{
  struct audit_log *log = audit_log_new ();
  char key[STORE_KEY_BYTES], why[256];
  json_t *record;

  for (uint64_t n = 1; n < 100; n++) {
    snprintf (key, sizeof key, STORE_NUMBER, n);
    record = json_object_get (stored, key);
    assert (record == NULL ||
            audit_log_load (log, key, record, why, sizeof why) == 0);
  }
  audit_log_to (log, file);
  return log;
}

/* Returns whether it could be written.  end false: weftd ends before that is stored. */
static bool
write_out (struct audit_log *log, bool reopen, bool end)
{
  struct audit_job *job = audit_log_begin (log, reopen);
  struct store_txn *t;
  bool fine;

  if (job == NULL)
    return true;
  assert (audit_log_begin (log, reopen) == NULL);
  audit_log_write (job);
  fine = job->error[0] == '\0';
  t = store_txn_new ();
  audit_log_end (log, job, t);
  if (end)
    store (log, t);
  else
    store_txn_free (t);
  return fine;
}

static void
begin (void)
{
  json_decref (stored);
  stored = json_object ();
  unlink (file);
}

/* ---- Files. ---- */

static size_t
read_file (const char *path, char text[BYTES_MAX])
{
  int fd = open (path, O_RDONLY);
  ssize_t n = read (fd, text, BYTES_MAX - 1);

  assert (n >= 0);
  close (fd);
  text[n] = '\0';
  return (size_t) n;
}

static void
set_file (const char *text, size_t bytes)
{
  int fd = open (file, O_WRONLY | O_CREAT | O_TRUNC, 0600);

  assert (write (fd, text, bytes) == (ssize_t) bytes);
  close (fd);
}

/* The number of the line that does not fit; 0: all do. */
static unsigned
verify (const char *text, struct chain *chain)
{
  unsigned n = 0;
  const char *end;
  char why[256];

  for (; *text; text = end + 1) {
    end = strchr (text, '\n');
    n++;
    if (end == NULL ||
        chain_take (chain, text, (size_t) (end - text), why, sizeof why) == -1)
      return n;
  }
  return 0;
}

/* The file has the lines 1 to `count`, each once. */
static void
expect (uint64_t count)
{
  struct chain chain = { 0 };
  char text[BYTES_MAX];
  unsigned lines = 0;

  read_file (file, text);
  assert (verify (text, &chain) == 0 && chain.last.number == count);
  for (const char *p = text; *p; p++)
    lines += *p == '\n';
  assert (lines == count);
  chain_clear (&chain);
}

static void
expect_words (const struct audit_log *log, const char *words)
{
  char text[AUDIT_LOG_WORDS_BYTES];

  audit_log_words (log, text, sizeof text);
  assert (words ? strstr (text, words) != NULL : text[0] == '\0');
}

/* ---- Tests. ---- */

/* The power fails when `cut` bytes of the file are there, and nothing of it is stored. */
static void
test_cuts (void)
{
  char text[BYTES_MAX];
  struct audit_log *log;
  size_t bytes, kept;

  begin ();
  log = start ();
  add (log, 1);
  add (log, 2);
  assert (write_out (log, false, true));
  kept = read_file (file, text);
  add (log, 3);
  add (log, 4);
  assert (write_out (log, false, false));
  audit_log_free (log);
  bytes = read_file (file, text);
  assert (bytes > kept);
  for (size_t cut = kept; cut <= bytes; cut++) {
    json_t *before = json_deep_copy (stored);

    set_file (text, cut);
    log = start ();
    add (log, 5);
    assert (write_out (log, false, true));
    expect_words (log, NULL);
    expect (5);
    audit_log_free (log);
    json_decref (stored);
    stored = before;
  }
}

/* Also the newest line is known after another start. */
static void
test_start (void)
{
  struct audit_log *log;

  begin ();
  for (unsigned i = 1; i <= LINES; i++) {
    log = start ();
    assert (audit_log_through (log) == i - 1);
    add (log, i);
    if (i % 2)
      assert (write_out (log, false, true));
    audit_log_free (log);
  }
  log = start ();
  assert (write_out (log, false, true));
  expect (LINES);
  assert (json_object_size (stored) == 1);
  assert (audit_log_begin (log, false) == NULL);
  /* Entries that are not durable are not written. */
  {
    struct store_txn *t = store_txn_new ();
    json_t *line = json_object ();

    add (log, LINES + 1);
    audit_log_add (log, t, 99, line);
    assert (write_out (log, false, true));
    expect (LINES + 1);
    assert (audit_log_begin (log, false) == NULL);
    json_decref (line);
    store_txn_free (t);
  }
  audit_log_free (log);
}

/* The disk is full: nothing is lost, the status says so, and writing resumes by
 * itself. */
static void
test_full (void)
{
  struct rlimit limit, tight;
  struct audit_log *log;
  char text[BYTES_MAX];
  json_t *view;

  begin ();
  log = start ();
  add (log, 1);
  assert (write_out (log, false, true));
  signal (SIGXFSZ, SIG_IGN);
  getrlimit (RLIMIT_FSIZE, &limit);
  tight = limit;
  tight.rlim_cur = read_file (file, text) + 20;
  setrlimit (RLIMIT_FSIZE, &tight);
  add (log, 2);
  add (log, 3);
  assert (!write_out (log, false, true));
  setrlimit (RLIMIT_FSIZE, &limit);
  assert (read_file (file, text) == tight.rlim_cur);
  expect_words (log, "2 lines wait");
  view = audit_log_view (log);
  assert (json_integer_value (json_object_get (view, "waiting")) == 2);
  assert (json_integer_value (json_object_get (view, "number")) == 1);
  json_decref (view);
  assert (write_out (log, false, true));
  expect_words (log, NULL);
  expect (3);
  audit_log_free (log);
}

static void
test_rotation (void)
{
  char text[BYTES_MAX];
  struct chain chain = { 0 };
  struct audit_log *log;

  begin ();
  log = start ();
  add (log, 1);
  assert (write_out (log, false, true));
  assert (rename (file, other) == 0);
  add (log, 2);
  assert (write_out (log, false, true)); /* still into the old one */
  assert (write_out (log, true, true));
  add (log, 3);
  assert (write_out (log, false, true));
  read_file (other, text);
  assert (verify (text, &chain) == 0 && chain.last.number == 2);
  read_file (file, text);
  assert (verify (text, &chain) == 0 && chain.last.number == 3);
  chain_clear (&chain);
  /* A new file says itself what it follows. */
  assert (verify (text, &chain) == 0 && chain.first.number == 3);
  chain_clear (&chain);
  audit_log_free (log);

  /* The file is another one, or is no file. */
  set_file ("nonsense\n", 9);
  log = start ();
  assert (write_out (log, false, true));
  expect_words (log, "does not end with the last line");
  audit_log_free (log);
  unlink (file);
  assert (symlink (other, file) == 0);
  log = start ();
  assert (!write_out (log, false, true));
  expect_words (log, "cannot be written");
  audit_log_free (log);
  unlink (file);
  unlink (other);
}

/* Line `at` of the text, from which the copy goes on after `skip` lines. */
static char *
line_at (char *text, unsigned at)
{
  while (at-- > 0)
    text = strchr (text, '\n') + 1;
  return text;
}

static void
test_tampering (void)
{
  char text[BYTES_MAX], evil[2 * BYTES_MAX];
  struct audit_log *log;
  struct chain chain = { 0 };
  size_t bytes;

  begin ();
  log = start ();
  for (unsigned i = 1; i <= LINES; i++)
    add (log, i);
  assert (write_out (log, false, true));
  audit_log_free (log);
  bytes = read_file (file, text);
  assert (verify (text, &chain) == 0);
  chain_clear (&chain);
  /* Any character. */
  for (size_t i = 0; i + 1 < bytes; i++) {
    unsigned n = 1;

    memcpy (evil, text, bytes + 1);
    for (size_t j = 0; j < i; j++)
      n += text[j] == '\n';
    evil[i] = evil[i] == '0' ? '1' : '0';
    assert (verify (evil, &chain) == n);
    chain_clear (&chain);
  }
  for (unsigned n = 0; n < LINES; n++) {
    char *line = line_at (text, n), *next = line_at (text, n + 1);
    size_t before = (size_t) (line - text), own = (size_t) (next - line);

    /* Removed: the next line does not fit, but for the first and the last one, which
     * `weftctl audit verify` compares with what weftd says.
     */
    memcpy (evil, text, before);
    strcpy (evil + before, next);
    assert (verify (evil, &chain) == (n == 0 || n == LINES - 1 ? 0 : n + 1));
    assert (n > 0 || chain.first.number == 2);
    chain_clear (&chain);
    /* Cut off. */
    memcpy (evil, text, before + own / 2);
    strcpy (evil + before + own / 2, next);
    assert (verify (evil, &chain) == n + 1);
    chain_clear (&chain);
    if (n == LINES - 1)
      continue;
    /* Swapped with the next one. */
    {
      char *after = line_at (text, n + 2);
      size_t theirs = (size_t) (after - next);

      memcpy (evil, text, before);
      memcpy (evil + before, next, theirs);
      memcpy (evil + before + theirs, line, own);
      strcpy (evil + before + theirs + own, after);
      assert (verify (evil, &chain) == (n == 0 ? 2 : n + 1));
      chain_clear (&chain);
    }
    /* Once more, as syslog may have it after weftd was started again. */
    memcpy (evil, text, bytes);
    strcpy (evil + bytes, line);
    assert (verify (evil, &chain) == 0 && chain.last.number == LINES);
    chain_clear (&chain);
  }
  /* If a line was forged with a hash that fits, the next line does not match it. */
  {
    struct chain_link link = { .number = 2 };
    json_t *line = json_pack ("{si}", "id", 2);
    char *first = line_at (text, 1), *made;

    assert (chain_read (text, (size_t) (first - text) - 1, &link, evil, 200) ==
            0);
    strcpy (link.previous, link.hash);
    link.number = 2;
    made = chain_line (line, &link);
    snprintf (evil, sizeof evil, "%.*s%s\n%s", (int) (first - text), text, made,
              line_at (text, 2));
    assert (verify (evil, &chain) == 3);
    chain_clear (&chain);
    free (made);
    json_decref (line);
  }
}

int
main (void)
{
  assert (mkdtemp (dir));
  snprintf (file, sizeof file, "%s/log", dir);
  snprintf (other, sizeof other, "%s/old", dir);
  test_cuts ();
  test_start ();
  test_full ();
  test_rotation ();
  test_tampering ();
  json_decref (stored);
  unlink (file);
  rmdir (dir);
  return 0;
}
