/* routes-rebuild.c: members taken back, replaced and rebuilt, spares, imports:
 * see routes.h.
 */

#include <config.h>

#include <string.h>

#include "routes-internal.h"

/* ---- Members. ---- */

struct replace_input {
  bool force;
};

static void
parse_replace (struct fields *f, struct request *r)
{
  struct replace_input *q = r->input;

  fields_uuid (f, "disk", r->uuid);
  if (fields_has (f, "force"))
    fields_bool (f, "force", &q->force);
  fields_end (f);
  if (q->force)
    strcpy (r->subject, "by force");
}

static bool
replace_force (const struct request *r)
{
  return ((const struct replace_input *) r->input)->force;
}

static void
parse_disk_name (struct fields *f, struct request *r)
{
  fields_uuid (f, "disk", r->uuid);
  fields_end (f);
}

ROUTE_CALL (handle_replace, cluster_member_replace, r->name, r->member, r->uuid,
            replace_force (r))
ROUTE_PREFLIGHT (preflight_replace, cluster_preflight_replace, r->name,
                 r->member, r->uuid, replace_force (r))

ROUTE_CALL (handle_cancel, cluster_member_cancel, r->name, r->member)
ROUTE_PREFLIGHT (preflight_cancel, cluster_preflight_cancel, r->name, r->member)

ROUTE_CALL (handle_join, cluster_member_join, r->name, r->member)

static void
parse_member_tune (struct fields *f, struct request *r)
{
  struct cluster_member_tune *t = r->input;

  if ((t->has_paused = fields_has (f, "paused")))
    fields_bool (f, "paused", &t->paused);
  if ((t->has_floor = fields_has (f, "floor")))
    fields_u64 (f, "floor", 0, INT64_MAX, &t->floor);
  if ((t->has_ceiling = fields_has (f, "ceiling")))
    fields_u64 (f, "ceiling", 0, INT64_MAX, &t->ceiling);
  fields_end (f);
  if (!t->has_paused && !t->has_floor && !t->has_ceiling)
    fields_fail (f, "paused",
                 "one of the fields paused, floor and ceiling must be there");
}

ROUTE_CALL (handle_member_tune, cluster_member_tune, r->name, r->member,
            r->input)

/* ---- Spares. ---- */

ROUTE_CALL (handle_spare_add, cluster_spare_add, r->name, r->uuid)
ROUTE_CALL (handle_spare_drop, cluster_spare_drop, r->name, r->uuid)

/* ---- Imports. ---- */

static void
parse_import (struct fields *f, struct request *r)
{
  struct cluster_import *import = r->input;
  const json_t *list = NULL;
  uint64_t m;

  fields_name (f, "name", import->name, sizeof import->name);
  fields_uuid (f, "array", import->array);
  if (fields_has (f, "without")) {
    list = fields_get (f, "without");
    if (!json_is_array (list))
      fields_fail (f, "without", "field without must be a list of positions");
  }
  for (size_t i = 0; i < json_array_size (list); i++) {
    if (!fields_whole (json_array_get (list, i), &m) || m >= ARRAY_MEMBERS_MAX)
      fields_fail (
        f, "without",
        "element %zu of field without must be a position from 0 to %d", i,
        ARRAY_MEMBERS_MAX - 1);
    else
      import->without[m] = true;
  }
  if (fields_has (f, "accept_loss"))
    fields_bool (f, "accept_loss", &import->accept_loss);
  fields_end (f);
  snprintf (r->subject, sizeof r->subject, "%s%s", import->name,
            import->accept_loss ? ", loss accepted" : "");
}

/* An array of the backup that weftd was restored from is there already. */
static void
handle_import (struct loop *l, struct request *r)
{
  const struct cluster_import *import = r->input;
  const struct cluster_array *a;

  TAILQ_FOREACH (a, cluster_arrays (loop_cluster (l)), link)
    if (memcmp (a->rec.uuid, import->array, 16) == 0 && a->rec.restoring) {
      cluster_array_restore (loop_cluster (l), loop_input (l, r), import);
      return;
    }
  cluster_array_import (loop_cluster (l), loop_input (l, r), import);
}
ROUTE_PREFLIGHT (preflight_import, cluster_preflight_import, r->input)

#define MEMBER V1 "/arrays/{name}/members/{member}"

const struct route routes_rebuild[] = {
  { "PATCH", MEMBER, .configuration = etag_array,
    .input = sizeof (struct cluster_member_tune), .parse = parse_member_tune,
    .handle = handle_member_tune },
  { "POST", MEMBER "/replace", .configuration = etag_array,
    .input = sizeof (struct replace_input), .parse = parse_replace,
    .handle = handle_replace, .preflight = preflight_replace },
  { "POST", MEMBER "/cancel", .configuration = etag_array,
    .handle = handle_cancel, .preflight = preflight_cancel },
  { "POST", MEMBER "/join", .configuration = etag_array,
    .handle = handle_join },
  { "POST", V1 "/arrays/{name}/spares", .parse = parse_disk_name,
    .handle = handle_spare_add },
  { "DELETE", V1 "/arrays/{name}/spares/{uuid}", .configuration = etag_array,
    .handle = handle_spare_drop },
  { "GET", V1 "/rebuilds", .query = QUERY_PAGE, .list = "rebuilds",
    .key = "array", .key2 = "member", .show = view_rebuilds },
  { "GET", V1 "/imports", .query = QUERY_PAGE, .list = "imports",
    .key = "array", .show = view_imports },
  { "POST", V1 "/imports", .makes = true,
    .input = sizeof (struct cluster_import), .parse = parse_import,
    .handle = handle_import, .preflight = preflight_import },
  { NULL },
};
