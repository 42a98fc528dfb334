/* cmd-array-service.c: weftctl array service. */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "output.h"

static void
node_row (struct table *t, const json_t *node)
{
  output_table_cell (t, "%s",
                     output_json_yes (node, "stands_by") ? "stands by" : "-");
  output_table_cell (t, "%s",
                     output_json_yes (node, "has_member") ? "yes" : "no");
}

static void
print_service (const json_t *service)
{
  const json_t *serving = json_object_get (service, "serving");

  printf ("array %s: ", output_json_text (service, "array"));
  if (json_array_size (json_object_get (service, "nodes")) == 0) {
    printf ("it has no service; --on NODE,... names nodes that may serve it\n");
    return;
  }
  if (json_is_object (serving))
    printf ("served by node %s (process %" PRIu64 ") at %s%s\n",
            output_json_text (serving, "node"),
            output_json_number (serving, "pid"),
            output_json_text (serving, "uri"),
            output_json_yes (serving, "draining") ? ", which leaves off"
            : output_json_yes (serving, "alive")  ? ""
                                                  : ", which is silent");
  else
    printf ("no node serves it now\n");
  printf ("  %-9s %s\n", "promise", output_json_text (service, "promise"));
  if (json_is_string (json_object_get (service, "unreached")))
    printf ("  %-9s %s\n", "unreached",
            output_json_text (service, "unreached"));
  printf ("\n");
  output_table_of (json_object_get (service, "nodes"),
                   "NODE|STATE|HAS A MEMBER", "node", node_row, 2);
}

/* "n1,n2" */
static json_t *
nodes_of (const char *text)
{
  json_t *list = json_array ();
  char *copy = strdup (text), *save, *name;

  for (name = copy ? strtok_r (copy, ",", &save) : NULL; name;
       name = strtok_r (NULL, ",", &save))
    json_array_append_new (list, json_string (name));
  free (copy);
  return list;
}

int
cmd_array_service (struct ctl *ctl, const struct args *args)
{
  const char *name = args_plain (args, 0), *on = args_value (args, "on");
  const char *to = args_value (args, "move");
  bool off = args_switch (args, "off");
  char path[CTL_PATH_BYTES];
  json_t *reply;
  int r;

  if ((on != NULL) + (to != NULL) + off > 1) {
    ctl_error ("array service %s: --on, --move and --off go one at a time; "
               "nothing was done",
               name);
    return EXIT_USAGE;
  }
  if (ctl->dry_run && !off) {
    ctl_error ("array service %s: only --off knows --dry-run; nothing was done",
               name);
    return EXIT_USAGE;
  }
  r = ctl_path ("an array", name, to ? "/service/move" : "/service", path);
  if (r != EXIT_OK)
    return r;
  if (off) {
    r = ctl_change (ctl, "DELETE", path, NULL, &reply);
    return ctl_say (ctl, r, reply, "array %s: it has no service any more",
                    name);
  }
  if (on) {
    r = ctl_call (ctl, "PUT", path, json_pack ("{s:o}", "nodes", nodes_of (on)),
                  &reply);
    return ctl_say (ctl, r, reply,
                    "array %s: one of %s serves it; on each of them: systemctl "
                    "enable --now weft-service@%s",
                    name, on, name);
  }
  if (to) {
    r = ctl_call (ctl, "POST", path, json_pack ("{s:s}", "node", to), &reply);
    return ctl_say (ctl, r, reply, "array %s: node %s is to serve it", name,
                    to);
  }
  r = ctl_call (ctl, "GET", path, NULL, &reply);
  return ctl_show (ctl, r, reply, print_service);
}
