/* routes-layouts.c: the layouts that some disks could have, side by side: see
 * routes.h.
 *
 * The mean time to data loss is that of core/layout/durability.h, for disks of which 2
 * in 100 fail a year, and members that are rebuilt at 100 MB/s as soon as they
 * fail.
 */

#include <config.h>

#include <math.h>

#include "layout/durability.h"
#include "format/format.h"
#include "fields.h"
#include "routes-internal.h"
#include "text.h"

#define FAILURES_A_YEAR 0.02
#define REBUILD_BYTES_A_SECOND 100e6
#define HOURS_A_YEAR 8766

#define AT(member) FIELD_AT (cluster_create, member), .optional = true
static const struct field layouts_fields[] = {
  { "unit", FIELD_NUMBER, AT (unit), .min = UNIT_BYTES_MIN,
    .max = UNIT_BYTES_MAX },
  { "groups", FIELD_NUMBER, AT (groups), .min = 1, .max = ARRAY_GROUPS_MAX },
  { NULL },
};
#undef AT

static void
parse_layouts (struct fields *f, struct request *r)
{
  struct cluster_create *create = r->input;

  create->unit = UNIT_BYTES_DEFAULT;
  create->groups = 1;
  fields_take (f, layouts_fields, create);
  route_array_parse_disks (f, create);
  fields_end (f);
}

/* The sizes of the disks, and which are on one host; the rest needs no engine.
 */
static void
handle_layouts (struct loop *l, struct request *r)
{
  const struct cluster_create *create = r->input;
  const struct cluster_disk *d;
  json_t *bytes, *hosts;

  if (create->members % create->groups != 0) {
    loop_refuse (l, r, 422, "groups", "groups",
                 "the disks cannot be parted into so many equal groups: give a "
                 "number of groups that divides them");
    return;
  }
  bytes = json_array ();
  hosts = json_array ();
  for (unsigned m = 0; m < create->members; m++) {
    d = cluster_disk_find (loop_cluster (l), create->disk[m]);
    if (d == NULL) {
      json_decref (bytes);
      json_decref (hosts);
      loop_refuse (
        l, r, 422, "disks", "unknown-disk",
        "there is no disk of one of these UUIDs: GET /api/v1/disks lists them");
      return;
    }
    json_array_append_new (bytes, text_number (d->rec.data_bytes));
    json_array_append_new (hosts, json_string (d->rec.node));
  }
  loop_answer (l, r, 200,
               json_pack ("{so so}", "bytes", bytes, "hosts", hosts));
}

static json_t *
view_layout (enum layout_kind kind, const struct cluster_create *create,
             const uint64_t bytes[], const unsigned host[])
{
  uint64_t least = MEMBER_DATA_BYTES_MAX;
  struct layout_capacity capacity;
  char why[400], survives[200];
  double writes, hours;
  struct layout l;

  for (unsigned m = 0; m < create->members; m++)
    if (bytes[m] < least)
      least = bytes[m];
  if (layout_init (&l, kind, create->members / create->groups, create->groups,
                   create->unit, format_usable (least), why, sizeof why) == -1)
    return fields_object ((const struct field_value[]) {
      { "layout", text_string (layout_name (kind)) },
      { "capacity", json_null () },
      { "survives", json_null () },
      { "failures_any", json_null () },
      { "hosts_any", json_null () },
      { "write_cost", json_null () },
      { "copies", json_null () },
      { "mttdl_hours", json_null () },
      { "problem", text_string (why) },
      { NULL } });
  layout_capacity (&l, bytes, &capacity);
  layout_survives (&l, host, survives, sizeof survives);
  /* Writes of disks for each small write: images of one cluster are written as one. */
  writes = 1 + (l.copies - 1.) / l.cluster;
  hours = round (
    durability_mttdl (&l, -log1p (-FAILURES_A_YEAR) / HOURS_A_YEAR,
                      3600 * REBUILD_BYTES_A_SECOND / (double) l.member_bytes));
  return fields_object ((const struct field_value[]) {
    { "layout", text_string (layout_name (kind)) },
    { "capacity", view_capacity (&capacity) },
    { "survives", text_string (survives) },
    { "failures_any", json_integer (l.copies - 1) },
    { "hosts_any", json_integer (layout_hosts (&l, host, NULL) - 1) },
    { "write_cost", json_real (round (writes * 1000) / 1000) },
    { "copies", json_integer (l.copies) },
    { "mttdl_hours", json_real (hours) },
    { "problem", json_null () },
    { NULL } });
}

static json_t *
finish_layouts (struct loop *l, struct request *r)
{
  const json_t *list = json_object_get (r->body, "bytes");
  const json_t *hosts = json_object_get (r->body, "hosts");
  json_t *layouts = json_array ();
  uint64_t bytes[ARRAY_MEMBERS_MAX];
  unsigned host[ARRAY_MEMBERS_MAX];

  for (unsigned m = 0; m < json_array_size (list); m++) {
    bytes[m] = (uint64_t) json_integer_value (json_array_get (list, m));
    for (host[m] = 0; !json_equal (json_array_get (hosts, host[m]),
                                   json_array_get (hosts, m));)
      host[m]++;
  }
  for (int kind = 0; kind < LAYOUT_KINDS; kind++)
    json_array_append_new (
      layouts, view_layout ((enum layout_kind) kind, r->input, bytes, host));
  return json_pack ("{so}", "layouts", layouts);
}

const struct route routes_layouts[] = {
  { "POST", V1 "/layouts", .who = WHO_VIEWER, .asks = true,
    .input = sizeof (struct cluster_create), .parse = parse_layouts,
    .handle = handle_layouts, .finish = finish_layouts },
  { NULL },
};
