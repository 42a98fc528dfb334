/* views-rebuild.c: how members come back, and arrays that could be imported:
 * see views.h.
 */

#include <config.h>

#include <string.h>

#include "cluster/cluster-import.h"
#include "fields.h"
#include "text.h"
#include "views.h"

/* ---- Rebuilds. ---- */

json_t *
view_rebuild (const struct cluster *c, const struct cluster_array *a,
              unsigned m)
{
  static const char *const phases[] = {
    [CLUSTER_JOIN_NONE] = "waiting",        [CLUSTER_JOIN_WAITING] = "waiting",
    [CLUSTER_JOIN_GATHERING] = "gathering", [CLUSTER_JOIN_COPYING] = "copying",
    [CLUSTER_JOIN_SYNCED] = "synced",
  };
  const struct cluster_member *member = &a->rec.member[m];
  const struct cluster_join *j = &a->disk[m]->join;
  struct cluster_join_order order;
  uint64_t eta_ms = cluster_join_eta_ms (c, a, m);
  json_t *sources;
  char waits[CLUSTER_REASON_BYTES + 144];
  bool ordered, waiting;

  if (member->state != MEMBER_JOINING)
    return json_null ();
  ordered = cluster_join_order (c, a, m, &order);
  waiting = cluster_join_waits (c, a, m, waits, sizeof waits);
  sources = json_array ();
  for (unsigned i = 0; ordered && i < a->layout.members; i++)
    if (order.source[i])
      json_array_append_new (sources, json_integer (i));
  return fields_object ((const struct field_value[]) {
    { "phase", text_string (phases[j->phase]) },
    { "waits", waiting ? text_string (waits) : json_null () },
    { "todo_bytes", text_number (j->todo_bytes) },
    { "total_bytes", text_number (j->total_bytes) },
    { "copied_bytes", text_number (j->copied_bytes) },
    { "unreadable_bytes", text_number (j->unreadable_bytes) },
    { "rate", text_number (j->rate) },
    { "eta_s", eta_ms ? text_number ((eta_ms + 999) / 1000) : json_null () },
    { "sources", sources },
    { "paused", json_boolean (member->paused) },
    { "floor", text_number (member->floor) },
    { "ceiling", text_number (member->ceiling) },
    { NULL } });
}

json_t *
view_rebuilds (const struct cluster *c)
{
  json_t *list = json_array (), *view;
  const struct cluster_array *a;

  TAILQ_FOREACH (a, cluster_arrays (c), link)
    for (unsigned m = 0; m < a->layout.members; m++) {
      if (a->rec.member[m].state != MEMBER_JOINING)
        continue;
      view = view_rebuild (c, a, m);
      json_object_set_new (view, "array", json_string (a->rec.name));
      json_object_set_new (view, "member", json_integer (m));
      json_array_append_new (list, view);
    }
  return list;
}

/* ---- Imports. ---- */

/* The doubts in an import of this array, as it is now. */
static json_t *
import_doubts (const struct cluster *c, const uint8_t array[16])
{
  json_t *list = json_array ();
  struct cluster_import import = { .accept_loss = false };
  struct cluster_import_plan plan;
  unsigned next = 0;
  char text[480];

  memcpy (import.array, array, 16);
  cluster_import_look (c, &import, &plan);
  while (cluster_import_doubts (&plan, &next, text, sizeof text))
    json_array_append_new (list, text_string (text));
  return list;
}

/* All reports about one array: `first`'s description of it, because all members
 * of an array have the same, and `first` for every position that no other
 * report has.
 */
static json_t *
import_array (const struct cluster *c,
              const struct cluster_disk_heartbeat *first)
{
  const struct cluster_foreign *f;
  json_t *members = json_array (), *missing = json_array ();
  bool heard[ARRAY_MEMBERS_MAX] = { false };

  TAILQ_FOREACH (f, cluster_foreigns (c), link) {
    const struct cluster_disk_heartbeat *hb = &f->hb;

    if (!hb->has_place || memcmp (hb->array, first->array, 16) != 0)
      continue;
    heard[hb->position] = true;
    json_array_append_new (
      members, fields_object ((const struct field_value[]) {
                 { "position", json_integer (hb->position) },
                 { "disk", text_uuid (hb->uuid) },
                 { "node", text_string (hb->node) },
                 { "path", text_string (hb->path) },
                 { "uri", text_string (hb->uri) },
                 { "sequence", text_number (hb->sequence) },
                 { "states_epoch", text_number (hb->states_epoch) },
                 { "round", text_number (hb->round) },
                 { "dirty_extents", text_number (hb->dirty_extents) },
                 { "state", text_string (member_state_name (
                              (enum member_state) hb->states[hb->position])) },
                 { NULL } }));
  }
  for (unsigned m = 0; m < first->n * first->groups; m++)
    if (!heard[m])
      json_array_append_new (missing, json_integer (m));
  return fields_object ((const struct field_value[]) {
    { "array", text_uuid (first->array) },
    { "cluster", text_uuid (first->cluster) },
    { "layout", text_string (layout_name (first->layout)) },
    { "dup", text_string (array_dup_name (first->dup)) },
    { "n", json_integer (first->n) },
    { "groups", json_integer (first->groups) },
    { "unit", text_number (first->unit) },
    { "member_bytes", text_number (first->member_bytes) },
    { "members", members },
    { "missing", missing },
    { "doubts", import_doubts (c, first->array) },
    { NULL } });
}

/* Is it an array of this weftd's, which has refused the disk for another reason? */
static bool
known (const struct cluster *c, const uint8_t array[16])
{
  const struct cluster_array *a;

  TAILQ_FOREACH (a, cluster_arrays (c), link)
    if (memcmp (a->rec.uuid, array, 16) == 0)
      return true;
  return false;
}

json_t *
view_imports (const struct cluster *c)
{
  json_t *list = json_array ();
  const struct cluster_foreign *f, *before;

  TAILQ_FOREACH (f, cluster_foreigns (c), link) {
    if (!f->hb.has_place || known (c, f->hb.array))
      continue;
    TAILQ_FOREACH (before, cluster_foreigns (c), link)
      if (before == f || (before->hb.has_place &&
                          memcmp (before->hb.array, f->hb.array, 16) == 0))
        break;
    if (before == f)
      json_array_append_new (list, import_array (c, &f->hb));
  }
  return list;
}
