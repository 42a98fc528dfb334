/* oracle-ends.c: checks that only a faulty session is ended.
 *
 * weftd goes by what it hears; here is known what was so.  Whose process lives, reaches
 * weftd, and reaches all members, is not ended, unless somebody orders it (P22 in
 * docs/PROTOCOL.md):
 *
 *   for silence    only a session that was stopped, or cut off from weftd, until just
 *                  now; and only while others write whom weftd could hear. If weftd was
 *                  gone, or cut off from all, each has its TTL again (but not because a
 *                  new session comes); or while a reader can reach weftd, for a TTL, and
 *                  a member is lost
 *   for its leases   only a session that can't declare its ranges
 *   for a member   only a session that was without a live one for APART_MS in all, and
 *                  not for long after the obstacle is gone
 *   by its node    only a session whose process is gone
 *
 * The oracle looks at cuts and stopped processes as often as weftd looks.
 */

#include <config.h>

#include <string.h>

#include "oracle.h"

#define LOOK_NS (CLUSTER_TICK_MS * MS)
/* A session that can reach weftd is heard after so long at the latest: messages under way
 * are sent again, and two may be lost.
 */
#define HEARD_NS (3 * SECOND)
/* A session that can reach a member has it after so long: it is given back after
 * RECONNECT_MS_MAX, and when all writers have prepared for that; a silent writer ends
 * after its TTL.
 */
#define BACK_NS (30 * SECOND)
/* APART_MS, but for what weftd hears later than it is so, and RECONNECT_CALM_MS. */
#define WITHOUT_NS (9 * SECOND)
#define CALM_NS (30 * SECOND)
/* LULL_MS, with what weftd has still heard before. */
#define LULL_NS (7 * SECOND)

/* A host, as it was when it was looked at. */
static struct line {
  uint64_t life; /* of the process */
  /* Until then; its timers stand until then also where faults_heal lets it go on. */
  uint64_t stopped;
  uint64_t begun;   /* then it began to write; 0: not yet */
  uint64_t since;   /* then it can hear weftd, and be heard; 0: it can't */
  bool waits;       /* for a member, or to say that it has it again, ... */
  uint64_t without; /* ... for so many ns in all, ... */
  uint64_t calm_at; /* ... and at that moment last */
  uint64_t
    bad_at[PLACES_MAX]; /* when it could not reach the member, or weftd */
} line[HOSTS_MAX];
/* Of weftd: since when nobody who writes can reach it (0: somebody can), and until when
 * all that write have time to be heard again.
 */
static uint64_t weftd_life, nobody_since, owed_until;
/* Since when, but for less than LULL_NS at a time, a reader can reach weftd; and when one
 * could last.
 */
static uint64_t read_since, read_at;

static bool
runs (const struct process *p)
{
  return p->life && p->frozen_until <= sim_now;
}

static bool
has_session (const struct host_role *h)
{
  return runs (&h->proc) && h->core &&
         (h->stage == HOST_RESYNC || h->stage == HOST_SERVING);
}

static bool
works (const struct host_role *h)
{
  return h->writable && has_session (h);
}

static bool
cut (const struct process *a, const struct process *b)
{
  return net_cut (a->party, b->party) || net_cut (b->party, a->party);
}

static bool
has (const struct host_role *h, unsigned m)
{
  return h->peer[m].seated && h->peer[m].data && h->peer[m].opening == 0;
}

static void
look_at_members (const struct host_role *h, struct line *l, bool heard)
{
  const struct cluster_array_record *a = store_array ();
  bool lacks = false, lives = false;

  for (unsigned m = 0; m < w.layout.members; m++) {
    const struct disk *d = place_disk (a, m);
    const struct member_role *r = &w.member[disk_holder (d->uuid)];

    if (!heard || !runs (&r->proc) || cut (&h->proc, &r->proc) || r->slow > 1 ||
        net_holed (&h->proc, &r->proc) || disk_slow (r->disk) ||
        member_failed (r->engine))
      l->bad_at[m] = sim_now;
    if (a->member[m].state == MEMBER_IN_SYNC &&
        (!has (h, m) || net_holed (&h->proc, &r->proc))) {
      lacks = true;
      lives |= runs (&r->proc);
    }
  }
  l->waits = lives || (l->waits && (lacks || !heard));
  if (l->waits) {
    if (l->calm_at + CALM_NS < sim_now)
      l->without = 0;
    /* It had the member for a while, and no answer to what had waited before. */
    l->without += sim_now - l->calm_at < clients_wait_ns (h)
                    ? sim_now - l->calm_at
                    : LOOK_NS;
    l->calm_at = sim_now;
  }
}

/* No writer has reached weftd for long.  If a new session comes, or is about to, weftd
 * may hear that one first.
 */
static bool
is_lull (void)
{
  if (nobody_since == 0 || sim_now - nobody_since <= LULL_NS)
    return false;
  for (unsigned i = 0; i < w.config.hosts; i++) {
    const struct host_role *h = &w.host[i];
    bool known = line[i].life == h->proc.life && line[i].begun;

    if (known ? line[i].begun > nobody_since : h->proc.life && h->writable)
      return false;
  }
  return true;
}

static void
look (void *nothing)
{
  bool up = runs (&w.weftd.proc) && !w.old_database, anybody = false,
       reads = false, restarted = w.weftd.proc.life != weftd_life;

  for (unsigned i = 0; i < w.config.hosts; i++) {
    const struct host_role *h = &w.host[i];
    struct line *l = &line[i];
    bool heard;

    if (l->life != h->proc.life)
      *l = (struct line) { .life = h->proc.life };
    if (l->begun == 0 && works (h))
      l->begun = sim_now;
    raise_to (&l->stopped, h->proc.frozen_until);
    heard = works (h) && up && !cut (&h->proc, &w.weftd.proc) &&
            l->stopped < sim_now;
    anybody |= works (h) && !net_cut (h->proc.party, 0);
    reads |= !h->writable && has_session (h) && up &&
             !cut (&h->proc, &w.weftd.proc);
    if (!heard || l->since == 0)
      l->since = heard ? sim_now : 0;
    look_at_members (h, l, heard);
  }
  if (restarted || w.old_database || (up && anybody && is_lull ()))
    owed_until = sim_now - LOOK_NS + SESSION_TTL_MS * MS;
  if (reads && sim_now - read_at > LULL_NS)
    read_since = sim_now;
  if (reads)
    read_at = sim_now;
  weftd_life = w.weftd.proc.life;
  /* While weftd is stopped, silence is not counted.  A restarted weftd counts it from its
   * start.
   */
  if (!up || anybody || restarted)
    nobody_since = 0;
  else if (nobody_since == 0)
    nobody_since = sim_now;
  process_after (&w.admin, LOOK_NS, look, nothing);
}

void
ends_begin (void)
{
  memset (line, 0, sizeof line);
  weftd_life = nobody_since = owed_until = 0;
  read_since = read_at = 0;
  look (NULL);
}

void
ends_broke (const struct conn *c)
{
  for (unsigned i = 0; i < w.config.hosts; i++)
    if (c->proc[0] == &w.host[i].proc && c->server->disk->place >= 0)
      line[i].bad_at[c->server->disk->place] = sim_now;
}

/* The process of the session; NULL: it is gone. */
static struct host_role *
process_of (const struct cluster_session_record *s)
{
  for (unsigned i = 0; i < w.config.hosts; i++) {
    struct host_role *h = &w.host[i];

    if (h->proc.life && strcmp (h->instance, s->instance) == 0)
      return h;
  }
  return NULL;
}

static bool
says (const struct cluster_session_record *s, const char *why)
{
  return strstr (s->reason, why) != NULL;
}

/* Why it must not have been ended; NULL: it may. */
static const char *
unjust (const struct cluster_session_record *s, const struct host_role *h)
{
  const struct line *l = &line[h->proc.number];
  bool reaches = l->since && sim_now - l->since > HEARD_NS, bad = false;

  for (unsigned m = 0; m < w.layout.members; m++)
    bad |= l->bad_at[m] + BACK_NS > sim_now;
  if (says (s, "process has ended"))
    return "its process lives";
  if (says (s, "what another has"))
    return "nobody has what another has";
  if (says (s, "no right"))
    return "it has the right to attach";
  if (says (s, "silent") && reaches)
    return "it can reach weftd";
  if (says (s, "readers wait") &&
      (sim_now - read_at > LULL_NS ||
       sim_now - read_since < SESSION_TTL_MS * MS - HEARD_NS))
    return "no reader could reach weftd for so long";
  if (says (s, "others write") && (sim_now < owed_until || is_lull ()))
    return "nobody could reach weftd until just now";
  if (says (s, "which leases it has") && reaches && sim_now > owed_until)
    return "it can reach weftd";
  /* weftd does not know that its members came back to it. */
  if (says (s, "lost a member") && withheld_lately (h, BACK_NS))
    return NULL;
  if (says (s, "lost a member") && !bad)
    return "it can reach all members";
  if (says (s, "lost a member") && l->without < WITHOUT_NS)
    return "it was not without one for so long";
  return NULL;
}

void
ends_judge (const struct cluster_session_record *s)
{
  const struct cluster_session_record *before = store_session (s->id);
  const struct host_role *h = process_of (s);
  const char *why;

  if (!s->ended || !s->writable || w.old_database || h == NULL ||
      before == NULL || before->ended)
    return;
  why = unjust (s, h);
  if (why)
    sim_fail ("weftd ends the session of host %u (%s), but %s", h->proc.number,
              s->reason, why);
}
