/* http-events.c: a stream of events: first a snapshot, then what changes. */

#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "alloc.h"
#include "auth.h"
#include "http-internal.h"
#include "routes.h"

#define KEEP_ALIVE_MS 10000

/* A snapshot, and the cursor behind it; false: the connection is over. */
static bool
send_snapshot (struct http *h, struct mg_connection *conn,
               const struct caller *caller, struct hub_cursor *cursor)
{
  struct request r;
  char *json, *text;
  bool ok;

  request_init (&r, &route_snapshot);
  r.caller = *caller;
  loop_ask (h->loop, &r);
  json = r.status == 200 ? alloc_json (r.body) : NULL;
  cursor->id = r.event_id;
  request_destroy (&r);
  if (json == NULL)
    return false;
  text = alloc_print ("id: %llu\nevent: snapshot\ndata: %s\n\n",
                      (unsigned long long) cursor->id, json);
  ok = mg_write (conn, text, strlen (text)) == (int) strlen (text);
  free (text);
  free (json);
  return ok;
}

int
http_events_serve (struct http *h, struct mg_connection *conn,
                   const struct caller *caller)
{
  static const char head[] =
    "HTTP/1.1 200 OK\r\n" SECURITY_HEADERS
    "Content-Type: text/event-stream\r\nCache-Control: no-store\r\n"
    "Connection: close\r\n\r\nretry: 1000\n\n";
  const char *seen = mg_get_header (conn, "Last-Event-ID");
  bool resume = seen && seen[0] >= '0' && seen[0] <= '9', ok;
  struct hub_cursor cursor = { 0 };
  char *text = NULL, *end;

  if (resume) {
    cursor.id = strtoull (seen, &end, 10);
    resume = *end == '\0';
  }
  ok = mg_write (conn, head, sizeof head - 1) == (int) sizeof head - 1;
  hub_listen (h->hub, 1);
  if (ok && !(resume && hub_has (h->hub, cursor.id)))
    ok = send_snapshot (h, conn, caller, &cursor);
  while (ok) {
    enum hub_result next = hub_next (h->hub, &cursor, &text, KEEP_ALIVE_MS);

    ok = auth_still (loop_auth (h->loop), caller, clock_wall_ms ());
    switch (next) {
    case HUB_EVENT:
      ok = ok && mg_write (conn, text, strlen (text)) == (int) strlen (text);
      free (text);
      break;
    case HUB_IDLE:
      ok = ok && mg_write (conn, ":\n\n", 3) == 3;
      break;
    case HUB_BEHIND:
      ok = ok && send_snapshot (h, conn, caller, &cursor);
      break;
    case HUB_CLOSED:
      ok = false;
      break;
    }
  }
  hub_listen (h->hub, -1);
  /* The end of the stream is the end of the connection. */
  mg_disable_connection_keep_alive (conn);
  return 200;
}
