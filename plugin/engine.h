/* engine.h: a block (block.h), with the array engine (core/array/array.h) at its bottom, with
 * threads and connections.
 */

#ifndef WEFT_ENGINE_H
#define WEFT_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "array/array.h"
#include "block.h"
#include "host/lessee.h"
#include "host/seats.h"
#include "peer.h"

struct engine;
struct array_client;

/* Takes a notice of the block, with the number of the connection to the member that it is
 * about.  Called by any thread, without a lock held; must not block.
 */
typedef void (*engine_notice_fn) (void *opaque, const struct array_notice *,
                                  uint64_t connection);

/* Give a finished I/O back; peer_open's `done`. */
void engine_io_done (struct peer_io *pio);

/* Take over the block; the array at its bottom, which is the block's, was made with the
 * states of seats_seen; and the connections: peers[m] is NULL for a member that is out, or
 * that is joining and could not be reached.  NULL: out of memory or descriptors.
 */
struct engine *engine_new (struct block *block, struct array *array,
                           struct peer **peers, const struct seats *seats,
                           engine_notice_fn notice, void *opaque);

/* Start the engine thread (not before nbdkit's fork). */
int engine_start (struct engine *e);

/* A client of the block; not closed while a request of it runs. */
struct array_client *engine_client_open (struct engine *e);
void engine_client_close (struct engine *e, struct array_client *c);

/* Call this with the engine's lock held, and carry out what the block has to do then.  It
 * must not block.
 */
void engine_call (struct engine *e,
                  void (*call) (struct block *b, void *opaque, uint64_t now_ns),
                  void *opaque);

/* Carry out a request; returns when it is done, with its error.  Many threads
 * may be in here at once.
 */
int engine_run (struct engine *e, struct array_request *r);
/* The same, for a client that has this request alone. */
int engine_run_alone (struct engine *e, struct array_request *r);

/* weftd has recorded these states; it has PREPARED these.  An epoch that is
 * older than the engine's is ignored, so several threads may pass on their
 * answers in any order.
 */
void engine_commit (struct engine *e, uint64_t epoch,
                    const enum member_state states[]);
void engine_prepare (struct engine *e, uint64_t epoch,
                     const enum member_state states[]);

/* Take a new connection, with this number, to a member that was lost or out: no
 * request of the old connection may still run at the member (core/array/array.h,
 * array_back).  Waits until the old connection has given everything back, closes
 * it, and commits the recorded states with the new one.  False: that did not happen
 * in time, and the peer is still the caller's.
 */
bool engine_replace (struct engine *e, struct peer *peer, uint64_t connection,
                     bool kept, uint64_t reach);

/* Break the connection to a member: the member is lost. */
void engine_break (struct engine *e, unsigned member);
/* Break it, and wait until nothing is in flight there.  False: not in time. */
bool engine_sever (struct engine *e, unsigned member);

/* As in core/array/array.h. */
uint64_t engine_epoch (struct engine *e);
uint64_t engine_arrived (struct engine *e);
uint64_t engine_round (struct engine *e);
uint64_t engine_round_entered (struct engine *e);
void engine_trust (struct engine *e, uint64_t until_ms);
void engine_all_arrived (struct engine *e, uint64_t epoch);
void engine_settled (struct engine *e, unsigned member, uint64_t offset,
                     uint64_t length);

bool engine_differs (struct engine *e);

/* Leases by range, as in core/array/array.h. */
unsigned engine_lease_wants (struct engine *e, struct array_range *wants,
                             unsigned max);
void engine_lease_grant (struct engine *e, const struct array_range *granted,
                         unsigned count);
void engine_lease_recover (struct engine *e, const struct array_range *ranges,
                           unsigned count);
void engine_lease_recovered (struct engine *e);
bool engine_lease_leaves (struct engine *e);
void engine_lease_leave (struct engine *e, const struct lease_wish *leave);
unsigned engine_lease_left (struct engine *e, struct array_range *left,
                            unsigned max);
size_t engine_lease_all (struct engine *e, struct array_range **list);

/* A FLUSH after which all intent bits may fall (ARRAY_COVER).  0 or an errno. */
int engine_cover (struct engine *e);

/* Bytes of a member's data area; 0: there is no connection to it. */
uint64_t engine_member_bytes (struct engine *e, unsigned member);

/* The states that weftd has recorded, as far as is known here. */
void engine_recorded (struct engine *e, enum member_state states[]);

/* Stop the block, with ESHUTDOWN; and break all connections, so that nothing that is
 * in flight is waited for.
 */
void engine_abandon (struct engine *e);
void engine_stats (struct engine *e, struct array_stats *stats);

/* Is nbdkit ending?  Then requests that can't finish are failed after a while. */
bool engine_ending (struct engine *e);

/* End: with `drain`, write all images and flush all members first, within
 * drain_ms.  Returns whether that went well.  No request may be running.
 */
bool engine_end (struct engine *e, bool drain, unsigned drain_ms);
void engine_free (struct engine *e); /* the block and the peers as well */

#endif /* WEFT_ENGINE_H */
