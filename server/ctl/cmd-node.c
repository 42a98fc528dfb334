/* cmd-node.c: weftctl node. */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>

#include "ctl.h"
#include "output.h"

int
cmd_node_ls (struct ctl *ctl, const struct args *args)
{
  json_t *reply, *node;
  struct table *t;
  size_t i;
  int r;

  if (!ctl_list (ctl, "/api/v1/nodes", &reply, &r))
    return r;
  t = table_new ("NODE|!STATE|>DISKS|>SILENT|>SESSIONS|>CPU|>LOAD|"
                 ">MEMORY FREE");
  json_array_foreach (json_object_get (reply, "nodes"), i, node) {
    const json_t *load = json_object_get (node, "load");
    uint64_t disks = json_number (node, "disks");
    char size[SIZE_TEXT_BYTES];

    table_cell (t, "%s", json_text (node, "name"));
    table_cell (t, "%s",
                json_is_true (json_object_get (node, "alive")) ? "alive"
                                                               : "silent");
    table_cell (t, "%" PRIu64, disks);
    table_cell (t, "%" PRIu64, disks - json_number (node, "disks_alive"));
    table_cell (t, "%" PRIu64, json_number (node, "sessions"));
    if (json_is_object (load)) {
      table_cell (t, "%.0f%%",
                  100 * json_number_value (json_object_get (load, "cpu")));
      table_cell (t, "%.2f",
                  json_number_value (json_object_get (load, "loadavg")));
      table_cell (t, "%s", size_text (json_number (load, "mem_free"), size));
    }
    else
      for (unsigned k = 0; k < 3; k++)
        table_cell (t, "-");
  }
  if (table_rows (t) == 0)
    fprintf (stderr, "No node is known yet: start a member there by "
             "nbdkit weft disk=PATH admin=%s uri=URI\n", ctl->admin_url);
  table_print (t, 0);
  json_decref (reply);
  return EXIT_OK;
}
