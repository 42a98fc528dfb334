/* http-reply.c: sends answers. */

#include <config.h>

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "http-internal.h"
#include "log.h"
#include "refusals.h"
#include "views.h"

static const char *
reason_phrase (int status)
{
  switch (status) {
  case 200:
    return "OK";
  case 201:
    return "Created";
  case 307:
    return "Temporary Redirect";
  case 304:
    return "Not Modified";
  default:
    return status < 500 ? "Refused" : "Error";
  }
}

int
http_reply_send (struct mg_connection *conn, int status, const char *type,
                 const char *extra, const char *body, size_t length)
{
  const struct mg_request_info *info = mg_get_request_info (conn);
  /* A request that is no HTTP has no method. */
  bool head = info && info->request_method &&
              strcmp (info->request_method, "HEAD") == 0;
  char few[8192], *whole = few, *many = NULL;
  int n = snprintf (few, sizeof few,
                    "HTTP/1.1 %d %s\r\n" SECURITY_HEADERS
                    "Content-Type: %s\r\nContent-Length: %zu\r\n%s\r\n",
                    status, reason_phrase (status), type, length, extra);

  assert (n > 0 && (size_t) n < sizeof few); /* `extra` is short */
  if (head)
    length = 0;
  /* One write, so that it leaves as one packet where it fits. */
  if (length > sizeof few - (size_t) n) {
    whole = many = alloc_bytes ((size_t) n + length);
    memcpy (many, few, (size_t) n);
  }
  if (length > 0)
    memcpy (whole + n, body, length);
  mg_write (conn, whole, (size_t) n + length);
  free (many);
  return status;
}

int
http_reply_json (struct mg_connection *conn, int status, const char *extra,
                 const json_t *body)
{
  char few[4096], headers[640], *text = few, *many = NULL;
  size_t length = json_dumpb (body, few, sizeof few, JSON_COMPACT);

  /* Most are short, as replies to heartbeats. */
  if (length > sizeof few) {
    text = many = alloc_bytes (length);
    json_dumpb (body, many, length, JSON_COMPACT);
  }
  if (length == 0)
    abort ();
  snprintf (headers, sizeof headers, "Cache-Control: no-store\r\n%s", extra);
  http_reply_send (conn, status,
                   status < 400 ? "application/json"
                                : "application/problem+json",
                   headers, text, length);
  free (many);
  return status;
}

int
http_reply_refuse (struct mg_connection *conn, int status, const char *field,
                   const char *code, const char *extra, const char *fmt, ...)
{
  char detail[1024];
  json_t *body;
  va_list ap;

  va_start (ap, fmt);
  vsnprintf (detail, sizeof detail, fmt, ap);
  va_end (ap);
  body = view_error (status, field, code, detail);
  http_reply_json (conn, status, extra, body);
  json_decref (body);
  return status;
}

int
http_reply_not_found (struct mg_connection *conn, const char *path)
{
  return http_reply_refuse (
    conn, 404, NULL, NULL, "",
    "there is nothing at %.200s: GET /api/v1/openapi.json describes the API",
    path);
}

void
http_reply_log_refusal (struct mg_connection *conn, const char *reason)
{
  const char *address = mg_get_request_info (conn)->remote_addr;

  if (refusals_first (reason, address))
    log_line (CLUSTER_WARNING, "refused, from %s: %s (said once in a while)",
              address, reason);
}
