/* links.c: when an array process connects to which member; as
 * plugin/control-links.c and engine-member.c do it.
 */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

#define RETRY_MS 1000
#define ENDING_WAIT_MS 100

/* The engine's view: a joining member that is not connected is out. */
void
links_seen (const struct host_role *h, const enum member_state states[],
            enum member_state seen[])
{
  for (unsigned m = 0; m < w.layout.members; m++)
    seen[m] = states[m] == MEMBER_JOINING && !h->peer[m].joined ? MEMBER_OUT
                                                                : states[m];
}

static void
commit_states (struct host_role *h)
{
  enum member_state seen[PLACES_MAX];

  links_seen (h, h->states, seen);
  steps++;
  array_commit (h->engine, h->epoch, seen, sim_now);
  for (unsigned m = 0; m < w.layout.members; m++)
    if (h->states[m] == MEMBER_IN_SYNC && !h->peer[m].joined)
      array_lost (h->engine, m, "there is no connection to it yet", sim_now);
}

void
links_commit (struct host_role *h)
{
  h->committed = h->epoch;
  commit_states (h);
  for (unsigned m = 0; m < w.layout.members; m++) {
    struct peer *p = &h->peer[m];

    if (h->states[m] == MEMBER_OUT && p->data && p->state != LINK_CONNECTING) {
      array_lost (h->engine, m, "it is out", sim_now);
      peer_close (p);
    }
  }
  host_take (h);
}

/* Is its connection of a life that the member has ended? */
static bool
is_stale (const struct host_role *h, unsigned m)
{
  return h->map.peer[m].fence > h->peer[m].epoch;
}

/* Is it to be connected, with the tokens that we have now?  A writer may when
 * what it asked before is over.
 */
static bool
is_wanted (const struct host_role *h, unsigned m)
{
  const struct peer *p = &h->peer[m];

  if (h->map.epoch < h->epoch)
    return false;
  return p->state == LINK_OUT || is_stale (h, m) ||
         (!h->writable && p->state == LINK_LOST && h->map.epoch > p->epoch);
}

void
links_look (struct host_role *h)
{
  for (unsigned m = 0; m < w.layout.members; m++) {
    struct peer *p = &h->peer[m];

    if (p->state == LINK_CONNECTING)
      continue;
    if (h->states[m] == MEMBER_OUT) {
      p->state = LINK_OUT;
      p->told = false;
    }
    else if (is_wanted (h, m)) {
      p->state = LINK_WANTED;
      p->told = false;
    }
  }
}

/* The engine is to know the epoch before it gets a connection of it. */
void
links_connect (struct host_role *h)
{
  for (unsigned m = 0; m < w.layout.members; m++) {
    struct peer *p = &h->peer[m];

    if (p->state != LINK_WANTED || h->committed < h->epoch)
      continue;
    p->state = LINK_CONNECTING;
    p->epoch = h->map.epoch;
    p->lapse = h->map.peer[m].lapse;
    if (p->data) { /* the old one, if it is a stale one */
      array_lost (h->engine, m, "it begins anew", sim_now);
      peer_close (p);
      host_take (h); /* its notice is not the new one's */
    }
    peer_connect (p);
  }
}

bool
links_settled (const struct host_role *h)
{
  if (h->map.epoch < h->epoch)
    return false;
  for (unsigned m = 0; m < w.layout.members; m++)
    if (h->states[m] != MEMBER_OUT && !h->peer[m].told &&
        (h->peer[m].state != LINK_UP || is_stale (h, m)))
      return false;
  return true;
}

void
link_lost (struct peer *p, const char *reason)
{
  p->state = LINK_LOST;
  snprintf (p->reason, sizeof p->reason, "%s", reason);
  p->due = sim_now + (p->told ? RETRY_MS : ENDING_WAIT_MS) * MS;
  links_look (p->host);
  reports_look (p->host);
}

/* The engine gets the new connection. */
static void
replace (struct peer *p)
{
  struct host_role *h = p->host;

  if (h->states[p->member] == MEMBER_JOINING) {
    p->joined = false;
    commit_states (h);
  }
  p->joined = true;
  oracle_relinked (h, p->member);
  steps++;
  array_back (h->engine, p->member, p->lapse <= p->used, sim_now);
  p->used = p->epoch;
  commit_states (h);
  host_take (h);
}

static bool
starting (const struct host_role *h)
{
  for (unsigned m = 0; m < w.layout.members; m++)
    if (h->peer[m].state == LINK_CONNECTING)
      return true;
  return false;
}

void
peer_made (struct peer *p, bool up)
{
  struct host_role *h = p->host;

  if (h->engine == NULL) { /* the start */
    p->state = up ? LINK_UP : LINK_LOST;
    p->joined = up;
    p->used = p->epoch;
    if (up)
      oracle_linked (h, p->member);
    strcpy (p->reason, "it can't be reached");
    if (!starting (h))
      host_started (h);
    return;
  }
  if (h->states[p->member] == MEMBER_OUT || is_stale (h, p->member)) {
    peer_close (p); /* it has gone, or begun anew, meanwhile */
    p->state = LINK_OUT;
    links_look (h);
  }
  else if (!up)
    link_lost (p, "it can't be reached");
  else {
    TRACE (&h->proc, "is connected to member %u again", p->member);
    p->state = LINK_UP;
    p->told = false;
    h->relinked |= h->states[p->member] == MEMBER_IN_SYNC;
    replace (p);
  }
  if (h->engine)
    host_look (h);
}

void
links_begin (struct host_role *h)
{
  for (unsigned m = 0; m < w.layout.members; m++) {
    struct peer *p = &h->peer[m];

    if (h->states[m] != MEMBER_OUT) {
      p->state = LINK_CONNECTING;
      p->epoch = h->map.epoch;
      peer_connect (p);
    }
  }
}

void
links_forget (struct host_role *h)
{
  for (unsigned m = 0; m < w.layout.members; m++) {
    struct peer *p = &h->peer[m];

    peer_close (p);
  }
}
