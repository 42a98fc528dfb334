/* cmd-audit.c: weftctl audit: the audit trail, and the check of an audit log's
 * files.
 */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/chain.h"
#include "ctl.h"
#include "output.h"

#define LIMIT_DEFAULT 50
#define LIMIT_MAX 100000
/* weftd may write a line while the log is read: then it is read once more. */
#define TRIES 5

static void
print_audit (const json_t *reply)
{
  const json_t *list = json_object_get (reply, "audit");
  struct table *t = output_table_new (
    "AT|WHO|VIA|FROM|ACTION|SUBJECT|>STATUS|>TIMES");

  for (size_t i = json_array_size (list); i-- > 0;)
    output_table_cells (
      t, json_array_get (list, i),
      "at|who|via|address|action|subject|status:number|times:number");
  output_table_print (t, 0);
}

/* ---- audit verify ---- */

/* A line of syslog's has more before it. */
static const char *
begin_of (const char *text)
{
  const char *begin = strstr (text, "{\"number\":");

  return begin ? begin : text;
}

static int
read_log (struct chain *chain, const char *path)
{
  FILE *f = strcmp (path, "-") == 0 ? stdin : fopen (path, "re");
  char *text = NULL, why[256];
  size_t size = 0, number = 0;
  ssize_t n;
  int r = EXIT_OK;

  if (f == NULL) {
    ctl_error ("%s: %s", path, strerror (errno));
    return EXIT_FAILED;
  }
  while (r == EXIT_OK && (n = getline (&text, &size, f)) > 0) {
    const char *line = begin_of (text);
    size_t bytes = (size_t) (text + n - line);

    number++;
    if (line[bytes - 1] != '\n') {
      ctl_error ("%s, line %zu: it is cut off", path, number);
      r = EXIT_FAILED;
    }
    else if (chain_take (chain, line, bytes - 1, why, sizeof why) == -1) {
      ctl_error ("%s, line %zu: %s", path, number, why);
      r = EXIT_FAILED;
    }
  }
  if (r == EXIT_OK && ferror (f)) {
    ctl_error ("%s: %s", path, strerror (errno));
    r = EXIT_FAILED;
  }
  free (text);
  if (f != stdin)
    fclose (f);
  return r;
}

static int
read_logs (struct chain *chain, const struct args *args)
{
  const char *path;
  int r = EXIT_OK;

  chain_clear (chain);
  for (unsigned i = 1; r == EXIT_OK && (path = args_plain (args, i)); i++)
    r = read_log (chain, path);
  return r;
}

/* Is the log's last line the last that weftd has written? */
static int
compare (const struct chain *chain, const json_t *own)
{
  uint64_t number = (uint64_t) output_json_number (own, "number");
  const char *hash = output_json_text (own, "hash");

  if (chain->last.number == number &&
      (number == 0 || strcmp (chain->last.hash, hash) == 0))
    return EXIT_OK;
  if (chain->last.number < number)
    ctl_error ("the log ends with number %" PRIu64 ", and weftd has written "
               "number %" PRIu64 ": lines are missing at its end",
               chain->last.number, number);
  else if (chain->last.number > number)
    ctl_error ("the log goes on to number %" PRIu64
               ", but weftd has written number %" PRIu64
               " last: weftd did not write the later lines, or its database is "
               "older than the log",
               chain->last.number, number);
  else
    ctl_error ("number %" PRIu64 ", the last line, is not the one that weftd "
               "has written: its hash is another",
               number);
  return EXIT_FAILED;
}

/* NULL: weftd does not say. */
static json_t *
ask_weftd (struct ctl *ctl)
{
  json_t *own = NULL;

  ctl_try (ctl, "GET", "/api/v1/audit/log", NULL, &own);
  return own;
}

/* Between two answers of weftd's that are the same nothing was written. */
static int
verify (struct ctl *ctl, const struct args *args, struct chain *chain,
        json_t **own)
{
  json_t *before;
  int r = EXIT_OK;

  *own = ask_weftd (ctl);
  for (unsigned i = 0; r == EXIT_OK && i < TRIES; i++) {
    before = *own;
    r = read_logs (chain, args);
    *own = before && r == EXIT_OK ? ask_weftd (ctl) : NULL;
    i = *own == NULL || json_equal (before, *own) ? TRIES : i;
    json_decref (before);
  }
  return r == EXIT_OK && output_json_has (*own, "log") ? compare (chain, *own)
                                                       : r;
}

static int
audit_verify (struct ctl *ctl, const struct args *args)
{
  struct chain chain = { 0 };
  json_t *own = NULL, *reply;
  bool compared;
  int r;

  if (strcmp (args_plain (args, 0), "verify") != 0 ||
      args_plain (args, 1) == NULL) {
    ctl_error ("audit: it is: weftctl audit, or weftctl audit verify FILE...");
    return EXIT_USAGE;
  }
  r = verify (ctl, args, &chain, &own);
  compared = output_json_has (own, "log");
  reply = r == EXIT_OK ? json_pack ("{s:I, s:I, s:s, s:s, s:b}", "first",
                                    (json_int_t) chain.first.number, "last",
                                    (json_int_t) chain.last.number, "previous",
                                    chain.first.previous, "hash",
                                    chain.last.hash, "compared", compared)
                       : NULL;
  r = ctl_say (ctl, r, reply,
               "numbers %" PRIu64 " to %" PRIu64 " are whole, %s: number "
               "%" PRIu64 " follows hash %s, and the last hash is %s",
               chain.first.number, chain.last.number,
               compared ? "and the last one is weftd's last"
                        : "but weftd has not said which its last is",
               chain.first.number, chain.first.previous, chain.last.hash);
  json_decref (own);
  chain_clear (&chain);
  return r;
}

int
cmd_audit (struct ctl *ctl, const struct args *args)
{
  uint64_t limit = LIMIT_DEFAULT;
  json_t *reply = NULL;
  int r = args_number (args, "limit", 1, LIMIT_MAX, &limit);

  if (r == EXIT_OK && args_plain (args, 0))
    return audit_verify (ctl, args);
  if (r == EXIT_OK)
    r = ctl_pages (ctl, "/api/v1/audit", "audit", limit, &reply);
  return ctl_show (ctl, r, reply, print_audit);
}
