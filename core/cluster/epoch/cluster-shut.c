/* cluster-shut.c: sessions that are over, but whose tokens members could still
 * accept.
 *
 * A token opens a member for an epoch, and an epoch may last for a year.  So
 * weftd tells members which sessions are over: they close these sessions'
 * connections, and accept their tokens no longer (member_shut). Members store
 * nothing of it: a token is for one life of a member, and none is made for a
 * session that has ended.  weftd stores it, with the end of the session: after
 * a crash it says it again.
 *
 * A joining member's reads from others are a session as well, with a number of
 * its own (cluster_shut_source), that ends with the joining.
 *
 * Each ended session has a number, valid for this weftd's life: the life in its
 * upper half, and below a count.  A member says up to which number it has
 * closed them and nothing of them runs.  An answer has OVER_TOLD_MAX at most;
 * the others follow when these are confirmed.
 *
 * A session leaves the list when all members refuse its epoch anyway.  If
 * nothing raises the epoch, sessions would pile up: when there are
 * OVER_TOLD_MAX of one epoch, or OVER_NODE_RENEW of one node, tokens are
 * renewed, which disturbs no session; and when all live sessions have the new
 * ones, weftd tells members to open no door for older ones.  That is in the
 * list as session 0, and all earlier ones may leave when they are confirmed.
 *
 * A session is admitted if the list has room for its end.  One node has a part
 * of the list, and readers leave room for writers.
 */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cluster-epoch.h"
#include "format/token.h"

static bool
reached (uint64_t said, uint64_t number)
{
  return said >> 32 == number >> 32 && said >= number;
}

/* Does the member refuse it, and does nothing of it run there?  (On a node that is shut
 * out itself, that matters to nobody.)
 */
static bool
shut (const struct cluster_disk *d, const struct cluster_over *o)
{
  return d->rec.shut_out || reached (d->over, o->number) ||
         (cluster_disk_heard (d) && d->min_epoch > o->epoch);
}

/* Need this disk be told of it, when it knows all up to `known`? */
static bool
wanted (const struct cluster_disk *d, const struct cluster_over *o,
        uint64_t known)
{
  return !reached (known, o->number) &&
         cluster_disk_min_epoch_wanted (d) <= o->epoch;
}

uint64_t
cluster_shut_source (const struct cluster_array *a, unsigned member)
{
  uint8_t hash[KEY_BYTES];
  char text[32];
  uint64_t id;

  snprintf (text, sizeof text, "source %" PRIu64,
            a->rec.member[member].since_wall_ms);
  token_key (a->disk[member]->rec.key, text, hash);
  memcpy (&id, hash, sizeof id);
  return id ? id : 1;
}

void
cluster_shut_number (struct cluster *c, struct cluster_over *o)
{
  o->number = (uint64_t) c->life << 32 | ++c->over_count;
}

static void
drop (struct cluster_array *a, unsigned i)
{
  memmove (&a->rec.over[i], &a->rec.over[i + 1],
           (--a->rec.over_count - i) * sizeof a->rec.over[0]);
}

/* May the session leave the list?  below: no door opens for tokens below this
 * epoch, at any member.  A member that is out and silent is fenced before it
 * counts again.
 */
static bool
spent (const struct cluster_array *a, const struct cluster_over *o,
       uint64_t below)
{
  for (unsigned m = 0; m < a->layout.members; m++) {
    const struct cluster_disk *d = a->disk[m];

    if (a->rec.member[m].state == MEMBER_OUT && !d->alive)
      continue;
    if (a->rec.member[m].fence > o->epoch)
      continue;
    if (o->session == 0 || o->epoch >= below || !shut (d, o))
      return false;
  }
  return true;
}

/* Below which epoch no door opens, as all members have confirmed; 0: none. */
static uint64_t
doors (const struct cluster_array *a)
{
  uint64_t below = 0;

  for (unsigned i = 0; i < a->rec.over_count; i++) {
    const struct cluster_over *o = &a->rec.over[i];
    bool all = o->session == 0;

    for (unsigned m = 0; all && m < a->layout.members; m++)
      all = shut (a->disk[m], o) ||
            (a->rec.member[m].state == MEMBER_OUT && !a->disk[m]->alive);
    if (all && o->epoch + 1 > below)
      below = o->epoch + 1;
  }
  return below;
}

bool
cluster_shut_prune (struct cluster *c, struct cluster_array *a)
{
  uint64_t below = doors (a);
  unsigned before = a->rec.over_count;

  for (unsigned i = a->rec.over_count; i-- > 0;) {
    const struct cluster_over *o = &a->rec.over[i];
    bool older = o->session == 0 && o->epoch + 1 < below;

    if (older || spent (a, o, below))
      drop (a, i);
  }
  if (a->rec.over_count == before)
    return false;
  cluster_step_put_array (c, a);
  return true;
}

bool
cluster_shut_waits_for (const struct cluster_array *a, unsigned member,
                        uint64_t session)
{
  for (unsigned i = 0; i < a->rec.over_count; i++) {
    const struct cluster_over *o = &a->rec.over[i];

    if (o->session != 0 && (session == 0 || o->session == session) &&
        a->rec.member[member].state != MEMBER_OUT && !shut (a->disk[member], o))
      return true;
  }
  return false;
}

bool
cluster_shut_waits (const struct cluster_array *a, uint64_t session)
{
  for (unsigned m = 0; m < a->layout.members; m++)
    if (cluster_shut_waits_for (a, m, session))
      return true;
  return false;
}

/* Where nobody writes a change of epoch fences all that are there, as when one ends that
 * wrote alone.
 */
bool
cluster_shut_runs (const struct cluster *c, const struct cluster_session *s)
{
  const struct cluster_array *a = s->array;

  return a && s->rec.part.length > 0 && cluster_array_writer (a) &&
         cluster_shut_waits (a, s->rec.id);
}

bool
cluster_shut_has (const struct cluster_array *a, uint64_t session)
{
  for (unsigned i = 0; i < a->rec.over_count; i++)
    if (a->rec.over[i].session == session)
      return true;
  return false;
}

static void
add (struct cluster *c, struct cluster_array *a, uint64_t session,
     const char *node, uint64_t epoch, bool ordered)
{
  struct cluster_over *o;
  unsigned i = 0;

  /* cluster_shut_room ensures that there is room, except for attaches that wait
   * to be granted.  Sessions that an order ended stay in the list, if others
   * are in it.
   */
  if (a->rec.over_count == OVER_MAX) {
    while (i < OVER_MAX - 1 && a->rec.over[i].ordered)
      i++;
    drop (a, i);
  }
  o = &a->rec.over[a->rec.over_count++];
  *o = (struct cluster_over) { .session = session,
                               .epoch = epoch,
                               .ordered = ordered };
  snprintf (o->node, sizeof o->node, "%s", node);
  cluster_shut_number (c, o);
  cluster_step_put_array (c, a);
  cluster_array_due (c, a, DUE_CHANGE);
}

void
cluster_shut_add (struct cluster *c, struct cluster_array *a, uint64_t session,
                  const char *node, bool ordered)
{
  /* An old database does not know of which epoch its tokens are. */
  uint64_t epoch = c->read_only[0] ? EPOCH_MAX - 1 : a->rec.epoch;

  if (ordered)
    a->ordered_live_ms = c->live_ms;
  for (unsigned i = 0; i < a->rec.over_count; i++)
    if (a->rec.over[i].session == session) {
      if (c->read_only[0] && a->rec.over[i].epoch < epoch) {
        drop (a, i);
        break;
      }
      if (ordered && !a->rec.over[i].ordered) {
        a->rec.over[i].ordered = true;
        cluster_step_put_array (c, a);
      }
      return;
    }
  cluster_shut_prune (c, a);
  add (c, a, session, node, epoch, ordered);
}

/* How many places the sessions of a node have, or will have when they end; NULL: those of
 * all.
 */
static unsigned
places (const struct cluster *c, const struct cluster_array *a,
        const char *node)
{
  const struct cluster_session *s;
  const struct waiting *w;
  unsigned count = 0;

  for (unsigned i = 0; i < a->rec.over_count; i++)
    count += node == NULL || strcmp (a->rec.over[i].node, node) == 0;
  TAILQ_FOREACH (s, &a->sessions, array_link)
    count += node == NULL || strcmp (s->rec.node, node) == 0;
  TAILQ_FOREACH (w, &c->waitings, link)
    count += w->kind == WAIT_ATTACH && w->array == a &&
             (node == NULL || strcmp (w->grant->node, node) == 0);
  return count;
}

bool
cluster_shut_room (const struct cluster *c, const struct cluster_array *a,
                   bool writable)
{
  return places (c, a, NULL) + a->layout.members + 1 +
           (writable ? 0 : OVER_WRITERS) <
         OVER_MAX;
}

bool
cluster_shut_room_of (const struct cluster *c, const struct cluster_array *a,
                      const char *node)
{
  return places (c, a, node) < OVER_NODE_MAX;
}

/* Have so many sessions with tokens of this epoch or a later one ended, in all or of one
 * node, that these tokens are to become invalid?
 */
static bool
ended_many (const struct cluster_array *a, uint64_t epoch)
{
  const struct cluster_over *over = a->rec.over;
  unsigned all = 0, of_node;

  for (unsigned i = 0; i < a->rec.over_count; i++)
    all += over[i].epoch >= epoch;
  if (all >= OVER_TOLD_MAX || all < OVER_NODE_RENEW)
    return all >= OVER_TOLD_MAX;
  for (unsigned i = 0; i < a->rec.over_count; i++) {
    of_node = 0;
    for (unsigned k = 0; k <= i && over[i].node[0]; k++)
      of_node += over[k].epoch >= epoch &&
                 strcmp (over[k].node, over[i].node) == 0;
    if (of_node >= OVER_NODE_RENEW)
      return true;
  }
  return false;
}

bool
cluster_shut_renew (struct cluster *c, struct cluster_array *a)
{
  const struct cluster_session *s;
  uint64_t oldest = a->rec.epoch; /* of the tokens that are in use */
  unsigned older = 0;
  uint64_t below = 1;

  /* Orders from the time when the database seemed old: it is not, all have
   * spoken.
   */
  for (unsigned i = 0; i < a->rec.over_count; i++)
    if (a->rec.over[i].epoch > a->rec.epoch)
      a->rec.over[i].epoch = a->rec.epoch;
  if (!ended_many (a, 0) || a->rec.change.epoch)
    return false;
  if (cluster_shut_prune (c, a))
    return true;
  /* A silent reader gets other tokens before it reads on. */
  TAILQ_FOREACH (s, &a->sessions, array_link)
    if ((s->rec.writable || s->alive) && s->epoch < oldest)
      oldest = s->epoch;
  for (unsigned i = 0; i < a->rec.over_count; i++) {
    const struct cluster_over *o = &a->rec.over[i];

    if (o->session == 0)
      below = o->epoch + 1;
    older += o->session != 0 && o->epoch < oldest;
  }
  if (older > 0 && below < oldest) {
    add (c, a, 0, "", oldest - 1, false);
    return true;
  }
  if (!ended_many (a, a->rec.epoch))
    return false;
  cluster_change_stay (c, a, CHANGE_TOKENS, NULL);
  return true;
}

bool
cluster_shut_news (const struct cluster_disk *d)
{
  const struct cluster_array *a = d->array;

  for (unsigned i = 0; a && i < a->rec.over_count; i++)
    if (wanted (d, &a->rec.over[i], d->over) &&
        (!d->told.reply || wanted (d, &a->rec.over[i], d->told.over)))
      return true;
  return false;
}

unsigned
cluster_shut_told (const struct cluster_disk *d,
                   struct cluster_over over[OVER_TOLD_MAX])
{
  const struct cluster_array *a = d->array;
  unsigned count = 0;

  for (unsigned i = 0; a && i < a->rec.over_count && count < OVER_TOLD_MAX; i++)
    if (wanted (d, &a->rec.over[i], d->over))
      over[count++] = a->rec.over[i];
  return count;
}

uint64_t
cluster_shut_owed (const struct cluster_array *a, unsigned member)
{
  const struct cluster_disk *d = a->disk[member];

  for (unsigned i = 0; i < a->rec.over_count; i++)
    if (!shut (d, &a->rec.over[i]) && wanted (d, &a->rec.over[i], d->over))
      return a->rec.over[i].number;
  return 0;
}

bool
cluster_shut_unconfirmed (const struct cluster_array *a, unsigned member)
{
  for (unsigned i = 0; i < a->rec.over_count; i++)
    if (a->rec.over[i].ordered && !shut (a->disk[member], &a->rec.over[i]))
      return true;
  return false;
}
