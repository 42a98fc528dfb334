/* engine.h: the array engine (core/array.h) with threads and connections. */

#ifndef WEFT_ENGINE_H
#define WEFT_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "array.h"
#include "peer.h"

struct engine;

/* Takes what the array engine wants told.  Called by any thread, without a
 * lock held; must not block.
 */
typedef void (*engine_notice_fn) (const struct array_notice *);

/* Give a finished I/O back; peer_open's `done`. */
void engine_io_done (struct peer_io *pio);

/* Take over the array engine, which was made with this config, and the
 * connections: peers[m] is NULL for a member that is out.  NULL: out of memory
 * or descriptors.  There is one engine in a process.
 */
struct engine *engine_new (struct array *array, struct peer **peers,
                           const struct array_config *config,
                           engine_notice_fn notice);

/* Start the engine thread (not before nbdkit's fork). */
int engine_start (struct engine *e);

/* Carry out a request; returns when it is done, with its error.  Many threads
 * may be in here at once.
 */
int engine_run (struct engine *e, struct array_request *r);

/* These states are recorded.  A member that was out stays out, and the epoch
 * does not fall, in whichever order threads come with what they were told.
 */
void engine_commit (struct engine *e, uint64_t epoch,
                    const enum member_state states[]);
void engine_stop (struct engine *e, int error);
void engine_stats (struct engine *e, struct array_stats *stats);

/* nbdkit is ending: requests that can't finish are failed after a while. */
bool engine_ending (struct engine *e);

/* End: with `drain`, write all images and flush all members first, within
 * drain_ms.  Returns whether that went well.  No request may be running.
 */
bool engine_end (struct engine *e, bool drain, unsigned drain_ms);
void engine_free (struct engine *e); /* the array and the peers as well */

#endif /* WEFT_ENGINE_H */
