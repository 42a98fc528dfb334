/* following.h: an array by way of its service: the connection to the process that serves
 * it, whichever that is (core/host/follow.h).
 */

#ifndef WEFT_FOLLOWING_H
#define WEFT_FOLLOWING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/map.h"
#include "engine.h"

struct following;

/* Find who serves the array, and connect.  The map, which the caller frees after
 * following_end, has one member, and that is *peer.  Waits for a while for one to serve,
 * and says so.  NULL after nbdkit_error.
 */
struct following *following_begin (struct map **map, struct peer **peer);

/* Hand over the engine, before engine_start. */
void following_ready (struct following *f, struct engine *e);
/* Start the thread (not before nbdkit's fork).  -1 after nbdkit_error. */
int following_start (struct following *f);
/* A client of ours connects.  -1 after nbdkit_error: refuse it. */
int following_client (struct following *f);
/* Before a FLUSH of the device begins; and its end: 0 or the errno for the
 * device.
 */
unsigned following_takes (struct following *f);
int following_flushed (struct following *f, unsigned takes, int error);
/* After engine_end: all acknowledged writes of the device are stable. */
void following_flushed_all (struct following *f);
/* The engine has lost this connection.  Never blocks. */
void following_notice (struct following *f, const struct array_notice *n,
                       uint64_t connection);
/* Stop, after engine_end, and free. */
void following_end (struct following *f);

#endif /* WEFT_FOLLOWING_H */
