/* admin.c: the HTTP client that talks to weftd.
 *
 * One curl easy handle inside one multi handle.  The multi interface is there
 * for admin_cancel alone: curl_multi_wakeup is the one call that another
 * thread may make while a transfer is going on.  The connection is kept
 * alive between calls by the multi handle's cache.
 */

#include <config.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>

#include "admin.h"

/* No honest answer of weftd is larger. */
#define REPLY_BYTES_MAX (16u << 20)
#define CONNECT_TIMEOUT_MS 5000

struct admin {
  CURL *easy;
  CURLM *multi;
  struct curl_slist *headers;
  char *base; /* "http://host:port", no slash at the end */
  atomic_bool cancelled;

  char *reply;
  size_t reply_bytes, reply_room;
  bool reply_too_large;

  char curl_text[CURL_ERROR_SIZE];
  char error[1024];
};

void
admin_global_init (void)
{
  curl_global_init (CURL_GLOBAL_ALL);
}

/* The URL without what admin_call adds itself; NULL when it isn't one of an
 * HTTP server.
 */
static char *
normalise_url (const char *url)
{
  CURLU *u = curl_url ();
  char *scheme = NULL, *host = NULL, *text = NULL, *r = NULL;
  size_t n;

  if (u == NULL)
    return NULL;
  if (curl_url_set (u, CURLUPART_URL, url, 0) == CURLUE_OK &&
      curl_url_get (u, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
      curl_url_get (u, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
      host[0] != '\0' &&
      (strcmp (scheme, "http") == 0 || strcmp (scheme, "https") == 0) &&
      curl_url_set (u, CURLUPART_QUERY, NULL, 0) == CURLUE_OK &&
      curl_url_set (u, CURLUPART_FRAGMENT, NULL, 0) == CURLUE_OK &&
      curl_url_get (u, CURLUPART_URL, &text, 0) == CURLUE_OK) {
    for (n = strlen (text); n > 0 && text[n - 1] == '/'; n--)
      ;
    r = strndup (text, n);
  }
  curl_free (text);
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

  if (n > REPLY_BYTES_MAX - c->reply_bytes) {
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

struct admin *
admin_new (const char *url)
{
  struct admin *c = calloc (1, sizeof *c);
  struct curl_slist *h;

  if (c == NULL)
    return NULL;
  c->base = normalise_url (url);
  c->easy = curl_easy_init ();
  c->multi = curl_multi_init ();
  h = curl_slist_append (NULL, "Accept: application/json");
  c->headers = h ? curl_slist_append (h, "Content-Type: application/json")
                 : NULL;
  if (!c->base || !c->easy || !c->multi || !c->headers) {
    if (c->headers == NULL)
      curl_slist_free_all (h);
    admin_free (c);
    return NULL;
  }
  curl_easy_setopt (c->easy, CURLOPT_ERRORBUFFER, c->curl_text);
  curl_easy_setopt (c->easy, CURLOPT_HTTPHEADER, c->headers);
  curl_easy_setopt (c->easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt (c->easy, CURLOPT_PROTOCOLS_STR, "http,https");
  /* The path from a host to its weftd is the administrator's business, not
   * that of an http_proxy left in the environment.
   */
  curl_easy_setopt (c->easy, CURLOPT_NOPROXY, "*");
  curl_easy_setopt (c->easy, CURLOPT_USERAGENT,
                    PACKAGE_NAME "/" PACKAGE_VERSION);
  curl_easy_setopt (c->easy, CURLOPT_CONNECTTIMEOUT_MS,
                    (long) CONNECT_TIMEOUT_MS);
  curl_easy_setopt (c->easy, CURLOPT_WRITEFUNCTION, reply_write);
  curl_easy_setopt (c->easy, CURLOPT_WRITEDATA, c);
  return c;
}

void
admin_free (struct admin *c)
{
  if (c == NULL)
    return;
  curl_easy_cleanup (c->easy);
  curl_multi_cleanup (c->multi);
  curl_slist_free_all (c->headers);
  free (c->reply);
  free (c->base);
  free (c);
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

/* Run the transfer that is set up to its end.  Returns curl's result, or
 * CURLE_ABORTED_BY_CALLBACK when admin_cancel ended it.
 */
static CURLcode
transfer (struct admin *c)
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

static int
no_answer (struct admin *c, CURLcode r)
{
  const char *why = c->curl_text[0] ? c->curl_text : curl_easy_strerror (r);

  if (r == CURLE_ABORTED_BY_CALLBACK)
    snprintf (c->error, sizeof c->error, "weftd at %s: call cancelled",
              c->base);
  else if (c->reply_too_large)
    snprintf (c->error, sizeof c->error,
              "weftd at %s: its answer is larger than %u bytes; is this "
              "really a weftd?", c->base, REPLY_BYTES_MAX);
  else
    snprintf (c->error, sizeof c->error,
              "weftd at %s does not answer: %s; check that it is running and "
              "that admin= is its address", c->base, why);
  return -1;
}

/* Turn what came into *reply, and the error text for a status >= 400. */
static int
answer (struct admin *c, const char *method, const char *path, long status,
        json_t **reply)
{
  json_t *json = NULL;
  json_error_t e;
  const char *detail;

  if (c->reply_bytes > 0) {
    json = json_loadb (c->reply, c->reply_bytes, 0, &e);
    if (json == NULL && status < 400) {
      snprintf (c->error, sizeof c->error,
                "weftd at %s: its answer to %s %s is no JSON (%s); is this "
                "really a weftd?", c->base, method, path, e.text);
      return -1;
    }
  }
  if (status >= 400) {
    detail = json_string_value (json_object_get (json, "detail"));
    if (detail == NULL)
      detail = json_string_value (json_object_get (json, "title"));
    if (detail)
      snprintf (c->error, sizeof c->error, "weftd at %s: %s", c->base, detail);
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

int
admin_call (struct admin *c, const char *method, const char *path,
            const json_t *body, json_t **reply, unsigned timeout_ms)
{
  char *url = NULL, *text = NULL;
  long status = 0;
  CURLcode r;
  int ret = -1;

  if (reply)
    *reply = NULL;
  c->error[0] = c->curl_text[0] = '\0';
  c->reply_bytes = 0;
  c->reply_too_large = false;

  if (asprintf (&url, "%s%s", c->base, path) == -1)
    url = NULL;
  if (body)
    text = json_dumps (body, JSON_COMPACT);
  if (url == NULL || (body && text == NULL)) {
    snprintf (c->error, sizeof c->error, "weftd at %s: out of memory",
              c->base);
    goto out;
  }
  curl_easy_setopt (c->easy, CURLOPT_URL, url);
  curl_easy_setopt (c->easy, CURLOPT_TIMEOUT_MS, (long) timeout_ms);
  if (text || strcmp (method, "POST") == 0 || strcmp (method, "PUT") == 0) {
    curl_easy_setopt (c->easy, CURLOPT_POST, 1L);
    curl_easy_setopt (c->easy, CURLOPT_POSTFIELDS, text ? text : "");
    curl_easy_setopt (c->easy, CURLOPT_POSTFIELDSIZE,
                      (long) (text ? strlen (text) : 0));
  } else
    curl_easy_setopt (c->easy, CURLOPT_HTTPGET, 1L);
  curl_easy_setopt (c->easy, CURLOPT_CUSTOMREQUEST, method);

  r = transfer (c);
  if (r != CURLE_OK) {
    ret = no_answer (c, r);
    goto out;
  }
  curl_easy_getinfo (c->easy, CURLINFO_RESPONSE_CODE, &status);
  ret = answer (c, method, path, status, reply);

out:
  curl_easy_setopt (c->easy, CURLOPT_POSTFIELDS, NULL);
  free (text);
  free (url);
  return ret;
}
