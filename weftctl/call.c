/* call.c: calls to weftd, and what is asked before something is changed. */

#include <config.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/bytes.h"
#include "common/admin.h"
#include "common/clock.h"
#include "ctl.h"
#include "output.h"

#define PAGE_MAX 1000
#define RETRY_MS 500
#define ETAG_BYTES 128

/* --- Calls ---------------------------------------------------------------- */

static int
connect_as (struct ctl *ctl, const char *token)
{
  ctl->admin = admin_new (ctl->admin_url, ctl->tls_dir, token);
  if (ctl->admin)
    return EXIT_OK;
  ctl_error ("%s: not the URL of a weftd; give one such as "
             "http://127.0.0.1:7380 by --admin or WEFT_ADMIN",
             ctl->admin_url);
  return EXIT_USAGE;
}

int
ctl_connect (struct ctl *ctl)
{
  char *token;
  int r;

  if (ctl->admin)
    return EXIT_OK;
  r = config_token (ctl, &token);
  if (r == EXIT_OK)
    r = connect_as (ctl, token);
  config_secret_free (token);
  return r;
}

int
ctl_connect_afresh (struct ctl *ctl)
{
  int r = connect_as (ctl, NULL);

  if (r == EXIT_OK)
    admin_keep_cookies (ctl->admin);
  return r;
}

/* The requests that may have an idempotency key: not those whose answer has a
 * secret, because weftd does not keep the answer to give it twice.
 */
static bool
takes_key (const char *method, const char *path)
{
  static const char *const paths[] = { "/api/v1/arrays", "/api/v1/imports",
                                       "/api/v1/nodes/" };

  if (strcmp (method, "POST") != 0 || strchr (path, '?'))
    return false;
  for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
    if (strncmp (path, paths[i], strlen (paths[i])) == 0)
      return true;
  return false;
}

/* One call.  By its key weftd knows a POST again: so when the connection broke
 * in the middle of it, it can be sent once more.
 */
static int
call (struct ctl *ctl, const char *method, const char *path, const json_t *body,
      json_t **reply)
{
  unsigned char bytes[16];
  char key[2 * sizeof bytes + 1] = "";
  int status;

  if (takes_key (method, path) &&
      getrandom (bytes, sizeof bytes, 0) == (ssize_t) sizeof bytes)
    *put_hex (key, bytes, sizeof bytes) = '\0';
  for (int tries = 0;; tries++) {
    if (*key)
      admin_header (ctl->admin, "Idempotency-Key", key);
    status = admin_call (ctl->admin, method, path, body, reply,
                         ctl->timeout_ms);
    if (status != -1 || tries || !admin_interrupted (ctl->admin) ||
        (*key == '\0' && strcmp (method, "GET") != 0))
      return status;
    clock_sleep_ms (RETRY_MS);
  }
}

/* weftd wants a code of the second factor, too.  False: there is nobody to ask. */
static bool
add_code (const struct ctl *ctl, json_t *body)
{
  char *code = body && strcmp (admin_code (ctl->admin), "code-required") == 0 &&
                   !json_object_get (body, "code")
                 ? output_ask_word ("Code of the second factor:", false)
                 : NULL;

  if (code)
    json_object_set_new (body, "code", json_string (code));
  free (code);
  return code;
}

int
ctl_try (struct ctl *ctl, const char *method, const char *path, json_t *body,
         json_t **reply)
{
  json_t *json = NULL;
  int status, r = ctl_connect (ctl);

  if (reply)
    *reply = NULL;
  status = r == EXIT_OK ? call (ctl, method, path, body, &json) : -1;
  if (status >= 400 && add_code (ctl, body)) {
    json_decref (json);
    json = NULL;
    status = call (ctl, method, path, body, &json);
  }
  json_decref (body);
  if (r != EXIT_OK)
    return r;
  if (status >= 200 && status < 300) {
    if (reply)
      *reply = json;
    else
      json_decref (json);
    return EXIT_OK;
  }
  json_decref (json);
  if (status == -1 ||
      (status == 503 && strcmp (admin_code (ctl->admin), "stopping") == 0))
    return EXIT_UNREACHABLE;
  if (status < 400) {
    ctl_error ("weftd at %s: answers %s %s with status %d; is this really a "
               "weftd?",
               ctl->admin_url, method, path, status);
    return EXIT_FAILED;
  }
  ctl_error ("%s", admin_error (ctl->admin));
  return status >= 500 ? EXIT_FAILED : EXIT_REFUSED;
}

int
ctl_unreachable (struct ctl *ctl)
{
  ctl_error ("%s (weftctl takes the address from --admin or WEFT_ADMIN)",
             admin_error (ctl->admin));
  return EXIT_UNREACHABLE;
}

int
ctl_call (struct ctl *ctl, const char *method, const char *path, json_t *body,
          json_t **reply)
{
  int r = ctl_try (ctl, method, path, body, reply);

  return r == EXIT_UNREACHABLE ? ctl_unreachable (ctl) : r;
}

int
ctl_show (const struct ctl *ctl, int status, json_t *reply,
          void (*print) (const json_t *reply))
{
  if (status == EXIT_OK && ctl->json)
    output_json (reply);
  else if (status == EXIT_OK)
    print (reply);
  json_decref (reply);
  return status;
}

int
ctl_say (const struct ctl *ctl, int status, json_t *reply, const char *format,
         ...)
{
  va_list ap;

  va_start (ap, format);
  if (status == EXIT_OK && ctl->json && reply)
    output_json (reply);
  else if (status == EXIT_OK && !ctl->json && !ctl->dry_run) {
    vprintf (format, ap);
    putchar ('\n');
  }
  va_end (ap);
  json_decref (reply);
  return status;
}

bool
ctl_list (struct ctl *ctl, const char *path, json_t **reply, int *status)
{
  *status = ctl_call (ctl, "GET", path, NULL, reply);
  if (*status != EXIT_OK)
    return false;
  if (!ctl->json)
    return true;
  output_json (*reply);
  json_decref (*reply);
  return false;
}

int
ctl_ls (struct ctl *ctl, const char *path, const char *list,
        const char *headings, const char *keys,
        void (*row) (struct table *t, const json_t *item))
{
  json_t *reply;
  int r;

  if (!ctl_list (ctl, path, &reply, &r))
    return r;
  output_table_of (json_object_get (reply, list), headings, keys, row, 0);
  json_decref (reply);
  return EXIT_OK;
}

int
ctl_pages (struct ctl *ctl, const char *path, const char *key, uint64_t limit,
           json_t **reply)
{
  const char *sep = strchr (path, '?') ? "&" : "?", *cursor;
  json_t *all = NULL, *page;
  char next[160] = "", *url;
  size_t have = 0;
  int r;

  do {
    if (asprintf (&url, "%s%slimit=%zu%s%s", path, sep,
                  limit - have < PAGE_MAX ? (size_t) limit - have
                                          : (size_t) PAGE_MAX,
                  *next ? "&cursor=" : "", next) == -1)
      return EXIT_FAILED;
    r = ctl_call (ctl, "GET", url, NULL, &page);
    free (url);
    if (r != EXIT_OK)
      break;
    if (all == NULL)
      all = json_incref (page);
    else
      json_array_extend (json_object_get (all, key),
                         json_object_get (page, key));
    cursor = json_string_value (json_object_get (page, "next"));
    snprintf (next, sizeof next, "%s", cursor ? cursor : "");
    json_decref (page);
    json_object_set_new (all, "next",
                         *next ? json_string (next) : json_null ());
    have = json_array_size (json_object_get (all, key));
  } while (*next && have < limit);
  if (r == EXIT_OK)
    *reply = all;
  else
    json_decref (all);
  return r;
}

int
ctl_get (struct ctl *ctl, const char *what, const char *name, const char *more,
         json_t **reply)
{
  char path[CTL_PATH_BYTES];
  int r = ctl_path (what, name, more, path);

  *reply = NULL;
  return r == EXIT_OK ? ctl_call (ctl, "GET", path, NULL, reply) : r;
}

/* --- Changes that may cost something -------------------------------------- */

int
ctl_preflight (struct ctl *ctl, const char *method, const char *path,
               json_t *body, json_t **preflight)
{
  json_t *lines;
  char *url;
  int r;

  if (asprintf (&url, "%s%sdry_run=true", path,
                strchr (path, '?') ? "&" : "?") == -1)
    return EXIT_FAILED;
  r = ctl_call (ctl, method, url, json_incref (body), preflight);
  free (url);
  if (r != EXIT_OK)
    return r;
  lines = json_object_get (*preflight, "lines");
  if (ctl->json && ctl->dry_run)
    output_json (*preflight);
  else if (!ctl->json || !ctl->yes)
    output_lines (lines, ctl->json);
  if (!json_is_false (json_object_get (*preflight, "allowed")))
    return EXIT_OK;
  ctl_error ("weftd at %s: %s", ctl->admin_url,
             output_json_text (*preflight, "why"));
  json_decref (*preflight);
  *preflight = NULL;
  return EXIT_REFUSED;
}

int
ctl_confirm (struct ctl *ctl, const char *name)
{
  char question[320];

  if (ctl->yes)
    return EXIT_OK;
  snprintf (question, sizeof question, "Type %s to go on:", name);
  switch (output_ask_typed (question, name)) {
  case 1:
    return EXIT_OK;
  case 0:
    ctl_error ("%s was not typed; nothing was changed", name);
    return EXIT_FAILED;
  default:
    ctl_error ("%s: there is no terminal to ask on, so nothing was done; add "
               "--yes to do it, or --dry-run to see what it would do",
               name);
    return EXIT_USAGE;
  }
}

int
ctl_confirm_yes (const struct ctl *ctl, const char *array, const char *question,
                 const char *done, const char *to_do)
{
  switch (ctl->yes ? 1 : output_ask_yes (question)) {
  case 1:
    return EXIT_OK;
  case 0:
    ctl_error ("array %s: not %s, as you did not say yes; nothing was changed",
               array, done);
    return EXIT_FAILED;
  default:
    ctl_error ("array %s: there is no terminal to ask on, so nothing was done; "
               "add --yes to %s",
               array, to_do);
    return EXIT_USAGE;
  }
}

int
ctl_confirm_shut_out (struct ctl *ctl, const char *what, const char *name)
{
  if (ctl->dry_run || !ctl->yes)
    fprintf (ctl->json ? stderr : stdout, "  %s %s: it is shut out at once\n",
             what, name);
  return ctl->dry_run ? EXIT_OK : ctl_confirm (ctl, name);
}

int
ctl_change (struct ctl *ctl, const char *method, const char *path, json_t *body,
            json_t **reply)
{
  char etag[ETAG_BYTES] = "";
  const char *value = NULL;
  json_t *preflight = NULL;
  int r = EXIT_OK;

  if (reply)
    *reply = NULL;
  if (ctl->dry_run || !ctl->yes) {
    /* The confirmation is for the present configuration, and valid for no other
     * (RFC 9110: If-Match).
     */
    if (strcmp (method, "POST") != 0 && ctl_connect (ctl) == EXIT_OK &&
        admin_call (ctl->admin, "GET", path, NULL, NULL, ctl->timeout_ms) ==
          200)
      value = admin_answered (ctl->admin, "ETag");
    snprintf (etag, sizeof etag, "%s", value ? value : "");
    r = ctl_preflight (ctl, method, path, body, &preflight);
    if (r == EXIT_OK && !ctl->dry_run)
      r = ctl_confirm (ctl, output_json_text (preflight, "confirm"));
    json_decref (preflight);
  }
  if (r != EXIT_OK || ctl->dry_run) {
    json_decref (body);
    return r;
  }
  if (*etag)
    admin_header (ctl->admin, "If-Match", etag);
  return ctl_call (ctl, method, path, body, reply);
}
