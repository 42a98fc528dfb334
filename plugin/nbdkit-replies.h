/* nbdkit-replies.h: keeps nbdkit alive when a client dies with replies under way.
 *
 * In nbdkit 1.32.4 to 1.33.9 the first thread that finds a connection broken
 * gives its socket up while others are about to send on it, and an assertion
 * ends the whole process: the death of one client would take the member, or
 * the array, from all the others (docs/UPSTREAM.md).  configure builds this only
 * where nbdkit is older than 1.34, the first stable version without the fault.
 */

#ifndef WEFT_NBDKIT_REPLIES_H
#define WEFT_NBDKIT_REPLIES_H

#ifdef GUARD_REPLIES

/* Put this file's functions before nbdkit's own calls of read, send and close,
 * unless the nbdkit that has loaded us is 1.34 or later after all.  Called in the
 * plugin's load ().
 */
void replies_guard (void);

/* The calling thread's connection is open; in the plugin's open (). */
void replies_open (void);

#else

static inline void
replies_guard (void)
{
}

static inline void
replies_open (void)
{
}

#endif

#endif /* WEFT_NBDKIT_REPLIES_H */
