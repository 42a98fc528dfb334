/* member-server.c: the member's engine, its disk and its lock. */

#include <config.h>

#include <string.h>

#include "common/clock.h"
#include "member-role.h"
#include "role.h"

struct server server = { .lock = PTHREAD_MUTEX_INITIALIZER };

bool
server_act (bool lazy)
{
  bool failed = member_failed (server.member);
  struct member_action a;
  int err;

  if (member_next_action (server.member, lazy, &a)) {
    pthread_mutex_unlock (&server.lock);
    err = disk_write_header (server.disk, a.bytes, a.length, a.offset);
    pthread_mutex_lock (&server.lock);
    member_action_done (server.member, &a, err);
  }
  else if (failed || !member_failed (server.member))
    return false;
  if (!failed && member_failed (server.member))
    nbdkit_error ("%s: %s: this member serves nothing any more",
                  server.disk->path, member_reason (server.member));
  pthread_cond_broadcast (&server.changed);
  return true;
}

void
server_wait (uint64_t ms)
{
  clock_wait_ms (&server.changed, &server.lock, clock_ms () + ms);
}

void
server_fail (int err, const char *what)
{
  pthread_mutex_lock (&server.lock);
  if (!member_failed (server.member))
    nbdkit_error ("%s: %s: %s; this member serves nothing any more",
                  server.disk->path, what, strerror (err));
  member_fail (server.member, err, what);
  pthread_cond_broadcast (&server.changed);
  pthread_mutex_unlock (&server.lock);
}
