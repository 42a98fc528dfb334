/* cmd-session.c: weftctl session: who has arrays attached. */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ctl.h"
#include "output.h"

int
cmd_session_ls (struct ctl *ctl, const struct args *args)
{
  json_t *reply, *s;
  struct table *t;
  size_t i;
  int r;

  if (!ctl_list (ctl, "/api/v1/sessions", &reply, &r))
    return r;
  t = table_new ("SESSION|ARRAY|MODE|NODE|>PID|>HEARD|URI");
  json_array_foreach (json_object_get (reply, "sessions"), i, s) {
    char age[AGE_TEXT_BYTES];

    table_cell (t, "%s", json_text (s, "session"));
    table_cell (t, "%s", json_text (s, "array"));
    table_cell (t, "%s", json_text (s, "mode"));
    table_cell (t, "%s", json_text (s, "node"));
    table_cell (t, "%" PRIu64, json_number (s, "pid"));
    table_cell (t, "%s", age_text (json_number (s, "last_heard_ms"), age));
    table_cell (t, "%s", json_text (s, "uri"));
  }
  table_print (t, 0);
  json_decref (reply);
  return EXIT_OK;
}

int
cmd_session_evict (struct ctl *ctl, const struct args *args)
{
  const char *session = args_plain (args, 0);
  json_t *reply;
  char path[128];
  int r;

  if (strlen (session) > 64 ||
      strspn (session, "0123456789abcdef-") != strlen (session)) {
    ctl_error ("%s: not the id of a session; weftctl session ls shows them",
               session);
    return EXIT_USAGE;
  }
  snprintf (path, sizeof path, "/api/v1/sessions/%s", session);
  r = ctl_change (ctl, "DELETE", path, NULL, &reply);
  if (r != EXIT_OK || ctl->dry_run)
    return r;
  if (ctl->json)
    output_json (reply);
  else
    printf ("session %s is evicted\n", session);
  json_decref (reply);
  return EXIT_OK;
}
