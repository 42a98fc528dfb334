/* http-internal.h: shared by the files of the HTTP server. */

#ifndef WEFT_HTTP_INTERNAL_H
#define WEFT_HTTP_INTERNAL_H

#include <stddef.h>

#include <civetweb.h>

#include "http.h"
#include "quota.h"

/* Style and script from here alone; nobody may frame the page. */
#define SECURITY_HEADERS                                                       \
  "Content-Security-Policy: default-src 'self'; frame-ancestors 'none'; "      \
  "base-uri 'none'; form-action 'self'; object-src 'none'\r\n"                 \
  "X-Content-Type-Options: nosniff\r\n"                                        \
  "X-Frame-Options: DENY\r\n"                                                  \
  "Referrer-Policy: no-referrer\r\n"                                           \
  "Cross-Origin-Resource-Policy: same-origin\r\n"

struct http {
  struct http_options options;
  struct mg_context *context;
  struct loop *loop;
  struct hub *hub;
  struct tls *tls;   /* NULL: no listener wants it */
  char failure[512]; /* civetweb's message at its start */
};

/* ---- http-reply.c ---- */

/* `extra`: more header lines, each ending in \r\n.  Returns the status. */
int http_reply_send (struct mg_connection *conn, int status, const char *type,
                     const char *extra, const char *body, size_t length);
int http_reply_json (struct mg_connection *conn, int status, const char *extra,
                     const json_t *body);
int http_reply_refuse (struct mg_connection *conn, int status,
                       const char *field, const char *code, const char *extra,
                       const char *fmt, ...)
  __attribute__ ((format (printf, 6, 7)));
int http_reply_not_found (struct mg_connection *conn, const char *path);
/* Log that a request was refused; of many only some are. */
void http_reply_log_refusal (struct mg_connection *conn, const char *reason);

/* ---- http-caller.c ---- */

/* Refuse a request from another site's page, or to another name than weftd's.
 * True: refused.
 */
bool http_caller_refuse_stranger (struct http *h, struct mg_connection *conn);
/* Send a browser that asks for a page of http://localhost to the address on which weftd
 * listens.  "localhost" stands for two addresses: on the one on which weftd does not listen,
 * another user's program may have the same port, and so what the page of "localhost" keeps.
 * True: sent there.
 */
bool http_caller_leave_localhost (struct http *h, struct mg_connection *conn,
                                  const char *path);
/* Find out who calls, and whether that is allowed.  False: refused. */
bool http_caller_take (struct http *h, struct mg_connection *conn,
                       struct request *r);

/* ---- http-body.c: each returns false after a refusal, unless its comment says
 * otherwise.  ----
 */

/* So long a request may be before its body. */
#define HTTP_HEAD_BYTES_MAX 8192

/* Refuse a request of which it is not certain where it begins or where its body ends, and
 * end the connection.  True: refused.
 */
bool http_body_refuse_framing (struct mg_connection *conn);
/* Take the parameters and the headers that matter into the request. */
bool http_body_take_query (struct mg_connection *conn, struct request *r,
                           const char *method, const char *path);
/* Take the body into the request. */
bool http_body_take (struct mg_connection *conn, struct request *r);
/* Refuse a request whose body was not read, or not to its end: at once, whoever sends
 * it; the connection ends.  Returns the status.
 */
int http_body_refuse (struct mg_connection *conn, int status, const char *code,
                      const char *extra, const char *why);
/* The same of a request whose caller has too many of a kind. */
int http_body_refuse_over_quota (struct mg_connection *conn,
                                 enum quota_kind kind);
/* Read a body that the route does not want, and forget it. */
bool http_body_drop (struct mg_connection *conn);

/* ---- http-events.c ---- */

int http_events_serve (struct http *h, struct mg_connection *conn,
                       const struct caller *caller);

#endif /* WEFT_HTTP_INTERNAL_H */
