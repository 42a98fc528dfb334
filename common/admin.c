/* admin.c: the HTTP client that talks to weftd.
 *
 * One curl easy handle inside one multi handle.  The multi interface is there
 * for admin_cancel alone: curl_multi_wakeup is the one call that another
 * thread may make while a transfer is going on.  The connection is kept
 * alive between calls by the multi handle's cache.
 *
 * The token is a secret: it stands in a header of the request and nowhere else,
 * and is cleared before it is freed.
 */

#include <config.h>

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <curl/curl.h>

#include "admin.h"
#include "descriptors.h"
#include "strike.h"

/* No honest answer of weftd is larger. */
#define REPLY_BYTES_MAX (16u << 20)
#define CONNECT_TIMEOUT_MS 5000

struct admin {
  CURL *easy;
  CURLM *multi;
  struct curl_slist *headers;
  struct curl_slist *once; /* for the next call alone */
  char *base;              /* "http://host:port", no slash at the end */
  bool clear;              /* requests can be read on the way */
  bool secret;             /* a token or a cookie is sent */
  char *certificate;       /* the file of ours; NULL: weftd is shown none */
  struct stat shown;       /* that file, as the connection's TLS has it */
  atomic_bool cancelled;
  bool answered, interrupted;

  char *reply;
  size_t reply_bytes, reply_room, reply_bytes_max;
  bool reply_too_large;

  /* While a stream goes on: the consumer, and whether it has had enough. */
  bool (*take) (void *opaque, const char *data, size_t n);
  void *take_opaque;
  bool take_ended;

  char curl_text[CURL_ERROR_SIZE];
  char error[1024];
  char code[64];
};

void
admin_global_init (void)
{
  curl_global_init (CURL_GLOBAL_ALL);
}

static bool
is_loopback (const char *host)
{
  return strcmp (host, "localhost") == 0 || strcmp (host, "[::1]") == 0 ||
         (strncmp (host, "127.", 4) == 0 &&
          strspn (host, "0123456789.") == strlen (host));
}

/* The URL without the parts that admin_call adds; NULL when it isn't one of an
 * HTTP server, or holds a user.  *clear: requests can be read on the way.
 */
static char *
normalise_url (const char *url, bool *clear)
{
  CURLU *u = curl_url ();
  char *scheme = NULL, *host = NULL, *user = NULL, *text = NULL, *r = NULL;
  size_t n;

  if (u == NULL)
    return NULL;
  if (curl_url_set (u, CURLUPART_URL, url, 0) == CURLUE_OK &&
      curl_url_get (u, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
      curl_url_get (u, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
      curl_url_get (u, CURLUPART_USER, &user, 0) == CURLUE_NO_USER &&
      host[0] != '\0' &&
      (strcmp (scheme, "http") == 0 || strcmp (scheme, "https") == 0) &&
      curl_url_set (u, CURLUPART_QUERY, NULL, 0) == CURLUE_OK &&
      curl_url_set (u, CURLUPART_FRAGMENT, NULL, 0) == CURLUE_OK &&
      curl_url_get (u, CURLUPART_URL, &text, 0) == CURLUE_OK) {
    for (n = strlen (text); n > 0 && text[n - 1] == '/'; n--)
      ;
    r = strndup (text, n);
    *clear = strcmp (scheme, "http") == 0 && !is_loopback (host);
  }
  curl_free (text);
  curl_free (user);
  curl_free (host);
  curl_free (scheme);
  curl_url_cleanup (u);
  return r;
}

static size_t
reply_write (char *data, size_t size, size_t count, void *opaque)
{
  struct admin *c = opaque;
  size_t n = size * count; /* size is always 1 */
  long status = 0;

  /* A refusal is no part of the stream. */
  if (c->take &&
      curl_easy_getinfo (c->easy, CURLINFO_RESPONSE_CODE, &status) ==
        CURLE_OK &&
      status < 400) {
    c->take_ended = !c->take (c->take_opaque, data, n);
    return c->take_ended ? 0 : n;
  }
  if (n > c->reply_bytes_max - c->reply_bytes) {
    c->reply_too_large = true;
    return 0;
  }
  if (n > c->reply_room - c->reply_bytes) {
    size_t room = 2 * (c->reply_bytes + n);
    char *p = realloc (c->reply, room);

    if (p == NULL)
      return 0;
    c->reply = p;
    c->reply_room = room;
  }
  memcpy (c->reply + c->reply_bytes, data, n);
  c->reply_bytes += n;
  return n;
}

/* TLS by the files of a folder: weftd's certificate must be the cluster's and
 * must not be revoked, and we show ours.  No TLS session is resumed: it would
 * go on with a certificate that has been renewed since.  The CA is not cached
 * for a day, as libcurl does by itself: it may have been replaced.
 */
static bool
set_tls (struct admin *c, const char *dir)
{
  char *ca = NULL, *crl = NULL, *cert = NULL, *key = NULL;
  bool ok = asprintf (&ca, "%s/ca-cert.pem", dir) != -1 &&
            asprintf (&crl, "%s/ca-crl.pem", dir) != -1 &&
            asprintf (&cert, "%s/client-cert.pem", dir) != -1 &&
            asprintf (&key, "%s/client-key.pem", dir) != -1;

  ok = ok && curl_easy_setopt (c->easy, CURLOPT_CAINFO, ca) == CURLE_OK &&
       curl_easy_setopt (c->easy, CURLOPT_CAPATH, NULL) == CURLE_OK &&
       curl_easy_setopt (c->easy, CURLOPT_SSL_SESSIONID_CACHE, 0L) ==
         CURLE_OK &&
       curl_easy_setopt (c->easy, CURLOPT_CA_CACHE_TIMEOUT, 0L) == CURLE_OK;
  if (ok && access (crl, R_OK) == 0)
    ok = curl_easy_setopt (c->easy, CURLOPT_CRLFILE, crl) == CURLE_OK;
  if (ok && access (cert, R_OK) == 0 && access (key, R_OK) == 0)
    ok = curl_easy_setopt (c->easy, CURLOPT_SSLCERT, cert) == CURLE_OK &&
         curl_easy_setopt (c->easy, CURLOPT_SSLKEY, key) == CURLE_OK;
  free (ca);
  free (crl);
  c->certificate = cert;
  free (key);
  return ok;
}

__attribute__ ((format (printf, 2, 3))) static bool
add_header (struct curl_slist **list, const char *format, ...)
{
  struct curl_slist *longer;
  va_list args;
  char *line;
  int n;

  va_start (args, format);
  n = vasprintf (&line, format, args);
  va_end (args);
  if (n == -1)
    return false;
  longer = curl_slist_append (*list, line);
  explicit_bzero (line, strlen (line));
  free (line);
  if (longer)
    *list = longer;
  return longer != NULL;
}

static void
free_headers (struct curl_slist *list)
{
  for (struct curl_slist *l = list; l; l = l->next)
    explicit_bzero (l->data, strlen (l->data));
  curl_slist_free_all (list);
}

/* ---- weftd is elsewhere by now ---- */

static struct {
  pthread_mutex_t lock;
  char *conf; /* the file that says where weftd is; NULL: it is where it was */
  char *
    base; /* where it was when that was read last; NULL: where it was at first */
} moves = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* The base of the file's WEFT_ADMIN; NULL: it has none that may be used. */
static char *
read_base (const char *conf)
{
  FILE *f = fopen (conf, "re");
  char *line = NULL, *base = NULL;
  size_t size = 0;
  bool clear = false;

  while (f && getline (&line, &size, f) != -1)
    if (strncmp (line, "WEFT_ADMIN=", 11) == 0) {
      char *value = line + 11 + strspn (line + 11, "\"' ");

      value[strcspn (value, "\"' \r\n")] = '\0';
      free (base);
      base = normalise_url (value, &clear);
    }
  if (f)
    fclose (f);
  free (line);
  if (clear) {
    free (base);
    base = NULL;
  }
  return base;
}

void
admin_follow (const char *conf, const char *url)
{
  bool clear;
  char *base = normalise_url (url, &clear), *said = read_base (conf);

  if (base && said && strcmp (base, said) == 0)
    moves.conf = strdup (conf);
  free (base);
  free (said);
}

/* It does not answer: the next call goes to the address in the file. */
static void
look_again (struct admin *c)
{
  char *base, *copy;

  if (moves.conf == NULL)
    return;
  base = read_base (moves.conf);
  copy = base && strcmp (base, c->base) != 0 ? strdup (base) : NULL;
  if (copy == NULL) {
    free (base);
    return;
  }
  free (c->base);
  c->base = copy;
  c->clear = false;
  pthread_mutex_lock (&moves.lock);
  free (moves.base);
  moves.base = base;
  pthread_mutex_unlock (&moves.lock);
}

static char *
base_now (const char *url, bool *clear)
{
  char *base = NULL;

  pthread_mutex_lock (&moves.lock);
  if (moves.base)
    base = strdup (moves.base);
  pthread_mutex_unlock (&moves.lock);
  *clear = false;
  return base ? base : normalise_url (url, clear);
}

struct admin *
admin_new (const char *url, const char *tls_dir, const char *token)
{
  struct admin *c = calloc (1, sizeof *c);

  if (c == NULL)
    return NULL;
  c->base = base_now (url, &c->clear);
  c->easy = curl_easy_init ();
  c->multi = curl_multi_init ();
  c->secret = token != NULL;
  c->reply_bytes_max = REPLY_BYTES_MAX;
  if (!c->base || !c->easy || !c->multi ||
      !add_header (&c->headers, "Accept: application/json") ||
      !add_header (&c->headers, "Content-Type: application/json") ||
      (token && !add_header (&c->headers, "Authorization: Bearer %s", token)) ||
      (tls_dir && *tls_dir && !set_tls (c, tls_dir))) {
    admin_free (c);
    return NULL;
  }
  curl_easy_setopt (c->easy, CURLOPT_ERRORBUFFER, c->curl_text);
  curl_easy_setopt (c->easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt (c->easy, CURLOPT_PROTOCOLS_STR, "http,https");
  /* The path from a host to its weftd is the administrator's business, not
   * that of an http_proxy left in the environment.
   */
  curl_easy_setopt (c->easy, CURLOPT_NOPROXY, "*");
  /* A name is looked up for each new connection: the host may have another address. */
  curl_easy_setopt (c->easy, CURLOPT_DNS_CACHE_TIMEOUT, 0L);
  curl_easy_setopt (c->easy, CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2);
  curl_easy_setopt (c->easy, CURLOPT_USERAGENT,
                    PACKAGE_NAME "/" PACKAGE_VERSION);
  curl_easy_setopt (c->easy, CURLOPT_CONNECTTIMEOUT_MS,
                    (long) CONNECT_TIMEOUT_MS);
  curl_easy_setopt (c->easy, CURLOPT_WRITEFUNCTION, reply_write);
  curl_easy_setopt (c->easy, CURLOPT_WRITEDATA, c);
  /* A new connection takes the place of the former one. */
  curl_multi_setopt (c->multi, CURLMOPT_MAXCONNECTS, 1L);
  return c;
}

void
admin_free (struct admin *c)
{
  if (c == NULL)
    return;
  curl_easy_cleanup (c->easy);
  if (c->multi)
    curl_multi_cleanup (c->multi);
  free_headers (c->headers);
  free_headers (c->once);
  if (c->reply)
    explicit_bzero (c->reply, c->reply_room);
  free (c->reply);
  free (c->base);
  free (c->certificate);
  free (c);
}

void
admin_allow (struct admin *c, size_t bytes)
{
  c->reply_bytes_max = bytes;
}

void
admin_header (struct admin *c, const char *name, const char *value)
{
  add_header (&c->once, "%s: %s", name, value);
}

void
admin_keep_cookies (struct admin *c)
{
  c->secret = true;
  curl_easy_setopt (c->easy, CURLOPT_COOKIEFILE, "");
}

const char *
admin_answered (struct admin *c, const char *name)
{
  struct curl_header *h;

  if (!c->answered ||
      curl_easy_header (c->easy, name, 0, CURLH_HEADER, -1, &h) != CURLHE_OK)
    return NULL;
  return h->value;
}

void
admin_cancel (struct admin *c)
{
  atomic_store (&c->cancelled, true);
  curl_multi_wakeup (c->multi);
}

const char *
admin_error (const struct admin *c)
{
  return c->error;
}

const char *
admin_code (const struct admin *c)
{
  return c->code;
}

bool
admin_interrupted (const struct admin *c)
{
  return c->interrupted;
}

/* Run the transfer that is set up to its end.  Returns curl's result, or
 * CURLE_ABORTED_BY_CALLBACK when admin_cancel ended it.
 */
static CURLcode
run_transfer (struct admin *c)
{
  CURLcode r = CURLE_OUT_OF_MEMORY;
  CURLMsg *msg;
  int running = 1, left;

  if (curl_multi_add_handle (c->multi, c->easy) != CURLM_OK)
    return r;
  while (running) {
    if (atomic_load (&c->cancelled)) {
      r = CURLE_ABORTED_BY_CALLBACK;
      break;
    }
    if (curl_multi_perform (c->multi, &running) != CURLM_OK ||
        (running &&
         curl_multi_poll (c->multi, NULL, 0, 60000, NULL) != CURLM_OK))
      break;
  }
  while ((msg = curl_multi_info_read (c->multi, &left)) != NULL)
    if (msg->msg == CURLMSG_DONE)
      r = msg->data.result;
  curl_multi_remove_handle (c->multi, c->easy);
  return r;
}

static void
no_answer (struct admin *c, CURLcode r)
{
  /* curl's messages for these have milliseconds in them: never twice the same.
   */
  bool timed = r == CURLE_COULDNT_CONNECT || r == CURLE_OPERATION_TIMEDOUT;
  const char *why = c->curl_text[0] && !timed ? c->curl_text
                                              : curl_easy_strerror (r);
  char short_of[DESCRIPTORS_WHY_BYTES];
  const char *shortage;

  shortage = r == CURLE_COULDNT_CONNECT || r == CURLE_COULDNT_RESOLVE_HOST ||
                 r == CURLE_SSL_CACERT_BADFILE || r == CURLE_SSL_CERTPROBLEM
               ? descriptors_short (short_of)
               : NULL;
  c->interrupted = r == CURLE_GOT_NOTHING || r == CURLE_RECV_ERROR ||
                   r == CURLE_SEND_ERROR || r == CURLE_PARTIAL_FILE;
  if (r == CURLE_ABORTED_BY_CALLBACK)
    snprintf (c->error, sizeof c->error, "weftd at %s: call cancelled",
              c->base);
  else if (shortage)
    snprintf (c->error, sizeof c->error, "weftd at %s can't be asked: %s",
              c->base, shortage);
  else if (c->reply_too_large)
    snprintf (c->error, sizeof c->error,
              "weftd at %s: its answer is larger than %zu bytes; is this "
              "really a weftd?",
              c->base, c->reply_bytes_max);
  else if (r == CURLE_PEER_FAILED_VERIFICATION ||
           r == CURLE_SSL_CACERT_BADFILE || r == CURLE_SSL_CERTPROBLEM ||
           r == CURLE_SSL_CONNECT_ERROR || strstr (why, "unknown ca"))
    snprintf (c->error, sizeof c->error,
              "weftd at %s: %s; check that the TLS folder holds the "
              "certificate of its CA (ca-cert.pem, as weftd has it at "
              "/ca.pem), and that the clocks of both hosts are right; a node "
              "that was away while the CA was changed enrolls again",
              c->base, why);
  else
    snprintf (c->error, sizeof c->error,
              "weftd at %s does not answer: %s; check that it is running and "
              "that admin= is its address",
              c->base, why);
}

/* Turn what came into *reply, and the error text for a status >= 400. */
static int
answer (struct admin *c, const char *method, const char *path, long status,
        json_t **reply)
{
  const char *code, *detail;
  json_t *json = NULL;
  json_error_t e;

  if (c->reply_bytes > 0) {
    json = json_loadb (c->reply, c->reply_bytes, 0, &e);
    if (json == NULL && status < 400) {
      snprintf (c->error, sizeof c->error,
                "weftd at %s: its answer to %s %s is no JSON (%s); is this "
                "really a weftd?",
                c->base, method, path, e.text);
      return -1;
    }
  }
  if (status >= 400) {
    code = json_string_value (json_object_get (json, "code"));
    snprintf (c->code, sizeof c->code, "%s", code ? code : "");
    detail = json_string_value (json_object_get (json, "detail"));
    if (detail == NULL)
      detail = json_string_value (json_object_get (json, "title"));
    if (detail) {
      snprintf (c->error, sizeof c->error, "weftd at %s: %s", c->base, detail);
      strike_controls (c->error);
    }
    else
      snprintf (c->error, sizeof c->error,
                "weftd at %s: %s %s: HTTP status %ld", c->base, method, path,
                status);
  }
  if (reply)
    *reply = json;
  else
    json_decref (json);
  return (int) status;
}

/* Was the certificate renewed since a call has shown it?  *now: its present state. */
static bool
was_renewed (const struct admin *c, struct stat *now)
{
  return c->certificate && stat (c->certificate, now) == 0 &&
         (now->st_ino != c->shown.st_ino ||
          now->st_mtim.tv_sec != c->shown.st_mtim.tv_sec ||
          now->st_mtim.tv_nsec != c->shown.st_mtim.tv_nsec);
}

/* A connection whose certificate was renewed since is not used again: its CA may have been
 * retired, and weftd would refuse it.
 */
static void
look_at_certificate (struct admin *c)
{
  struct stat now;
  bool renewed = was_renewed (c, &now);

  curl_easy_setopt (c->easy, CURLOPT_FRESH_CONNECT, renewed ? 1L : 0L);
  if (renewed)
    c->shown = now;
}

/* Make one transfer; `text` is the body or NULL.  Returns the status, or -1
 * with the reason in c->error.
 */
static long
transfer (struct admin *c, const char *method, const char *path,
          const char *text, unsigned timeout_ms)
{
  struct curl_slist *last = c->headers;
  char *url = NULL;
  long status = 0;
  CURLcode r;

  /* Forget the results of the last call. */
  c->error[0] = c->curl_text[0] = c->code[0] = '\0';
  c->reply_bytes = 0;
  c->reply_too_large = c->answered = c->interrupted = false;
  if (c->clear && c->secret) {
    snprintf (
      c->error, sizeof c->error,
      "weftd at %s: a password or token is not sent over http:// to another "
      "host, because others could read it on the way; use https://",
      c->base);
    return -1;
  }
  if (asprintf (&url, "%s%s", c->base, path) == -1) {
    no_answer (c, CURLE_OUT_OF_MEMORY);
    return -1;
  }
  curl_easy_setopt (c->easy, CURLOPT_URL, url);
  curl_easy_setopt (c->easy, CURLOPT_TIMEOUT_MS, (long) timeout_ms);
  if (text || strcmp (method, "POST") == 0 || strcmp (method, "PUT") == 0) {
    curl_easy_setopt (c->easy, CURLOPT_POST, 1L);
    curl_easy_setopt (c->easy, CURLOPT_POSTFIELDS, text ? text : "");
    curl_easy_setopt (c->easy, CURLOPT_POSTFIELDSIZE,
                      (long) (text ? strlen (text) : 0));
  }
  else
    curl_easy_setopt (c->easy, CURLOPT_HTTPGET, 1L);
  curl_easy_setopt (c->easy, CURLOPT_CUSTOMREQUEST, method);
  /* While the call lasts, its own headers hang behind those of every call. */
  while (last->next)
    last = last->next;
  last->next = c->once;
  curl_easy_setopt (c->easy, CURLOPT_HTTPHEADER, c->headers);
  look_at_certificate (c);
  r = run_transfer (c);
  last->next = NULL;
  free_headers (c->once);
  c->once = NULL;
  curl_easy_setopt (c->easy, CURLOPT_POSTFIELDS, NULL);
  free (url);
  if (r != CURLE_OK && !c->take_ended) {
    no_answer (c, r);
    look_again (c);
    memset (&c->shown, 0, sizeof c->shown);
    return -1;
  }
  c->answered = true;
  curl_easy_getinfo (c->easy, CURLINFO_RESPONSE_CODE, &status);
  return status;
}

int
admin_call (struct admin *c, const char *method, const char *path,
            const json_t *body, json_t **reply, unsigned timeout_ms)
{
  bool once = c->once != NULL;
  char *text = NULL;
  struct stat now;
  long status;

  if (reply)
    *reply = NULL;
  if (body && (text = json_dumps (body, JSON_COMPACT)) == NULL) {
    no_answer (c, CURLE_OUT_OF_MEMORY);
    return -1;
  }
  status = transfer (c, method, path, text, timeout_ms);
  /* The certificate was renewed while weftd held the call, and its CA was retired then. */
  if (status == 401 && !once && was_renewed (c, &now))
    status = transfer (c, method, path, text, timeout_ms);
  if (text)
    explicit_bzero (text, strlen (text)); /* it may hold a password */
  free (text);
  return status == -1 ? -1 : answer (c, method, path, status, reply);
}

int
admin_fetch (struct admin *c, const char *path, char **text,
             unsigned timeout_ms)
{
  long status = transfer (c, "GET", path, NULL, timeout_ms);

  *text = NULL;
  if (status != 200)
    return status == -1 ? -1 : answer (c, "GET", path, status, NULL);
  *text = strndup (c->reply_bytes ? c->reply : "", c->reply_bytes);
  return 200;
}

int
admin_stream (struct admin *c, const char *path,
              bool (*take) (void *opaque, const char *data, size_t n),
              void *opaque, unsigned silent_s)
{
  long status;

  c->take = take;
  c->take_opaque = opaque;
  c->take_ended = false;
  curl_easy_setopt (c->easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt (c->easy, CURLOPT_LOW_SPEED_TIME, (long) silent_s);
  status = transfer (c, "GET", path, NULL, 0);
  curl_easy_setopt (c->easy, CURLOPT_LOW_SPEED_TIME, 0L);
  c->take = NULL;
  c->take_ended = false;
  return status < 400 ? (int) status : answer (c, "GET", path, status, NULL);
}
