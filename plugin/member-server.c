/* member-server.c: the member's engine, its disk and its lock. */

#include <config.h>

#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "member/errors.h"
#include "member-role.h"
#include "role.h"

struct server server = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Between two tries of what was refused for the moment. */
#define REFUSED_MS 250

/* What the kernel has refused last, for the moment. */
static struct {
  uint64_t header_ms; /* the header is not written again before */
  uint64_t room_ms;   /* nor is it looked before whether there is room ... */
  uint64_t offset,
    bytes; /* ... for this part of the data; 0: none was refused */
  bool said;
} again;

static const struct {
  const char *failed;
  enum errors_place of;
} actions[] = {
  [MEMBER_WRITE_SLOT] = { "writing the superblock", ERRORS_SLOT },
  [MEMBER_WRITE_INTENTS] = { "writing the intent map", ERRORS_INTENTS },
  [MEMBER_WRITE_BAD] = { "writing the list of bad ranges", ERRORS_BAD },
};

static void
refused (const char *what, int error)
{
  if (!again.said)
    nbdkit_error ("%s: %s is refused for now: %s; it is tried again, and what "
                  "is there is read meanwhile",
                  server.disk->path, what, strerror (error));
  again.said = true;
  again.room_ms = clock_ms () + REFUSED_MS;
}

bool
server_act (bool lazy)
{
  bool failed = member_failed (server.member), syncing;
  struct member_action a;
  int err;

  if (clock_ms () < again.header_ms)
    return false;
  if (member_next_action (server.member, lazy, &a)) {
    pthread_mutex_unlock (&server.lock);
    err = disk_write_header (server.disk, a.bytes, a.length, a.offset,
                             &syncing);
    pthread_mutex_lock (&server.lock);
    if (err && errors_of (syncing ? ERRORS_SYNC : actions[a.kind].of, err) ==
                 ERRORS_AGAIN) {
      member_action_refused (server.member, &a, err);
      refused (actions[a.kind].failed, err);
      again.header_ms = again.room_ms;
    }
    else
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

bool
server_room (uint64_t *wait_ms)
{
  uint64_t now = clock_ms ();
  bool room;

  if (member_short (server.member) == NULL)
    return false;
  if (now < again.room_ms) {
    if (again.room_ms - now < *wait_ms)
      *wait_ms = again.room_ms - now;
    return false;
  }
  pthread_mutex_unlock (&server.lock);
  room = again.bytes == 0 ||
         disk_reserve (server.disk, again.offset, again.bytes);
  pthread_mutex_lock (&server.lock);
  if (room)
    member_relieved (server.member);
  again.room_ms = clock_ms () + REFUSED_MS;
  if (member_short (server.member) == NULL) {
    nbdkit_error ("%s: what was refused may be written again",
                  server.disk->path);
    again.said = false;
    again.bytes = 0;
    pthread_cond_broadcast (&server.changed);
  }
  return true;
}

void
server_wait (uint64_t ms)
{
  clock_wait_ms (&server.changed, &server.lock, clock_ms () + ms);
}

bool
server_error (enum errors_place place, int error, uint64_t offset,
              uint64_t bytes)
{
  const char *what = place == ERRORS_SYNC ? "flushing" : "writing";
  bool passes = errors_of (place, error) == ERRORS_AGAIN;
  char reason[32];

  snprintf (reason, sizeof reason, "%s failed", what);
  pthread_mutex_lock (&server.lock);
  if (passes) {
    member_refused (server.member, error);
    refused (what, error);
    again.offset = server.disk->sb.data_offset + offset;
    again.bytes = bytes;
  }
  else {
    if (!member_failed (server.member))
      nbdkit_error ("%s: %s: %s; this member serves nothing any more",
                    server.disk->path, reason, strerror (error));
    member_fail (server.member, error, reason);
  }
  pthread_cond_broadcast (&server.changed);
  pthread_mutex_unlock (&server.lock);
  return passes;
}
