/* sick.c: slow disks, and lines that drop packets, while the processes at both ends run
 * and weftd hears them.
 *
 * Some worlds have them, or all (--sick).  Their random numbers come from a stream of
 * their own, so that the other worlds stay the same.
 *
 *   slow disk   Each request takes some 100 ms to 3 s.  A writer that uses the member finds
 *               it slow, and weftd names it.  The member goes out only if the array has
 *               slow_out_ms.  No member is called slow that has answered everything
 *               quickly for 20 s.
 *   line        All packets from one party to another are dropped, or only the large ones
 *               (net.c).  If other members have copies of everything, no client waits longer
 *               than PATIENCE for each member behind the line.  A reader's bad line puts no
 *               member out: a read whose only copy is behind that line waits.
 *
 * Each is checked only while there is no other fault.
 */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "faults.h"

#define LOOK (500 * MS)
/* A writer's next check, its next heartbeat, and requests under way. */
#define TOLD (4 * SECOND)
/* The verdict names a member that has been slow for 10 s. */
#define NAMED (TOLD + 11 * SECOND)
/* Averages go back up to 10 s, and a process needs time to recover after a fault. */
#define WELL (20 * SECOND)
/* TCP tries four times in 3 s, and each end checks once a second.  Then the host tells
 * weftd, and weftd asks the members.
 */
#define PATIENCE (5 * SECOND)
/* If the writer has lost a healthy member, it is given back at most this much later
 * (RECONNECT_MS_MAX).
 */
#define AGAIN (10 * SECOND)
/* weftd stores a change and its COMMIT, after what it was storing before. */
#define CHANGED (3 * STORED)
/* One of several writers notices the loss, after the longest time-out at most.  It is
 * without the member for APART_MS, while heartbeats of the others show that they reach the
 * member.  Then its session ends, and the others get its leases.
 */
#define APART (28 * SECOND)
/* A reader cannot ask for a sign of life, so it may need the longest time-out. */
#define READER_TOLD (IO_TIMEOUT_MS_DEFAULT * MS + PATIENCE)

static uint64_t stream;

/* splitmix64, as sim_random. */
static uint64_t
draw (uint64_t n)
{
  uint64_t z = (stream += 0x9e3779b97f4a7c15);

  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return (z ^ (z >> 31)) % n;
}

static uint64_t
draw_between (uint64_t a, uint64_t b)
{
  return a + draw (b - a + 1);
}

void
sick_choose (struct config *c, uint64_t seed)
{
  stream = seed * 0x9e3779b97f4a7c15 + 2;
  if (draw (100) >= 2 && !world_sick)
    return;
  c->sick = true;
  c->work_ns = draw_between (40, 90) * SECOND;
  c->flaky = 0;
  if (draw (100) < 60)
    c->faults_ms = 0;
  c->io_timeout_ms = IO_TIMEOUT_MS_DEFAULT;
  if (c->client_us < 4000) /* these worlds are long */
    c->client_us = 4000;
  c->slow_out_ms = draw (100) < 30 ? draw_between (5, 15) * 1000 : 0;
  c->syncs = draw (100) < 25;
  if (c->syncs) {
    c->client_us = draw_between (200, 1500) * 1000;
    c->faults_ms = 0;
  }
}

/* ---- Slow disks ---- */

bool
disk_slow (const struct disk *d)
{
  return sim_now < d->slow_until;
}

/* Requests from the slow time may still be under way. */
static bool
was_slow (const struct disk *d)
{
  return sim_now < d->slow_until + 2 * d->slow_syncs * d->slow_ns;
}

uint64_t
disk_slow_ns (const struct disk *d)
{
  return disk_slow (d) ? d->slow_ns / 100 * draw_between (75, 125) : 0;
}

/* Its process reads a block every PULSE_MS, and that takes as long as any request. */
uint64_t
disk_slow_stuck_ms (const struct disk *d)
{
  uint64_t at = (sim_now - d->slow_from) % (d->slow_ns + PULSE_MS * MS);
  uint64_t since = sim_now - d->answered_at;

  if (!disk_slow (d) || at < PULSE_MS * MS)
    return 0;
  at -= PULSE_MS * MS;
  return (at < since ? at : since) / MS;
}

/* A writer's knowledge of a member: the newest answers, of the last 5 s at most. */
struct known {
  unsigned answers;
  uint64_t sum_ns, least_ns;
};

static struct known
known_of (const struct peer *p)
{
  struct known k = { .least_ns = UINT64_MAX };

  for (unsigned i = 0; i < TIMED && i < p->timed_count; i++)
    if (p->timed[i].at + 5 * SECOND > sim_now) {
      k.answers++;
      k.sum_ns += p->timed[i].took;
      if (k.least_ns > p->timed[i].took)
        k.least_ns = p->timed[i].took;
    }
  return k;
}

static bool
knows_well (const struct known *k)
{
  return k->answers == TIMED ||
         (k->least_ns >= 400 * MS && k->answers > 0 && k->sum_ns >= 2500 * MS);
}

/* Does a writer have enough answers to find this member slow, and all others quick? */
static bool
must_be_found (unsigned place)
{
  for (unsigned i = 0; i < w.config.hosts; i++) {
    const struct host_role *h = &w.host[i];
    struct known k = known_of (&h->peer[place]);
    bool quick = h->writable && h->stage == HOST_SERVING && knows_well (&k) &&
                 k.least_ns >= 90 * MS;
    bool well_known = false;

    for (unsigned m = 0; quick && m < w.layout.members; m++)
      if (m != place) {
        struct known other = known_of (&h->peer[m]);

        well_known |= other.answers == TIMED;
        quick = other.sum_ns * 8 <= k.least_ns * other.answers;
      }
    if (quick && well_known)
      return true;
  }
  return false;
}

/* A member without room answers late, or not at all. */
static bool
lacks_room (void)
{
  for (unsigned i = 0; i < w.roles; i++)
    if (w.disk[i].full_until > sim_now)
      return true;
  return false;
}

static const struct cluster_array *
engine_array (void)
{
  return cluster_array_find (w.weftd.engine, ARRAY_NAME);
}

static bool
is_named (unsigned place)
{
  char text[20000], words[40];

  snprintf (words, sizeof words, "Member %u (", place);
  cluster_verdict (w.weftd.engine, text, sizeof text);
  for (const char *at = text; (at = strstr (at, words)) != NULL; at++) {
    const char *slow = strstr (at, "is slow"), *end = strstr (at, ". ");

    if (slow && (end == NULL || slow < end))
      return true;
  }
  return false;
}

/* Has a writer waited for an answer of the member for a second or more? */
static bool
is_waited_for (unsigned place)
{
  for (unsigned i = 0; i < w.config.hosts; i++) {
    const struct host_role *h = &w.host[i];
    const struct nbd *n = h->peer[place].data ? h->peer[place].data->in_flight
                                              : NULL;

    for (; n && h->writable && h->stage == HOST_SERVING; n = n->client_next)
      if (n->sent + SECOND <= sim_now)
        return true;
  }
  return false;
}

/* If a member was called slow, is still slow, and a writer waits for it, it stays named.
 * With several writers this is not checked: one may call it slow, and another wait for it.
 */
static void
judge_known (const struct member_role *m, unsigned place, bool found)
{
  struct disk *d = m->disk;

  if (is_waited_for (place))
    d->waited_at = sim_now;
  if (found) {
    d->known_at = sim_now;
    d->known_losses = counters.losses;
  }
  else if (w.config.shared || w.config.leases || d->slow_ns < 300 * MS ||
           counters.losses != d->known_losses || sim_now - d->waited_at > TOLD)
    d->known_at = 0;
  else if (d->known_at && sim_now - d->known_at > TOLD)
    sim_fail ("the disk of member %u takes %" PRIu64
              " ms for each request, and is called slow no more",
              m->proc.number, d->slow_ns / MS);
}

static void
judge_slow (struct member_role *m, unsigned place)
{
  struct disk *d = m->disk;
  uint64_t us, others_us, found_ns, out_ns;
  bool found = cluster_member_slow (engine_array (), place, &us, &others_us);

  if (found || !must_be_found (place))
    d->owed_at = sim_now;
  if (!found)
    d->found_at = sim_now;
  counters.slow_found += found;
  judge_known (m, place, found);
  if (sim_now - d->slow_calm < WELL / 2)
    return;
  if (!found && sim_now - d->owed_at > TOLD)
    sim_fail ("the disk of member %u takes %" PRIu64
              " ms for each request, and nobody finds it slow",
              m->proc.number, d->slow_ns / MS);
  found_ns = sim_now - d->found_at;
  out_ns = store_array ()->slow_out_ms * MS; /* an import forgets it */
  if (store_array ()->to_recover)
    d->kept_at = sim_now;
  if (found_ns > NAMED && !is_named (place))
    sim_fail ("member %u has been slow for %" PRIu64
              " ms, and the verdict does not name it",
              m->proc.number, found_ns / MS);
  /* All writers prepare for this change, or for one before it, with requests to this
   * disk.
   */
  if (store_array ()->change.epoch)
    out_ns += WELL;
  if (store_array ()->slow_out_ms && found_ns > out_ns + 5 * SECOND &&
      sim_now - d->kept_at > 5 * SECOND)
    sim_fail ("member %u has been slow for %" PRIu64 " ms, and it is in-sync "
              "still",
              m->proc.number, found_ns / MS);
}

static void
look_slow (void *what)
{
  struct member_role *m = what;
  struct disk *d = m->disk;
  const struct cluster_array_record *a = store_array ();
  uint64_t state = m->proc.life && !lacks_room () ? fault_state_but (m) : 0;
  int place = d->place;

  if (w.healing || !disk_slow (d))
    return;
  if (state == 0 || state != d->slow_state || place < 0 ||
      place_disk (a, place) != d || disk_hangs (d) || m->slow > 1 ||
      a->member[place].state != MEMBER_IN_SYNC ||
      !fault_others_in_sync (place)) {
    d->slow_state = state;
    d->owed_at = d->found_at = d->slow_calm = sim_now;
    d->known_at = 0;
  }
  else
    judge_slow (m, place);
  fault_later (LOOK, look_slow, m);
}

static bool
make_slow (struct member_role *m, uint64_t ns)
{
  struct disk *d = m->disk;

  if (disk_slow (d))
    return false;
  d->slow_from = d->answered_at = sim_now;
  d->slow_until = sim_now + ns;
  d->slow_ns = draw (100) < 50 ? draw_between (100, 600) * MS
                               : draw_between (600, 2800) * MS;
  d->slow_syncs = w.config.syncs ? draw_between (2, 6) : 1;
  d->slow_state = 0;
  counters.slows++;
  TRACE (&m->proc,
         "has a disk that takes %" PRIu64 " ms a request for %" PRIu64 " ms",
         d->slow_ns / MS, ns / MS);
  look_slow (m);
  return true;
}

void
sick_check_out (const struct cluster_array_record *before,
                const struct cluster_array_record *now, unsigned m)
{
  if (before->member[m].state == MEMBER_IN_SYNC &&
      now->member[m].state == MEMBER_OUT && now->slow_out_ms == 0 &&
      !w.config.slow_out_ms &&
      (now->member[m].slow || strstr (now->member[m].reason, "slower")))
    sim_fail ("member %u goes out for being slow, though slow_out_ms is 0", m);
}

/* ---- No healthy member is called slow ----
 *
 * A sync that began while the disk was slow may take 17 s.  Until its answer comes, and for
 * SYNC_MEMORY_NS after that, the writer knows nothing newer of an idle member than that
 * it is slow.  So the time begins when no request from the slow time is under way.
 */

static struct {
  uint64_t state, since;        /* of all, without the sick ones */
  uint64_t in_sync[PLACES_MAX]; /* in-sync, with a good disk, since then */
} well;

static void
look_well (void *nothing)
{
  const struct cluster_array_record *a = store_array ();
  uint64_t state = lacks_room () ? 0 : fault_state_of_others (NULL);
  uint64_t us, others_us;

  (void) nothing;
  if (w.healing)
    return;
  if (state == 0 || state != well.state || net_holes ()) {
    well.state = state;
    well.since = sim_now;
  }
  for (unsigned m = 0; m < w.layout.members; m++) {
    const struct disk *d = place_disk (a, m);

    if (a->member[m].state != MEMBER_IN_SYNC || was_slow (d) ||
        disk_hangs (d) || well.since == sim_now)
      well.in_sync[m] = sim_now;
    else if (sim_now - well.since > WELL && sim_now - well.in_sync[m] > WELL &&
             cluster_member_slow (engine_array (), m, &us, &others_us))
      sim_fail ("member %u is called slow (%" PRIu64 " us, others %" PRIu64
                " us), and it is well",
                m, us, others_us);
  }
  fault_later (LOOK, look_well, NULL);
}

/* ---- Lines ---- */

static struct {
  uint64_t state, since;
  unsigned members;  /* behind it, at most */
  bool lacked;       /* the only writer lacked another member, too */
  uint64_t slow_ns;  /* of weftd's database, at the beginning */
  uint64_t named_at; /* when the verdict named it last */
} hole;

/* For each member: is it behind the hole? */
static bool
is_behind (const struct cluster_array_record *a, unsigned m)
{
  return net_behind (&w.member[disk_holder (a->member[m].disk)].proc);
}

/* The only writer lacks a member that is not behind the hole.  That member may be back: it is
 * given back within RECONNECT_MS_MAX.
 */
static bool
writer_lacks (unsigned m, bool *unseen)
{
  bool lone = !w.config.shared && !w.config.leases, lacks = false;
  const struct disk *d = place_disk (store_array (), m);

  for (unsigned i = 0; lone && i < w.config.hosts; i++) {
    const struct host_role *h = &w.host[i];

    if (!h->writable || h->stage != HOST_SERVING)
      continue;
    lacks |= !(h->peer[m].seated && h->peer[m].data);
    *unseen |= d->unseen >> h->proc.number & 1;
  }
  return lacks;
}

/* Do healthy members have copies of all data behind the hole?  A member that has lost
 * unflushed data does not, even if the writer does not know that yet.
 */
static bool
spares_all (void)
{
  const struct cluster_array_record *a = store_array ();
  bool lost[PLACES_MAX] = { false }, unseen = false;
  unsigned members = 0;

  for (unsigned m = 0; m < w.layout.members; m++)
    if (is_behind (a, m)) {
      lost[m] = true;
      members++;
    }
    else if (a->member[m].state != MEMBER_IN_SYNC ||
             w.member[disk_holder (a->member[m].disk)].refused)
      return false;
    else
      hole.lacked |= writer_lacks (m, &unseen);
  if (unseen)
    return false;
  if (hole.members < members)
    hole.members = members;
  return members > 0 && layout_loss (&w.layout, lost, NULL) == 0;
}

/* Does weftd wait for a session whose process is gone?  weftd waits until the session has
 * been silent for its TTL, because the process might be cut off, and still read.
 */
static bool
waits_for_dead (void)
{
  const struct cluster_session *s;

  TAILQ_FOREACH (s, &engine_array ()->sessions, array_link) {
    bool gone = s->alive;

    for (unsigned i = 0; gone && i < w.config.hosts; i++)
      gone = w.host[i].proc.life == 0 || w.host[i].session != s->rec.id;
    if (gone)
      return true;
  }
  return false;
}

/* Does the verdict say where the fault of a member behind the hole is? */
static bool
names_line (void)
{
  const struct cluster_array *a = w.weftd.proc.life ? engine_array () : NULL;
  char text[600];

  for (unsigned m = 0; a && m < w.layout.members; m++)
    if (is_behind (store_array (), m) &&
        cluster_member_line (w.weftd.engine, a, m, text, sizeof text))
      return true;
  return false;
}

static void
look_line (void *nothing)
{
  uint64_t state = lacks_room () ? 0 : fault_state_of_others (NULL);
  uint64_t calm, most, stored;

  (void) nothing;
  if (w.healing || !net_holes ())
    return;
  for (unsigned i = 0; i < w.roles; i++)
    if (was_slow (w.member[i].disk))
      state = 0;
  if (state == 0 || state != hole.state || !spares_all () ||
      waits_for_dead ()) {
    hole.state = state;
    hole.since = sim_now;
    hole.members = 0;
    hole.lacked = false;
    hole.slow_ns = w.weftd.slow_ns;
  }
  calm = sim_now - hole.since;
  if (names_line ())
    hole.named_at = sim_now;
  /* If one of several writers does not reach a member that another one reaches, it is
   * given the member back, finds again that its line drops packets, and ends after
   * APART_MS of that.
   */
  most = w.config.shared || w.config.leases ? APART : PATIENCE * hole.members;
  if (hole.lacked)
    most += AGAIN;
  stored = w.weftd.slow_ns - hole.slow_ns;
  most += stored < CHANGED ? stored : CHANGED;
  for (unsigned i = 0; i < w.config.hosts; i++) {
    const struct host_role *h = &w.host[i];

    if (h->stage == HOST_SERVING && (h->writable || !net_beside (&h->proc)) &&
        calm > most && clients_wait_ns (h) > most)
      sim_fail ("a request to host %u waits for %" PRIu64 " ms beside a line "
                "that swallows what is sent to %u members",
                i, clients_wait_ns (h) / MS, hole.members);
    /* A read whose only copy is behind the line waits, and the verdict names the line. */
    if (h->stage == HOST_SERVING && !h->writable && net_beside (&h->proc) &&
        calm > READER_TOLD && clients_wait_ns (h) > READER_TOLD &&
        sim_now - hole.named_at > READER_TOLD)
      sim_fail ("a read of host %u waits for %" PRIu64 " ms behind a line that "
                "swallows what is sent, and the verdict does not name it",
                i, clients_wait_ns (h) / MS);
  }
  fault_later (LOOK, look_line, NULL);
}

static void
line_ends (void *nothing)
{
  (void) nothing;
  if (!w.healing)
    net_holes_heal ();
}

static bool
make_hole (const struct member_role *m, uint64_t ns)
{
  const struct host_role *h = &w.host[draw (w.config.hosts)];
  struct hole to = { .from = h->proc.party, .to = m->proc.party };
  unsigned ways = draw (3);

  if (h->stage != HOST_SERVING || to.from == to.to)
    return false;
  to.only = draw (100) < 60 ? &m->proc : NULL;
  to.all = draw (100) < 40;
  to.bytes = grain_bytes * draw (3);
  if (ways != 1)
    w.hole[0] = to;
  to.from = m->proc.party;
  to.to = h->proc.party;
  if (ways != 0)
    w.hole[1] = to;
  if (w.config.shared || w.config.leases) /* long enough for one to end */
    ns = ns * 3 / 2;
  counters.holes++;
  TRACE (&h->proc,
         "a line swallows what it %s %s %u for %" PRIu64 " ms: %s, more than "
         "%" PRIu64 " bytes",
         ways == 0   ? "sends to"
         : ways == 1 ? "gets from"
                     : "has to do with",
         to.only ? "member" : "party", to.only ? m->proc.number : m->proc.party,
         ns / MS, to.all ? "all" : "what is large", to.bytes);
  hole.state = 0;
  fault_later (ns, line_ends, NULL);
  look_line (NULL);
  return true;
}

/* ---- How often ---- */

static bool
happens (uint64_t ns)
{
  bool line = !net_holes () && draw (100) < 60, done = false;

  for (unsigned i = 0; i < 10 && !done; i++) {
    struct member_role *m = &w.member[draw (w.disks)];

    if (m->proc.life && m->disk->place >= 0)
      done = line ? make_hole (m, ns) : make_slow (m, ns);
  }
  return done;
}

static void
something (void *nothing)
{
  uint64_t ns = draw (100) < 60 ? draw_between (20, 45) * SECOND
                                : draw_between (1000, 20000) * MS;

  (void) nothing;
  if (w.healing)
    return;
  if (!happens (ns))
    ns = 0;
  else if (draw (100) < 80) {
    w.calm_until = sim_now + ns;
    fault_heal_network ();
  }
  fault_later (draw (100) < 15 ? ns / 3 + SECOND
                               : ns + draw_between (100, 8000) * MS,
               something, NULL);
}

static void
told (struct call *c)
{
  call_unref (c);
}

void
sick_begin (void)
{
  memset (&well, 0, sizeof well);
  memset (&hole, 0, sizeof hole);
  if (!w.config.sick)
    return;
  if (w.config.slow_out_ms) {
    struct call *c = call_new (&w.admin, CALL_TUNE, NULL, told);

    c->refs++;
    c->tune = (struct cluster_array_tune) {
      .has_slow_out = true, .slow_out_ms = w.config.slow_out_ms
    };
    call_send (c, 10000);
  }
  look_well (NULL);
  fault_later (draw_between (2, 6) * SECOND, something, NULL);
}

void
sick_heal (void)
{
  net_holes_heal ();
  for (unsigned i = 0; i < w.roles; i++)
    if (disk_slow (&w.disk[i]))
      w.disk[i].slow_until = sim_now;
}
