/* routes-cluster.c: routes of the cluster as a whole: see routes.h. */

#include <config.h>

#include <string.h>

#include "common/clock.h"
#include "store/history.h"
#include "journal.h"
#include "metrics.h"
#include "routes-internal.h"
#include "views.h"

static void
handle_status (struct loop *l, struct request *r)
{
  r->event_id = loop_last_event (l);
  loop_answer (l, r, 200,
               view_status (loop_cluster (l), loop_auth (l), clock_wall_ms ()));
}

static void
handle_log (struct loop *l, struct request *r)
{
  loop_answer (l, r, 200, journal_view (loop_journal (l), &r->query));
}

/* Is there such a thing now?  The history itself is read on the HTTP thread. */
static void
handle_history (struct loop *l, struct request *r)
{
  const struct cluster *c = loop_cluster (l);
  const char *subject = r->query.subject;
  uint8_t uuid[16];
  bool live = subject[0] == '\0' || strcmp (subject, "cluster") == 0;

  if (strncmp (subject, "array:", 6) == 0)
    live = cluster_array_find (c, subject + 6) != NULL;
  else if (strncmp (subject, "disk:", 5) == 0)
    live = format_uuid_parse (subject + 5, uuid) == 0 &&
           cluster_disk_find (c, uuid) != NULL;
  loop_answer (l, r, 200, json_pack ("{sb}", "live", live));
}

static json_t *
finish_history (struct loop *l, struct request *r)
{
  bool live = json_is_true (json_object_get (r->body, "live"));

  return history_view (loop_history (l), &r->query, live, clock_wall_ms (),
                       &r->status);
}

static void
handle_metrics (struct loop *l, struct request *r)
{
  r->text = metrics_text (loop_cluster (l));
  r->type = METRICS_TYPE;
  loop_answer (l, r, 200, NULL);
}

const struct route route_snapshot = { "GET", .handle = handle_status };

const struct route routes_cluster[] = {
  { "GET", V1 "/status", .handle = handle_status },
  { "GET", V1 "/log",
    .query = QUERY_PAGE | QUERY_SEVERITY | QUERY_SUBJECT | QUERY_TEXT,
    .handle = handle_log },
  { "GET", V1 "/events", .kind = ROUTE_EVENTS },
  { "GET", V1 "/history", .query = QUERY_SUBJECT | QUERY_RANGE,
    .handle = handle_history, .finish = finish_history },
  { "GET", "/metrics", .handle = handle_metrics },
  { "GET", V1 "/openapi.json", .kind = ROUTE_OPENAPI },
  { NULL },
};
