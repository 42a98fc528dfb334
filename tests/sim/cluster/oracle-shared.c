/* oracle-shared.c: the answers that clients may get when several hosts share the array by
 * leases and write the same bytes.
 *
 * Nobody's order of submission is the order of effect, so each grain is judged as a
 * register (zones.h).  This file says what happens to these registers.
 *
 * When a session with a lease of a grain is gone, the grain is *exposed* until it was
 * recovered: acknowledged data may have one copy only.  The loss of one further member is
 * a double failure, and the grain falls.
 *
 * When a lease comes to a host, nobody else writes there any more: all that was asked for
 * by others has taken effect or never will; all copies that count have the same; and no
 * member that counts carries out a write of anybody else's.
 */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "oracle.h"
#include "zones.h"

static struct zones *zones;
static struct {
  uint64_t holder; /* the session that it came to last */
  uint64_t moved;  /* when another copy became the one that all others read */
  bool exposed;
  bool
    differs; /* its copies may, since a member has lost what was not flushed */
} *grains;
/* The sessions that have admitted clients. */
static uint64_t sessions[HOSTS_MAX];

void
shared_begin (void)
{
  if (!w.config.leases)
    return;
  zones = zones_new (w.grains);
  grains = make (w.grains * sizeof grains[0]);
  memset (sessions, 0, sizeof sessions);
}

void
shared_end (void)
{
  if (zones == NULL)
    return;
  zones_free (zones);
  free (grains);
  zones = NULL;
}

bool
shared_is_writer (uint64_t session)
{
  for (unsigned i = 0; i < HOSTS_MAX; i++)
    if (session && sessions[i] == session)
      return true;
  return false;
}

bool
shared_exposed (unsigned g)
{
  return zones && grains[g].exposed;
}

void
shared_fall (unsigned g)
{
  sim_trace ("oracle: grain %u falls", g);
  grains[g].differs = true;
  zones_fall (zones, g);
}

/* A member has lost what it had not flushed, also of writes that are not answered. */
void
shared_undo (unsigned g)
{
  if (zones)
    zones_undo (zones, g);
}

const char *
shared_kept (unsigned g, uint64_t version)
{
  return zones_kept (zones, g, version);
}

/* ---- Requests ---- */

void
shared_asked (const struct host_role *h, struct asked *q,
              const struct array_request *r)
{
  bool over = oracle_session_ended (q->session);

  q->ended = false;
  for (unsigned i = 0; i < q->count; i++) {
    unsigned g = q->first + i;

    q->floors[i] = zones_promised (zones, g);
    q->ended |= over && grains[g].holder != q->session;
  }
  if (q->version && sim_verbose)
    sim_trace ("oracle: version %" PRIu64 " of grains %u to %u, at %" PRIu64,
               q->version, q->first, q->first + q->count - 1, q->at);
  if (q->version && !q->ended)
    for (unsigned i = 0; i < q->count; i++)
      zones_write (zones, q->first + i, q->version, r->op != ARRAY_WRITE,
                   h->session, q->at);
}

static void
write_done (const struct host_role *h, struct asked *q,
            const struct array_request *r)
{
  bool fua = r->flags & ARRAY_FUA;

  if (q->ended && fua)
    sim_fail ("host %u: a FUA write is acknowledged, but the session was over",
              h->proc.number);
  if (oracle_session_ended (q->session))
    return; /* data acknowledged now may be lost with it */
  for (unsigned i = 0; i < q->count; i++) {
    unsigned g = q->first + i;
    const char *why = zones_written (zones, g, q->version, h->proc.number,
                                     oracle_moment);

    if (why)
      sim_fail ("host %u: grain %u (at %" PRIu64 ") is written as version "
                "%" PRIu64 ": %s",
                h->proc.number, g, grain_offset (g), q->version, why);
    zones_forget (zones, g, oracle_oldest (g));
    if (fua) {
      zones_promise (zones, g, q->version);
      oracle_check_stable (g, q->version, "a FUA write is done");
    }
  }
}

/* See oracle.c: a last copy is back without what it had not flushed, a FLUSH has said
 * so, and the other copy now has a bad spot.
 */
static bool
uncovered (const struct asked *q, unsigned g, uint64_t version)
{
  return oracle_reconnected () && q->read_errors < w.read_errors &&
         zones_kept (zones, g, version) == NULL;
}

static void
read_done (const struct host_role *h, struct asked *q,
           const struct array_request *r)
{
  for (unsigned i = 0; i < q->count; i++) {
    unsigned g = q->first + i;
    uint64_t v = grain_version ((char *) r->buf + i * grain_bytes,
                                r->offset / grain_bytes + i, "what was read");
    const char *why;

    if (oracle_session_ended (q->session) && !q->alone)
      continue; /* it may be late */
    if (sim_verbose)
      sim_trace ("oracle: host %u reads grain %u as %" PRIu64 ", from %" PRIu64
                 " to %" PRIu64,
                 h->proc.number, g, v, q->at, oracle_moment);
    why = zones_read (zones, g, v, q->floors[i], q->at, oracle_moment);
    if (why == NULL)
      continue;
    if (!uncovered (q, g, v))
      sim_fail ("host %u reads grain %u (at %" PRIu64 ") as version %" PRIu64
                ": %s",
                h->proc.number, g, grain_offset (g), v, why);
    shared_fall (g);
  }
}

static void
flush_done (const struct host_role *h, const struct asked *q)
{
  if (oracle_session_ended (q->session) || !shared_is_writer (q->session))
    return;
  for (unsigned g = 0; g < w.grains; g++)
    if (zones_flushed (zones, g, h->proc.number, q->at))
      oracle_check_stable (g, zones_promised (zones, g), "a FLUSH is done");
}

void
shared_flush_failed (const struct host_role *h, const struct asked *q)
{
  zones_flush_failed (zones, h->proc.number, q->at);
}

void
shared_done (const struct host_role *h, struct asked *q,
             const struct array_request *r)
{
  if (r->op == ARRAY_READ)
    read_done (h, q, r);
  else if (r->op == ARRAY_FLUSH)
    flush_done (h, q);
  else
    write_done (h, q, r);
}

/* ---- Who holds what ---- */

/* All copies that count are the same, but for what a loss of power has taken, and what was
 * copied from there since.
 */
static void
check_equal (const struct host_role *h, unsigned g)
{
  const struct cluster_array_record *a = store_array ();
  uint64_t value = GARBAGE;

  if (grains[g].differs)
    return;
  for (unsigned c = 0; c < w.layout.copies; c++) {
    const struct copy *at = &w.copy[g][c];
    const struct disk *d = place_disk (a, at->member);
    const struct slot *s = &d->slots[at->slot];

    if (a->member[at->member].state != MEMBER_IN_SYNC || s->cut || s->spot ||
        disk_bad (d, at->slot))
      continue;
    if (value != GARBAGE && value != s->now)
      sim_fail ("grain %u (at %" PRIu64 ") comes to host %u while copy %u on "
                "member %u is version %" PRIu64 ", another %" PRIu64,
                g, grain_offset (g), h->proc.number, c, at->member, s->now,
                value);
    value = s->now;
  }
}

/* It was granted, and the answer has come after its session was over, of which it has not
 * heard yet.  As long as members are not fenced it may write there: nobody else has it
 * before it was recovered.
 */
static void
holds_late (const struct host_role *h, unsigned g)
{
  for (unsigned i = 0; i < w.config.hosts; i++) {
    const struct host_role *o = &w.host[i];

    if (o != h && o->lessee && o->holds[g] &&
        !oracle_session_ended (o->session))
      return;
  }
  grains[g].holder = h->session;
  grains[g].exposed = true;
}

void
shared_holds (struct host_role *h, unsigned g)
{
  if (oracle_session_ended (h->session))
    holds_late (h, g);
  else
    grains[g].holder = h->session;
}

/* Nobody else writes there from now on, and copies are equal. */
void
shared_came (struct host_role *h, unsigned g)
{
  if (oracle_session_ended (h->session)) {
    holds_late (h, g);
    return;
  }
  check_equal (h, g);
  oracle_moment++;
  grains[g].holder = h->session;
  grains[g].exposed = false;
  zones_close (zones, g, oracle_session_ended, oracle_moment);
  zones_came (zones, g, h->proc.number, oracle_moment);
}

/* Of members that weftd does not know to have the process that they had when all was
 * written it says which rounds they have noted: the copy that is taken is the one with
 * more of them, and not the data.
 */
void
shared_recovers (const struct host_role *h)
{
  const struct cluster_array_record *a = store_array ();

  for (unsigned g = 0; zones && g < w.grains; g++) {
    uint64_t least = UINT64_MAX, most = 0;

    for (unsigned c = 0; c < w.layout.copies; c++) {
      uint64_t reach = h->map.peer[w.copy[g][c].member].reach;

      if (a->member[w.copy[g][c].member].state != MEMBER_IN_SYNC)
        continue;
      least = reach < least ? reach : least;
      most = reach > most ? reach : most;
    }
    if (grains[g].exposed && least < most)
      shared_fall (g);
  }
}

/* The grain was resynchronized, and flushed. */
void
shared_recovered (struct host_role *h, unsigned g)
{
  uint64_t v;

  if (oracle_session_ended (h->session))
    return;
  v = oracle_agreed (g, "it is recovered", false);
  for (unsigned c = 0; c < w.layout.copies; c++) {
    const struct copy *at = &w.copy[g][c];

    if (store_array ()->member[at->member].state == MEMBER_IN_SYNC)
      place_disk (store_array (), at->member)->slots[at->slot].cut = false;
  }
  shared_came (h, g);
  grains[g].differs = false;
  if (v == GARBAGE)
    return;
  shared_quiet (g, v);
  if (v)
    zones_promise (zones, g, v);
}

void
shared_serving (const struct host_role *h)
{
  struct host_role *us = &w.host[h->proc.number];

  zones_host_anew (zones, h->proc.number);
  sessions[h->proc.number] = h->session;
  for (unsigned g = 0; g < w.grains; g++)
    if (h->lessee == NULL || h->holds[g])
      shared_recovered (us, g);
}

/* The copy that is read without a lease; NULL: there is none. */
static const struct copy *
readers_copy (const struct cluster_array_record *a, unsigned g)
{
  for (unsigned c = 0; c < w.layout.copies; c++)
    if (a->member[w.copy[g][c].member].state == MEMBER_IN_SYNC)
      return &w.copy[g][c];
  return NULL;
}

void
shared_committed (const struct cluster_array_record *before,
                  const struct cluster_array_record *now)
{
  for (unsigned g = 0; zones && g < w.grains; g++)
    if (readers_copy (before, g) != readers_copy (now, g))
      grains[g].moved = oracle_moment;
}

/* A write that others have read, and that is not answered, may not have arrived at the
 * copy that they read since a COMMIT.  They hold their reads until it has, or until its
 * session is gone: then it may be gone, too.
 */
static void
left (unsigned g, uint64_t session)
{
  const struct cluster_array_record *a = store_array ();
  const struct copy *at = readers_copy (a, g);

  if (at)
    zones_left (zones, g, session,
                place_disk (a, at->member)->slots[at->slot].now,
                grains[g].moved);
}

void
shared_writer_gone (uint64_t session)
{
  for (unsigned g = 0; g < w.grains; g++)
    if (grains[g].holder == session && zones_owes (zones, g, session)) {
      grains[g].exposed = true;
      if (!oracle_whole (g))
        shared_fall (g);
      left (g, session);
    }
}

void
shared_changes (uint64_t session, unsigned g, unsigned member)
{
  const struct cluster_array_record *a = store_array ();

  /* A joining member that its host has lost begins again: it copies writes until then
   * once more.
   */
  if (a->member[member].state == MEMBER_IN_SYNC && grains[g].holder != session)
    sim_fail ("member %u carries out a write of session %016" PRIx64
              " to grain %u (at %" PRIu64 "), which session %016" PRIx64
              " has a lease of",
              member, session, g, grain_offset (g), grains[g].holder);
}

/* All is quiet: a read would find the present content. */
void
shared_quiet (unsigned g, uint64_t version)
{
  uint64_t at = ++oracle_moment;
  const char *why = zones_read (zones, g, version, zones_promised (zones, g),
                                at, ++oracle_moment);

  if (why)
    sim_fail ("grain %u (at %" PRIu64 ") is version %" PRIu64 ": %s", g,
              grain_offset (g), version, why);
}
