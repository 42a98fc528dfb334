/* report.c: an array process tells weftd of the members that it has lost, over
 * and over, until it is recorded or they are back; one at a time.
 */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "world.h"

#define RETRY_MS 1000
#define CALL_TIMEOUT_MS 10000
#define HURRY_MS 500 /* when more are to be reported: weftd may wait for us */

static void
answered (struct peer *p, const struct answer *a)
{
  struct host_role *h = p->host;
  bool in_use = a->status == 409 && strcmp (a->code, "in-use") == 0;
  uint64_t wait = a->retry_after_ms && a->retry_after_ms < RETRY_MS
                    ? a->retry_after_ms
                    : RETRY_MS;

  if (p->state != LINK_LOST)
    return;
  p->due = sim_now + wait * MS;
  if (a->status == 200 || in_use ||
      (a->status == 409 && strcmp (a->code, "last-copy") == 0))
    p->told = true;
  if (!h->writable && in_use) /* it is well: the connection was not */
    p->state = LINK_WANTED;
}

static void
reported (struct call *c)
{
  struct peer *p = c->owner;
  struct host_role *h = p->host;

  h->report = NULL;
  if (c->answer.status == 200)
    host_learn (h, &c->answer);
  else if (c->answer.status == 410)
    host_stop (h, ESHUTDOWN);
  if (h->engine && h->stage < HOST_ENDING) {
    answered (p, &c->answer);
    host_look (h);
    reports_look (h);
  }
  call_unref (c);
}

static void
report (struct peer *p, uint64_t timeout_ms)
{
  struct host_role *h = p->host;
  struct call *c = h->report = call_new (&h->proc, CALL_LOST, p, reported);

  c->refs++;
  c->session_id = h->session;
  c->member.member = p->member;
  c->member.round = array_round (h->engine);
  memcpy (c->member.reason, p->reason, sizeof p->reason);
  call_send (c, timeout_ms);
}

static void
look_again (void *owner)
{
  reports_look (owner);
}

/* The report that is the most due. */
void
reports_look (struct host_role *h)
{
  struct peer *first = NULL;
  unsigned lost = 0;

  if (h->report || h->stage >= HOST_ENDING)
    return;
  for (unsigned m = 0; m < w.layout.members; m++) {
    struct peer *p = &h->peer[m];

    if (p->state != LINK_LOST)
      continue;
    lost++;
    if (first == NULL || p->due < first->due)
      first = p;
  }
  if (first && first->due > sim_now)
    process_after (&h->proc, first->due - sim_now, look_again, h);
  else if (first)
    report (first, lost > 1 ? HURRY_MS : CALL_TIMEOUT_MS);
}
