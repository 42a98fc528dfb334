/* routes-array.c: arrays as wholes: see routes.h.  A route's two functions stand
 * together: what it reads from the body, and what the loop does with it.
 */

#include <config.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "routes-internal.h"
#include "views.h"

void
parse_disks (struct fields *f, struct cluster_create *create)
{
  const json_t *list;
  size_t count;

  if (!fields_has (f, "disks")) {
    fields_fail (f, "disks",
                 "field disks is missing: give the UUIDs of the "
                 "disks, in the order of their positions");
    return;
  }
  f->seen[f->seen_count++] = "disks";
  list = json_object_get (f->object, "disks");
  count = json_array_size (list);
  if (!json_is_array (list) || count == 0 || count > ARRAY_MEMBERS_MAX) {
    fields_fail (f, "disks", "field disks must be a list of 1 to %d UUIDs",
                 ARRAY_MEMBERS_MAX);
    return;
  }
  create->members = (unsigned) count;
  for (size_t i = 0; i < count; i++) {
    const char *text = json_string_value (json_array_get (list, i));

    if (text == NULL || !fields_parse_uuid (text, create->disk[i]))
      fields_fail (f, "disks",
                   "element %zu of field disks must be a UUID in "
                   "lower case",
                   i);
  }
}

static void
parse_create (struct fields *f, struct request *r)
{
  struct cluster_create *create = r->input;
  int layout = LAYOUT_RAIDX, dup = DUP_ASYNC_CLIENT;
  uint64_t groups = 1;

  create->unit = UNIT_BYTES_DEFAULT;
  fields_name (f, "name", create->name, sizeof create->name);
  strcpy (r->subject, create->name);
  fields_word (f, "layout", layout_parse,
               "raid-x, raid-10, chained, rotated, raid-1, raid-0", &layout);
  if (fields_has (f, "unit"))
    fields_u64 (f, "unit", UNIT_BYTES_MIN, UNIT_BYTES_MAX, &create->unit);
  if (fields_has (f, "groups"))
    fields_u64 (f, "groups", 1, ARRAY_GROUPS_MAX, &groups);
  if (fields_has (f, "dup"))
    fields_word (f, "dup", array_dup_parse, "async-client, sync-client", &dup);
  parse_disks (f, create);
  fields_end (f);
  create->layout = (enum layout_kind) layout;
  create->dup = (enum array_dup) dup;
  create->groups = (unsigned) groups;
}

static void
handle_create (struct loop *l, struct request *r)
{
  struct cluster_input in;

  loop_input (l, r, &in);
  cluster_array_create (loop_cluster (l), &in, r->input);
}

static void
handle_arrays (struct loop *l, struct request *r)
{
  loop_answer (l, r, 200, view_arrays (loop_cluster (l), clock_wall_ms ()));
}

static void
handle_array (struct loop *l, struct request *r)
{
  struct cluster *c = loop_cluster (l);
  const struct cluster_array *a = cluster_array_find (c, r->name);
  char why[200];

  if (a) {
    loop_answer (l, r, 200, view_array (c, a, clock_wall_ms ()));
    return;
  }
  snprintf (why, sizeof why,
            "there is no array %s: GET /api/v1/arrays lists them", r->name);
  loop_answer (l, r, 404, view_error (404, NULL, "unknown-array", why));
}

static void
handle_bad_ranges (struct loop *l, struct request *r)
{
  const struct cluster_array *a = cluster_array_find (loop_cluster (l),
                                                      r->name);
  char why[200];

  if (a) {
    loop_answer (l, r, 200, view_bad_ranges (a, SIZE_MAX));
    return;
  }
  snprintf (why, sizeof why,
            "there is no array %s: GET /api/v1/arrays lists them", r->name);
  loop_answer (l, r, 404, view_error (404, NULL, "unknown-array", why));
}

static void
parse_loss (struct fields *f, struct request *r)
{
  struct cluster_loss *loss = r->input;
  const json_t *list = json_object_get (f->object, "ranges");
  struct fields g;

  f->seen[f->seen_count++] = "ranges";
  loss->count = json_array_size (list);
  if (loss->count == 0 || loss->count > LOSS_RANGES_MAX)
    fields_fail (f, "ranges",
                 "field ranges must be a list of 1 to %d ranges "
                 "of the array's bad ranges, each {\"offset\", \"length\"}",
                 LOSS_RANGES_MAX);
  for (unsigned i = 0; i < loss->count && !f->failed; i++) {
    uint64_t *offset = &loss->range[i].offset, *length = &loss->range[i].length;

    fields_begin (&g, json_array_get (list, i));
    fields_u64 (&g, "offset", 0, INT64_MAX, offset);
    fields_u64 (&g, "length", 1, INT64_MAX, length);
    fields_end (&g);
    if (g.failed)
      fields_fail (f, "ranges", "ranges[%u]: %.200s", i, g.why);
    else if (*offset % BAD_BLOCK_BYTES || *length % BAD_BLOCK_BYTES)
      fields_fail (f, "ranges", "ranges[%u] must be whole blocks of %d bytes",
                   i, BAD_BLOCK_BYTES);
  }
  fields_end (f);
}

static void
handle_accept_loss (struct loop *l, struct request *r)
{
  struct cluster_input in;

  loop_input (l, r, &in);
  cluster_array_accept_loss (loop_cluster (l), &in, r->name, r->input);
}

static void
handle_array_delete (struct loop *l, struct request *r)
{
  struct cluster_input in;

  loop_input (l, r, &in);
  cluster_array_delete (loop_cluster (l), &in, r->name);
}

static void
parse_array_tune (struct fields *f, struct request *r)
{
  struct cluster_array_tune *tune = r->input;
  uint64_t seconds = 0;

  fields_u64 (f, "spare_after_s", 0, SPARE_AFTER_MS_MAX / 1000, &seconds);
  fields_end (f);
  tune->has_spare_after = true;
  tune->spare_after_ms = seconds * 1000;
}

static void
handle_array_tune (struct loop *l, struct request *r)
{
  struct cluster_input in;

  loop_input (l, r, &in);
  cluster_array_tune (loop_cluster (l), &in, r->name, r->input);
}

const struct route routes_array[] = {
  { "GET", V1 "/arrays", .query = QUERY_PAGE, .list = "arrays", .key = "name",
    .handle = handle_arrays },
  { "POST", V1 "/arrays", .has_body = true, .makes = true,
    .query = QUERY_DRY_RUN, .input = sizeof (struct cluster_create),
    .parse = parse_create, .handle = handle_create,
    .preflight = preflight_create },
  { "GET", V1 "/arrays/{name}", .configuration = etag_array,
    .handle = handle_array },
  { "GET", V1 "/arrays/{name}/bad-ranges", .query = QUERY_PAGE,
    .list = "bad_ranges", .key = "offset", .handle = handle_bad_ranges },
  { "POST", V1 "/arrays/{name}/accept-loss", .has_body = true,
    .query = QUERY_DRY_RUN, .input = sizeof (struct cluster_loss),
    .parse = parse_loss, .handle = handle_accept_loss,
    .preflight = preflight_accept_loss },
  { "PATCH", V1 "/arrays/{name}", .has_body = true, .configuration = etag_array,
    .input = sizeof (struct cluster_array_tune), .parse = parse_array_tune,
    .handle = handle_array_tune },
  { "DELETE", V1 "/arrays/{name}", .query = QUERY_DRY_RUN,
    .configuration = etag_array, .handle = handle_array_delete,
    .preflight = preflight_delete },
  { NULL },
};
