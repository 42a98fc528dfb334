/* cmd-session.c: weftctl session: the sessions of hosts that have arrays
 * attached.
 */

#include <config.h>

#include <stdio.h>
#include <string.h>

#include "ctl.h"
#include "output.h"

int
cmd_session_ls (struct ctl *ctl, const struct args *args)
{
  return ctl_ls (ctl, "/api/v1/sessions", "sessions",
                 "SESSION|ARRAY|MODE|NODE|>PID|>HEARD|PART|URI",
                 "session|array|mode|node|pid:number|last_heard_ms:age|"
                 "part:part|uri",
                 NULL);
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
  return ctl_say (ctl, r, reply, "session %s is evicted", session);
}
