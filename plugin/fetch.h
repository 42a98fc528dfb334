/* fetch.h: one thread's NBD connections to the members that it copies from.
 *
 * Every wait has a limit, so a member that hangs does not hang its readers.
 * Requests go to all members at once, many at a time; each is answered, or its
 * member is at fault and its connection closed.
 */

#ifndef WEFT_FETCH_H
#define WEFT_FETCH_H

#include <stdbool.h>
#include <stdint.h>

#include <libnbd.h>

#include "member/copy.h"

struct fetch {
  const char *door;   /* "data" or "intents" */
  unsigned silent_ms; /* a member that answers nothing for so long is silent */
  struct {
    struct nbd_handle *nbd; /* NULL: not connected */
    unsigned flying;
    uint64_t heard_ms; /* its last answer, while some are flying */
  } link[ARRAY_MEMBERS_MAX];
};

/* Connect to a member's door.  Returns -1 with *fault. */
int fetch_open (struct fetch *f, unsigned member, const char *uri,
                const char *token, struct copy_fault *fault);
void fetch_close (struct fetch *f, unsigned member);
void fetch_close_all (struct fetch *f);

uint64_t fetch_size (const struct fetch *f, unsigned member);

/* Carry out a list of requests, to members that are connected.  COPY_DONE when each
 * has its answer.  COPY_FAULT: a member refuses us, has broken its connection or
 * is silent; *fault says which.  COPY_CANCELLED: cancelled () has become true.  In
 * both cases every connection that had something under way is closed.
 */
enum copy_result fetch_run (struct fetch *f, struct copy_request *list,
                            bool (*cancelled) (void *), void *opaque,
                            struct copy_fault *fault);

#endif /* WEFT_FETCH_H */
