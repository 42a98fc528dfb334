/* quota.h: how much of weftd one caller may have at once, so that one caller's
 * flood keeps nobody else out.  From any thread.
 *
 * A caller is a user with all logins, a user's tokens (so scripts don't shut
 * their owner out), a node, or, without a login, an address (for IPv6 its
 * network). Each caller has a limit, and all callers of a kind together have
 * one, so that more than half of weftd's threads are left to nodes;
 * administrators are not counted with the other users.  With --no-login only
 * streams and bytes are bounded, all together.
 */

#ifndef WEFT_QUOTA_H
#define WEFT_QUOTA_H

#include <stdbool.h>
#include <stdint.h>

#include "auth.h"

/* Requests under way: of one, and of all of a kind. */
#define QUOTA_STRANGER_CALLS 32
#define QUOTA_STRANGERS_CALLS 128
#define QUOTA_USER_CALLS 32
#define QUOTA_USERS_CALLS 256
/* An array process has up to three (its heartbeat, another, a report of a lost member),
 * and two more where it has leases, a disk one: of QUOTA_SESSIONS and 64 disks.
 */
#define QUOTA_NODE_CALLS 256
/* Streams of events. */
#define QUOTA_USER_STREAMS 32
#define QUOTA_STREAMS 256
/* Bytes of large bodies until they are answered, and of the JSON that is made of them.
 * Bodies of at most QUOTA_SMALL_BYTES, and JSON of as many, do not count: the threads bound
 * those.
 */
#define QUOTA_SMALL_BYTES (64u << 10)
#define QUOTA_USER_BYTES (16u << 20)
#define QUOTA_USERS_BYTES (64u << 20)
#define QUOTA_NODE_BYTES (64u << 20)
#define QUOTA_NODES_BYTES (256u << 20)
/* Idle connections of which weftd knows whose they are (doorman.h). */
#define QUOTA_CONNECTIONS QUOTA_NODE_CALLS
/* Sessions of a node, and how many it may be granted: so many at once, then one in this
 * time.
 */
#define QUOTA_SESSIONS 64
#define QUOTA_ATTACHES 64
#define QUOTA_ATTACH_MS 1000

enum quota_kind { QUOTA_CALL, QUOTA_STREAM, QUOTA_BYTES, QUOTA_KINDS };

/* Begin with so many requests, streams, or bytes; false: there are too many.  quota_end
 * ends them.
 */
bool quota_begin (const struct caller *caller, enum quota_kind kind,
                  unsigned amount);
void quota_end (const struct caller *caller, enum quota_kind kind,
                unsigned amount);

/* May the node attach once more?  Only granted attaches count: a process that
 * must wait asks again and again.
 */
bool quota_attach (const char *node, uint64_t now_ms);
void quota_attached (const char *node, uint64_t now_ms);

/* How often it was false since weftd was started. */
uint64_t quota_refused (void);

/* The caller in a word, as a key for counting: "u kim", "t kim", "n n1", "a
 * 192.0.2.7".
 */
#define QUOTA_KEY_BYTES 72
void quota_key (const struct caller *caller, char key[QUOTA_KEY_BYTES]);

#endif /* WEFT_QUOTA_H */
