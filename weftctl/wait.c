/* wait.c: ask weftd again and again until something is so.
 *
 * A weftd that is restarted meanwhile is waited for: what it does goes on in
 * the members, and it knows of it afterwards.
 */

#include <config.h>

#include <stdio.h>
#include <string.h>

#include "common/admin.h"
#include "common/clock.h"
#include "ctl.h"
#include "output.h"
#include "progress.h"
#include "wait.h"

#define POLL_MS 200
#define SILENT_MS_MAX 60000

/* How long is left, at most POLL_MS; 0: the time is up. */
static unsigned
pause_ms (const struct wait *w)
{
  uint64_t now = clock_ms ();

  if (w->end_ms == 0 || w->end_ms > now + POLL_MS)
    return POLL_MS;
  return w->end_ms > now ? (unsigned) (w->end_ms - now) : 0;
}

static int
timed_out (struct ctl *ctl, const struct wait *w)
{
  ctl_error ("%s: not %s after %u s: %s", w->subject, w->what,
             ctl->timeout_ms / 1000, w->now);
  return EXIT_FAILED;
}

/* weftd does not answer: EXIT_OK when it is worth to ask again. */
static int
silent (struct ctl *ctl, struct wait *w)
{
  uint64_t now = clock_ms ();

  if (w->silent_since_ms == 0)
    w->silent_since_ms = now;
  if (!w->heard || now - w->silent_since_ms > SILENT_MS_MAX) {
    progress_end (&w->progress);
    return ctl_unreachable (ctl);
  }
  snprintf (w->now, sizeof w->now, "weftd does not answer");
  progress_show (&w->progress, w->subject, -1, w->now, w->now);
  return EXIT_OK;
}

int
ctl_wait (struct ctl *ctl, struct wait *w, const char *path, json_t **reply)
{
  bool done = false;
  unsigned ms;
  int r;

  progress_begin (&w->progress, ctl->json || w->quiet);
  for (;;) {
    *reply = NULL;
    r = ctl_try (ctl, "GET", path, NULL, reply);
    if (r == EXIT_UNREACHABLE)
      r = silent (ctl, w);
    else if (r == EXIT_OK) {
      w->heard = true;
      w->silent_since_ms = 0;
      r = w->look (w, *reply, &done);
    }
    if (r != EXIT_OK || done)
      break;
    ms = pause_ms (w);
    if (ms == 0) {
      progress_end (&w->progress);
      r = timed_out (ctl, w);
      break;
    }
    json_decref (*reply);
    clock_sleep_ms (ms);
  }
  progress_end (&w->progress);
  if (r != EXIT_OK) {
    json_decref (*reply);
    *reply = NULL;
  }
  return r;
}

void
ctl_wait_init (struct ctl *ctl, struct wait *w, bool limited)
{
  memset (w, 0, sizeof *w);
  if (limited || ctl->timeout_given)
    w->end_ms = clock_ms () + ctl->timeout_ms;
}
