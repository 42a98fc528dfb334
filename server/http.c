/* http.c: see http.h.
 *
 * What is refused here, before anything else sees it: a Host header that is no
 * loopback name (a page elsewhere that made its own name point here), an Origin
 * from elsewhere, an unknown path or method, a body that is too long, of
 * another type, or no JSON, and fields that are wrong.
 *
 * Every long poll and every stream of events takes a thread of its own; they
 * are many and cheap.
 */

#include <config.h>

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <civetweb.h>

#include "files.h"
#include "http.h"
#include "http-internal.h"
#include "log.h"
#include "routes.h"
#include "views.h"

#define BODY_BYTES_MAX (1 << 20)
#define JSON_DEPTH_MAX 8
#define KEEP_ALIVE_MS 10000

struct http {
  struct http_options options;
  struct mg_context *context;
  struct loop *loop;
  struct hub *hub;
  unsigned port;
  char failure[512]; /* what civetweb said while it was started */
};

/* ---- Answers. ---- */

/* Style and script from here alone; nobody may frame the page. */
#define SECURITY_HEADERS                                                       \
  "Content-Security-Policy: default-src 'self'; frame-ancestors 'none'; "      \
  "base-uri 'none'; form-action 'self'; object-src 'none'\r\n"                 \
  "X-Content-Type-Options: nosniff\r\n"                                        \
  "X-Frame-Options: DENY\r\n"                                                  \
  "Referrer-Policy: no-referrer\r\n"                                           \
  "Cross-Origin-Resource-Policy: same-origin\r\n"

static const char *
reason_phrase (int status)
{
  switch (status) {
  case 200:
    return "OK";
  case 201:
    return "Created";
  case 304:
    return "Not Modified";
  default:
    return status < 500 ? "Refused" : "Error";
  }
}

int
http_send (struct mg_connection *conn, int status, const char *type,
           const char *extra, const char *body, size_t length)
{
  const struct mg_request_info *info = mg_get_request_info (conn);
  bool head = strcmp (info->request_method, "HEAD") == 0;
  char *text;
  int n = asprintf (&text,
                    "HTTP/1.1 %d %s\r\n" SECURITY_HEADERS
                    "Content-Type: %s\r\nContent-Length: %zu\r\n%s\r\n",
                    status, reason_phrase (status), type, length, extra);
  char *whole;

  if (n == -1)
    abort ();
  /* One write, so that it leaves as one packet where it fits. */
  whole = realloc (text, (size_t) n + length);
  if (whole == NULL)
    abort ();
  if (!head && length > 0)
    memcpy (whole + n, body, length);
  mg_write (conn, whole, (size_t) n + (head ? 0 : length));
  free (whole);
  return status;
}

static int
send_json (struct mg_connection *conn, int status, const char *extra,
           const json_t *body)
{
  char *text = json_dumps (body, JSON_COMPACT);
  char headers[256];
  int r;

  if (text == NULL)
    abort ();
  snprintf (headers, sizeof headers, "Cache-Control: no-store\r\n%s", extra);
  r = http_send (conn, status,
                 status < 400 ? "application/json" : "application/problem+json",
                 headers, text, strlen (text));
  free (text);
  return r;
}

static int
refuse (struct mg_connection *conn, int status, const char *field,
        const char *extra, const char *fmt, ...)
  __attribute__ ((format (printf, 5, 6)));

static int
refuse (struct mg_connection *conn, int status, const char *field,
        const char *extra, const char *fmt, ...)
{
  char detail[1024];
  json_t *body;
  va_list ap;

  va_start (ap, fmt);
  vsnprintf (detail, sizeof detail, fmt, ap);
  va_end (ap);
  body = view_error (status, field, NULL, detail);
  send_json (conn, status, extra, body);
  json_decref (body);
  return status;
}

int
http_not_found (struct mg_connection *conn, const char *path)
{
  return refuse (conn, 404, NULL, "",
                 "there is nothing at %.200s: GET /api/v1/openapi.json "
                 "describes the API",
                 path);
}

/* ---- Checks. ---- */

/* "localhost", "127.x.x.x" or "[::1]", with or without a port. */
static bool
is_loopback (const char *host)
{
  size_t n = host[0] == '[' ? strcspn (host, "]") + 1 : strcspn (host, ":");
  const char *port = host + n;

  if (n > strlen (host))
    return false;
  if (*port == ':' && strspn (port + 1, "0123456789") != strlen (port + 1))
    return false;
  if (*port != ':' && *port != '\0')
    return false;
  if (n == 9 && strncasecmp (host, "localhost", 9) == 0)
    return true;
  if (n == 5 && strncmp (host, "[::1]", 5) == 0)
    return true;
  return n > 4 && strncmp (host, "127.", 4) == 0 &&
         strspn (host, "0123456789.") == n;
}

static bool
refuse_stranger (struct mg_connection *conn)
{
  const char *host = mg_get_header (conn, "Host");
  const char *origin = mg_get_header (conn, "Origin");
  const char *rest;

  if (host == NULL || !is_loopback (host)) {
    refuse (conn, 403, NULL, "",
            "the Host header must name this machine's loopback address, such "
            "as 127.0.0.1: weftd is served there alone");
    return true;
  }
  if (origin == NULL)
    return false;
  rest = strstr (origin, "://");
  if (rest == NULL || !is_loopback (rest + 3)) {
    refuse (conn, 403, NULL, "",
            "a page from another origin may not call weftd");
    return true;
  }
  return false;
}

static bool
is_json (const char *type)
{
  size_t n;

  if (type == NULL)
    return false;
  n = strcspn (type, "; \t");
  return n == 16 && strncasecmp (type, "application/json", 16) == 0;
}

/* The body as text, *length bytes; NULL: refused. */
static char *
read_body (struct mg_connection *conn, size_t *length)
{
  const struct mg_request_info *info = mg_get_request_info (conn);
  char *body;
  int n;

  *length = 0;
  if (info->content_length > BODY_BYTES_MAX) {
    refuse (conn, 413, NULL, "Connection: close\r\n",
            "the body is longer than %d bytes", BODY_BYTES_MAX);
    return NULL;
  }
  body = malloc (BODY_BYTES_MAX + 2);
  if (body == NULL)
    abort ();
  while (*length <= BODY_BYTES_MAX &&
         (n = mg_read (conn, body + *length, BODY_BYTES_MAX + 1 - *length)) > 0)
    *length += (size_t) n;
  if (*length > BODY_BYTES_MAX) {
    refuse (conn, 413, NULL, "Connection: close\r\n",
            "the body is longer than %d bytes", BODY_BYTES_MAX);
    free (body);
    return NULL;
  }
  if (info->content_length > 0 && *length < (size_t) info->content_length) {
    refuse (conn, 400, NULL, "Connection: close\r\n",
            "the body ended before its Content-Length");
    free (body);
    return NULL;
  }
  return body;
}

/* Is it nested so deep that parsing it would need much stack?  (civetweb's
 * threads have little.)
 */
static bool
too_deep (const char *body, size_t length)
{
  unsigned depth = 0;
  bool string = false;

  for (size_t i = 0; i < length; i++) {
    if (string && body[i] == '\\')
      i++;
    else if (body[i] == '"')
      string = !string;
    else if (!string && (body[i] == '[' || body[i] == '{')) {
      if (++depth > JSON_DEPTH_MAX)
        return true;
    }
    else if (!string && (body[i] == ']' || body[i] == '}') && depth > 0)
      depth--;
  }
  return false;
}

/* Take the body into the request; false: refused. */
static bool
take_body (struct mg_connection *conn, struct request *r)
{
  json_error_t error;
  json_t *json;
  struct fields f;
  size_t length;
  char *body = read_body (conn, &length);

  if (body == NULL)
    return false;
  if (!is_json (mg_get_header (conn, "Content-Type"))) {
    free (body);
    refuse (conn, 415, NULL, "",
            "the body must be JSON: give Content-Type: application/json");
    return false;
  }
  if (too_deep (body, length)) {
    free (body);
    refuse (conn, 400, NULL, "", "the body is nested more than %d deep",
            JSON_DEPTH_MAX);
    return false;
  }
  json = json_loadb (body, length, JSON_REJECT_DUPLICATES, &error);
  free (body);
  if (json == NULL) {
    refuse (conn, 400, NULL, "", "the body is no JSON: %.150s, in line %d",
            error.text, error.line);
    return false;
  }
  fields_begin (&f, json);
  r->route->parse (&f, r);
  json_decref (json);
  if (f.failed)
    refuse (conn, f.field[0] ? 422 : 400, f.field, "", "%s", f.why);
  return !f.failed;
}

/* A body that nobody wants: of no harm, but it must be read. */
static bool
drop_body (struct mg_connection *conn)
{
  size_t length;
  char *body = read_body (conn, &length);

  free (body);
  return body != NULL;
}

/* ---- Events. ---- */

static uint64_t
last_event_id (struct mg_connection *conn, bool *given)
{
  const char *text = mg_get_header (conn, "Last-Event-ID");
  char *end;
  uint64_t id;

  *given = false;
  if (text == NULL || text[0] < '0' || text[0] > '9')
    return 0;
  id = strtoull (text, &end, 10);
  *given = *end == '\0';
  return id;
}

/* A snapshot, and the cursor behind it; false: the connection is over. */
static bool
send_snapshot (struct http *h, struct mg_connection *conn,
               struct hub_cursor *cursor)
{
  struct request r;
  char *json, *text;
  bool ok;
  int n;

  request_init (&r, &route_snapshot);
  loop_ask (h->loop, &r);
  json = r.status == 200 ? json_dumps (r.body, JSON_COMPACT) : NULL;
  cursor->id = r.event_id;
  request_destroy (&r);
  if (json == NULL)
    return false;
  n = asprintf (&text, "id: %llu\nevent: snapshot\ndata: %s\n\n",
                (unsigned long long) cursor->id, json);
  if (n == -1)
    abort ();
  ok = mg_write (conn, text, (size_t) n) == n;
  free (text);
  free (json);
  return ok;
}

static int
serve_events (struct http *h, struct mg_connection *conn)
{
  static const char head[]
    = "HTTP/1.1 200 OK\r\n" SECURITY_HEADERS
      "Content-Type: text/event-stream\r\nCache-Control: no-store\r\n"
      "Connection: close\r\n\r\nretry: 1000\n\n";
  struct hub_cursor cursor = { 0 };
  bool resume, ok;
  char *text = NULL;

  cursor.id = last_event_id (conn, &resume);
  ok = mg_write (conn, head, sizeof head - 1) == (int) sizeof head - 1;
  hub_listen (h->hub, 1);
  if (ok && !(resume && hub_has (h->hub, cursor.id)))
    ok = send_snapshot (h, conn, &cursor);
  while (ok) {
    switch (hub_next (h->hub, &cursor, &text, KEEP_ALIVE_MS)) {
    case HUB_EVENT:
      ok = mg_write (conn, text, strlen (text)) == (int) strlen (text);
      free (text);
      break;
    case HUB_IDLE:
      ok = mg_write (conn, ":\n\n", 3) == 3;
      break;
    case HUB_BEHIND:
      ok = send_snapshot (h, conn, &cursor);
      break;
    case HUB_CLOSED:
      ok = false;
      break;
    }
  }
  hub_listen (h->hub, -1);
  return 200;
}

/* ---- One request. ---- */

static int
serve_api (struct http *h, struct mg_connection *conn, const char *method,
           const char *path)
{
  struct request r;
  char allow[64], why[256], header[96];
  int status;

  switch (routes_find (method, path, &r, allow, why, sizeof why)) {
  case ROUTE_NO_PATH:
    return drop_body (conn) ? http_not_found (conn, path) : 413;
  case ROUTE_NO_METHOD:
    if (!drop_body (conn))
      return 413;
    snprintf (header, sizeof header, "Allow: %s\r\n", allow);
    return refuse (conn, 405, NULL, header, "%.200s takes %s", path, allow);
  case ROUTE_BAD_NAME:
    return drop_body (conn) ? refuse (conn, 400, NULL, "", "%s", why) : 413;
  case ROUTE_MATCH:
    break;
  }
  if (r.route->has_body ? !take_body (conn, &r) : !drop_body (conn)) {
    request_destroy (&r);
    return 400;
  }
  switch (r.route->kind) {
  case ROUTE_EVENTS:
    status = serve_events (h, conn);
    break;
  case ROUTE_OPENAPI:
    status = files_serve (conn, h->options.openapi, "openapi.json");
    break;
  default:
    loop_ask (h->loop, &r);
    status = send_json (conn, r.status, "", r.body);
  }
  request_destroy (&r);
  return status;
}

static int
begin_request (struct mg_connection *conn)
{
  const struct mg_request_info *info = mg_get_request_info (conn);
  struct http *h = info->user_data;
  const char *path = info->local_uri_raw, *method = info->request_method;

  if (refuse_stranger (conn))
    return 403;
  if (path == NULL || path[0] != '/')
    return http_not_found (conn, "this address");
  if (strncmp (path, "/api/", 5) == 0)
    return serve_api (h, conn, method, path);
  if (!drop_body (conn))
    return 413;
  if (strcmp (method, "GET") != 0 && strcmp (method, "HEAD") != 0)
    return refuse (conn, 405, NULL, "Allow: GET, HEAD\r\n",
                   "files can only be read");
  return files_serve_path (conn, h->options.ui_dir, path);
}

/* ---- Starting and stopping. ---- */

static int
log_message (const struct mg_connection *conn, const char *message)
{
  struct http *h = mg_get_user_data (mg_get_context (conn));

  if (h && h->context == NULL)
    snprintf (h->failure, sizeof h->failure, "%s", message);
  return 1;
}

struct http *
http_start (const struct http_options *options, struct loop *loop,
            struct hub *hub, char *why, size_t why_size)
{
  struct http *h = calloc (1, sizeof *h);
  struct mg_callbacks callbacks
    = { .begin_request = begin_request, .log_message = log_message };
  struct mg_server_port ports[1];
  char listen[64];
  const char *settings[] = {
    "listening_ports", listen,
    /* One for each disk, session and page that waits here. */
    "num_threads", "768",
    "connection_queue", "1024",
    "listen_backlog", "1024",
    "tcp_nodelay", "1",
    "enable_keep_alive", "yes",
    "keep_alive_timeout_ms", "15000",
    "request_timeout_ms", "10000",
    "max_request_size", "16384",
    "enable_directory_listing", "no",
    "enable_auth_domain_check", "no",
    "decode_url", "no",
    NULL,
  };

  if (h == NULL)
    abort ();
  h->options = *options;
  h->loop = loop;
  h->hub = hub;
  snprintf (listen, sizeof listen, "%s:%u", options->address, options->port);
  mg_init_library (0);
  h->context = mg_start (&callbacks, h, settings);
  if (h->context == NULL) {
    snprintf (why, why_size,
              "cannot listen on %s: %s; is another program there? Give "
              "another --listen", listen,
              h->failure[0] ? h->failure : "the HTTP server does not say why");
    free (h);
    return NULL;
  }
  if (mg_get_server_ports (h->context, 1, ports) < 1)
    abort ();
  h->port = (unsigned) ports[0].port;
  return h;
}

unsigned
http_port (const struct http *h)
{
  return h->port;
}

void
http_stop (struct http *h)
{
  mg_stop (h->context);
  mg_exit_library ();
  free (h);
}
