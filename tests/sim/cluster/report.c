/* report.c: an array process tells weftd of the members that it has lost, over
 * and over, until it is recorded or they are back.
 */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "world.h"

#define RETRY_MS 1000
#define CALL_TIMEOUT_MS 10000

static void report (void *owner);

void
report_due (struct peer *p, uint64_t delay_ms)
{
  process_after (&p->host->proc, delay_ms * MS, report, p);
}

static void
answered (struct peer *p, const struct answer *a)
{
  struct host *h = p->host;
  bool in_use = a->status == 409 && strcmp (a->code, "in-use") == 0;
  uint64_t wait = a->retry_after_ms && a->retry_after_ms < RETRY_MS
                    ? a->retry_after_ms
                    : RETRY_MS;

  if (p->state != LINK_LOST)
    return;
  if (a->status == 200 || in_use ||
      (a->status == 409 && strcmp (a->code, "last-copy") == 0))
    p->told = true;
  if (!h->writable && in_use) { /* it is well: the connection was not */
    p->state = LINK_WANTED;
    links_look (h);
  }
  else
    report_due (p, wait);
  host_look (h);
}

static void
reported (struct call *c)
{
  struct peer *p = c->owner;
  struct host *h = p->host;

  p->report = NULL;
  if (c->answer.status == 200)
    host_learn (h, &c->answer);
  else if (c->answer.status == 410)
    host_stop (h, ESHUTDOWN);
  if (h->engine && h->stage != HOST_OVER)
    answered (p, &c->answer);
  call_unref (c);
}

static void
report (void *owner)
{
  struct peer *p = owner;
  struct call *c;

  if (p->report || p->host->stage == HOST_OVER || p->state != LINK_LOST)
    return;
  c = p->report = call_new (&p->host->proc, CALL_LOST, p, reported);
  c->refs++;
  c->session_id = p->host->session;
  c->member.member = p->member;
  memcpy (c->member.reason, p->reason, sizeof p->reason);
  call_send (c, CALL_TIMEOUT_MS);
}
