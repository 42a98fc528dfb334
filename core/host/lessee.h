/* lessee.h: a host's side of leases by range (docs/PROTOCOL.md, "Leases"): the
 * ranges that it asks weftd for, gives back and recovers.
 *
 * Source: the range leases of the Redbud paper, section 4.1, with its adaptive window.
 *
 * A pure state machine beside the host engine (host.h), for an array process that
 * shares its array by leases.  The array engine holds the leases themselves and counts
 * the requests in them (array.h); weftd grants them.
 *
 *   the array engine: NOTICE_LEASE ─ lessee_wants ──┐          ┌─ ASK, GIVE ── to weftd
 *                     NOTICE_LEFT ── lessee_left ───┼─ engine ─┤
 *   weftd: heartbeats' answers ───── lessee_heard ──┤          └─ LEAVE, RECOVER ── to
 *          answers to ASK, GIVE ──── lessee_… ──────┘                the array engine
 *
 * Two calls may be under way at once, one ASK and one GIVE; weftd may carry them out
 * in either order, and the answer of one may come before that of the other.  These
 * rules keep a range from having two holders:
 *
 *   - The necessary range of an ask is not given back before the answer has come; and
 *     no range is while the array engine gets the granted ranges (LEAVE waits).
 *   - A range that must be given back is not asked for before weftd has answered that.
 *   - A grant is reduced by the ranges that had to be given back at any time while the
 *     call was under way: weftd may have registered their return by now.
 *   - A GIVE has a number; weftd carries out each number once, and no older number
 *     after it.  An unanswered GIVE is sent again with the same number.
 *     The known generation is in it (in the upper 32 bits, LEASE_NUMBERS), so that a
 *     weftd recognizes a GIVE for an earlier one.
 *   - A weftd of another generation knows no leases: the host declares all of them (in a
 *     GIVE) when no ASK is under way, and asks for no range before that.
 *     The leases in an answer of another generation are ignored.  A weftd that requires
 *     a declaration (409) is a later one: the host first gets a heartbeat's answer from
 *     it, and then ignores the former one.  It accepts no order before the declaration.
 */

#ifndef WEFT_LESSEE_H
#define WEFT_LESSEE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "array/array.h"
#include "base/bounds.h"
#include "host/lease-window.h"

/* How large a wish is. */
enum lessee_kind {
  LESSEE_ADAPTIVE, /* by the window (lease-window.h) */
  LESSEE_NAIVE,    /* just what is needed */
  LESSEE_TOKEN,    /* all from there to the end, and what is free before */
};

/* So many wants are looked at, the first ones; so many ranges are given at once. */
#define LESSEE_WANTS_MAX 64
#define LESSEE_GIVES_MAX 512

struct lessee;

/* size: of the array.  generation: of the weftd that granted the session.  declared: it
 * knows what we begin with.  recovering: we begin with the whole array, and the number of
 * the order to recover it; 0: we begin with nothing.  NULL: out of memory.
 */
struct lessee *lessee_new (enum lessee_kind kind, uint64_t size,
                           uint64_t generation, bool declared,
                           uint64_t recovering);
void lessee_free (struct lessee *l);

/* ---- Actions ---- */

enum lessee_do {
  /* array_lease_leave, of must and wish. */
  LESSEE_DO_LEAVE = 1,
  /* array_lease_recover of the ranges, before lessee_next is called again,
   * because the declaration must have them; then resync them (resync.h), then
   * array_lease_recovered, then lessee_recovered.  Not when we have begun with
   * the whole array: its resync is that of the attach.
   */
  LESSEE_DO_RECOVER = 2,
  /* Tell weftd what is given back; with `declare`, all leases too (array_lease_all,
   * called after the action was taken); then lessee_gave.
   */
  LESSEE_DO_GIVE = 4,
  /* Ask weftd; then lessee_granted, array_lease_grant, and lessee_asked. */
  LESSEE_DO_ASK = 8,
  LESSEE_DO_ALL = 15,
};

struct lessee_action {
  enum lessee_do kind;
  struct lease_wish leave;
  uint64_t number;    /* GIVE: its number */
  bool declare;       /* GIVE */
  uint64_t recovered; /* GIVE: the order that is done; 0: none */
  /* RECOVER, GIVE: valid until the next call of the engine with this action's input
   * (lessee_recovered, lessee_gave).
   */
  const struct array_range *ranges;
  unsigned count;
  struct lease_wish ask[LEASE_ASKS_MAX]; /* ASK */
  unsigned asks;
  unsigned wait_ms, timeout_ms; /* ASK, GIVE: as of struct host_action */
};

/* Take the next action of these kinds that is due; false: none is.  At most one of
 * RECOVER, of GIVE and of ASK is under way.
 */
bool lessee_next (struct lessee *l, uint64_t now_ms, unsigned kinds,
                  struct lessee_action *a);
/* When to call lessee_next again; UINT64_MAX: no need. */
uint64_t lessee_due_ms (const struct lessee *l, unsigned kinds);

/* ---- Inputs ---- */

/* The ranges that requests wait for now (array_lease_wants), in order; 0: none.
 */
void lessee_wants (struct lessee *l, const struct array_range *wants,
                   unsigned count, uint64_t now_ms);
/* These have been left (array_lease_left). */
void lessee_left (struct lessee *l, const struct array_range *left,
                  unsigned count);
/* The leases' part of the answer to a heartbeat.  recover: the number of the
 * present order; 0: none.  Returns whether the next heartbeat is due at once.
 */
bool lessee_heard (struct lessee *l, uint64_t generation,
                   const struct lease_wish *revoke, unsigned revokes,
                   uint64_t recover, const struct array_range *ranges,
                   unsigned count);

/* The answer to ASK: status of HTTP, or 0; declare: as of lessee_gave; the
 * granted ranges.  Leaves in `granted` the ranges for the array engine, and
 * returns how many these are (no more than `room`; ranges without room are not
 * ours, and weftd asks for them back later).
 */
unsigned lessee_granted (struct lessee *l, int status, bool declare,
                         struct array_range *granted, unsigned count,
                         unsigned room, uint64_t now_ms);
/* The array engine has it; the ranges that are wanted now (as lessee_wants). */
void lessee_asked (struct lessee *l, const struct array_range *wants,
                   unsigned count, uint64_t now_ms);
/* The answer to GIVE. declare: weftd (409, "declare") asks for all leases. */
void lessee_gave (struct lessee *l, int status, bool declare, uint64_t now_ms);
/* The recovery is done (ok), or must be repeated. */
void lessee_recovered (struct lessee *l, bool ok, uint64_t now_ms);

/* The order that this session knows, until it is done and weftd has heard so; for its
 * heartbeats.  0: none.
 */
uint64_t lessee_order (const struct lessee *l);

/* Asserts every invariant of the engine; for tests. */
void lessee_check (const struct lessee *l);

#endif /* WEFT_LESSEE_H */
