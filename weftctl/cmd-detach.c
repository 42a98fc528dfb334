/* cmd-detach.c: weftctl detach: undo what attach did on this host.
 *
 * In reverse order, each step only when the one before it is done, and each
 * done for good in the record before the next: so it can be called again.
 */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ctl.h"
#include "ctl-device.h"
#include "output.h"
#include "record.h"

/* End the nbdkit that attach started.  It is asked, never made: it may still
 * be writing images to members.
 */
static int
stop_server (struct ctl *ctl, struct record *r)
{
  if (process_alive (&r->server)) {
    if (process_end (&r->server) == -1) {
      ctl_error ("array %s: its array process %d cannot be ended: %s; run as "
                 "the user who attached it",
                 r->name, (int) r->server.pid, strerror (errno));
      return EXIT_FAILED;
    }
    if (!process_wait_end (&r->server, ctl->timeout_ms)) {
      ctl_error ("array %s: its array process %d was asked to end and has not "
                 "after %u s: it may wait for a member; weftctl array show %s "
                 "says for which; then detach again",
                 r->name, (int) r->server.pid, ctl->timeout_ms / 1000, r->name);
      return EXIT_FAILED;
    }
  }
  r->server.pid = 0;
  return EXIT_OK;
}

int
detach_undo (struct ctl *ctl, struct record *r)
{
  int status, flushed;

  status = device_check_unused (r);
  if (status != EXIT_OK)
    return status;
  flushed = device_flush (r);
  status = device_close (ctl, r);
  if (status == EXIT_OK)
    status = record_save (r);
  if (status == EXIT_OK)
    status = stop_server (ctl, r);
  if (status != EXIT_OK) {
    record_save (r);
    return status;
  }
  record_remove (r);
  return flushed;
}

/* The process that was started for a volume of this pool ends with the last of them. */
static int
end_pool (struct ctl *ctl, const char *name)
{
  struct volume_name v;
  struct record r;
  int status = volume_split (name, &v);

  if (status == EXIT_OK)
    status = record_open (ctl, &r, v.pool, false);
  else
    return status;
  if (status == EXIT_OK && r.found && !record_volumes (&r))
    status = detach_undo (ctl, &r);
  record_close (&r);
  return status;
}

int
cmd_detach (struct ctl *ctl, const struct args *args)
{
  const char *name = args_plain (args, 0);
  char device[64];
  struct record r;
  struct volume_name v;
  bool found, nothing, volume = strchr (name, '/') != NULL;
  int status = volume ? volume_split (name, &v)
                      : ctl_check_name ("an array", name);

  if (status != EXIT_OK)
    return status;
  status = record_open (ctl, &r, name, false);
  found = r.found;
  nothing = r.lock == -1;
  if (status == EXIT_OK && !volume && record_volumes (&r)) {
    ctl_error ("array %s: volumes of it are attached on this host; weftctl "
               "detach %s/NAME first",
               name, name);
    status = EXIT_FAILED;
  }
  else if (status == EXIT_OK && found)
    status = detach_undo (ctl, &r);
  else if (status == EXIT_OK && !nothing)
    record_remove (&r);
  if (status == EXIT_OK && !found && !volume && device_kept (name, device)) {
    ctl_error ("array %s: weft-attach@%s.service keeps it attached as %s; "
               "systemctl stop that",
               name, name, device);
    status = EXIT_FAILED;
  }
  else if (status == EXIT_OK && nothing) {
    ctl_error ("array %s: weftctl attach has not attached it on this host, so "
               "there is nothing to detach; weftctl session ls shows where it "
               "is attached",
               name);
    status = EXIT_FAILED;
  }
  record_close (&r);
  if (status == EXIT_OK && volume)
    status = end_pool (ctl, name);
  return ctl_say (ctl, status,
                  json_pack ("{s:s, s:b}", "array", name, "detached", true),
                  "array %s: detached", name);
}
