/* follow.c: see follow.h. */

#include <config.h>

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "follow.h"

/* weftd is asked so often while there is no connection. */
#define SEEK_MS 200
/* The time after which a failed connection, or a weftd without an answer, is
 * tried again.
 */
#define AGAIN_MS 500

void
follow_resume (struct follow *f, uint64_t number, bool known, uint64_t fences,
               uint64_t used)
{
  f->number = number;
  f->begun = known;
  f->fences = fences;
  f->used = used;
}

bool
follow_next (struct follow *f, uint64_t now_ms, struct follow_action *a)
{
  memset (a, 0, sizeof *a);
  if (f->busy || f->stopped)
    return false;
  if (f->over) {
    a->kind = FOLLOW_STOP;
    f->stopped = true;
    return true;
  }
  if (f->leaves || f->drops) {
    a->kind = f->leaves ? FOLLOW_LEAVE : FOLLOW_DROP;
    a->kept = f->kept;
    f->leaves = f->drops = false;
    return true;
  }
  if (f->state == FOLLOW_SEEK && f->found) {
    a->kind = FOLLOW_OPEN;
    a->number = ++f->number;
    a->fences = f->fences;
    snprintf (a->session, sizeof a->session, "%s", f->session);
    snprintf (a->uri, sizeof a->uri, "%s", f->uri);
    f->found = false;
    f->state = FOLLOW_OPENING;
  }
  else if (f->state == FOLLOW_CHECKING && f->checked) {
    a->kind = FOLLOW_TAKE;
    a->connection = ++f->connection;
    a->kept = f->kept;
  }
  else if (now_ms >= f->due_ms) {
    a->kind = FOLLOW_ASK;
    a->reached = f->state >= FOLLOW_FLUSHING;
    if (a->reached || f->unreached)
      snprintf (a->session, sizeof a->session, "%s", f->session);
  }
  else if (f->state == FOLLOW_FLUSHING)
    a->kind = FOLLOW_FLUSH;
  else
    return false;
  f->busy = true;
  return true;
}

uint64_t
follow_due_ms (const struct follow *f)
{
  if (f->busy || f->stopped)
    return UINT64_MAX;
  return f->over || f->leaves || f->drops || f->state == FOLLOW_FLUSHING ||
             (f->state == FOLLOW_SEEK && f->found) ||
             (f->state == FOLLOW_CHECKING && f->checked)
           ? 0
           : f->due_ms;
}

static void
seek (struct follow *f, uint64_t due_ms)
{
  f->state = FOLLOW_SEEK;
  f->found = f->checked = false;
  f->due_ms = due_ms;
}

/* The array may have been deleted, and another made by the same name. */
static bool
same_array (struct follow *f, const struct follow_answer *answer)
{
  if (f->array[0] == '\0')
    snprintf (f->array, sizeof f->array, "%s", answer->array);
  f->stranger = strcmp (f->array, answer->array) != 0;
  return !f->stranger;
}

void
follow_heard (struct follow *f, const struct follow_answer *answer,
              uint64_t now_ms)
{
  bool served = answer->status == 200 && same_array (f, answer) &&
                answer->session[0];
  bool ours = served && strcmp (answer->session, f->session) == 0;
  bool lapsed = answer->lapse > f->used;

  f->busy = false;
  if (answer->status == 200) {
    if (!f->begun)
      f->fences = answer->fences;
    f->begun = true;
    f->over = f->over || f->fences < answer->below;
  }
  f->over = f->over || answer->refused;
  f->due_ms = now_ms + (answer->status != 200         ? AGAIN_MS
                        : f->state >= FOLLOW_FLUSHING ? HEARTBEAT_MS
                                                      : SEEK_MS);
  switch (f->state) {
  case FOLLOW_SEEK:
    if (!served)
      return;
    snprintf (f->session, sizeof f->session, "%s", answer->session);
    snprintf (f->uri, sizeof f->uri, "%s", answer->uri);
    f->found = true;
    return;
  case FOLLOW_FLUSHING:
  case FOLLOW_CHECKING:
    if (answer->status != 200)
      return;
    if (!ours) {
      f->drops = true;
      seek (f, now_ms);
      return;
    }
    if (f->state == FOLLOW_FLUSHING)
      return;
    f->checked = true;
    f->kept = !f->gone && !lapsed;
    f->epoch = answer->epoch;
    return;
  case FOLLOW_UP:
    /* Report a loss at a server that stays now; with another server later the
     * report would come too late.
     */
    if (served && (!ours || lapsed)) {
      f->leaves = true;
      f->kept = !lapsed;
      seek (f, now_ms);
    }
    return;
  case FOLLOW_OPENING:
    break;
  }
  assert (0);
}

void
follow_opened (struct follow *f, bool ok, uint64_t now_ms)
{
  assert (f->busy && f->state == FOLLOW_OPENING);
  f->busy = false;
  f->unreached = !ok;
  if (!ok) {
    seek (f, now_ms + AGAIN_MS);
    return;
  }
  f->state = FOLLOW_FLUSHING;
  f->due_ms = now_ms + HEARTBEAT_MS;
}

void
follow_flushed (struct follow *f, enum follow_flush what, uint64_t now_ms)
{
  assert (f->busy && f->state == FOLLOW_FLUSHING);
  f->busy = false;
  if (what == FOLLOW_PENDING)
    return;
  if (what == FOLLOW_BROKEN) {
    f->drops = true;
    seek (f, now_ms + AGAIN_MS);
    return;
  }
  f->gone = f->gone || what == FOLLOW_GONE;
  f->state = FOLLOW_CHECKING;
  f->checked = false;
  f->due_ms = now_ms;
}

void
follow_taken (struct follow *f, bool ok, uint64_t now_ms)
{
  assert (f->busy && f->state == FOLLOW_CHECKING);
  f->busy = false;
  if (!ok) {
    f->connection--;
    seek (f, now_ms + AGAIN_MS);
    return;
  }
  f->used = f->epoch;
  f->gone = false;
  f->state = FOLLOW_UP;
  f->checked = false;
  f->due_ms = now_ms + HEARTBEAT_MS;
  if (f->lost == f->connection) /* already */
    seek (f, now_ms);
}

void
follow_lost (struct follow *f, uint64_t connection, uint64_t now_ms)
{
  /* The loss of an earlier connection may be reported later. */
  if (connection > f->lost)
    f->lost = connection;
  if (f->state == FOLLOW_UP && connection == f->connection) {
    f->unreached = true;
    seek (f, now_ms);
  }
}
