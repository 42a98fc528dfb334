/* host-attach.c: interprets the answer to an attach.
 *
 * If waiting helps, as with a holder that is silent, weftd says for how long.
 * A holder that has died a moment ago does not count as silent yet.  So we ask
 * again, to see whether weftd hears the holder more than once: its last
 * heartbeat may have been under way when it died.
 *
 * A candidate for an array's service asks until it is admitted: the present
 * server, a member, or weftd itself may be away for long.
 */

#include <config.h>

#include <stdio.h>
#include <string.h>

#include "host-internal.h"

#define ATTACH_WAIT_MS_MIN 500
#define HOLDER_SIGNS 2
#define STANDBY_PAUSE_MS 100

/* How long a candidate waits before it asks again; 0: asking again does not
 * help.
 */
static unsigned
serve_after_ms (const struct host_attach_answer *answer)
{
  if (answer->standby)
    return STANDBY_PAUSE_MS;
  if (answer->status <= 0 || answer->status == 503)
    return HOST_RETRY_MS;
  if (answer->status != 409 || answer->retry_after_ms == 0)
    return 0;
  return answer->retry_after_ms < ATTACH_WAIT_MS_MIN    ? ATTACH_WAIT_MS_MIN
         : answer->retry_after_ms < HOST_ATTACH_WAIT_MS ? answer->retry_after_ms
                                                        : HOST_ATTACH_WAIT_MS;
}

/* The same for all others. */
static unsigned
retry_after_ms (struct host_attach *a, const struct host_attach_answer *answer)
{
  const uint64_t heard_ms = answer->holder_heard_ms;

  /* 429: others of our node have attached very often just now. */
  if (answer->status == 429)
    return HOST_RETRY_MS;
  if (answer->status != 409)
    return 0;
  if (answer->retry_after_ms > HOST_ATTACH_WAIT_MS)
    return HOST_ATTACH_WAIT_MS;
  if (answer->retry_after_ms > 0)
    return answer->retry_after_ms < ATTACH_WAIT_MS_MIN
             ? ATTACH_WAIT_MS_MIN
             : (unsigned) answer->retry_after_ms;
  if (answer->holder == NULL)
    return 0;
  a->signs += a->asked && heard_ms < a->heard_ms + HOST_RETRY_MS / 2;
  a->asked = true;
  a->heard_ms = heard_ms;
  return a->signs < HOLDER_SIGNS ? HOST_RETRY_MS : 0;
}

enum host_attach_next
host_attach_answered (struct host_attach *a,
                      const struct host_attach_answer *answer,
                      unsigned *wait_ms)
{
  *wait_ms = 0;
  if (answer->status == 200 || answer->status == 201)
    return HOST_ATTACHED;
  *wait_ms = a->service ? serve_after_ms (answer) : retry_after_ms (a, answer);
  if (*wait_ms == 0 || (!a->service && a->waited_ms >= HOST_ATTACH_WAIT_MS))
    return HOST_ATTACH_REFUSED;
  /* weftd does not wait for a holder's silence if it knows that the holder's
   * process has ended.
   */
  if (answer->holder && answer->holder_ended &&
      strcmp (a->ended, answer->holder) != 0) {
    snprintf (a->ended, sizeof a->ended, "%s", answer->holder);
    *wait_ms = 0;
  }
  a->waited_ms += *wait_ms;
  return HOST_ATTACH_AGAIN;
}
