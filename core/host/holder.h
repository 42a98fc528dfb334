/* holder.h: a host's side of the volumes of a pool (docs/PROTOCOL.md, "Volumes"): which
 * segments it asks weftd for and gives back, what it says of its volumes, and weftd's orders.
 *
 * A pure state machine beside the host engine (host.h), for an array process whose array
 * is a pool.  The volume engines (core/volume/volume.h) have the maps; weftd has the owner of
 * each segment.
 *
 *   the volume engines: wants, state ── holder_tell ──┐            ┌─ holder_next ── to weftd
 *                       segments ────── holder_give ──┼─ a holder ─┤
 *   weftd: heartbeats' answers ──────── holder_ordered┤            ├─ holder_granted ─ to the
 *          answers to messages ──────── holder_… ─────┘            │       volume engines
 *                                                                  └─ holder_next_order
 *
 * One message at a time is under way.  It has a number, and weftd carries out each number
 * once: a message that is not answered by a 200 is sent again as it is.  So neither a grant nor a return
 * of segments happens twice, or not at all.
 *
 * The holder knows all segments of its volumes.  It takes no segment that is granted while
 * a volume of its has it, even if weftd's database is an old copy.
 */

#ifndef WEFT_HOLDER_H
#define WEFT_HOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bounds.h"
#include "volume/volume.h"

/* In one message. */
#define HOLDER_VOLUMES_MAX 64
#define HOLDER_GIVES_MAX 256
#define HOLDER_DONE_MAX 64

struct holder;
struct holder_volume;

/* weftd can grant the segments from `first` to before `end`.  NULL: out of memory. */
struct holder *holder_new (uint32_t first, uint32_t end);
void holder_free (struct holder *h);

/* ---- Volumes that are open here ---- */

/* With all segments that weftd has granted to it.  NULL: *why is a constant sentence: they
 * are not ascending, not of the pool, another volume has some of them, or weftd may not know
 * yet that some were given back.
 */
struct holder_volume *holder_open (struct holder *h, const uint8_t uuid[16],
                                   const struct volume_run *runs,
                                   unsigned count, const char **why);
/* It is being closed: weftd is to hear of it once more. */
void holder_leave (struct holder *h, struct holder_volume *v);
/* Has weftd heard all of it, and which segments it gives back?  Then weftd's next answer to
 * "open" has the volume as it is.
 */
bool holder_settled (const struct holder *h, const struct holder_volume *v);
/* All its segments, ascending.  Freed by the caller. */
struct volume_run *holder_runs (const struct holder *h,
                                const struct holder_volume *v, unsigned *count);
/* The volume is not open any more. */
void holder_close (struct holder *h, struct holder_volume *v);
struct holder_volume *holder_find (struct holder *h, const uint8_t uuid[16]);

/* Sizes in segments, but for `size` in bytes. */
struct holder_said {
  bool made; /* its root is durable */
  uint64_t size, mapped, log, spare;
  uint64_t clients, waiting;
  const char *why; /* a constant sentence: its trouble; NULL: none */
};
struct holder_facts {
  uint32_t want, near; /* as of volume_wants, ... */
  uint32_t log;        /* ... of which these are for its log */
  bool waits;
  struct holder_said said;
};
/* All of it as it is now. */
void holder_tell (struct holder *h, struct holder_volume *v,
                  const struct holder_facts *facts);
/* Segments that it does not touch any more. */
void holder_give (struct holder *h, struct holder_volume *v,
                  const struct volume_run *runs, unsigned count);
/* The pool has its header. */
void holder_formatted (struct holder *h);

/* ---- Orders ---- */

enum holder_do { HOLDER_DO_RESIZE, HOLDER_DO_DELETE };
struct holder_order {
  uint64_t number;
  enum holder_do what;
  uint64_t size; /* RESIZE */
  uint8_t uuid[16];
  char name[NAME_BYTES_MAX + 1];
  uint32_t root;
};
/* The orders in an answer to a heartbeat, ascending. */
void holder_ordered (struct holder *h, const struct holder_order *orders,
                     unsigned count);
/* The next one to be carried out; false: there is none.  Then holder_did. */
bool holder_next_order (struct holder *h, struct holder_order *o);
/* error: a sentence for people, why it was not carried out; NULL: it was. */
void holder_did (struct holder *h, uint64_t number, const char *error);

/* ---- Messages ---- */

struct holder_entry {
  uint8_t uuid[16];
  uint32_t want, log, near;
  bool says;
  struct holder_said said;
  struct volume_run *give;
  unsigned gives;
};
struct holder_done {
  uint64_t number;
  char error[256]; /* "": it was carried out */
};
struct holder_message {
  uint64_t number;
  bool formatted;
  struct holder_entry entry[HOLDER_VOLUMES_MAX];
  unsigned entries;
  struct holder_done done[HOLDER_DONE_MAX];
  unsigned dones;
};

/* The message that is due, valid until holder_answered; NULL: none is, or one is under way.
 */
const struct holder_message *holder_next (struct holder *h, uint64_t now_ms);
/* When to call holder_next again; UINT64_MAX: no need. */
uint64_t holder_due_ms (const struct holder *h);
/* A grant in weftd's answer to the message under way.  True: the volume engine is to have
 * it.  False: it must not be used.
 */
bool holder_granted (struct holder *h, struct holder_volume *v,
                     const struct volume_run *run);
/* The message is answered, after all its grants.  status: of HTTP, or 0. */
void holder_answered (struct holder *h, int status, uint64_t now_ms);

/* The number of the last message that was answered, for heartbeats. */
uint64_t holder_number (const struct holder *h);

/* Asserts every invariant; for tests. */
void holder_check (const struct holder *h);

#endif /* WEFT_HOLDER_H */
