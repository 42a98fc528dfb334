/* host-links.c: the links to members: which must be connected, and which are
 * reported as lost (host.h has the rules).
 */

#include <config.h>

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "host-internal.h"

/* A lost member is reported so long after its loss.  When the whole node goes
 * down, members often end a moment before this process does, and are not to be
 * reported.
 */
#define ENDING_WAIT_MS 100
/* A request that has waited for less is not worth a message while weftd is at work. */
#define CHANGING_SAID_MS 5000

/* ---- Which members to connect ---- */

/* Was its connection opened before the member was fenced last? */
static bool
is_stale (const struct host *h, unsigned m)
{
  return h->view.fence[m] > h->link[m].epoch;
}

/* Is it to be connected, and do we have tokens of the newest epoch for that? */
static bool
is_wanted (const struct host *h, unsigned m)
{
  const struct link *l = &h->link[m];

  if (h->view.map_epoch < h->view.epoch || l->state == LINK_WANTED)
    return false;
  return l->state == LINK_OUT || is_stale (h, m) ||
         (h->readonly && l->state == LINK_LOST && h->view.map_epoch > l->epoch);
}

void
host_links_look (struct host *h)
{
  for (unsigned m = 0; m < h->members; m++) {
    struct link *l = &h->link[m];

    /* host_opened looks at the member's state when the attempt has ended. */
    if (l->state == LINK_CONNECTING)
      continue;
    if (h->view.states[m] == MEMBER_OUT) {
      l->state = LINK_OUT;
      l->told = l->said = false;
    }
    else if (is_wanted (h, m)) {
      l->state = LINK_WANTED;
      l->told = false;
    }
  }
}

bool
host_links_settled (const struct host *h)
{
  if (h->view.map_epoch < h->view.epoch)
    return false;
  for (unsigned m = 0; m < h->members; m++) {
    const struct link *l = &h->link[m];

    if (h->view.states[m] != MEMBER_OUT && !l->told &&
        (l->state != LINK_UP || l->busy || is_stale (h, m)))
      return false;
  }
  return true;
}

/* A reader's connections do not matter: a read of a member without a connection
 * waits.
 */
bool
host_links_may_prepare (const struct host *h)
{
  for (unsigned m = 0; m < h->members; m++)
    if (!h->readonly && h->view.change_states[m] == MEMBER_IN_SYNC &&
        h->view.states[m] != MEMBER_IN_SYNC &&
        (h->link[m].state != LINK_UP || h->link[m].busy))
      return false;
  return true;
}

/* ---- Connecting ---- */

unsigned
host_links_connect_due (const struct host *h)
{
  for (unsigned m = 0; m < h->members; m++)
    if (h->link[m].state == LINK_WANTED && !h->link[m].busy)
      return m;
  return h->members;
}

void
host_links_connect_take (struct host *h, struct host_action *a)
{
  struct link *l = &h->link[host_links_connect_due (h)];

  l->state = LINK_CONNECTING;
  l->busy = true;
  l->epoch = h->view.map_epoch;
  a->member = l - h->link;
  l->lapse = h->view.lapse[a->member];
  l->life = h->view.life[a->member];
  l->round = h->view.round[a->member];
  a->connection = ++l->connection;
}

static void
link_lost (struct host *h, struct link *l, const char *reason, uint64_t now_ms)
{
  l->state = LINK_LOST;
  l->answers = false;
  l->waits_from_ms = now_ms;
  l->due_ms = now_ms + (l->told ? HOST_RETRY_MS : ENDING_WAIT_MS);
  snprintf (l->reason, sizeof l->reason, "%s", reason);
  host_links_look (h);
}

bool
host_opened (struct host *h, unsigned m, bool ok, const char *why, bool *kept,
             uint64_t *reach, uint64_t now_ms)
{
  struct link *l = &h->link[m];

  assert (l->state == LINK_CONNECTING && l->busy);
  /* The member may have gone out, or been fenced again, meanwhile. */
  if (h->ended || h->over || h->view.states[m] == MEMBER_OUT ||
      is_stale (h, m)) {
    l->state = LINK_OUT;
    l->busy = false;
    host_links_look (h);
    return false;
  }
  if (!ok) {
    l->busy = false;
    link_lost (h, l, why, now_ms);
    return false;
  }
  l->state = LINK_UP;
  h->relinked |= h->view.states[m] == MEMBER_IN_SYNC && !h->readonly;
  *kept = l->lapse <= l->used;
  *reach = l->life <= l->used ? UINT64_MAX : l->round;
  return true;
}

bool
host_seated (struct host *h, unsigned m, bool taken, uint64_t now_ms)
{
  struct link *l = &h->link[m];
  bool up = l->state == LINK_UP;

  assert (l->busy && l->state != LINK_CONNECTING);
  l->busy = false;
  if (taken) {
    l->used = l->epoch;
    l->told &= !up;
  }
  else if (up)
    link_lost (h, l, "it does not answer earlier requests", now_ms);
  return taken && up;
}

bool
host_lost (struct host *h, unsigned m, uint64_t connection, bool answers,
           uint64_t waited_ms, const char *reason, uint64_t now_ms)
{
  struct link *l = &h->link[m];

  if (l->state != LINK_UP || l->connection != connection)
    return false;
  l->told = l->said = false;
  link_lost (h, l, reason, now_ms);
  l->answers = answers;
  l->waits_from_ms -= waited_ms;
  return true;
}

/* ---- Reports ---- */

/* The link whose report is the most due; NULL: none is lost. */
static const struct link *
report_due (const struct host *h)
{
  const struct link *first = NULL;

  for (unsigned m = 0; m < h->members; m++) {
    const struct link *l = &h->link[m];

    if (l->state == LINK_LOST && (first == NULL || l->due_ms < first->due_ms))
      first = l;
  }
  return first;
}

uint64_t
host_links_report_due_ms (const struct host *h)
{
  const struct link *l = report_due (h);

  return l == NULL || h->reporting || h->ending ? UINT64_MAX : l->due_ms;
}

void
host_links_report_take (struct host *h, struct host_action *a, uint64_t now_ms)
{
  const struct link *l = report_due (h);

  h->reporting = true;
  h->reported = a->member = l - h->link;
  h->reported_connection = l->connection;
  a->first = !l->told;
  a->timeout_ms = CALL_TIMEOUT_MS;
  a->answers = l->answers;
  a->waited_ms = now_ms - l->waits_from_ms;
  memcpy (a->reason, l->reason, sizeof a->reason);
}

enum host_news
host_reported (struct host *h, const struct host_answer *a, uint64_t now_ms)
{
  struct link *l = &h->link[h->reported];
  bool conflict = a->status == 409 && a->code;
  bool in_use = conflict && strcmp (a->code, "in-use") == 0;
  uint64_t retry_ms = a->retry_after_ms;

  assert (h->reporting);
  h->reporting = false;
  if (host_view_learn (h, a))
    host_links_look (h);
  /* By now a newer connection may be lost, of which weftd has not heard. */
  if (l->state == LINK_LOST && l->connection != h->reported_connection)
    return HOST_NO_NEWS;
  if (l->state != LINK_LOST)
    return a->status == 200 && l->state == LINK_OUT ? HOST_RECORDED
                                                    : HOST_NO_NEWS;
  l->due_ms = now_ms + (retry_ms > 0 && retry_ms < HOST_RETRY_MS
                          ? retry_ms
                          : HOST_RETRY_MS);
  if (a->status == 200 || in_use ||
      (conflict && strcmp (a->code, "last-copy") == 0))
    l->told = true;
  if (h->readonly && in_use) { /* only the connection to it was broken */
    l->state = LINK_WANTED;
    return HOST_NO_NEWS;
  }
  if (l->said || a->status == 200 ||
      (conflict && strcmp (a->code, "changing") == 0 &&
       now_ms < l->waits_from_ms + CHANGING_SAID_MS))
    return HOST_NO_NEWS;
  l->said = true;
  return HOST_UNRECORDED;
}

void
host_ending (struct host *h)
{
  h->reporting = false;
  h->ending = true;
}
