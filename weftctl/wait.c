/* wait.c: ask weftd repeatedly until a condition holds.
 *
 * If weftd is restarted meanwhile, wait for it: its members go on with the
 * work, and weftd learns of that afterwards.
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
wait_done (struct ctl *ctl, struct wait *w, const char *path, json_t **reply)
{
  bool done = false;
  uint64_t now;
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
    now = clock_ms ();
    if (w->end_ms && w->end_ms <= now) {
      progress_end (&w->progress);
      ctl_error ("%s: not %s after %u s: %s", w->subject, w->what,
                 ctl->timeout_ms / 1000, w->now);
      r = EXIT_FAILED;
      break;
    }
    json_decref (*reply);
    clock_sleep_ms (w->end_ms && w->end_ms < now + POLL_MS
                      ? (unsigned) (w->end_ms - now)
                      : POLL_MS);
  }
  progress_end (&w->progress);
  if (r != EXIT_OK) {
    json_decref (*reply);
    *reply = NULL;
  }
  return r;
}

int
wait_and_say (struct ctl *ctl, struct wait *w, const char *path)
{
  json_t *reply;
  int r = wait_done (ctl, w, path, &reply);

  return ctl_say (ctl, r, reply, "%s: %s", w->subject, w->what);
}

void
wait_init (struct ctl *ctl, struct wait *w, bool limited)
{
  memset (w, 0, sizeof *w);
  if (limited || ctl->timeout_given)
    w->end_ms = clock_ms () + ctl->timeout_ms;
}
