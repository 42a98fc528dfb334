/* oracle.h: the interface between oracle.c and oracle-shared.c: where hosts share the
 * array by leases, the latter knows which contents may be read, and the former everything
 * else.
 */

#ifndef WEFT_ORACLE_H
#define WEFT_ORACLE_H

#include "world.h"

/* A request of a client. */
struct asked {
  uint64_t version; /* 0: no write */
  uint64_t session;
  uint64_t epoch; /* in which a client of the session may have come */
  unsigned client;
  uint64_t at;                /* of its submission: the moment ... */
  uint64_t when;              /* ... and by the clock */
  bool may;                   /* fail: a FLUSH */
  struct asked *next, **prev; /* under way */
  uint64_t falls;
  unsigned read_errors;
  bool ended;   /* another held the array when it was asked */
  bool outside; /* a write that is not within its host's part */
  bool
    alone; /* weftd had not answered its host for the TTL when it was asked */
  unsigned first, count;
  uint64_t
    *floors; /* of each, at submission; then the promised version of each, and
                       then its era */
};

/* oracle.c */
extern uint64_t oracle_moment; /* of requests and their ends, in their order */
bool oracle_session_ended (uint64_t id);
/* Every copy of a grain that counts is stable as something that may be there. */
void oracle_check_stable (unsigned g, uint64_t floor, const char *what);
/* One of several part writers is about to resynchronize this grain of another's part. */
void oracle_recovers (const struct host_role *h, unsigned g);
/* It is; nobody writes there any more. */
void oracle_recovered (const struct host_role *h, unsigned g);
/* The value of a grain on the members that are in-sync; they agree, where they do not
 * say that it is bad.  With `spots` what can't be read now counts as well.  GARBAGE:
 * there is none.
 */
uint64_t oracle_agreed (unsigned g, const char *what, bool spots);
/* Has every member that has a copy of it all that it should have, as far as weftd knows? */
bool oracle_whole (unsigned g);
/* The moment of the oldest request under way that has to do with this grain. */
uint64_t oracle_oldest (unsigned g);

/* oracle-shared.c */
void shared_begin (void);
void shared_end (void);
void shared_asked (const struct host_role *h, struct asked *q,
                   const struct array_request *r);
void shared_done (const struct host_role *h, struct asked *q,
                  const struct array_request *r);
void shared_flush_failed (const struct host_role *h, const struct asked *q);
bool shared_is_writer (uint64_t session);
void shared_serving (const struct host_role *h);
void shared_writer_gone (uint64_t session);
void shared_changes (uint64_t session, unsigned g, unsigned member);
void shared_fall (unsigned g);
/* Reads use another member from now on.  A host sends its unacknowledged writes to the
 * former one again; reads of such writes there may be gone until then.
 */
void shared_undo (unsigned g);
/* A COMMIT: others may read another copy from now on. */
void shared_committed (const struct cluster_array_record *before,
                       const struct cluster_array_record *now);
/* A holder of it has died, and it is not recovered yet: the loss of one member loses
 * it.
 */
bool shared_exposed (unsigned g);
/* Is it another than what may be there?  Says why, or NULL. */
const char *shared_kept (unsigned g, uint64_t version);
void shared_quiet (unsigned g, uint64_t version);

#endif /* WEFT_ORACLE_H */
