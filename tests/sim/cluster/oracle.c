/* oracle.c: the answers that clients may get.
 *
 * A grain has one writer at a time, and overlapping writes take effect in the
 * order of submission: so a write is a version, and a grain's value is one.  A
 * writer's era begins when it admits clients (for all grains that it may write):
 * the content then is the base, and no other version that was requested in an
 * earlier era may ever appear again.  In an era, each grain has
 *   acked     the latest version that was acknowledged to a client;
 *   floor     that, or the latest that the writer's reads returned;
 *   promised  the latest that must survive anything: flushed, or FUA.  A version
 *             written before a FLUSH failed is not promised by any later FLUSH;
 *   owed      the latest acked, even if it was lost since: a FLUSH makes it
 *             stable, or one has failed since.  It is there when the next writer
 *             admits clients, unless the array's lapse is above `owed_epoch`, the
 *             epoch of its request: the lapse informs a service's clients, which
 *             outlive the writer (a part writer is never a service);
 *   mine      for each client, the latest of its own that was acked, the same,
 *             but for FLUSHes of its own.
 *   seen      the latest that was acked, or that any host's reads returned.
 * No read returns less than the floor.  A reader's read, or one outside of the own
 * part, returns no less than `seen`.  That falls to `acked` when a power cut takes
 * cached data of a copy, and does not count when the writer has ended.  The floor
 * falls to `promised` when the writer dies, and when a power cut takes cached data
 * of one copy while the others are not whole (a double failure).
 *
 * A session's requests after another session has been granted the array are void: they
 * must never appear, and no FUA write of it may be acknowledged.
 *
 * Where several write, each a part of the array, all of this holds for each part.  They
 * read each other's parts as readers do, and a FLUSH covers its own host's writes.  When
 * the writer of a part is gone, its unflushed data may be there or not, and each read may
 * differ, until the next writer of that part admits clients.  A write that is not within
 * its host's part is refused, and changes nothing.
 *
 * A disk that is rolled back never costs data that was promised more than OLD_MS after
 * the copy was made, and is never read as good there: docs/PROTOCOL.md, P18. While a copy
 * is refused it is as if no disk were there.  A younger copy may be taken for the disk
 * itself.  Then a grain that was written since the copy was made, and at most OLD_MS
 * after that, may be as in the copy (`excused`), until it is written again or a writer
 * admits clients the next time; each other grain is as promised.  And even then, where
 * copies differ some intent bit is set.  A reader that is admitted where no session
 * writes may read it before weftd knows more: no epoch is confirmed for a reader.
 *
 * The last member that is in-sync has no peer with more: weftd alone knows how far it
 * was, if it has heard that, and was not started again since.
 */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "oracle.h"

#define OLD_MS 3000

struct grain {
  uint64_t acked, floor, promised; /* 0: the base */
  uint64_t seen; /* at least acked; the latest that any read returned, ... */
  uint64_t seen_fell; /* ... since this fall */
  uint64_t owed, owed_epoch;
  uint64_t last_zero; /* the latest that is not void */
  uint64_t holder;    /* the newest session that may write it */
  uint64_t writer;    /* the session whose era it is; */
  bool beside;        /* it writes a part */
  bool left;          /* its process is gone */
  uint64_t era, era_at;
  uint64_t low;  /* versions up to this are of earlier eras */
  uint64_t base; /* its value when the era began */
  uint64_t fell; /* the number of its last fall */
  uint64_t gone; /* up to here, a FLUSH that failed has said that it may be */
  struct {
    uint64_t version, at; /* and when it was */
  } mine[CLIENTS];
  uint64_t excused; /* less one: the content of a rolled-back disk there, */
  uint64_t excused_up_to; /* instead of this version, or an older one */
};
static struct grain *grains;
static uint64_t falls;

/* When it was last that a copy of it could not be read; that none could, of those
 * that are in-sync; and that the data copy could not.
 */
static struct unread {
  uint64_t any, hopeless, data;
} *unread;

struct version {
  unsigned first, count; /* grains */
  uint64_t at;           /* when it was asked for */
  bool is_void;
};
static struct version *versions;
static uint64_t versions_count, versions_room;

static uint64_t newest; /* session that may write */
static uint64_t eras;
uint64_t oracle_moment;
static struct {
  /* The array's epoch when weftd last counted it as a writer. */
  uint64_t epoch;
  /* Since it has connected a member again; FUA not counted. */
  struct lapses lapses;
} writers[HOSTS_MAX];
static bool joined[PLACES_MAX]; /* it was joining when it was not out last */
static bool reconnected;        /* bits stay for this era: oracle_reconnected */

static struct asked *under_way;

static bool
owns (const struct host_role *h, unsigned g)
{
  return host_owns (h, grain_offset (g), grain_bytes);
}

/* Is it this session's era, anywhere? */
static bool
is_writer (uint64_t session)
{
  if (w.config.leases)
    return shared_is_writer (session);
  for (unsigned g = 0; g < w.grains; g++)
    if (grains[g].writer == session)
      return session != 0;
  return false;
}

void
oracle_begin (void)
{
  grains = make (w.grains * sizeof grains[0]);
  unread = make (w.grains * sizeof unread[0]);
  versions_count = eras = newest = oracle_moment = 0;
  memset (writers, 0, sizeof writers);
  memset (joined, 0, sizeof joined);
  under_way = NULL;
  shared_begin ();
}

void
oracle_end (void)
{
  shared_end ();
  free (grains);
  free (unread);
}

/* Could a grain have this version, when it must be at least `floor`? */
static bool
possible (unsigned g, uint64_t version, uint64_t floor)
{
  const struct version *v = &versions[version];

  if ((version == grains[g].base && floor == 0) ||
      (version + 1 == grains[g].excused && floor <= grains[g].excused_up_to))
    return true;
  if (version == 0)
    return grains[g].last_zero >= floor && grains[g].last_zero > grains[g].low;
  return version > grains[g].low && version <= versions_count &&
         version >= floor && !v->is_void && g >= v->first &&
         g - v->first < v->count;
}

bool
oracle_session_ended (uint64_t id)
{
  const struct cluster_session_record *s = store_session (id);

  return s == NULL || s->ended;
}

struct asked *
oracle_submit (struct host_role *h, struct array_request *r, unsigned client)
{
  struct asked *q = make (sizeof *q);
  bool flush = r->op == ARRAY_FLUSH;
  bool writes = r->op == ARRAY_WRITE || r->op == ARRAY_ZERO ||
                r->op == ARRAY_TRIM;
  unsigned n = h->proc.number;

  if (is_writer (h->session) && !oracle_session_ended (h->session))
    writers[n].epoch = store_array ()->epoch;
  q->session = h->session;
  q->epoch = writers[n].epoch;
  q->client = client;
  q->at = ++oracle_moment;
  q->may = lapses_may (&writers[n].lapses, client);
  q->next = under_way;
  q->prev = &under_way;
  if (q->next)
    q->next->prev = &q->next;
  under_way = q;
  q->when = sim_now;
  q->falls = falls;
  q->read_errors = w.read_errors;
  q->alone = sim_now >= (h->heard_ms + SESSION_TTL_MS) * MS;
  q->outside = writes && !host_owns (h, r->offset, r->length);
  q->first = flush ? 0 : offset_grain (r->offset);
  q->count = flush ? w.grains : r->length / grain_bytes;
  q->floors = make ((4 * q->count + 1) * sizeof q->floors[0]);
  for (unsigned i = 0; i < q->count; i++) {
    const struct grain *g = &grains[q->first + i];
    bool own = owns (h, q->first + i);

    q->floors[i] = flush ? g->owed : own ? g->floor : g->seen;
    q->floors[q->count + i] = g->promised;
    q->floors[2 * q->count + i] = g->era;
    q->floors[3 * q->count + i] = g->acked;
    q->ended |= own && h->session != g->holder;
  }
  if (!writes) {
    if (w.config.leases)
      shared_asked (h, q, r);
    return q;
  }
  if (++versions_count >= versions_room) {
    versions_room = 2 * versions_count + 64;
    versions = realloc (versions, versions_room * sizeof versions[0]);
    if (versions == NULL)
      abort ();
  }
  versions[versions_count] = (struct version) { q->first, q->count, sim_now,
                                                q->ended || q->outside };
  q->version = versions_count;
  if (r->op == ARRAY_WRITE)
    grain_fill (r->buf, r->offset / grain_bytes, q->count, q->version);
  else if (!q->ended && !q->outside)
    for (unsigned i = 0; i < q->count; i++)
      grains[q->first + i].last_zero = q->version;
  if (w.config.leases)
    shared_asked (h, q, r);
  return q;
}

void
oracle_check_stable (unsigned g, uint64_t floor, const char *what)
{
  const struct cluster_array_record *a = store_array ();

  for (unsigned c = 0; c < w.layout.copies; c++) {
    const struct copy *at = &w.copy[g][c];
    const struct disk *d;
    uint64_t v;

    if (a->member[at->member].state != MEMBER_IN_SYNC)
      continue;
    d = place_disk (a, at->member);
    v = d->slots[at->slot].durable;
    if (disk_bad (d, at->slot) ||
        (grains[g].base == GARBAGE && grains[g].promised == 0))
      continue;
    /* If more than the base is promised, it was written.  The write has repaired the
     * spot, or the spot came later, and has that content.  For the base, a spot that is
     * in no list may lack the other copy's content when the writer admitted clients:
     * while the other copy is not in-sync nothing is put into a list, and bits stay.
     */
    if (floor == 0 && d->slots[at->slot].spot)
      continue;
    if (w.config.leases ? shared_kept (g, v) != NULL : !possible (g, v, floor))
      sim_fail ("%s: grain %u: its copy on member %u is stable as version "
                "%" PRIu64 ", but %" PRIu64 " is promised",
                what, g, at->member, v, floor);
  }
}

static void
weaken (unsigned g)
{
  if (w.config.leases) {
    shared_fall (g);
    return;
  }
  if (grains[g].floor != grains[g].promised)
    sim_trace ("oracle: grain %u falls from %" PRIu64 " to %" PRIu64, g,
               grains[g].floor, grains[g].promised);
  grains[g].floor = grains[g].acked = grains[g].seen = grains[g].promised;
  grains[g].fell = ++falls; /* earlier reads do not count any longer */
}

/* A member has lost its unflushed data: reads of an unacknowledged write there may be
 * gone, until its host has written it again.
 */
static void
undo (unsigned g)
{
  grains[g].seen = grains[g].acked;
  grains[g].seen_fell = ++falls;
  shared_undo (g);
}

/* A last copy is back without what it had not flushed, and a FLUSH has said so; the
 * other copy, which still had that, now has a bad spot.
 */
static bool
uncovered (const struct asked *q, unsigned g, uint64_t v, uint64_t floor)
{
  return reconnected && floor <= grains[g].gone &&
         (q->read_errors < w.read_errors || unread[g].any >= q->when) &&
         possible (g, v, grains[g].promised);
}

/* When a grain was asked to be this version. */
static uint64_t
asked_at (unsigned g, uint64_t version)
{
  uint64_t v = version ? version : grains[g].last_zero;

  return v > grains[g].low && v <= versions_count ? versions[v].at
                                                  : grains[g].era_at;
}

/* Could anybody tell weftd how far the array is? */
static bool
known (const struct disk *d, const struct disk *before, uint64_t at)
{
  const struct cluster_array_record *a = store_array ();
  const struct cluster_array *heard = cluster_array_find (w.weftd.engine,
                                                          ARRAY_NAME);
  bool peers = false;

  for (unsigned m = 0; m < w.layout.members; m++)
    peers |= (int) m != d->place && a->member[m].state == MEMBER_IN_SYNC &&
             heard && heard->disk[m]->alive;
  return peers || (w.weftd.deaf_at < at && at + OLD_MS * MS < before->copied);
}

/* Does a reader read what a copy has that serves its member, before it has confirmed
 * anything?  It had all that was promised, and what it lacks is of OLD_MS.
 */
static bool
read_of_copy (const struct host_role *h, unsigned g, uint64_t v, uint64_t floor)
{
  const struct cluster_array_record *a = store_array ();
  const struct copy *at = w.copy[g];
  const struct disk *disk;
  uint64_t since = asked_at (g, floor);

  /* An image is read where the member of the data is not in-sync. */
  for (unsigned c = 0; c < w.layout.copies; c++)
    if (a->member[w.copy[g][c].member].state == MEMBER_IN_SYNC) {
      at = &w.copy[g][c];
      break;
    }
  disk = place_disk (a, at->member);

  for (unsigned i = 0; i < w.roles && !owns (h, g); i++) {
    const struct disk *d = &w.disk[i];

    if (d != disk && d->place == (int) at->member &&
        memcmp (d->uuid, disk->uuid, 16) == 0 && d->slots[at->slot].now == v &&
        d->slots[at->slot].good &&
        (since <= d->copied + OLD_MS * MS || !known (d, disk, since)))
      return true;
  }
  return false;
}

static void
read_done (struct host_role *h, struct asked *q, struct array_request *r)
{
  counters.reads_judged++;
  for (unsigned i = 0; i < q->count; i++) {
    unsigned g = q->first + i;
    uint64_t v = grain_version ((char *) r->buf + i * grain_bytes,
                                r->offset / grain_bytes + i, "what was read");
    bool fell = grains[g].fell > q->falls;
    bool own = owns (h, g);
    bool undone = grains[g].seen_fell > q->falls || grains[g].left ||
                  oracle_session_ended (grains[g].writer);
    /* at least this */
    uint64_t floor = q->floors[(fell             ? q->count
                                : undone && !own ? 3 * q->count
                                                 : 0) +
                               i];

    if (v == GARBAGE || v > versions_count)
      sim_fail ("host %u reads what nobody has written", h->proc.number);
    if (q->floors[2 * q->count + i] != grains[g].era ||
        (oracle_session_ended (q->session) && !q->alone))
      continue; /* it may be late */
    if (!possible (g, v, floor) && uncovered (q, g, v, floor)) {
      weaken (g);
      continue;
    }
    if (!possible (g, v, floor) && !read_of_copy (h, g, v, floor))
      sim_fail ("host %u reads grain %u (at %" PRIu64 ") as version %" PRIu64
                ", but it was %" PRIu64 " before",
                h->proc.number, g, grain_offset (g), v, floor);
    counters.elsewhere += h->part_length && !own;
    if (own && !fell)
      raise_to (&grains[g].floor, v > grains[g].low ? v : 0);
    if (!fell && !undone)
      raise_to (&grains[g].seen, v > grains[g].low ? v : 0);
  }
}

/* A power cut came while it was under way, and the writer has not connected that member
 * again: the part that was there may be lost, and was not sent again.
 */
static bool
cut_under_way (const struct host_role *h, const struct asked *q, unsigned g)
{
  const struct cluster_array_record *a = store_array ();
  bool unseen = false;

  for (unsigned c = 0; c < w.layout.copies; c++)
    unseen |= place_disk (a, w.copy[g][c].member)->unseen >> h->proc.number & 1;
  return unseen && grains[g].fell > q->falls;
}

static void
write_done (struct host_role *h, struct asked *q, const struct array_request *r)
{
  bool fua = r->flags & ARRAY_FUA, over = oracle_session_ended (q->session);
  struct lapses *lapses = &writers[h->proc.number].lapses;

  if (q->outside)
    sim_fail ("host %u: a write of %" PRIu64 " bytes at %" PRIu64
              " is acknowledged, but it is not within its part",
              h->proc.number, r->length, r->offset);
  if (q->ended && fua)
    sim_fail ("host %u: a FUA write is acknowledged, but the session was over",
              h->proc.number);
  if (q->session != grains[q->first].writer || q->ended)
    return;
  oracle_moment++;
  for (unsigned i = 0; i < q->count; i++) {
    struct grain *g = &grains[q->first + i];

    if (g->owed < q->version) {
      g->owed = q->version;
      g->owed_epoch = q->epoch;
    }
    g->mine[q->client].version = q->version;
    g->mine[q->client].at = oracle_moment;
    for (unsigned c = 0; c < w.layout.copies && !fua; c++)
      lapses->client[q->client].wrote[w.copy[q->first + i][c].member] =
        oracle_moment;
    /* An evicted host may not know it yet, and no member is fenced yet: its acknowledged
     * data is lost with it, except stable data.
     */
    if ((over || cut_under_way (h, q, q->first + i)) && !fua)
      continue;
    raise_to (&g->acked, q->version);
    raise_to (&g->floor, q->version);
    raise_to (&g->seen, q->version);
    if (fua) {
      raise_to (&g->promised, q->version);
      oracle_check_stable (q->first + i, g->promised, "a FUA write is done");
    }
  }
}

/* Data acknowledged before the FLUSH was requested is stable, as far as it is there; its
 * client, and so at least one client, knows of all losses.
 */
static void
flush_over (const struct host_role *h, const struct asked *q)
{
  lapses_told (&writers[h->proc.number].lapses, q->client, q->at);
  for (unsigned g = 0; g < w.grains; g++)
    if (grains[g].writer == q->session && grains[g].mine[q->client].at < q->at)
      grains[g].mine[q->client].version = 0;
}

/* The round that a disk has noted; 0: none, or it is to forget all. */
static uint64_t
noted (struct disk *d)
{
  struct superblock sb;
  const char *why;

  return superblock_newest (d->header, &sb, &why) == -1 ? 0 : sb.round;
}

/* Members that were in-sync, and are out as its host knows, are two rounds behind all
 * members in sync.  An import relies on that if all members that knew it are gone.
 */
static void
check_outrun (const struct host_role *h)
{
  const struct cluster_array_record *a = store_array ();

  for (unsigned m = 0; m < w.layout.members; m++)
    for (unsigned i = 0; i < w.layout.members; i++)
      if (h->states[m] == MEMBER_OUT && a->member[m].state == MEMBER_OUT &&
          !joined[m] && h->states[i] == MEMBER_IN_SYNC &&
          a->member[i].state == MEMBER_IN_SYNC &&
          noted (place_disk (a, m)) + 2 > noted (place_disk (a, i)))
        sim_fail ("a FLUSH is done: member %u, which is out, has round %" PRIu64
                  ", and member %u has %" PRIu64,
                  m, noted (place_disk (a, m)), i, noted (place_disk (a, i)));
}

static void
flush_done (const struct host_role *h, struct asked *q)
{
  counters.flushes++;
  if (!is_writer (q->session) || q->ended)
    return;
  if (h->part_length == 0)
    check_outrun (h);
  for (unsigned g = 0; g < w.grains; g++) {
    bool own = grains[g].writer == q->session;

    if (own && q->floors[g] > grains[g].gone)
      raise_to (&grains[g].promised, q->floors[g]);
    oracle_check_stable (g, grains[g].promised, "a FLUSH is done");
    if (own && grains[g].mine[q->client].at < q->at)
      oracle_check_stable (g, grains[g].mine[q->client].version,
                           "a FLUSH of who has written it is done");
  }
  flush_over (h, q);
}

/* Has something of it no copy that can be read, for disks have failed?  A
 * reader may read the data copy alone.
 */
static bool
unreadable (const struct host_role *h, const struct asked *q)
{
  const struct cluster_array_record *a = store_array ();

  for (unsigned i = 0; i < q->count; i++) {
    bool any = false;

    for (unsigned c = 0; c < (owns (h, q->first + i) ? w.layout.copies : 1);
         c++) {
      unsigned m = w.copy[q->first + i][c].member;
      const struct member *e = w.member[place_disk (a, m)->number].engine;

      any |= a->member[m].state == MEMBER_IN_SYNC && e && !member_failed (e);
    }
    if (!any)
      return true;
  }
  return false;
}

void
oracle_unread (unsigned g, unsigned member)
{
  const struct cluster_array_record *a = store_array ();
  bool other = false;

  for (unsigned c = 0; c < w.layout.copies; c++) {
    const struct copy *at = &w.copy[g][c];
    const struct disk *d = place_disk (a, at->member);

    if (at->member == member && c == 0)
      unread[g].data = sim_now;
    other |= at->member != member &&
             a->member[at->member].state == MEMBER_IN_SYNC &&
             !d->slots[at->slot].spot && !disk_bad (d, at->slot);
  }
  if (shared_exposed (g))
    weaken (g);
  unread[g].any = sim_now;
  if (!other)
    unread[g].hopeless = sim_now;
}

/* Is there a copy that the host may read, as far as it knows? */
static bool
known_copy (const struct host_role *h, unsigned g)
{
  for (unsigned c = 0; c < w.layout.copies; c++) {
    const struct copy *at = &w.copy[g][c];
    const struct disk *d = place_disk (store_array (), at->member);

    if (h->states[at->member] == MEMBER_IN_SYNC && !d->slots[at->slot].spot &&
        !disk_bad (d, at->slot))
      return true;
  }
  return false;
}

/* Was there a moment since it was asked when no copy of something could be read, or,
 * by a reader, not the one that it reads?  Or is there none that the host knows of: it
 * may not have heard of a commit.
 */
static bool
hopeless (const struct host_role *h, const struct asked *q)
{
  for (unsigned i = 0; i < q->count; i++) {
    const struct unread *u = &unread[q->first + i];

    if (u->hopeless >= q->when ||
        (!owns (h, q->first + i) && u->data >= q->when) ||
        (u->any >= q->when && !known_copy (h, q->first + i)))
      return true;
  }
  return false;
}

static void
failed (struct host_role *h, struct asked *q, struct array_request *r)
{
  counters.errors++;
  if (r->error == ESHUTDOWN || oracle_session_ended (q->session) ||
      h->stage == HOST_OVER)
    return;
  if (q->outside && r->error == EPERM) {
    counters.refused++;
    return;
  }
  if (r->op == ARRAY_FLUSH && r->error == EIO && q->may) {
    flush_over (h, q);
    if (w.config.leases)
      shared_flush_failed (h, q);
    for (unsigned g = 0; g < w.grains; g++)
      if (grains[g].writer == q->session)
        raise_to (&grains[g].gone, q->floors[g]);
    return;
  }
  if (r->op == ARRAY_READ && r->error == EIO &&
      (q->read_errors < w.read_errors || unreadable (h, q) || hopeless (h, q)))
    return;
  sim_fail ("host %u: a client sees an error: op %d at %" PRIu64 ": %s",
            h->proc.number, r->op, r->offset, strerror (r->error));
}

void
oracle_forget (struct asked *q)
{
  *q->prev = q->next;
  if (q->next)
    q->next->prev = q->prev;
  free (q->floors);
  free (q);
}

static void
leases_done (struct host_role *h, struct asked *q,
             const struct array_request *r)
{
  struct lapses *lapses = &writers[h->proc.number].lapses;

  counters.reads_judged += r->op == ARRAY_READ;
  counters.flushes += r->op == ARRAY_FLUSH;
  oracle_moment++;
  shared_done (h, q, r);
  if (r->op == ARRAY_FLUSH)
    flush_over (h, q);
  else if (r->op != ARRAY_READ && !(r->flags & ARRAY_FUA))
    for (unsigned i = 0; i < q->count; i++)
      for (unsigned c = 0; c < w.layout.copies; c++)
        lapses->client[q->client].wrote[w.copy[q->first + i][c].member] =
          oracle_moment;
}

void
oracle_came (const struct host_role *h)
{
  struct lapses *lapses = &writers[h->proc.number].lapses;

  oracle_moment++;
  for (unsigned m = 0; m < w.layout.members; m++)
    lapses->client[JUDGE_CLIENTS].wrote[m] = oracle_moment;
}

uint64_t
oracle_oldest (unsigned g)
{
  uint64_t oldest = oracle_moment;

  for (const struct asked *q = under_way; q; q = q->next)
    if (q->first <= g && g < q->first + q->count && oldest > q->at)
      oldest = q->at;
  return oldest;
}

void
oracle_done (struct host_role *h, struct asked *q, struct array_request *r)
{
  if (r->error)
    failed (h, q, r);
  else if (w.config.leases)
    leases_done (h, q, r);
  else if (r->op == ARRAY_READ)
    read_done (h, q, r);
  else if (r->op == ARRAY_FLUSH)
    flush_done (h, q);
  else
    write_done (h, q, r);
  oracle_forget (q);
}

/* ---- Eras, and what weakens them. ---- */

/* If it has a copy on this member. */
static void
weaken_copy (unsigned g, unsigned member)
{
  for (unsigned c = 0; c < w.layout.copies; c++)
    if (w.copy[g][c].member == member)
      weaken (g);
}

uint64_t
oracle_agreed (unsigned g, const char *what, bool spots)
{
  const struct cluster_array_record *a = store_array ();
  uint64_t value = GARBAGE;

  for (unsigned c = 0; c < w.layout.copies; c++) {
    const struct copy *at = &w.copy[g][c];
    const struct disk *d;
    uint64_t v;

    if (a->member[at->member].state != MEMBER_IN_SYNC)
      continue;
    d = place_disk (a, at->member);
    v = d->slots[at->slot].now;
    if (disk_bad (d, at->slot) || (!spots && d->slots[at->slot].spot))
      continue;
    if (value != GARBAGE && v != value)
      sim_fail ("%s: grain %u (at %" PRIu64 "): copy %u on member %u is version"
                " %" PRIu64 ", another %" PRIu64,
                what, g, grain_offset (g), c, at->member, v, value);
    value = v;
  }
  return value;
}

/* The value of a grain that no copy can be read of, where those that are in no list
 * have the same: a member that joins may have it, too.
 */
static uint64_t
hidden (unsigned g)
{
  const struct cluster_array_record *a = store_array ();
  uint64_t value = GARBAGE;

  for (unsigned c = 0; c < w.layout.copies; c++) {
    const struct copy *at = &w.copy[g][c];
    const struct disk *d = place_disk (a, at->member);

    if (a->member[at->member].state != MEMBER_IN_SYNC || disk_bad (d, at->slot))
      continue;
    if (value != GARBAGE && value != d->slots[at->slot].now)
      return GARBAGE;
    value = d->slots[at->slot].now;
  }
  return value;
}

/* The content, on an out member, of a grain that all in-sync members have in their lists:
 * it is read when that member is in-sync again, if it is new enough.  GARBAGE: none
 * is.
 */
static uint64_t
kept_elsewhere (unsigned g)
{
  const struct cluster_array_record *a = store_array ();
  uint64_t value = GARBAGE;

  for (unsigned c = 0; c < w.layout.copies; c++) {
    const struct copy *at = &w.copy[g][c];
    const struct disk *d = place_disk (a, at->member);

    if (d->place != (int) at->member || disk_bad (d, at->slot))
      continue;
    if (a->member[at->member].state == MEMBER_IN_SYNC)
      return GARBAGE;
    if (possible (g, d->slots[at->slot].now, grains[g].promised))
      value = d->slots[at->slot].now;
  }
  return value;
}

/* The content of a grain when a new writer admits clients: the base of its era. */
static uint64_t
base (unsigned g)
{
  uint64_t v = oracle_agreed (g, "a writer lets clients in", false);
  bool bad = v == GARBAGE; /* no copy that counts can be read */

  if (bad)
    v = hidden (g);
  if (bad && disk_spots () &&
      (v == GARBAGE || (grains[g].base == GARBAGE && grains[g].promised == 0)))
    ; /* nothing may be read there before it is written, or could be last time */
  else if (v == GARBAGE || !possible (g, v, grains[g].promised))
    sim_fail ("a writer lets clients in: grain %u (at %" PRIu64 ") is version "
              "%" PRIu64 ", but %" PRIu64 " is promised",
              g, grain_offset (g), v, grains[g].promised);
  else if (!bad && !grains[g].beside &&
           store_array ()->lapse <= grains[g].owed_epoch &&
           !possible (g, v, grains[g].owed))
    sim_fail ("a writer lets clients in: grain %u (at %" PRIu64 ") is version "
              "%" PRIu64 ", but %" PRIu64 " was answered in epoch %" PRIu64
              ", and the lapse is %" PRIu64,
              g, grain_offset (g), v, grains[g].owed, grains[g].owed_epoch,
              store_array ()->lapse);
  return v == GARBAGE ? kept_elsewhere (g) : v;
}

void
oracle_serving (struct host_role *h)
{
  struct lapses *lapses = &writers[h->proc.number].lapses;

  if (oracle_session_ended (h->session) || is_writer (h->session))
    return;
  eras++;
  if (w.config.leases)
    shared_serving (h);
  for (unsigned g = 0; g < w.grains; g++)
    if (owns (h, g) && !w.config.leases)
      grains[g] = (struct grain) { .base = base (g),
                                   .holder = grains[g].holder,
                                   .writer = h->session,
                                   .beside = h->part_length > 0,
                                   .era = eras,
                                   .era_at = sim_now,
                                   .low = versions_count };
  for (unsigned i = 0; i < w.roles; i++)
    for (unsigned s = 0; s < w.disk[i].slots_count; s++)
      if (owns (h, w.place[w.disk[i].place].grain[s]) && !w.config.leases)
        w.disk[i].slots[s].cut = false;
  writers[h->proc.number].epoch = store_array ()->epoch;
  *lapses = (struct lapses) { .stable = lapses->stable };
  for (struct asked *q = under_way; q; q = q->next)
    if (q->session == h->session)
      q->may = false;
}

void
oracle_writer_gone (uint64_t session)
{
  if (w.config.leases)
    shared_writer_gone (session);
  for (unsigned g = 0; g < w.grains; g++)
    if (grains[g].writer == session) {
      weaken (g);
      grains[g].left = true;
      raise_to (&grains[g].gone, grains[g].owed);
    }
}

void
oracle_granted (const struct cluster_session_record *s, bool beside)
{
  if (newest != s->id && !beside)
    reconnected = false;
  newest = s->id;
  for (unsigned g = 0; g < w.grains; g++)
    if (s->part.length == 0 ||
        grain_offset (g) - s->part.offset < s->part.length)
      grains[g].holder = s->id;
}

void
oracle_recovers (const struct host_role *h, unsigned g)
{
  uint64_t holder = grains[g].holder;

  if (oracle_session_ended (h->session))
    return;
  if (holder && holder != h->session && !oracle_session_ended (holder))
    sim_fail ("host %u recovers grain %u, which session %016" PRIx64 " holds",
              h->proc.number, g, holder);
  grains[g].holder = h->session;
}

void
oracle_recovered (const struct host_role *h, unsigned g)
{
  if (grains[g].holder != h->session)
    return;
  grains[g].holder = 0;
  if (!oracle_session_ended (h->session))
    oracle_agreed (g, "a part is recovered", false);
}

void
oracle_changes (uint64_t session, unsigned grain, unsigned member)
{
  const struct cluster_array_record *a = store_array ();

  if (w.config.leases) {
    shared_changes (session, grain, member);
    return;
  }
  /* A range that was recovered is nobody's until a session attaches, and that fences all
   * members first.  The host that recovered it may have lost a joining member, which begins
   * again.
   */
  if (grains[grain].holder == 0 && !oracle_session_ended (session) &&
      a->member[member].state == MEMBER_JOINING)
    return;
  if (a->member[member].state != MEMBER_OUT && grains[grain].holder != session)
    sim_fail ("member %u carries out a write of session %016" PRIx64
              " to grain %u, which session %016" PRIx64 " holds",
              member, session, grain, grains[grain].holder);
}

/* Has the member all of this copy that it should have, as far as weftd knows? */
static bool
whole (const struct cluster_array_record *a, const struct copy *copy)
{
  const struct disk *d = place_disk (a, copy->member);

  return a->member[copy->member].state == MEMBER_IN_SYNC &&
         !d->slots[copy->slot].cut && w.member[d->number].proc.life != 0;
}

bool
oracle_whole (unsigned g)
{
  for (unsigned c = 0; c < w.layout.copies; c++)
    if (!whole (store_array (), &w.copy[g][c]))
      return false;
  return true;
}

void
oracle_power_cut (struct disk *d)
{
  const struct cluster_array_record *a = store_array ();
  unsigned member = d->place;

  d->unseen = EVERY_HOST;
  for (unsigned s = 0; s < d->slots_count; s++)
    d->slots[s].cut = true;
  if (a == NULL || d->place < 0 || place_disk (a, member) != d)
    return;
  for (unsigned g = 0; g < w.grains; g++) {
    bool here = false, others = true;

    for (unsigned c = 0; c < w.layout.copies; c++)
      if (w.copy[g][c].member == member)
        here = true;
      else
        others &= whole (a, &w.copy[g][c]);
    if (here)
      undo (g);
    if (here && (!others || shared_exposed (g)))
      weaken (g);
  }
}

void
oracle_linked (const struct host_role *h, unsigned member)
{
  struct disk *d = place_disk (store_array (), member);
  unsigned us = h->writable ? 1u << h->proc.number : 0;

  d->unseen &= ~us;
  d->erred &= ~us;
}

void
oracle_closed (const struct host_role *h, unsigned client)
{
  if (!is_writer (h->session))
    return;
  lapses_close (&writers[h->proc.number].lapses, client);
  for (unsigned g = 0; g < w.grains; g++)
    if (grains[g].writer == h->session)
      memset (&grains[g].mine[client], 0, sizeof grains[g].mine[client]);
}

/* ---- Disks that are rolled back. ---- */

void
oracle_copied (struct disk *copy)
{
  for (unsigned s = 0; s < copy->slots_count; s++) {
    unsigned g = w.place[copy->place].grain[s];

    /* A grain that was readable nowhere when clients were admitted may be anything. */
    copy->slots[s].good = possible (g, copy->slots[s].now,
                                    grains[g].promised) ||
                          (grains[g].base == GARBAGE &&
                           grains[g].promised == 0);
  }
}

/* It has what it had when it was copied, and the disk, until another took its place,
 * something else.
 */
static void
excuse (const struct disk *d, unsigned slot, const struct disk *before)
{
  unsigned g = w.place[d->place].grain[slot];
  const struct slot *s = &d->slots[slot];
  uint64_t promised = grains[g].promised;
  bool stale = !possible (g, s->now, promised);
  uint64_t at = asked_at (g, stale ? promised : before->slots[slot].now);
  bool young = at <= d->copied + OLD_MS * MS;

  if (stale && !s->good)
    sim_fail (
      "disk %u is taken for member %u itself, though it lacked grain %u "
      "when the copy was made: it has version %" PRIu64 ", and %" PRIu64
      " is promised",
      d->number, d->place, g, s->now, promised);
  if (!young && !stale)
    return;
  if (!young && known (d, before, at))
    sim_fail (
      "disk %u, a copy of %" PRIu64 " ms, is taken for member %u itself: "
      "grain %u is version %" PRIu64 " there, and %" PRIu64 " is promised, "
      "of %" PRIu64 " ms after it",
      d->number, (sim_now - d->copied) / MS, d->place, g, s->now, promised,
      (at - d->copied) / MS);
  sim_trace ("oracle: grain %u may be version %" PRIu64, g, s->now);
  grains[g].excused = s->now + 1;
  grains[g].excused_up_to = versions_count;
}

void
oracle_taken (struct disk *d, const struct disk *before)
{
  const struct cluster_array_record *a = store_array ();

  if (a == NULL || !w.created || d->place < 0 ||
      place_disk (a, d->place) != d ||
      a->member[d->place].state != MEMBER_IN_SYNC)
    return;
  for (unsigned s = 0; s < d->slots_count; s++)
    if (before->place == d->place && d->slots[s].now != before->slots[s].now)
      excuse (d, s, before);
  oracle_power_cut (d);
  oracle_bits_fell ();
}

bool
oracle_rolled_back (void)
{
  for (unsigned g = 0; g < w.grains; g++)
    if (grains[g].excused && grains[g].floor <= grains[g].excused_up_to)
      return true;
  return false;
}

/* The writer has connected a member again.  A part of its acknowledged data until now,
 * also since the COMMIT that gave the member back, may have gone with the member's cache.
 * Data acknowledged from now on is there: the writer sends writes under way again.
 */
void
oracle_relinked (const struct host_role *h, unsigned member, bool aged)
{
  const struct cluster_array_record *a = store_array ();
  struct disk *d = place_disk (a, member);
  bool unseen = d->unseen >> h->proc.number & 1;
  bool erred = d->erred >> h->proc.number & 1;

  if (is_writer (h->session) && (unseen || erred || aged) &&
      lapses_add (&writers[h->proc.number].lapses, member))
    for (struct asked *q = under_way; q; q = q->next)
      q->may |= q->session == h->session;
  if (unseen && a->member[member].state == MEMBER_IN_SYNC)
    for (unsigned g = 0; g < w.grains; g++)
      if (w.config.leases ? shared_is_writer (h->session)
                          : grains[g].writer == h->session)
        weaken_copy (g, member);
  oracle_linked (h, member);
}

/* Was a member that could not be left out away in this era, or did one join while two of
 * its group were not in-sync?  Then not all bits are cleared before the array is attached
 * again.
 */
bool
oracle_reconnected (void)
{
  return reconnected;
}

/* Does a member join that shall have a third copy, while another one lacks it? */
static bool
joins_as_third (const struct cluster_array_record *a)
{
  for (unsigned m = 0; w.layout.copies > 2 && m < w.layout.members; m++)
    for (unsigned i = 0; i < w.layout.members; i++)
      if (a->member[m].state == MEMBER_JOINING && i != m &&
          i / w.layout.n == m / w.layout.n &&
          a->member[i].state != MEMBER_IN_SYNC)
        return true;
  return false;
}

/* A member that lost its cache is still in-sync in a new epoch: its lost data may be lost
 * for good.
 */
void
oracle_committed (const struct cluster_array_record *before,
                  const struct cluster_array_record *now)
{
  bool fenced = false;

  for (unsigned m = 0; m < w.layout.members; m++) {
    struct disk *d = place_disk (now, m);

    if (now->member[m].state != MEMBER_OUT)
      joined[m] = now->member[m].state == MEMBER_JOINING;
    if (now->member[m].state != MEMBER_IN_SYNC) {
      for (unsigned g = 0;
           before->member[m].state == MEMBER_IN_SYNC && g < w.grains; g++)
        if (shared_exposed (g))
          weaken_copy (g, m);
      continue;
    }
    fenced |= before->member[m].state == MEMBER_IN_SYNC &&
              before->member[m].fence < now->member[m].fence;
    for (unsigned g = 0; g < w.grains; g++)
      for (unsigned c = 0; c < w.layout.copies; c++) {
        struct slot *s = &d->slots[w.copy[g][c].slot];

        if (w.copy[g][c].member != m)
          continue;
        if (before->member[m].state == MEMBER_JOINING)
          s->cut = false;
        if (s->cut)
          weaken (g);
      }
  }
  shared_committed (before, now);
  reconnected |= fenced || joins_as_third (before) || joins_as_third (now);
}

/* ---- Looks at the disks. ---- */

/* Where no copy of a grain has its bit, the copies are the same, and stable. */
void
oracle_bits_fell (void)
{
  const struct cluster_array_record *a = store_array ();

  if (a == NULL || !w.created)
    return;
  for (unsigned g = 0; g < w.grains; g++) {
    bool bit = false;

    for (unsigned c = 0; c < w.layout.copies; c++) {
      const struct copy *at = &w.copy[g][c];
      const struct disk *d = place_disk (a, at->member);

      bit |= a->member[at->member].state == MEMBER_IN_SYNC &&
             d->bits >> (slot_offset (at->member, at->slot) / EXTENT_BYTES) & 1;
    }
    if (bit || oracle_agreed (g, "its intent bits are clear", true) == GARBAGE)
      continue;
    for (unsigned c = 0; c < w.layout.copies; c++) {
      const struct copy *at = &w.copy[g][c];
      const struct slot *s = &place_disk (a, at->member)->slots[at->slot];

      if (a->member[at->member].state == MEMBER_IN_SYNC && s->now != s->durable)
        sim_fail ("grain %u has no intent bit any more, but its copy on member "
                  "%u is not stable",
                  g, at->member);
    }
  }
}

void
oracle_quiet (void)
{
  for (unsigned g = 0; g < w.grains; g++) {
    uint64_t v = oracle_agreed (g, "all is quiet", false);

    oracle_agreed (g, "all is quiet", true);

    for (unsigned c = 0; c < w.layout.copies; c++) {
      const struct copy *at = &w.copy[g][c];

      if (disk_bad (place_disk (store_array (), at->member), at->slot) &&
          unread[g].hopeless == 0)
        sim_fail ("all is quiet: grain %u is bad on member %u, but was there "
                  "always a copy that could be read",
                  g, at->member);
    }
    if (v == GARBAGE && disk_spots ())
      continue;
    if (w.config.leases)
      shared_quiet (g, v);
    else if (!possible (g, v, grains[g].floor))
      sim_fail ("all is quiet: grain %u (at %" PRIu64 ") is version %" PRIu64
                ", but it was %" PRIu64 " before",
                g, grain_offset (g), v, grains[g].floor);
  }
}
