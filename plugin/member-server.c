/* member-server.c: the member's engine, its disk and its lock. */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/presence.h"
#include "data.h"
#include "member/errors.h"
#include "member-role.h"
#include "role.h"

struct server server = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Between two tries of what was refused for the moment. */
#define REFUSED_MS 250

/* The write that the kernel has refused last, for the moment. */
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
server_lost (int error)
{
  if (server.gone || !presence_lost (server.disk, error))
    return server.gone != NULL;
  pthread_mutex_lock (&server.lock);
  if (server.gone == NULL)
    server.gone = presence_words (PRESENCE_NOTHING);
  member_gone (server.member);
  pthread_cond_broadcast (&server.changed);
  pthread_mutex_unlock (&server.lock);
  return true;
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
    if (err)
      server_lost (err);
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

void
server_act_or_wait (void)
{
  if (!server_act (false))
    pthread_cond_wait (&server.changed, &server.lock);
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
    nbdkit_error ("%s: refused writes may be sent again", server.disk->path);
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

bool
server_bad (uint64_t offset, uint64_t length)
{
  bool bad;

  if (!member_bad_any (server.member))
    return false;
  pthread_mutex_lock (&server.lock);
  bad = bad_test (member_bad (server.member), offset, length);
  pthread_mutex_unlock (&server.lock);
  return bad;
}

/* A write of a part of a block makes the kernel read the rest of it.  Where that can't
 * be read, the block is listed as bad, then overwritten with zeroes, so that its parts
 * can be written; the array copies the rest from another member (docs/PROTOCOL.md B6).
 * *cleared: so it is now, by us or by another request.  Returns 0 or an errno.
 */
static int
clear_block (uint64_t block, bool *cleared)
{
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static const char zeroes[BAD_BLOCK_BYTES];
  const struct batch_record whole = { .kind = BATCH_WRITE,
                                      .offset = block,
                                      .length = sizeof zeroes,
                                      .payload = zeroes };
  char buf[BAD_BLOCK_BYTES];
  struct member_refusal refusal;
  enum member_verdict v;
  enum errors_place place;
  int err = 0;

  /* Writes of other parts of the block may be under way. */
  pthread_mutex_lock (&lock);
  if (data_read (server.disk, buf, sizeof buf, block) != EIO)
    *cleared |= server_bad (block, 1);
  else {
    pthread_mutex_lock (&server.lock);
    while ((v = member_bad_part (server.member, block, &refusal)) ==
           MEMBER_WAIT)
      server_act_or_wait ();
    pthread_mutex_unlock (&server.lock);
    err = v == MEMBER_GO ? data_change (server.disk, &whole, false, &place)
                         : refusal.error;
    nbdkit_error ("%s: the block at %" PRIu64
                  " of the data area can't be read, and a request writes only "
                  "a part of it: %s",
                  server.disk->path, block,
                  v != MEMBER_GO ? refusal.why
                  : err          ? strerror (err)
                                 : "the rest is copied from another member");
    *cleared = true;
  }
  pthread_mutex_unlock (&lock);
  return err;
}

int
server_change (const struct batch_record *part, bool sync,
               enum errors_place *place)
{
  uint64_t block[2];
  unsigned blocks = bad_parts (part->offset, part->length, block);
  int err = data_change (server.disk, part, sync, place), error = 0;
  bool cleared = false;

  if (err != EIO || *place == ERRORS_SYNC)
    return err;
  for (unsigned i = 0; i < blocks && error == 0; i++)
    error = clear_block (block[i], &cleared);
  if (error || !cleared)
    return error ? error : err;
  return data_change (server.disk, part, sync, place);
}
