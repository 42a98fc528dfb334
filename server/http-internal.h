/* http-internal.h: what the files of the HTTP server share. */

#ifndef WEFT_HTTP_INTERNAL_H
#define WEFT_HTTP_INTERNAL_H

#include <stddef.h>

#include <civetweb.h>

#include "http.h"

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
  char failure[512]; /* what civetweb said while it was started */
};

/* ---- http-reply.c ---- */

/* `extra`: more header lines, each ending in \r\n.  Returns the status. */
int http_send (struct mg_connection *conn, int status, const char *type,
               const char *extra, const char *body, size_t length);
int http_send_json (struct mg_connection *conn, int status, const char *extra,
                    const json_t *body);
int http_refuse (struct mg_connection *conn, int status, const char *field,
                 const char *code, const char *extra, const char *fmt, ...)
  __attribute__ ((format (printf, 6, 7)));
int http_not_found (struct mg_connection *conn, const char *path);

/* ---- http-caller.c ---- */

/* Log that a request was refused; of many only some are. */
void http_log_refusal (struct mg_connection *conn, const char *reason);
/* Refuse a request from another site's page, or to another name than weftd's.
 * True: refused.
 */
bool http_refuse_stranger (struct http *h, struct mg_connection *conn);
/* Find out who calls, and whether that is allowed.  False: refused. */
bool http_take_caller (struct http *h, struct mg_connection *conn,
                       struct request *r);

/* ---- http-body.c: each returns false where it has refused,
 * if nothing else is said. ---- */

/* Refuse a request of which it is not certain where its body ends, and end the
 * connection.  True: refused.
 */
bool http_refuse_framing (struct mg_connection *conn);
/* Take the parameters and the headers that matter into the request. */
bool http_take_query (struct mg_connection *conn, struct request *r,
                      const char *method, const char *path);
/* Take the body into the request. */
bool http_take_body (struct mg_connection *conn, struct request *r);
/* Refuse a request whose body was not read, or not to its end: at once, whoever sends
 * it; the connection ends.  Returns the status.
 */
int http_refuse_body (struct mg_connection *conn, int status, const char *code,
                      const char *extra, const char *why);
/* Read a body that the route does not want, and forget it. */
bool http_drop_body (struct mg_connection *conn);

/* ---- http-events.c ---- */

int http_serve_events (struct http *h, struct mg_connection *conn,
                       const struct caller *caller);

#endif /* WEFT_HTTP_INTERNAL_H */
