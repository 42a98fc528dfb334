/* lessee.h: a host's side of leases by range (docs/PROTOCOL.md, "Leases"): what it
 * asks weftd for, what it gives back, and what it recovers.
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
 *   - What must be had by an ask is not given back before the answer has come; and
 *     nothing is while the array engine gets what it brought (LEAVE waits).
 *   - What is to be given back, and for which weftd has not answered, is not asked for.
 *   - Of what a grant brings, that is left out which was to be given back at any time
 *     while the call was under way: weftd may have it as given by now.
 *   - A GIVE has a number; weftd carries each out once, and none that is older than
 *     one that it has carried out.  One that was not answered is sent again with the
 *     same number.
 *     The generation that is told is in it (in the upper 32 bits), so that a weftd
 *     knows one that was meant for an earlier one.
 *   - A weftd of another generation knows no leases: it is told all of them (a GIVE
 *     that declares) when no ASK is under way, and is asked for nothing before that.
 *     What an answer of another generation says of leases is not heard.  When weftd wants
 *     all declared (409), it is a later one: that is heard of first, by a heartbeat, and
 *     nothing more of the one before.  No order is taken before all is declared.
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
  /* array_lease_recover of the ranges, before lessee_next is called again, for what is
   * declared must have them; then make copies equal there (resync.h), then
   * array_lease_recovered, then lessee_recovered.  Not when we have begun with the
   * whole array: its resync is that of the attach.
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
/* When lessee_next is to be asked again; UINT64_MAX: no need. */
uint64_t lessee_due_ms (const struct lessee *l, unsigned kinds);

/* ---- Inputs ---- */

/* What requests wait for now (array_lease_wants), the first first; 0: for nothing. */
void lessee_wants (struct lessee *l, const struct array_range *wants,
                   unsigned count, uint64_t now_ms);
/* These have been left (array_lease_left). */
void lessee_left (struct lessee *l, const struct array_range *left,
                  unsigned count);
/* What the answer to a heartbeat says of leases.  recover: the number of the order that
 * stands; 0: none does.  Returns whether weftd is to be heard again at once.
 */
bool lessee_heard (struct lessee *l, uint64_t generation,
                   const struct lease_wish *revoke, unsigned revokes,
                   uint64_t recover, const struct array_range *ranges,
                   unsigned count);

/* The answer to ASK: status of HTTP, or 0; declare: as of lessee_gave; what was granted.
 * Leaves in `granted` what the array engine is to have, and returns how many ranges those
 * are (no more than `room`; what is left out for want of room is not ours, and is asked
 * back some day).
 */
unsigned lessee_granted (struct lessee *l, int status, bool declare,
                         struct array_range *granted, unsigned count,
                         unsigned room, uint64_t now_ms);
/* The array engine has it; what is wanted now (as lessee_wants). */
void lessee_asked (struct lessee *l, const struct array_range *wants,
                   unsigned count, uint64_t now_ms);
/* The answer to GIVE.  declare: weftd (409, "declare") wants to be told all. */
void lessee_gave (struct lessee *l, int status, bool declare, uint64_t now_ms);
/* What was to be recovered is (ok), or is to be tried again. */
void lessee_recovered (struct lessee *l, bool ok, uint64_t now_ms);

/* The order that this session knows, until it is done and weftd has heard so; for its
 * heartbeats.  0: none.
 */
uint64_t lessee_order (const struct lessee *l);

/* Asserts every invariant of the engine; for tests. */
void lessee_check (const struct lessee *l);

#endif /* WEFT_LESSEE_H */
