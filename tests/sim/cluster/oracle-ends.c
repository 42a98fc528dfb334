/* oracle-ends.c: who was ended justly.
 *
 * weftd goes by what it hears; here is known what was so.  Whose process lives, reaches
 * weftd, and reaches all members, is not ended, unless somebody orders it (P22 in
 * docs/PROTOCOL.md):
 *
 *   for silence    only who was stopped, or cut off from weftd, until just now; and while
 *                  others write who could be heard: if weftd was gone, or cut off from
 *                  all, each has its TTL again (but not by one that comes anew)
 *   for its leases   not who can say what it has
 *   for a member   only who was without one that lives for APART_MS in all, and not for
 *                  long after what kept it from that
 *   by its node    only who is gone
 *
 * The world is looked at as often as weftd looks, for what is cut, and who is stopped.
 */

#include <config.h>

#include <string.h>

#include "oracle.h"

#define LOOK_NS (CLUSTER_TICK_MS * MS)
/* Who can reach weftd is heard after so long at the latest: what is under way is sent
 * again, and two messages may be lost.
 */
#define HEARD_NS (3 * SECOND)
/* Who can reach a member has it after so long: it is given back after RECONNECT_MS_MAX, and
 * when all who write are prepared for that, of whom one that is silent ends after its TTL.
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

static bool
runs (const struct process *p)
{
  return p->life && p->frozen_until <= sim_now;
}

static bool
works (const struct host_role *h)
{
  return h->writable && runs (&h->proc) && h->core &&
         (h->stage == HOST_RESYNC || h->stage == HOST_SERVING);
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
        member_failed (r->engine))
      l->bad_at[m] = sim_now;
    if (a->member[m].state == MEMBER_IN_SYNC && !has (h, m)) {
      lacks = true;
      lives |= runs (&r->proc);
    }
  }
  l->waits = lives || (l->waits && (lacks || !heard));
  if (l->waits) {
    if (l->calm_at + CALM_NS < sim_now)
      l->without = 0;
    l->without += LOOK_NS;
    l->calm_at = sim_now;
  }
}

/* Nobody who writes has reached weftd for long.  Where one has come anew, or is about to,
 * weftd may hear that one first.
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
  bool up = runs (&w.weftd.proc) && !w.old_database, anybody = false;

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
    if (!heard || l->since == 0)
      l->since = heard ? sim_now : 0;
    look_at_members (h, l, heard);
  }
  if (w.weftd.proc.life != weftd_life || w.old_database ||
      (up && anybody && is_lull ()))
    owed_until = sim_now - LOOK_NS + SESSION_TTL_MS * MS;
  weftd_life = w.weftd.proc.life;
  /* While weftd is stopped, silence is not counted. */
  if (!up || anybody)
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
  if (says (s, "weftd: it was silent") && (sim_now < owed_until || is_lull ()))
    return "nobody could reach weftd until just now";
  if (says (s, "which leases it has") && reaches && sim_now > owed_until)
    return "it can reach weftd";
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
