/* http.c: see http.h.
 *
 * The server itself refuses, before a route sees the request: a Host header
 * with a foreign name (a page elsewhere that made its own name point here), a
 * foreign Origin, an unknown path or method, a caller without the right or with
 * too many requests under way, a body that is too long, of another type, or no
 * JSON, and invalid fields.
 *
 * Every long poll and every stream of events takes a thread of its own; they
 * are many and cheap (doorman.h).
 */

#include <config.h>

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <civetweb.h>

#include "alloc.h"
#include "auth.h"
#include "doorman.h"
#include "files.h"
#include "http.h"
#include "http-internal.h"
#include "log.h"
#include "quota.h"
#include "routes.h"
#include "stack.h"
#include "tls.h"
#include "common/refuse.h"

/* ---- One request. ---- */

/* When its caller is known, and has room in its quota.  A stranger's request
 * begins when all of it is there, and ends before the stranger takes the
 * answer: else slow strangers would have all places of strangers together.
 */
static int
serve_route (struct http *h, struct mg_connection *conn, struct request *r,
             const char *method, const char *path)
{
  const struct caller caller = r->caller; /* a login changes the caller */
  bool stranger = caller.role == ROLE_NOBODY;
  int status;
  char revoked[REVOKED_NAME_BYTES];
  size_t n;

  if (!http_body_take_query (conn, r, method, path) ||
      !(r->route->parse ? http_body_take (conn, r) : http_body_drop (conn)))
    return 400;
  switch (r->route->kind) {
  case ROUTE_EVENTS:
    doorman_busy (conn, true);
    status = http_events_serve (h, conn, &r->caller);
    doorman_busy (conn, false);
    return status;
  case ROUTE_OPENAPI:
    return files_serve (conn, h->options.openapi, "openapi.json");
  default:
    break;
  }
  if (stranger && !quota_begin (&caller, QUOTA_CALL, 1))
    return http_body_refuse_over_quota (conn, QUOTA_CALL);
  doorman_busy (conn, true);
  if (r->route->prepare == NULL || r->route->prepare (h->loop, r))
    loop_ask (h->loop, r);
  doorman_busy (conn, false);
  if (stranger)
    quota_end (&caller, QUOTA_CALL, 1);
  if (r->status == 429)
    http_reply_log_refusal (conn, "too many tries");
  auth_revoked_name (loop_auth (h->loop), revoked);
  n = strlen (r->headers);
  snprintf (r->headers + n, sizeof r->headers - n, "Weft-Revoked: %s\r\n",
            revoked);
  return r->text ? http_reply_send (conn, r->status, r->type, r->headers,
                                    r->text, strlen (r->text))
                 : http_reply_json (conn, r->status, r->headers, r->body);
}

static int
serve_api (struct http *h, struct mg_connection *conn, const char *method,
           const char *path)
{
  struct request r;
  char allow[64], why[256], header[96];
  enum route_match match;
  enum quota_kind kind;
  struct caller caller;
  int status;

  match = routes_find (method, path, &r, allow, why, sizeof why);
  if (match != ROUTE_MATCH && !http_body_drop (conn))
    return 413;
  switch (match) {
  case ROUTE_NO_PATH:
    return http_reply_not_found (conn, path);
  case ROUTE_NO_METHOD:
    snprintf (header, sizeof header, "Allow: %s\r\n", allow);
    return http_reply_refuse (conn, 405, NULL, NULL, header, "%.200s takes %s",
                              path, allow);
  case ROUTE_BAD_NAME:
    return http_reply_refuse (conn, 400, NULL, NULL, "", "%s", why);
  case ROUTE_MATCH:
    break;
  }
  if (!http_caller_take (h, conn, &r)) {
    request_destroy (&r);
    return 400;
  }
  kind = r.route->kind == ROUTE_EVENTS ? QUOTA_STREAM : QUOTA_CALL;
  caller = r.caller; /* a login changes the caller */
  if (caller.role == ROLE_NOBODY)
    status = serve_route (h, conn, &r, method, path);
  else if (quota_begin (&caller, kind, 1)) {
    doorman_know (conn, &caller);
    status = serve_route (h, conn, &r, method, path);
    quota_end (&caller, kind, 1);
  }
  else
    status = http_body_refuse_over_quota (conn, kind);
  if (r.body_bytes > 0)
    quota_end (&caller, QUOTA_BYTES, r.body_bytes);
  request_destroy (&r);
  return status;
}

static int
begin_request (struct mg_connection *conn)
{
  const struct mg_request_info *info = mg_get_request_info (conn);
  struct http *h = info->user_data;
  const char *path = info->local_uri_raw, *method = info->request_method;

  if (http_body_refuse_framing (conn))
    return 400;
  if (http_caller_refuse_stranger (h, conn))
    return 403;
  if (path == NULL || path[0] != '/')
    return http_reply_not_found (conn, "this address");
  if (strncmp (path, "/api/", 5) == 0 || strcmp (path, "/metrics") == 0 ||
      strcmp (path, "/ca.pem") == 0 || strcmp (path, "/ca-crl.pem") == 0)
    return serve_api (h, conn, method, path);
  if (!http_body_drop (conn))
    return 413;
  if (strcmp (method, "GET") != 0 && strcmp (method, "HEAD") != 0)
    return http_reply_refuse (conn, 405, NULL, NULL, "Allow: GET, HEAD\r\n",
                              "files can only be read");
  if (http_caller_leave_localhost (h, conn, path))
    return 307;
  return files_serve_path (conn, h->options.ui_dir, path);
}

/* ---- Threads. ---- */

static void *
begin_thread (const struct mg_context *context, int type)
{
  if (type == 1)
    stack_begin ();
  return NULL;
}

static void
end_connection (const struct mg_connection *conn)
{
  doorman_end (conn);
  stack_give_back ();
}

/* ---- Starting and stopping. ---- */

int bind (int fd, __CONST_SOCKADDR_ARG address, socklen_t bytes)
  __attribute__ ((visibility ("default")));

/* civetweb calls this one.  weftd listens even on an address that the host does
 * not have yet, as after a power cut: it is reached there as soon as the host
 * has it.
 */
int
bind (int fd, __CONST_SOCKADDR_ARG address, socklen_t bytes)
{
  const struct sockaddr *sa = address.__sockaddr__;
  bool six = sa->sa_family == AF_INET6;
  char text[INET6_ADDRSTRLEN] = "";
  int on = 1;

  if (syscall (SYS_bind, fd, sa, bytes) == 0)
    return 0;
  if (errno != EADDRNOTAVAIL || (sa->sa_family != AF_INET && !six) ||
      setsockopt (fd, six ? IPPROTO_IPV6 : IPPROTO_IP,
                  six ? IPV6_FREEBIND : IP_FREEBIND, &on, sizeof on) == -1 ||
      syscall (SYS_bind, fd, sa, bytes) == -1)
    return -1;
  inet_ntop (sa->sa_family,
             six ? (const void *) &((const struct sockaddr_in6 *) sa)->sin6_addr
                 : (const void *) &((const struct sockaddr_in *) sa)->sin_addr,
             text, sizeof text);
  log_line (CLUSTER_WARNING,
            "this host does not have the address %s of --listen yet: weftd is "
            "reached there as soon as it has; if the address is wrong, give "
            "another --listen",
            text);
  return 0;
}

static int
log_message (const struct mg_connection *conn, const char *message)
{
  struct http *h = mg_get_user_data (mg_get_context (conn));

  /* A message about a worker is not overwritten: see start. */
  if (h && h->context == NULL && !strstr (h->failure, "worker"))
    snprintf (h->failure, sizeof h->failure, "%s", message);
  return 1;
}

/* civetweb's own refusals: answered in our form, too. */
static int
http_error (struct mg_connection *conn, int status, const char *message)
{
  const char *reason = strrchr (message, '\n');

  http_reply_refuse (conn, status < 400 ? 400 : status, NULL, NULL,
                     "Connection: close\r\n",
                     "the HTTP server refused it: %.200s",
                     reason && reason[1] ? reason + 1 : message);
  return 0;
}

/* "127.0.0.1:7380,[2001:db8::1]:7380s" */
static void
print_listeners (const struct http_options *o, char *text, size_t size)
{
  size_t n = 0;

  for (unsigned i = 0; i < o->listeners_count; i++) {
    const struct listener *l = &o->listeners[i];
    bool six = strchr (l->address, ':') != NULL;

    n += (size_t) snprintf (text + n, size - n, "%s%s%s%s:%u%s", i ? "," : "",
                            six ? "[" : "", l->address, six ? "]" : "", l->port,
                            l->tls ? "s" : "");
  }
}

/* Also called at the end: 1 says that it is not civetweb's to free. */
static int
give_context (void **context, void *opaque)
{
  struct http *h = opaque;

  *context = tls_context (h->tls);
  return 1;
}

/* civetweb with TLS, where a listener wants it. */
static int
begin_library (struct http *h, struct trust *trust, char *why, size_t why_size)
{
  bool tls = false;

  for (unsigned i = 0; i < h->options.listeners_count; i++) {
    const struct listener *l = &h->options.listeners[i];

    tls = tls || l->tls;
    if (strchr (l->address, ':') && !mg_check_feature (MG_FEATURES_IPV6))
      return refuse (why, why_size,
                     "cannot listen on [%s]: this civetweb was built without "
                     "IPv6; give an IPv4 address",
                     l->address);
  }
  if (tls) {
    if (tls_load_libraries (why, why_size) == -1)
      return -1;
    h->tls = tls_new (trust, &h->options, why, why_size);
    if (h->tls == NULL)
      return -1;
  }
  mg_init_library (tls ? MG_FEATURES_TLS : 0);
  return 0;
}

static int
start (struct http *h, char *why, size_t why_size)
{
  struct mg_callbacks callbacks = { .begin_request = begin_request,
                                    .http_error = http_error,
                                    .log_message = log_message,
                                    .init_thread = begin_thread,
                                    .connection_close = end_connection,
                                    .external_ssl_ctx = h->tls ? give_context
                                                               : NULL };
  char listen[LISTENERS_MAX * 64], threads[8], head[8];
  const char *settings[][2] = {
    { "listening_ports", listen },
    /* One for each disk, session and page that waits here. */
    { "num_threads", threads },
    { "connection_queue", "1024" },
    { "listen_backlog", "1024" },
    { "tcp_nodelay", "1" },
    { "enable_keep_alive", "yes" },
    { "keep_alive_timeout_ms", "15000" },
    { "request_timeout_ms", "10000" },
    /* Each thread keeps a buffer of that size, which it has touched after one large
     * request: 12 MiB of all of them.
     */
    { "max_request_size", head },
    { "enable_directory_listing", "no" },
    { "enable_auth_domain_check", "no" },
    { "decode_url", "no" },
    { NULL },
  };

  print_listeners (&h->options, listen, sizeof listen);
  snprintf (threads, sizeof threads, "%u", doorman_threads ());
  snprintf (head, sizeof head, "%d", HTTP_HEAD_BYTES_MAX);
  h->context = mg_start (&callbacks, h, settings[0]);
  /* It goes on with fewer threads, perhaps without the one that listens, and then
   * can't be stopped either.  A thread that finds no memory ends, and so makes room for
   * the next one.
   */
  if (h->context && strstr (h->failure, "worker")) {
    log_line (CLUSTER_ERROR,
              "cannot start %s threads, one for each who may wait for an "
              "answer: raise the limit (TasksMax= in weftd.service, the "
              "container's pids limit, ulimit -u and -v)",
              threads);
    _exit (EXIT_FAILURE);
  }
  if (h->context)
    return 0;
  mg_exit_library ();
  return refuse (
    why, why_size,
    "cannot listen on %s: %s; is another program there? Give another --listen",
    listen, h->failure[0] ? h->failure : "the HTTP server does not say why");
}

struct http *
http_start (const struct http_options *options, struct loop *loop,
            struct hub *hub, struct trust *trust, char *why, size_t why_size)
{
  struct http *h = alloc_zeroed (sizeof *h);
  struct mg_server_port ports[LISTENERS_MAX];
  int count;

  h->options = *options;
  h->loop = loop;
  h->hub = hub;
  if (begin_library (h, trust, why, why_size) == -1 ||
      start (h, why, why_size) == -1) {
    tls_free (h->tls);
    free (h);
    return NULL;
  }
  count = mg_get_server_ports (h->context, LISTENERS_MAX, ports);
  assert (count == (int) options->listeners_count);
  for (int i = 0; i < count; i++)
    h->options.listeners[i].port = (unsigned) ports[i].port;
  return h;
}

void
http_url (const struct http *h, unsigned i, char url[80])
{
  const struct listener *l = &h->options.listeners[i];
  bool six = strchr (l->address, ':') != NULL;

  snprintf (url, 80, "http%s://%s%s%s:%u", l->tls ? "s" : "", six ? "[" : "",
            l->address, six ? "]" : "", l->port);
}

void
http_stop (struct http *h)
{
  doorman_close ();
  mg_stop (h->context);
  mg_exit_library ();
  tls_free (h->tls);
  free (h);
}
