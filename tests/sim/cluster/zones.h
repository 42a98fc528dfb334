/* zones.h: the contents that may be read of grains that several hosts write at the same
 * time.
 *
 * A grain is a register; each write gives it a value of its own, or zeroes.  A request
 * takes effect at some moment between its begin and its end, so each value has a zone
 * (Gibbons and Korach, "Testing shared memories"): its *low* is the earliest end of its
 * write or of a read that returned it, its *high* the latest begin of one of these.  A
 * value comes before another one if its low is before the other's high.  The grain is
 * linearizable if no two values come before each other, and no read ends before its
 * value's write begins.
 *
 * A write without an answer has no end: it may take effect at any time, once, or never.
 * When its host is dead and what it held was recovered, its range is *closed*: it has
 * taken effect by then, or never will.
 *
 * A grain *falls* when unflushed data may be lost: then each value that may still be
 * there counts as one whose write has no answer.  Values that a FLUSH has *promised*
 * stay: earlier values never come back.
 *
 * Moments are a number that the caller raises with each begin and each end.
 */

#ifndef WEFT_ZONES_H
#define WEFT_ZONES_H

#include <stdbool.h>
#include <stdint.h>

#define ZONES_HOSTS 5

struct zones;
struct zones *zones_new (unsigned grains);
void zones_free (struct zones *z);

/* A write by this session begins.  zeroes: it leaves version 0 for reads. */
void zones_write (struct zones *z, unsigned g, uint64_t version, bool zeroes,
                  uint64_t session, uint64_t moment);

/* Each of these says what is wrong (valid until the next one), or NULL. */

/* The write was answered to this host, whose FLUSHes speak for it from now on. */
const char *zones_written (struct zones *z, unsigned g, uint64_t version,
                           unsigned host, uint64_t moment);
/* promised: zones_promised, when the read began. */
const char *zones_read (struct zones *z, unsigned g, uint64_t version,
                        uint64_t promised, uint64_t begin, uint64_t end);
/* May this version be all that a copy has? */
const char *zones_kept (const struct zones *z, unsigned g, uint64_t version);

uint64_t zones_promised (const struct zones *z, unsigned g);
/* Writes that were answered, or that an ended session requested, have taken effect, or
 * never will.  (Other sessions' writes may wait for a lease.)
 */
void zones_close (struct zones *z, unsigned g, bool (*over) (uint64_t session),
                  uint64_t moment);
void zones_fall (struct zones *z, unsigned g);
/* The read content of an unanswered write may be gone, until its host has written it
 * again.
 */
void zones_undo (struct zones *z, unsigned g);
/* The same of this session's unanswered write, if it was read by this moment, and unless
 * it is the present content.
 */
void zones_left (struct zones *z, unsigned g, uint64_t session,
                 uint64_t present, uint64_t moment);

/* The present content came to this host with a lease: its FLUSHes cover it.  They do not
 * cover fallen content: the FLUSHes of its holders at that time report that.
 */
void zones_came (struct zones *z, unsigned g, unsigned host, uint64_t moment);
/* A FLUSH of the host was done that began at that moment: returns whether it spoke for
 * anything here.  Or it has failed: no later one speaks for what was there then.
 */
bool zones_flushed (struct zones *z, unsigned g, unsigned host, uint64_t begin);
void zones_flush_failed (struct zones *z, unsigned host, uint64_t begin);
/* The host has another session from now on. */
void zones_host_anew (struct zones *z, unsigned host);
/* A FUA write was answered: it stays. */
void zones_promise (struct zones *z, unsigned g, uint64_t version);

/* Does this session have values here that no FLUSH has promised, or that may still come? */
bool zones_owes (const struct zones *z, unsigned g, uint64_t session);

/* Nothing is under way that began before: forget what can't come back. */
void zones_forget (struct zones *z, unsigned g, uint64_t oldest);

#endif /* WEFT_ZONES_H */
