/* views-leases.c: the map of an array's leases: see views.h. */

#include <config.h>

#include "fields.h"
#include "text.h"
#include "views.h"

json_t *
view_range (const struct cluster_part *part)
{
  return json_pack ("[oo]", text_number (part->offset),
                    text_number (part->length));
}

static json_t *
view_lessee (const struct cluster_session *s)
{
  return fields_object ((const struct field_value[]) {
    { "session", text_session (s->rec.id) },
    { "node", text_string (s->rec.node) },
    { "pid", text_number (s->rec.pid) },
    { "alive", json_boolean (s->alive) },
    { "declared", json_boolean (s->lessee.declared) },
    { "gets", text_number (s->lessee.gets) },
    { "revokes", text_number (s->lessee.revokes) },
    { NULL } });
}

static json_t *
view_cell (const struct cluster *c, const struct cluster_lease_cell *cell)
{
  const struct cluster_session *s = cell->holder
                                      ? cluster_session_find (c, cell->holder)
                                      : NULL;

  return fields_object ((const struct field_value[]) {
    { "session", s ? text_session (s->rec.id) : json_null () },
    { "node", s ? json_string (s->rec.node) : json_null () },
    { "held_bytes", text_number (cell->held_bytes) },
    { "other_bytes", text_number (cell->other_bytes) },
    { "orphan_bytes", text_number (cell->orphan_bytes) },
    { "conflicts", json_integer (cell->conflicts) },
    { "revokes", json_integer (cell->revokes) },
    { NULL } });
}

json_t *
view_leases (const struct cluster *c, const struct cluster_array *a)
{
  struct cluster_lease_map map = { 0 };
  bool shared = cluster_lease_map (c, a, &map);
  json_t *sessions = json_array (), *cells = json_array ();
  const struct cluster_session *s = NULL;
  char waits[CLUSTER_WAITS_BYTES] = "";

  while ((s = cluster_writer_next (a, s)))
    if (shared)
      json_array_append_new (sessions, view_lessee (s));
  /* In a small array the last cells lie beyond its end. */
  for (unsigned i = 0;
       shared && i < LEASE_CELLS && i * map.cell_bytes < a->layout.size; i++)
    json_array_append_new (cells, view_cell (c, &map.cell[i]));
  cluster_lease_waits (c, a, waits, sizeof waits);
  return fields_object ((const struct field_value[]) {
    { "array", text_string (a->rec.name) },
    { "shared", json_boolean (shared) },
    { "size", text_number (a->layout.size) },
    { "cell_bytes", text_number (map.cell_bytes) },
    { "leases", json_integer (map.leases) },
    { "waiting", json_integer (map.waiting) },
    { "waits_for", text_or_null (waits) },
    { "held_bytes", text_number (map.held_bytes) },
    { "orphan_bytes", text_number (map.orphan_bytes) },
    { "conflicts", text_number (map.conflicts) },
    { "revokes", text_number (map.revokes) },
    { "minutes", json_integer (LEASE_MINUTES) },
    { "undeclared", json_integer (map.undeclared) },
    { "recoverer",
      map.recoverer ? text_session (map.recoverer) : json_null () },
    { "sessions", sessions },
    { "cells", cells },
    { NULL } });
}
