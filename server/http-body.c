/* http-body.c: the parameters and the body of a request. */

#include <config.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <openssl/crypto.h>

#include "alloc.h"
#include "http-internal.h"
#include "routes.h"

#define BODY_BYTES_MAX (1 << 20)
#define UNREAD_BYTES_MAX (8 << 20)
#define JSON_DEPTH_MAX 8
/* A heartbeat about an array of 128 members has some 5,000. */
#define JSON_VALUES_MAX 16384

/* The values of a session that declares all its leases, three values each. */
#define LARGE_VALUES_MAX (4 * (ARRAY_LEASES_MAX + SESSION_LEASES_MAX))
#define LARGE_BYTES_MAX (4 << 20)

/* The body of a caller without a login: a name and a password, or a request for
 * a certificate.
 */
#define STRANGER_BYTES_MAX (32 << 10)
#define STRANGER_VALUES_MAX 64

/* So much memory a value takes at most as JSON: `{}` counts as two, and takes some 230. */
#define VALUE_BYTES 128

_Static_assert (STRANGER_BYTES_MAX <= QUOTA_SMALL_BYTES,
                "the bodies of strangers don't count");

/* A caller that sends a little too much gets an answer; a caller that sends
 * without end is cut off.
 */
int
http_body_refuse (struct mg_connection *conn, int status, const char *code,
                  const char *extra, const char *why)
{
  char headers[128];
  char some[4096];
  int n = 0, left = UNREAD_BYTES_MAX;

  mg_disable_connection_keep_alive (conn);
  snprintf (headers, sizeof headers, "Connection: close\r\n%s", extra);
  http_reply_refuse (conn, status, NULL, code, headers, "%s", why);
  while (left > 0 && (n = mg_read (conn, some, sizeof some)) > 0)
    left -= n;
  return status;
}

int
http_body_refuse_over_quota (struct mg_connection *conn, enum quota_kind kind)
{
  static const char *const why[QUOTA_KINDS] = {
    [QUOTA_CALL] =
      "too many requests are under way: ask again when one is answered",
    [QUOTA_STREAM] =
      "too many streams of events are open: close one that nobody reads",
    [QUOTA_BYTES] =
      "too many bytes of large requests are under way: send this one again "
      "when one is answered, or a smaller one",
  };

  http_reply_log_refusal (conn, "too many requests at once");
  return http_body_refuse (conn, 429, "too-many-requests", "Retry-After: 1\r\n",
                           why[kind]);
}

/* Count these bytes, if they are many, until the request is answered.  False: refused. */
static bool
count_bytes (struct mg_connection *conn, struct request *r, size_t bytes)
{
  if (bytes <= QUOTA_SMALL_BYTES)
    return true;
  if (!quota_begin (&r->caller, QUOTA_BYTES, (unsigned) bytes)) {
    http_body_refuse_over_quota (conn, QUOTA_BYTES);
    return false;
  }
  r->body_bytes += (unsigned) bytes;
  return true;
}

/* These bytes are given back already. */
static void
uncount_bytes (struct request *r, size_t bytes)
{
  if (bytes <= QUOTA_SMALL_BYTES)
    return;
  quota_end (&r->caller, QUOTA_BYTES, (unsigned) bytes);
  r->body_bytes -= (unsigned) bytes;
}

/* The error in the lines of a request's head; NULL: there is none.
 *
 * civetweb parses the head where it has received it, puts a NUL in the place of each CR and
 * LF, and does not report what it has skipped or where it has stopped: so each text must be
 * where the last one has ended.  If a line begins with a byte that no name has, the rest
 * of the head would be dropped.  If empty lines stand before the request, the head would go
 * on in what the thread has received on an earlier connection, of another caller.
 */
static const char *
head_fault (const struct mg_request_info *info)
{
  static _Thread_local const char *begin; /* of what this thread receives */
  const char *end = info->http_version + strlen (info->http_version);

  if (begin == NULL || info->request_method < begin)
    begin = info->request_method;
  if (info->request_method != begin)
    return "something stands before the request's first line";
  for (int i = 0; i < info->num_headers; i++) {
    if (info->http_headers[i].name != end + 2)
      return "a line does not end with CR and LF, or begins with a space";
    end = info->http_headers[i].value + strlen (info->http_headers[i].value);
  }
  /* CR and LF twice; of the four, civetweb leaves the second CR. */
  if (info->num_headers == 0 || end + 4 > begin + HTTP_HEAD_BYTES_MAX ||
      end[1] != '\0' || end[2] != '\r' || end[3] != '\0')
    return "a line does not begin with a name, or does not end with CR and LF";
  return NULL;
}

/* The error in the headers that say where the body ends, and for which host the
 * request is; NULL: none.  Two readers of an ambiguous request could find its
 * end in two places, and the second would take the rest of the body for another
 * request (RFC 9112, 3.2, 6.3 and 11.2).
 */
static const char *
framing_fault (const struct mg_request_info *info)
{
  const int headers_max = sizeof info->http_headers /
                          sizeof info->http_headers[0];
  unsigned lengths = 0, encodings = 0, hosts = 0;

  /* civetweb drops the headers after its last place, and does not report that. */
  if (info->num_headers >= headers_max)
    return "the request has too many headers: 63 at most";
  for (int i = 0; i < info->num_headers; i++) {
    const char *name = info->http_headers[i].name;
    const char *value = info->http_headers[i].value;

    if (strcasecmp (name, "Host") == 0)
      hosts++;
    else if (strcasecmp (name, "Content-Length") == 0) {
      lengths++;
      if (*value == '\0' || value[strspn (value, "0123456789")] != '\0')
        return "Content-Length is not a number of bytes";
    }
    else if (strcasecmp (name, "Transfer-Encoding") == 0) {
      encodings++;
      if (strcasecmp (value, "chunked") != 0)
        return "weftd knows no Transfer-Encoding but chunked";
    }
  }
  if (hosts > 1)
    return "the request has more than one Host";
  if (lengths > 1)
    return "the request has more than one Content-Length";
  if (encodings > 1)
    return "the request has more than one Transfer-Encoding";
  if (lengths && encodings)
    return "the request has both Content-Length and Transfer-Encoding";
  if (encodings && strcmp (info->http_version, "1.1") != 0)
    return "a Transfer-Encoding needs HTTP/1.1";
  return NULL;
}

bool
http_body_refuse_framing (struct mg_connection *conn)
{
  const struct mg_request_info *info = mg_get_request_info (conn);
  const char *fault = framing_fault (info);

  if (fault == NULL)
    fault = head_fault (info);
  if (fault)
    http_body_refuse (conn, 400, NULL, "", fault);
  return fault != NULL;
}

static void
refuse_too_long (struct mg_connection *conn, size_t most)
{
  char why[80];

  snprintf (why, sizeof why, "the body is longer than %zu bytes", most);
  http_body_refuse (conn, 413, NULL, "", why);
}

/* Is it said beforehand that it is too long?  True: refused. */
static bool
announced_too_long (struct mg_connection *conn, size_t most)
{
  if (mg_get_request_info (conn)->content_length <= (long long) most)
    return false;
  refuse_too_long (conn, most);
  return true;
}

/* After `length` bytes, of which mg_read gave `last` last.  The rest of half a
 * body must not be taken for a request.  False: refused.
 */
static bool
is_whole (struct mg_connection *conn, size_t length, size_t most, int last)
{
  long long told = mg_get_request_info (conn)->content_length;

  if (length > most)
    refuse_too_long (conn, most);
  else if (last < 0)
    http_body_refuse (conn, 400, NULL, "",
                      "the body did not come, or its chunks are damaged");
  else if (told > 0 && length < (size_t) told)
    http_body_refuse (conn, 400, NULL, "",
                      "the body ended before its Content-Length");
  else
    return true;
  return false;
}

/* The body as text, *length bytes; NULL: refused. */
static char *
read_body (struct mg_connection *conn, struct request *r, size_t most,
           size_t *length)
{
  const struct mg_request_info *info = mg_get_request_info (conn);
  char *body;
  size_t room;
  int n = 0;

  *length = 0;
  if (announced_too_long (conn, most))
    return NULL;
  room = info->content_length > 0 ? (size_t) info->content_length : 0;
  if (mg_get_header (conn, "Transfer-Encoding")) /* not known before */
    room = most;
  if (!count_bytes (conn, r, room))
    return NULL;
  body = alloc_bytes (room + 1);
  while (*length <= room &&
         (n = mg_read (conn, body + *length, room + 1 - *length)) > 0)
    *length += (size_t) n;
  if (is_whole (conn, *length, most, n))
    return body;
  free (body);
  return NULL;
}

/* How many values are in it; UINT_MAX: it is nested so deep that parsing it would need
 * much stack (civetweb's threads have little).  Values need a hundred times the memory of
 * their text.
 */
static unsigned
count_values (const char *body, size_t length)
{
  unsigned depth = 0, values = 0;
  bool string = false;

  for (size_t i = 0; i < length; i++) {
    if (string && body[i] == '\\')
      i++;
    else if (body[i] == '"')
      string = !string;
    else if (!string && (body[i] == '[' || body[i] == '{')) {
      if (++depth > JSON_DEPTH_MAX)
        return UINT_MAX;
    }
    else if (!string && (body[i] == ']' || body[i] == '}') && depth > 0)
      depth--;
    /* One begins behind each of these. */
    if (!string && strchr ("[{,:", body[i]))
      values++;
  }
  return values;
}

bool
http_body_take (struct mg_connection *conn, struct request *r)
{
  const char *type = mg_get_header (conn, "Content-Type");
  json_error_t error;
  json_t *json = NULL;
  struct fields f;
  size_t length;
  bool stranger = r->caller.role == ROLE_NOBODY;
  unsigned values_max = stranger          ? STRANGER_VALUES_MAX
                        : r->route->large ? LARGE_VALUES_MAX
                                          : JSON_VALUES_MAX;
  unsigned bytes_max = stranger          ? STRANGER_BYTES_MAX
                       : r->route->large ? LARGE_BYTES_MAX
                                         : BODY_BYTES_MAX;
  char *body = read_body (conn, r, bytes_max, &length);
  unsigned values;
  size_t tree; /* bytes */

  if (body == NULL)
    return false;
  values = count_values (body, length);
  tree = (size_t) values * VALUE_BYTES;
  query_take_body (&r->query, body, length);
  if (type == NULL || strcspn (type, "; \t") != 16 ||
      strncasecmp (type, "application/json", 16) != 0)
    http_reply_refuse (
      conn, 415, NULL, NULL, "",
      "the body must be JSON: give Content-Type: application/json");
  else if (values > values_max)
    http_reply_refuse (
      conn, 400, NULL, NULL, "",
      "the body is nested more than %d deep, or has more than %u "
      "values",
      JSON_DEPTH_MAX, values_max);
  else if (count_bytes (conn, r, tree)) {
    json = json_loadb (body, length, JSON_REJECT_DUPLICATES, &error);
    if (json == NULL) {
      uncount_bytes (r, tree);
      http_reply_refuse (conn, 400, NULL, NULL, "",
                         "the body is no JSON: %.150s, in line %d", error.text,
                         error.line);
    }
  }
  OPENSSL_cleanse (body, length); /* there may be a password in it */
  free (body);
  if (json == NULL)
    return false;
  fields_begin (&f, json);
  r->route->parse (&f, r);
  json_decref (json);
  uncount_bytes (r, tree);
  if (f.failed)
    http_reply_refuse (conn, f.field[0] ? 422 : 400, f.field, NULL, "", "%s",
                       f.why);
  return !f.failed;
}

/* It is never held, so that strangers can't fill the memory. */
bool
http_body_drop (struct mg_connection *conn)
{
  char some[4096];
  size_t length = 0;
  int n = 0;

  if (announced_too_long (conn, BODY_BYTES_MAX))
    return false;
  while (length <= BODY_BYTES_MAX &&
         (n = mg_read (conn, some, sizeof some)) > 0)
    length += (size_t) n;
  return is_whole (conn, length, BODY_BYTES_MAX, n);
}

bool
http_body_take_query (struct mg_connection *conn, struct request *r,
                      const char *method, const char *path)
{
  const struct query_source source = {
    .method = method,
    .path = path,
    .parameters = mg_get_request_info (conn)->query_string,
    .if_match = mg_get_header (conn, "If-Match"),
    .idempotency_key = mg_get_header (conn, "Idempotency-Key")
  };
  struct refusal problem;

  if (query_take (r->route, &source, &r->query, &problem))
    return true;
  if (http_body_drop (conn))
    http_reply_refuse (conn, 400, problem.field, NULL, "", "%s", problem.why);
  return false;
}
