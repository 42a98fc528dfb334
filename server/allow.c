/* allow.c: see allow.h. */

#include <config.h>

#include <string.h>

#include "allow.h"

int
allow_mode_parse (const char *word)
{
  return strcmp (word, "rw") == 0 ? 1 : strcmp (word, "ro") == 0 ? 0 : -1;
}

const char *
allow_mode_word (bool writable)
{
  return writable ? "rw" : "ro";
}

void
allow_take (struct fields *f, struct cluster_allow *allow)
{
  int mode = 1;

  if (fields_has (f, "mode"))
    fields_word (f, "mode", allow_mode_parse, "rw, ro", &mode);
  allow->writable = mode;
  if (fields_has (f, "failover"))
    fields_bool (f, "failover", &allow->failover);
  if (!f->failed && allow->failover && !allow->writable)
    fields_fail (
      f, "failover",
      "field failover belongs to mode rw: a reader has nothing to take over");
}

void
allow_take_list (struct fields *f, const char *name,
                 struct cluster_allow_list *list)
{
  const json_t *lines = fields_get (f, name);
  struct fields g;

  memset (list, 0, sizeof *list);
  list->listed = true;
  if (lines &&
      (!json_is_array (lines) || json_array_size (lines) > ALLOW_NODES_MAX))
    fields_fail (f, name,
                 "field %s must be a list of at most %d nodes, each {\"node\", "
                 "\"mode\", \"failover\"}",
                 name, ALLOW_NODES_MAX);
  for (size_t i = 0; !f->failed && i < json_array_size (lines); i++) {
    struct cluster_allow *allow = &list->node[i];

    fields_begin (&g, json_array_get (lines, i));
    fields_name (&g, "node", allow->node, sizeof allow->node);
    allow_take (&g, allow);
    fields_end (&g);
    if (g.failed)
      fields_fail (f, name, "%s[%zu]: %.200s", name, i, g.why);
    else if (cluster_allowed_find (list, allow->node))
      fields_fail (f, name, "%s stands twice in field %s", allow->node, name);
    list->nodes++;
  }
}

json_t *
allow_json (const struct cluster_allow_list *list)
{
  json_t *lines;

  if (!list->listed)
    return json_null ();
  lines = json_array ();
  for (unsigned i = 0; i < list->nodes; i++)
    json_array_append_new (
      lines, json_pack ("{ss ss sb}", "node", list->node[i].node, "mode",
                        allow_mode_word (list->node[i].writable), "failover",
                        list->node[i].failover));
  return lines;
}

json_t *
allow_modes_json (const struct cluster_allow_list *list)
{
  json_t *modes;

  if (!list->listed)
    return json_null ();
  modes = json_object ();
  for (unsigned i = 0; i < list->nodes; i++)
    json_object_set_new (
      modes, list->node[i].node,
      json_string (allow_mode_word (list->node[i].writable)));
  return modes;
}
