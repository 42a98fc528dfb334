/* control-lease.c: see control-lease.h.
 *
 * Threads carry out the actions of the lessee's engine (core/host/lessee.h).
 * `asker` and `giver` speak to weftd, each by an HTTP client of its own,
 * because weftd holds a request for leases until other hosts have given them
 * back.  `leaver` gives ranges up, which takes no time.  `recoverer` resyncs
 * copies, which may take long.
 *
 * The order of these calls ensures that no range has two holders; the comments
 * here say where.
 */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "control-internal.h"
#include "control-lease.h"
#include "array-resync.h"
#include "hangup.h"
#include "role.h"

#define STOP_MS 5000
#define LEAVES_MS 10   /* until it is looked again whether all has arrived */
#define SAY_MS 3000    /* requests that wait for this time are logged */
#define RANGES_MAX 256 /* at a time: of a grant, and of what was left */

static const struct {
  const char *name;
  unsigned kinds;
  bool speaks;
} workers[LEASE_WORKERS] = {
  { "weft-asker", LESSEE_DO_ASK, true },
  { "weft-giver", LESSEE_DO_GIVE, true },
  { "weft-leaver", LESSEE_DO_LEAVE, false },
  { "weft-recoverer", LESSEE_DO_RECOVER, false },
};

/* ----- Messages ----- */

static bool
same (const struct array_range *a, const struct array_range *b)
{
  return a->offset == b->offset && a->length == b->length;
}

/* This is what requests wait for now.  With wants_lock. */
static void
watch_wait (struct control *c, const struct array_range *wants, unsigned count)
{
  bool over;

  for (unsigned i = 0; i < count; i++)
    if (same (&wants[i], &c->waits.range))
      return;
  pthread_mutex_lock (&c->lock);
  over = c->lease_quit || host_is_over (c->host);
  pthread_mutex_unlock (&c->lock);
  if (c->waits.said && !over)
    nbdkit_error ("array %s: requests no longer wait for a lease of %" PRIu64
                  " bytes from %" PRIu64 " on",
                  params.array, c->waits.range.length, c->waits.range.offset);
  c->waits.range = count > 0 ? wants[0] : (struct array_range) { 0 };
  c->waits.since_ms = clock_ms ();
  c->waits.said = false;
}

/* weftd has answered an ask, the first range of which could not be had for this reason;
 * NULL: it has granted some of it.
 */
static void
say_wait (struct control *c, const struct array_range *first, const char *why)
{
  char other[256];
  uint64_t ms;

  pthread_mutex_lock (&c->wants_lock);
  ms = clock_ms () - c->waits.since_ms;
  if (c->waits.range.length > 0 && !c->waits.said && ms >= SAY_MS) {
    if (why == NULL || !same (first, &c->waits.range)) {
      /* It may be the first of the next ask. */
      why = ms >= 2 * SAY_MS ? other : NULL;
      snprintf (other, sizeof other, "weftctl array leases %s shows who has it",
                params.array);
    }
    c->waits.said = why != NULL;
    if (why)
      nbdkit_error ("array %s: requests wait for a lease of %" PRIu64
                    " bytes from %" PRIu64 " on, since %" PRIu64 " s: %s",
                    params.array, c->waits.range.length, c->waits.range.offset,
                    ms / 1000, why);
  }
  pthread_mutex_unlock (&c->wants_lock);
}

/*----- What the array engine says -----*/

/* Hand over what its requests wait for.  One who has asked the array engine earlier must
 * not say so later: a request that came between the two would be forgotten.
 */
static void
say_wants (struct control *c,
           void (*say) (struct lessee *, const struct array_range *, unsigned,
                        uint64_t))
{
  struct array_range wants[LESSEE_WANTS_MAX];
  unsigned count;

  pthread_mutex_lock (&c->wants_lock);
  count = engine_lease_wants (c->engine, wants, LESSEE_WANTS_MAX);
  watch_wait (c, wants, count);
  pthread_mutex_lock (&c->lock);
  say (c->lessee, wants, count, clock_ms ());
  pthread_cond_broadcast (&c->wake);
  pthread_mutex_unlock (&c->lock);
  pthread_mutex_unlock (&c->wants_lock);
}

void
control_lease_notice (struct control *c, const struct array_notice *n)
{
  struct array_range *left = NULL;
  unsigned count = 0, more;

  if (n->kind == NOTICE_LEASE)
    say_wants (c, lessee_wants);
  if (n->kind != NOTICE_LEFT)
    return;
  /* All of it at once: the ranges of one LEAVE must be reported together. */
  do {
    left = realloc (left, (count + RANGES_MAX) * sizeof *left);
    if (left == NULL)
      abort ();
    more = engine_lease_left (c->engine, left + count, RANGES_MAX);
    count += more;
  } while (more > 0);
  pthread_mutex_lock (&c->lock);
  lessee_left (c->lessee, left, count);
  pthread_cond_broadcast (&c->wake);
  pthread_mutex_unlock (&c->lock);
  free (left);
}

/*----- Speaking to weftd -----*/

/* Has weftd refused, for it has not been told yet what leases there are? */
static bool
must_declare (const struct worker *w, int status)
{
  return status == 409 && strcmp (admin_code (w->admin), "declare") == 0;
}

static int
speak (struct worker *w, json_t *body, json_t **reply, unsigned timeout_ms)
{
  char path[128];
  bool refused;
  int status;

  json_object_set_new (body, "instance", json_string (w->control->instance));
  snprintf (path, sizeof path, "/api/v1/sessions/%s/leases",
            w->control->session);
  status = admin_call (w->admin, "POST", path, body, reply, timeout_ms);
  json_decref (body);
  if (weft_debug_control)
    nbdkit_debug ("weft: leases: %d %s", status, admin_error (w->admin));
  /* That weftd is silent, or that others have a lease, passes by itself. */
  refused = status >= 400 && status != 409 && status != 410;
  if (refused && !w->silent)
    nbdkit_error ("array %s: weftd refuses a call about leases, and requests "
                  "that need a lease wait: %s; trying again",
                  params.array, admin_error (w->admin));
  w->silent = refused;
  return status;
}

/* weftd does not wait until a holder is silent if its own node knows that the holder's
 * process has ended.
 */
static void
look_at_holder (struct worker *w, const json_t *reply)
{
  const json_t *holder = json_object_get (reply, "holder");
  const char *session = json_string_value (json_object_get (holder, "session"));
  const char *process = json_string_value (json_object_get (holder, "process"));

  w->holder[0] = '\0';
  if (session && process && process_has_ended (process))
    snprintf (w->holder, sizeof w->holder, "%s", session);
}

static void
ask (struct worker *w, const struct lessee_action *a)
{
  struct control *c = w->control;
  struct array_range granted[RANGES_MAX], *told;
  json_t *list = json_array (), *reply = NULL, *body;
  unsigned count;
  int status;

  for (unsigned i = 0; i < a->asks; i++)
    json_array_append_new (list, control_messages_wish (&a->ask[i]));
  body = json_pack ("{s:o, s:i}", "ask", list, "wait_ms", (int) a->wait_ms);
  if (w->holder[0])
    json_object_set_new (body, "ended", json_string (w->holder));
  status = speak (w, body, &reply, a->timeout_ms);
  look_at_holder (w, reply);
  count = control_messages_read_ranges (c, json_object_get (reply, "granted"),
                                        &told);
  if (count > RANGES_MAX)
    count = RANGES_MAX;
  if (count > 0)
    memcpy (granted, told, count * sizeof *told);
  free (told);
  json_decref (reply);
  pthread_mutex_lock (&c->lock);
  count = lessee_granted (c->lessee, status, must_declare (w, status), granted,
                          count, RANGES_MAX, clock_ms ());
  pthread_mutex_unlock (&c->lock);
  for (unsigned i = 0; weft_debug_control && i < a->asks; i++)
    nbdkit_debug ("weft: leases: asked for %" PRIu64 " bytes from %" PRIu64
                  " on, better %" PRIu64 " from %" PRIu64 " on",
                  a->ask[i].must.length, a->ask[i].must.offset,
                  a->ask[i].wish.length, a->ask[i].wish.offset);
  for (unsigned i = 0; weft_debug_control && i < count; i++)
    nbdkit_debug ("weft: leases: got %" PRIu64 " bytes from %" PRIu64 " on",
                  granted[i].length, granted[i].offset);
  /* Nothing of it is left before lessee_asked: the array engine has it by then. */
  if (count > 0)
    engine_lease_grant (c->engine, granted, count);
  say_wants (c, lessee_asked);
  if (status == 200 || (status == 409 && !must_declare (w, status)))
    say_wait (c, &a->ask[0].must,
              status == 409 ? admin_error (w->admin) : NULL);
}

static void
give (struct worker *w, const struct lessee_action *a)
{
  struct control *c = w->control;
  json_t *body = json_pack ("{s:I, s:o}", "number", (json_int_t) a->number,
                            "give",
                            control_messages_ranges (a->ranges, a->count));
  json_t *reply = NULL;
  struct array_range *all;
  size_t count;
  int status;

  if (a->recovered)
    json_object_set_new (body, "recovered",
                         json_integer ((json_int_t) a->recovered));
  /* No ASK is under way, so nothing comes to what is ours before weftd has it all. */
  if (a->declare) {
    count = engine_lease_all (c->engine, &all);
    json_object_set_new (body, "declare",
                         control_messages_ranges (all, (unsigned) count));
    free (all);
  }
  status = speak (w, body, &reply, a->timeout_ms);
  json_decref (reply);
  pthread_mutex_lock (&c->lock);
  lessee_gave (c->lessee, status, must_declare (w, status), clock_ms ());
  pthread_cond_broadcast (&c->wake);
  pthread_mutex_unlock (&c->lock);
}

/*----- What a dead one had -----*/

static void
say_recovered (struct control *c, bool ok)
{
  pthread_mutex_lock (&c->lock);
  lessee_recovered (c->lessee, ok, clock_ms ());
  pthread_cond_broadcast (&c->wake);
  pthread_mutex_unlock (&c->lock);
}

/* The recovered ranges are in sync.  With a part the array engine leaves them,
 * and another session may get them when no request is under way there any more.
 */
void
control_lease_recovered (struct control *c)
{
  bool ok = true;

  engine_lease_recovered (c->engine);
  while (ok && !params.leases && engine_lease_leaves (c->engine)) {
    usleep (LEAVES_MS * 1000);
    pthread_mutex_lock (&c->lock);
    ok = !c->lease_quit && !host_is_over (c->host) && !hangup_ending ();
    pthread_mutex_unlock (&c->lock);
  }
  say_recovered (c, ok);
}

static void
recover (struct control *c, const struct lessee_action *a)
{
  bool ok;

  nbdkit_error (
    "array %s: a host that shared it is gone: resynchronizing its last writes",
    params.array);
  engine_lease_recover (c->engine, a->ranges, a->count);
  pthread_mutex_lock (&c->lock);
  c->recovery_begins = false;
  pthread_cond_broadcast (&c->wake);
  pthread_mutex_unlock (&c->lock);
  ok = resync_recover (c->engine, c->layout, c, a->ranges, a->count) == 0;
  if (ok)
    control_lease_recovered (c);
  else
    say_recovered (c, false);
}

/*----- The threads -----*/

static void
carry_out (struct worker *w, const struct lessee_action *a)
{
  switch (a->kind) {
  case LESSEE_DO_LEAVE:
    engine_lease_leave (w->control->engine, &a->leave);
    break;
  case LESSEE_DO_RECOVER:
    recover (w->control, a);
    break;
  case LESSEE_DO_GIVE:
    give (w, a);
    break;
  case LESSEE_DO_ASK:
    ask (w, a);
    break;
  case LESSEE_DO_ALL:
    break;
  }
}

static void *
work (void *opaque)
{
  struct worker *w = opaque;
  struct control *c = w->control;
  struct lessee_action a;
  uint64_t now_ms, due_ms;

  pthread_setname_np (pthread_self (), workers[w - c->lease_worker].name);
  pthread_mutex_lock (&c->lock);
  while (!c->lease_quit) {
    now_ms = clock_ms ();
    due_ms = UINT64_MAX;
    if (!host_is_over (c->host) && !c->recovery_begins) {
      if (lessee_next (c->lessee, now_ms, w->kinds, &a)) {
        c->recovery_begins = a.kind == LESSEE_DO_RECOVER;
        pthread_mutex_unlock (&c->lock);
        carry_out (w, &a);
        pthread_mutex_lock (&c->lock);
        continue;
      }
      due_ms = lessee_due_ms (c->lessee, w->kinds);
    }
    if (due_ms == UINT64_MAX)
      pthread_cond_wait (&c->wake, &c->lock);
    else
      clock_wait_ms (&c->wake, &c->lock, due_ms);
  }
  w->ended = true;
  pthread_cond_broadcast (&c->wake);
  pthread_mutex_unlock (&c->lock);
  return NULL;
}

int
control_lease_start (struct control *c)
{
  int r = 0;

  for (unsigned i = 0; r == 0 && i < LEASE_WORKERS; i++) {
    struct worker *w = &c->lease_worker[i];

    w->control = c;
    w->kinds = workers[i].kinds;
    if (workers[i].speaks)
      w->admin = admin_new (params.admin, params.tls, NULL);
    if (workers[i].speaks && w->admin == NULL)
      r = ENOMEM;
    else
      r = pthread_create (&w->thread, NULL, work, w);
    c->lease_workers += r == 0;
  }
  return r;
}

/* Have all ended?  With the lock. */
static bool
all_ended (const struct control *c)
{
  for (unsigned i = 0; i < c->lease_workers; i++)
    if (!c->lease_worker[i].ended)
      return false;
  return true;
}

bool
control_lease_stop (struct control *c)
{
  uint64_t until_ms = clock_ms () + STOP_MS, order;
  bool ended, recovered;

  pthread_mutex_lock (&c->lock);
  c->lease_quit = true;
  pthread_cond_broadcast (&c->wake);
  pthread_mutex_unlock (&c->lock);
  for (unsigned i = 0; i < c->lease_workers; i++)
    if (c->lease_worker[i].admin)
      admin_cancel (c->lease_worker[i].admin);
  pthread_mutex_lock (&c->lock);
  while (!all_ended (c) && clock_wait_ms (&c->wake, &c->lock, until_ms))
    ;
  ended = all_ended (c);
  pthread_mutex_unlock (&c->lock);
  if (!ended)
    engine_abandon (c->engine);
  for (; c->lease_workers > 0; c->lease_workers--)
    pthread_join (c->lease_worker[c->lease_workers - 1].thread, NULL);
  pthread_mutex_lock (&c->lock);
  /* That we owe the order of our attach every weftd knows, or has not heard from us
   * what we have: it has another one recover it at once.
   */
  order = c->lessee ? lessee_order (c->lessee) : c->order;
  recovered = order == 0 || order == c->order;
  pthread_mutex_unlock (&c->lock);
  return recovered;
}
