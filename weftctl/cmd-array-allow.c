/* cmd-array-allow.c: weftctl array allow and deny: which nodes may attach an array. */

#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "ctl.h"
#include "output.h"

/* --- A list, as people write and read it ---------------------------------- */

/* "n1,n2:ro,n3:failover" as weftd has it. */
int
array_allow_request (const char *text, json_t *request)
{
  json_t *list = json_array ();
  char *copy = strdup (text), *save, *word, *what;
  int r = EXIT_OK;

  for (word = copy ? strtok_r (copy, ",", &save) : NULL; word && r == EXIT_OK;
       word = strtok_r (NULL, ",", &save)) {
    what = strchr (word, ':');
    if (what)
      *what++ = '\0';
    r = ctl_check_name ("a node", word);
    if (r == EXIT_OK && what && strcmp (what, "rw") != 0 &&
        strcmp (what, "ro") != 0 && strcmp (what, "failover") != 0) {
      ctl_error ("--allow %s:%s: a node may rw, ro or failover", word, what);
      r = EXIT_USAGE;
    }
    json_array_append_new (
      list, json_pack ("{s:s, s:s, s:b}", "node", word, "mode",
                       what && strcmp (what, "ro") == 0 ? "ro" : "rw",
                       "failover", what && strcmp (what, "failover") == 0));
  }
  free (copy);
  json_object_set_new (request, "allow", list);
  return r;
}

void
array_allow_print (const json_t *array)
{
  const json_t *list = json_object_get (array, "allow");
  const char *between = "";
  json_t *line;
  size_t i;

  printf ("  %-9s ", "attach");
  if (!json_is_array (list))
    printf ("any node may: set a list (weftctl array allow %s NODE)",
            output_json_text (array, "name"));
  else if (json_array_size (list) == 0)
    printf ("no node may: weftctl array allow %s NODE",
            output_json_text (array, "name"));
  json_array_foreach (list, i, line) {
    printf ("%s%s%s%s", between, output_json_text (line, "node"),
            strcmp (output_json_text (line, "mode"), "ro") == 0 ? " to read"
                                                                : "",
            output_json_yes (line, "failover") ? " with failover" : "");
    between = ", ";
  }
  printf ("\n");
}

/* --- allow and deny -------------------------------------------------------- */

/* Somebody is asked only where there is something to lose. */
static int
change (struct ctl *ctl, const char *method, const struct args *args,
        json_t *body, json_t **reply)
{
  const char *name = args_plain (args, 0), *node = args_plain (args, 1);
  char more[NAME_BYTES_MAX + 16], path[CTL_PATH_BYTES];
  json_t *preflight = NULL;
  int r = ctl_check_name ("a node", node);

  *reply = NULL;
  if (r == EXIT_OK) {
    snprintf (more, sizeof more, "/allow/%s", node);
    r = ctl_path ("an array", name, more, path);
  }
  if (r == EXIT_OK && (ctl->dry_run || !ctl->yes))
    r = ctl_preflight (ctl, method, path, body, &preflight);
  if (r == EXIT_OK && !ctl->dry_run &&
      json_array_size (json_object_get (preflight, "lines")) > 0)
    r = ctl_confirm (ctl, name);
  json_decref (preflight);
  if (r == EXIT_OK && !ctl->dry_run)
    return ctl_call (ctl, method, path, body, reply);
  json_decref (body);
  return r;
}

int
cmd_array_allow (struct ctl *ctl, const struct args *args)
{
  const char *name = args_plain (args, 0), *node = args_plain (args, 1);
  const char *given = args_plain (args, 2), *mode = given ? given : "rw";
  bool failover = args_switch (args, "failover");
  json_t *reply;
  int r;

  if (strcmp (mode, "rw") != 0 && strcmp (mode, "ro") != 0) {
    ctl_error ("array allow %s %s %s: say rw or ro; nothing was done", name,
               node, mode);
    return EXIT_USAGE;
  }
  r = change (ctl, "PUT", args,
              json_pack ("{s:s, s:b}", "mode", mode, "failover", failover),
              &reply);
  return ctl_say (ctl, r, reply, "array %s: node %s may %s it%s", name, node,
                  strcmp (mode, "ro") == 0 ? "read" : "read and write",
                  failover ? ", and take it over" : "");
}

int
cmd_array_deny (struct ctl *ctl, const struct args *args)
{
  json_t *reply;
  int r = change (ctl, "DELETE", args, NULL, &reply);

  return ctl_say (ctl, r, reply, "array %s: node %s may not attach it",
                  args_plain (args, 0), args_plain (args, 1));
}
