/* member-role.h: shared by the files of the member role.
 *
 * member-role.c nbdkit's calls: doors and requests; the start member-server.c
 * the engine's inputs and outputs, under its lock member-control.c the
 * conversation with weftd; header writes that no request
 *                   waits for
 * member-pulse.c asks the disk whether it still answers, and is there
 * member-answer.c applies weftd's answers to this member puller.c while the
 * member is joining: fetches the data to copy data.c, disk.c the disk
 *
 * The engine (core/member/member.h) decides; `lock` serialises it, and is never
 * held during I/O.  `changed` is signalled when something happened for which
 * anybody may wait: a header write ended, the last request of an old epoch has
 * left, weftd wants something else, the end is near.
 */

#ifndef WEFT_MEMBER_ROLE_H
#define WEFT_MEMBER_ROLE_H

#include <pthread.h>
#include <stdbool.h>

#include "common/disk.h"
#include "load.h"
#include "member/errors.h"
#include "member/member.h"

struct server {
  struct disk *disk;
  struct load_counters counters;

  pthread_mutex_t lock;
  pthread_cond_t changed; /* a clock_condition */
  struct member *member;
  /* The disk is gone: presence_words; NULL: it is not.  weftd has heard that. */
  _Atomic (const char *) gone;
  _Atomic bool gone_told;
  bool stopping;
};
extern struct server server;

/* With the lock held: do one action if there is one, letting go of the lock
 * meanwhile.  Returns false when there was none, and the member is what it was.
 */
bool server_act (bool lazy);

/* With the lock held: wait until something has changed, for so long at most. */
void server_wait (uint64_t ms);
/* With the lock held: do an action, or wait until others have done some. */
void server_act_or_wait (void);

/* A change of the disk's data has ended with an error.  True: it passes
 * (ERRORS_AGAIN), and the client gets that error.  False: the kernel's copy of
 * the data is unknown from here on, so nothing is tried again.  Called without
 * the lock.
 */
bool server_error (enum errors_place place, int error, uint64_t offset,
                   uint64_t bytes);

/* After an error of the disk: was it removed?  Then tell the member engine.
 * Called without the lock.
 */
bool server_lost (int error);

/* Does the range touch a bad block?  Called without the lock. */
bool server_bad (uint64_t offset, uint64_t length);
/* data_change, also where the rest of a block can't be read of which a part is changed.
 * Called without the lock, while a request is under way.
 */
int server_change (const struct batch_record *part, bool sync,
                   enum errors_place *place);

/* With the lock held, which is let go of meanwhile: while the member is short, see from
 * time to time whether there is room again.  False: it is not time yet; *wait_ms is
 * lowered until then.
 */
bool server_room (uint64_t *wait_ms);

struct puller_order;

/* Read weftd's answer to a heartbeat that told it *told.  *order is the order to
 * join, if there is one, and the caller's even after a failure.  key stays as it is
 * when the assignment is still as told.  Returns NULL, or the name of the field that
 * is missing or makes no sense.
 */
const char *member_answer_read (json_t *reply, const struct superblock *told,
                                struct member_desire *d, uint8_t key[KEY_BYTES],
                                struct puller_order **order);

/* The sessions that are over, in weftd's answer, even a refusal; at most
 * OVER_TOLD_MAX. Returns how many.
 */
unsigned member_answer_over (const json_t *reply, struct member_over over[]);

/* Register with weftd once, before anybody can connect.  Returns -1, with an
 * error said, when weftd refuses this disk.  When weftd cannot be reached a message
 * says so, and it is asked again later.
 */
int member_control_register (void);

/* The threads.  member_control_stop returns when they have ended. */
int member_control_start (void);
void member_control_stop (void);

/* The thread that reads a block of the disk now and then, and for how long the disk
 * has been stuck (member/pulse.h).
 */
int member_pulse_start (void);
void member_pulse_stop (void);
uint64_t member_pulse_stuck_ms (void);

#endif /* WEFT_MEMBER_ROLE_H */
