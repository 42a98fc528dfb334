/* routes-rebuild.c: members taken back, replaced and rebuilt, spares, imports:
 * see routes.h.
 */

#include <config.h>

#include <string.h>

#include "routes-internal.h"
#include "views.h"

/* ---- Members. ---- */

void
parse_disk_name (struct fields *f, struct request *r)
{
  fields_uuid (f, "disk", r->uuid);
  fields_end (f);
}

void
handle_replace (struct loop *l, struct request *r)
{
  struct cluster_input in;

  loop_input (l, r, &in);
  cluster_member_replace (loop_cluster (l), &in, r->name, r->member, r->uuid);
}

void
handle_cancel (struct loop *l, struct request *r)
{
  struct cluster_input in;

  loop_input (l, r, &in);
  cluster_member_cancel (loop_cluster (l), &in, r->name, r->member);
}

void
handle_join (struct loop *l, struct request *r)
{
  struct cluster_input in;

  loop_input (l, r, &in);
  cluster_member_join (loop_cluster (l), &in, r->name, r->member);
}

void
parse_member_tune (struct fields *f, struct request *r)
{
  struct cluster_member_tune *t = &r->member_tune;

  if ((t->has_paused = fields_has (f, "paused")))
    fields_bool (f, "paused", &t->paused);
  if ((t->has_floor = fields_has (f, "floor")))
    fields_u64 (f, "floor", 0, INT64_MAX, &t->floor);
  if ((t->has_ceiling = fields_has (f, "ceiling")))
    fields_u64 (f, "ceiling", 0, INT64_MAX, &t->ceiling);
  fields_end (f);
  if (!t->has_paused && !t->has_floor && !t->has_ceiling)
    fields_fail (f, "paused", "one of the fields paused, floor and ceiling "
                 "must be there");
}

void
handle_member_tune (struct loop *l, struct request *r)
{
  struct cluster_input in;

  loop_input (l, r, &in);
  cluster_member_tune (loop_cluster (l), &in, r->name, r->member,
                       &r->member_tune);
}

void
handle_rebuilds (struct loop *l, struct request *r)
{
  loop_answer (l, r, 200, view_rebuilds (loop_cluster (l)));
}

/* ---- Spares. ---- */

void
handle_spare_add (struct loop *l, struct request *r)
{
  struct cluster_input in;

  loop_input (l, r, &in);
  cluster_spare_add (loop_cluster (l), &in, r->name, r->uuid);
}

void
handle_spare_drop (struct loop *l, struct request *r)
{
  struct cluster_input in;

  loop_input (l, r, &in);
  cluster_spare_drop (loop_cluster (l), &in, r->name, r->uuid);
}

void
parse_array_tune (struct fields *f, struct request *r)
{
  uint64_t seconds = 0;

  fields_u64 (f, "spare_after_s", 0, SPARE_AFTER_MS_MAX / 1000, &seconds);
  fields_end (f);
  r->array_tune.has_spare_after = true;
  r->array_tune.spare_after_ms = seconds * 1000;
}

void
handle_array_tune (struct loop *l, struct request *r)
{
  struct cluster_input in;

  loop_input (l, r, &in);
  cluster_array_tune (loop_cluster (l), &in, r->name, &r->array_tune);
}

/* ---- Imports. ---- */

void
handle_imports (struct loop *l, struct request *r)
{
  loop_answer (l, r, 200, view_imports (loop_cluster (l)));
}

static void
parse_without (struct fields *f, struct cluster_import *import)
{
  const json_t *list, *v;
  json_int_t m;

  if (!fields_has (f, "without") || f->failed)
    return;
  f->seen[f->seen_count++] = "without";
  list = json_object_get (f->object, "without");
  if (!json_is_array (list))
    fields_fail (f, "without", "field without must be a list of positions");
  for (size_t i = 0; i < json_array_size (list); i++) {
    v = json_array_get (list, i);
    m = json_integer_value (v);
    if (!json_is_integer (v) || m < 0 || m >= ARRAY_MEMBERS_MAX)
      fields_fail (f, "without", "element %zu of field without must be a "
                   "position from 0 to %d", i, ARRAY_MEMBERS_MAX - 1);
    else
      import->without[m] = true;
  }
}

void
parse_import (struct fields *f, struct request *r)
{
  fields_name (f, "name", r->import.name, sizeof r->import.name);
  fields_uuid (f, "array", r->import.array);
  parse_without (f, &r->import);
  fields_end (f);
}

void
handle_import (struct loop *l, struct request *r)
{
  struct cluster_input in;

  loop_input (l, r, &in);
  cluster_array_import (loop_cluster (l), &in, &r->import);
}
