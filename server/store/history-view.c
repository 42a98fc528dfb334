/* history-view.c: charts out of the history: see history.h.  Each opens the
 * database for itself, beside the thread that writes it.
 */

#include <config.h>

#include <math.h>
#include <stdlib.h>

#include <sqlite3.h>

#include "history-internal.h"
#include "server/alloc.h"
#include "server/fields.h"
#include "server/text.h"
#include "server/views.h"

#define RANGE_MS_DEFAULT (15 * 60 * 1000)
#define POINTS_DEFAULT 300

/* The range, in s, and in how many parts of how many s. */
struct range {
  int64_t tier_s, step_s, from_s, to_s;
  size_t points;
};

/* The finest samples that reach back so far. */
static void
plan (const struct query *q, uint64_t from_ms, uint64_t to_ms, uint64_t wall_ms,
      struct range *r)
{
  int64_t now_s = (int64_t) (wall_ms / 1000);
  int64_t to_s = (int64_t) ((to_ms + 999) / 1000);
  int64_t points = q->points ? q->points : POINTS_DEFAULT;
  int64_t length, part;
  size_t tier = 0;

  r->from_s = (int64_t) (from_ms / 1000);
  while (tier < HISTORY_TIERS - 1 &&
         r->from_s < now_s - history_tiers[tier].keep_s)
    tier++;
  r->tier_s = history_tiers[tier].step_s;
  r->from_s = r->from_s / r->tier_s * r->tier_s;
  length = to_s - r->from_s;
  part = (length + points - 1) / points;
  r->step_s = (part + r->tier_s - 1) / r->tier_s * r->tier_s;
  r->points = (size_t) ((length + r->step_s - 1) / r->step_s);
  r->to_s = r->from_s + (int64_t) r->points * r->step_s;
}

/* Into values[point][series].  Returns 0, 1: the subject has no past, or -1:
 * the database cannot be read.
 */
static int
read_points (const struct history *h, const char *subject,
             const struct range *r, double *values)
{
  sqlite3_stmt *stmt = NULL;
  sqlite3 *db = NULL;
  bool known = false;
  int result;

  if (sqlite3_open_v2 (history_path (h), &db,
                       SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX,
                       NULL) != SQLITE_OK ||
      sqlite3_busy_timeout (db, 1000) != SQLITE_OK ||
      sqlite3_prepare_v2 (
        db,
        "SELECT (at - ?1) / ?2, " HISTORY_MEANS " FROM subject CROSS JOIN "
        "sample ON step = ?3 AND sample.subject = subject.id AND at >= ?1 AND "
        "at < ?4 WHERE name = ?5 GROUP BY (at - ?1) / ?2 UNION ALL "
        "SELECT -1, 0, 0, 0, 0, 0, 0, 0, 0, 0 FROM subject WHERE name = ?5",
        -1, &stmt, NULL) != SQLITE_OK) {
    sqlite3_close (db);
    return -1;
  }
  sqlite3_bind_int64 (stmt, 1, r->from_s);
  sqlite3_bind_int64 (stmt, 2, r->step_s);
  sqlite3_bind_int64 (stmt, 3, r->tier_s);
  sqlite3_bind_int64 (stmt, 4, r->to_s);
  sqlite3_bind_text (stmt, 5, subject, -1, SQLITE_STATIC);
  while ((result = sqlite3_step (stmt)) == SQLITE_ROW) {
    int64_t point = sqlite3_column_int64 (stmt, 0);

    known = true;
    if (point < 0 || point >= (int64_t) r->points)
      continue;
    for (int i = 0; i < HISTORY_SERIES; i++)
      if (sqlite3_column_type (stmt, 1 + i) != SQLITE_NULL)
        values[point * HISTORY_SERIES + i] = sqlite3_column_double (stmt,
                                                                    1 + i);
  }
  sqlite3_finalize (stmt);
  sqlite3_close (db);
  return result != SQLITE_DONE ? -1 : known ? 0 : 1;
}

static json_t *
view (const char *subject, const struct range *r, const double *values)
{
  json_t *series = json_object ();

  for (unsigned i = 0; i < HISTORY_SERIES; i++) {
    json_t *list = json_array ();

    for (size_t p = 0; p < r->points; p++) {
      double v = values[p * HISTORY_SERIES + i];

      json_array_append_new (list, isnan (v) ? json_null ()
                                             : json_real (round (v * 10) / 10));
    }
    json_object_set_new (series, history_names[i], list);
  }
  return fields_object ((const struct field_value[]) {
    { "subject", text_string (subject) },
    { "step_ms", text_number ((uint64_t) r->step_s * 1000) },
    { "from", text_number ((uint64_t) r->from_s * 1000) },
    { "to", text_number ((uint64_t) r->to_s * 1000) },
    { "series", series },
    { NULL } });
}

json_t *
history_view (const struct history *h, const struct query *q, bool live,
              uint64_t wall_ms, int *status)
{
  const char *subject = q->subject[0] ? q->subject : "cluster";
  uint64_t to_ms = q->has_to ? q->to : wall_ms;
  uint64_t from_ms = q->has_from                ? q->from
                     : to_ms > RANGE_MS_DEFAULT ? to_ms - RANGE_MS_DEFAULT
                                                : 0;
  json_t *body = NULL;
  struct range r;
  double *values;

  *status = 400;
  if (from_ms >= to_ms)
    return view_error (400, "from", "range",
                       "parameter from must be before to, "
                       "which is now where it is not given");
  plan (q, from_ms, to_ms, wall_ms, &r);
  values = alloc_list (NULL, r.points * HISTORY_SERIES, sizeof *values);
  for (size_t i = 0; i < r.points * HISTORY_SERIES; i++)
    values[i] = NAN;
  switch (read_points (h, subject, &r, values)) {
  case -1:
    *status = 503;
    body = view_error (503, NULL, "no-history",
                       "the history cannot be read "
                       "just now: ask again in a minute");
    break;
  case 1:
    if (!live) {
      *status = 404;
      body = view_error (404, "subject", "unknown-subject",
                         "there is no such "
                         "thing, and there was none: give cluster, array:NAME "
                         "or disk:UUID");
      break;
    }
    /* fall through */
  default:
    *status = 200;
    body = view (subject, &r, values);
  }
  free (values);
  return body;
}
