/* fuzz-civetweb.c: see fuzz-civetweb.h. */

#include <config.h>

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "fuzz.h"
#include "fuzz-civetweb.h"

/* civetweb's limit (http.c). */
#define HEADERS_MAX 64

/* The one receive buffer here; of http.c's max_request_size. */
static char head[8192];

/* The end of a line, which becomes the end of a text; the next one begins behind. */
static char *
end_line (char *text, char *end)
{
  char *line_end = memchr (text, '\n', (size_t) (end - text));

  if (line_end == NULL)
    return end;
  *line_end = '\0';
  return line_end + 1;
}

void
fuzz_request (struct mg_connection *conn, char *text, size_t size)
{
  struct mg_request_info *info = &conn->info;
  char *end = text + size, *at = end_line (text, end), *blank, *query;

  memset (conn, 0, sizeof *conn);
  info->request_method = text;
  info->http_version = "1.1";
  strcpy (info->remote_addr, "192.0.2.7");
  info->remote_port = 4711;
  conn->writes_left = SIZE_MAX;
  blank = strchr (text, ' ');
  if (blank)
    *blank++ = '\0';
  query = blank ? strchr (blank, '?') : NULL;
  if (query)
    *query++ = '\0';
  info->request_uri = info->local_uri_raw = info->local_uri = blank;
  info->query_string = query;
  while (at < end && *at != '\n' && info->num_headers < HEADERS_MAX) {
    char *next = end_line (at, end), *colon = strstr (at, ": ");

    if (colon) {
      *colon = '\0';
      info->http_headers[info->num_headers].name = at;
      info->http_headers[info->num_headers++].value = colon + 2;
    }
    at = next;
  }
  if (at < end && *at == '\n')
    at++;
  conn->body = at;
  conn->body_left = (size_t) (end - at);
  info->content_length = (long long) conn->body_left;
}

void
fuzz_request_lay_out (struct mg_connection *conn)
{
  struct mg_request_info *info = &conn->info;
  char *at, *end = head + sizeof head - 3;

  conn->outer = malloc (sizeof head);
  assert (conn->outer);
  memcpy (conn->outer, head, sizeof head);
  /* civetweb knows no long method. */
  snprintf (head, 64, "%s", info->request_method);
  at = head + strlen (head) + 1;
  info->request_method = head;
  info->http_version = strcpy (at, "1.1");
  at += sizeof "1.1";
  for (int i = 0; i < info->num_headers; i++) {
    struct mg_header *h = &info->http_headers[i];
    size_t name = strlen (h->name) + 1, value = strlen (h->value) + 1;

    if (name + value + 1 > (size_t) (end - at)) {
      info->num_headers = i;
      break;
    }
    *at++ = '\0';
    h->name = memcpy (at, h->name, name);
    at += name;
    h->value = memcpy (at, h->value, value);
    at += value;
  }
  memcpy (at, "\0\r", 3);
}

void
fuzz_request_end (struct mg_connection *conn)
{
  free (conn->answer);
  conn->answer = NULL;
  if (conn->outer)
    memcpy (head, conn->outer, sizeof head);
  free (conn->outer);
  conn->outer = NULL;
}

int
fuzz_status (const struct mg_connection *conn)
{
  int status = 0;

  return conn->answer && sscanf (conn->answer, "HTTP/1.1 %d", &status) == 1
           ? status
           : 0;
}

/* ---- In place of civetweb's. ---- */

const struct mg_request_info *
mg_get_request_info (const struct mg_connection *conn)
{
  return &conn->info;
}

const char *
mg_get_header (const struct mg_connection *conn, const char *name)
{
  for (int i = 0; i < conn->info.num_headers; i++)
    if (strcasecmp (conn->info.http_headers[i].name, name) == 0)
      return conn->info.http_headers[i].value;
  return NULL;
}

int
mg_read (struct mg_connection *conn, void *buf, size_t len)
{
  size_t n = len < conn->body_left ? len : conn->body_left;

  memcpy (buf, conn->body, n);
  conn->body += n;
  conn->body_left -= n;
  return (int) n;
}

int
mg_write (struct mg_connection *conn, const void *buf, size_t len)
{
  if (conn->writes_left == 0)
    return -1;
  conn->writes_left--;
  conn->answer = realloc (conn->answer, conn->answer_bytes + len + 1);
  assert (conn->answer);
  memcpy (conn->answer + conn->answer_bytes, buf, len);
  conn->answer_bytes += len;
  conn->answer[conn->answer_bytes] = '\0';
  return (int) len;
}

void
mg_disable_connection_keep_alive (struct mg_connection *conn)
{
}

void *
mg_get_user_connection_data (const struct mg_connection *conn)
{
  return conn->data;
}

void
mg_set_user_connection_data (const struct mg_connection *conn, void *data)
{
  ((struct mg_connection *) conn)->data = data;
}
