/* control-links.c: the connections to members, while requests go on.
 *
 *   out ──► wanted ──► connecting ──► up ──► lost ──► out, or wanted again
 *                           └─────────────────►┘
 *
 * A member is connected when it is joining, or was lost and is to be used
 * again.  A writer may not simply connect again: what it asked before may
 * still be executed behind the new connection.  weftd says by the member's
 * `fence` that all of that is over; a connection that is older is no use, even
 * if it lives.  A reader has nothing to fear, and may.
 *
 * A lost member is reported until it is out, or back.  While weftd does not
 * leave it out (it has the last copy of something) what needs it waits.
 */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control-internal.h"
#include "hangup.h"
#include "peer.h"
#include "role.h"

#define CONNECT_MS 5000
#define SETTLE_MS 20 /* how often it is looked whether images are written */
#define ENDING_WAIT_MS 100 /* before a lost member is reported */
/* When more members are to be reported, weftd is not waited for with each:
 * it may be waiting for us.
 */
#define HURRY_MS 500

/*----- What is to be done -----*/

/* Is its connection of a life that the member has ended? */
static bool
is_stale (const struct control *c, unsigned m)
{
  return control_newest (c)->member[m].fence > c->link[m].epoch;
}

/* Is it to be connected, with the tokens that we have now? */
static bool
is_wanted (const struct control *c, unsigned m)
{
  const struct map *map = control_newest (c);
  const struct link *l = &c->link[m];

  if (map->epoch < c->epoch || l->state == LINK_WANTED)
    return false;
  return l->state == LINK_OUT || is_stale (c, m) ||
         (c->readonly && l->state == LINK_LOST && map->epoch > l->epoch);
}

void
links_look (struct control *c)
{
  for (unsigned m = 0; m < c->members; m++) {
    struct link *l = &c->link[m];

    /* Its thread will see what has become of a connection that is made. */
    if (l->state == LINK_CONNECTING)
      continue;
    if (c->states[m] == MEMBER_OUT) {
      l->state = LINK_OUT;
      l->told = l->said = false;
    } else if (is_wanted (c, m)) {
      l->state = LINK_WANTED;
      l->told = false;
      l->due_ms = control_now_ms ();
    }
  }
}

bool
links_settled (const struct control *c)
{
  if (control_newest (c)->epoch < c->epoch)
    return false;
  for (unsigned m = 0; m < c->members; m++) {
    const struct link *l = &c->link[m];

    if (c->states[m] != MEMBER_OUT && !l->told &&
        (l->state != LINK_UP || l->swapping || is_stale (c, m)))
      return false;
  }
  return true;
}

static void
link_lost (struct control *c, struct link *l, const char *reason)
{
  l->state = LINK_LOST;
  l->due_ms = control_now_ms () + (l->told ? RETRY_MS : 0);
  snprintf (l->reason, sizeof l->reason, "%s", reason);
  links_look (c);
  pthread_cond_broadcast (&c->wake);
}

void
control_notice (struct control *c, const struct array_notice *n)
{
  struct link *l = &c->link[n->member];

  pthread_mutex_lock (&c->lock);
  if (n->kind == NOTICE_PREPARED) {
    if (c->prepared < n->epoch)
      c->prepared = n->epoch;
    pthread_cond_broadcast (&c->wake);
  } else if (n->kind == NOTICE_LOST && l->state == LINK_UP) {
    nbdkit_error ("weft: member %s is lost: %s",
                  control_newest (c)->member[n->member].name, n->reason);
    l->told = l->said = false;
    link_lost (c, l, n->reason);
  }
  pthread_mutex_unlock (&c->lock);
}

/*----- Connecting -----*/

/* A connection to a member with this map, or NULL with a sentence in why. */
static struct peer *
open_peer (const struct control *c, unsigned m, const struct map_member *mm,
           char *why, size_t why_size)
{
  struct peer *p = peer_open (m, mm, c->readonly, false, CONNECT_MS,
                              engine_io_done, why, why_size);

  if (p && p->size < c->member_bytes) {
    snprintf (why, why_size, "%s has %llu bytes, but %llu are in use", p->label,
              (unsigned long long) p->size,
              (unsigned long long) c->member_bytes);
    peer_close (p);
    return NULL;
  }
  return p;
}

/* A connection was made, or not (NULL), to a member that has a lapse in this epoch.
 * With the lock, which is let go meanwhile.
 */
static void
link_made (struct control *c, unsigned m, struct peer *p, uint64_t lapse,
           const char *why)
{
  struct link *l = &c->link[m];
  bool in_sync = c->states[m] == MEMBER_IN_SYNC, taken;

  /* The member may have gone, or begun anew, meanwhile. */
  if (c->quit || c->over || c->states[m] == MEMBER_OUT ||
      is_stale (c, m)) {
    l->state = LINK_OUT;
    links_look (c);
  } else if (p == NULL)
    link_lost (c, l, why);
  else {
    l->state = LINK_UP;
    l->swapping = true;
    pthread_mutex_unlock (&c->lock);
    taken = engine_replace (c->engine, p, lapse <= l->used);
    pthread_mutex_lock (&c->lock);
    l->swapping = false;
    if (taken) {
      l->used = l->epoch;
      c->relinked |= in_sync && !c->readonly;
      l->told &= l->state != LINK_UP;
      p = NULL;
    } else if (l->state == LINK_UP)
      link_lost (c, l, "what it was asked before does not come back");
  }
  pthread_mutex_unlock (&c->lock);
  peer_close (p);
  pthread_mutex_lock (&c->lock);
}

static void *
connect_thread (void *opaque)
{
  struct link *l = opaque;
  struct control *c = l->control;
  unsigned m = l - c->link;
  struct map_member mm;
  struct peer *p = NULL;
  char why[8192] = "out of memory", name[NAME_BYTES_MAX + 1] = "";
  uint64_t lapse;
  bool copied;

  pthread_setname_np (pthread_self (), "weft-connect");
  pthread_mutex_lock (&c->lock);
  l->epoch = control_newest (c)->epoch;
  copied = map_member_copy (&mm, &control_newest (c)->member[m]);
  lapse = control_newest (c)->member[m].lapse;
  pthread_mutex_unlock (&c->lock);
  engine_sever (c->engine, m); /* from the old one, if it is a stale one */
  if (copied) {
    p = open_peer (c, m, &mm, why, sizeof why);
    strcpy (name, mm.name);
    map_member_free (&mm);
  }
  if (weft_debug_control)
    nbdkit_debug ("weft: connecting to member %s: %s", name, p ? "ok" : why);
  pthread_mutex_lock (&c->lock);
  link_made (c, m, p, lapse, why);
  if (l->state == LINK_UP)
    nbdkit_error ("array %s: member %s is connected again", params.array,
                  name);
  l->thread_done = true;
  pthread_cond_broadcast (&c->wake);
  pthread_mutex_unlock (&c->lock);
  return NULL;
}

/* Start the threads that are due, and bury those that are done; returns when
 * to look again.  The engine is to know the epoch before it gets a connection
 * of it.
 */
static uint64_t
connect_due (struct control *c)
{
  uint64_t now_ms = control_now_ms (), next_ms = UINT64_MAX;

  for (unsigned m = 0; m < c->members; m++) {
    struct link *l = &c->link[m];

    if (l->thread_done) {
      pthread_join (l->thread, NULL);
      l->thread_made = l->thread_done = false;
    }
    if (l->state != LINK_WANTED || l->thread_made || c->committed < c->epoch)
      continue;
    if (l->due_ms <= now_ms) {
      l->thread_made =
          pthread_create (&l->thread, NULL, connect_thread, l) == 0;
      if (l->thread_made)
        l->state = LINK_CONNECTING;
      else
        l->due_ms = now_ms + RETRY_MS;
    }
    if (l->state == LINK_WANTED && l->due_ms < next_ms)
      next_ms = l->due_ms;
  }
  return next_ms;
}

/* Do we work in the newest epoch by now?  When to look again. */
static uint64_t
settle (struct control *c)
{
  uint64_t epoch = c->epoch, entered;

  if (c->settled == epoch || c->committed < epoch || !links_settled (c))
    return UINT64_MAX;
  pthread_mutex_unlock (&c->lock);
  entered = engine_epoch (c->engine);
  pthread_mutex_lock (&c->lock);
  if (entered < epoch || c->epoch > epoch || !links_settled (c))
    return control_now_ms () + SETTLE_MS;
  c->settled = epoch;
  pthread_cond_broadcast (&c->wake);
  return 0;
}

/* Are those connected that the change counts on?  Nobody waits for a reader's
 * connection: what it wants to read of such a member waits.
 */
static bool
may_prepare (const struct control *c)
{
  if (c->change <= c->asked || c->change <= c->epoch ||
      c->committed < c->epoch)
    return false;
  for (unsigned m = 0; m < c->members; m++)
    if (!c->readonly && c->change_states[m] == MEMBER_IN_SYNC &&
        c->states[m] != MEMBER_IN_SYNC &&
        (c->link[m].state != LINK_UP || c->link[m].swapping))
      return false;
  return true;
}

/* Give the change to the engine.  With the lock, which is let go meanwhile. */
static void
prepare (struct control *c)
{
  enum member_state states[ARRAY_MEMBERS_MAX];
  uint64_t epoch = c->asked = c->change;

  memcpy (states, c->change_states, sizeof states);
  pthread_mutex_unlock (&c->lock);
  engine_prepare (c->engine, epoch, states);
  pthread_mutex_lock (&c->lock);
}

/* A reader that weftd may have passed over answers nothing until it works with
 * what weftd says now.  Returns when to look again; with the lock, which is
 * let go meanwhile.
 */
static uint64_t
hold_silent (struct control *c)
{
  uint64_t deadline_ms = c->heard_ms + SESSION_TTL_MS;
  bool silent = control_now_ms () >= deadline_ms;
  bool hold = silent || (c->held && c->settled < c->epoch);

  if (!c->readonly)
    return UINT64_MAX;
  if (hold != c->held) {
    c->held = hold;
    pthread_mutex_unlock (&c->lock);
    engine_hold (c->engine, hold);
    nbdkit_error ("array %s: %s", params.array,
                  hold ? "weftd is silent: reads wait until it is heard again"
                       : "weftd is heard again: reads go on");
    pthread_mutex_lock (&c->lock);
    return 0;
  }
  return silent ? UINT64_MAX : deadline_ms;
}

void *
links_keeper (void *opaque)
{
  struct control *c = opaque;
  uint64_t at_ms[3], first_ms;

  pthread_setname_np (pthread_self (), "weft-keeper");
  pthread_mutex_lock (&c->lock);
  while (!c->quit && !c->over) {
    if (may_prepare (c)) {
      prepare (c);
      continue;
    }
    at_ms[0] = settle (c);
    at_ms[1] = hold_silent (c);
    at_ms[2] = connect_due (c);
    first_ms = UINT64_MAX;
    for (unsigned i = 0; i < 3; i++)
      first_ms = at_ms[i] < first_ms ? at_ms[i] : first_ms;
    if (first_ms > 0)
      control_sleep (c, first_ms);
  }
  pthread_mutex_unlock (&c->lock);
  return NULL;
}

void
links_join (struct control *c)
{
  for (unsigned m = 0; m < c->members; m++)
    if (c->link[m].thread_made)
      pthread_join (c->link[m].thread, NULL);
}

/*----- Reports -----*/

/* When to report again what weftd has not recorded. */
static uint64_t
next_report_ms (const json_t *reply)
{
  json_int_t ms = json_integer_value (json_object_get (reply,
                                                       "retry_after_ms"));

  return control_now_ms () + (ms > 0 && ms < RETRY_MS ? ms : RETRY_MS);
}

/* What weftd says to the report of this member; with the lock. */
static void
answered (struct control *c, unsigned m, int status, const json_t *reply)
{
  const char *code = json_string_value (json_object_get (reply, "code"));
  const char *name = control_newest (c)->member[m].name;
  struct link *l = &c->link[m];
  bool conflict = status == 409 && code;
  bool in_use = conflict && strcmp (code, "in-use") == 0;

  if (l->state != LINK_LOST) {
    if (status == 200 && l->state == LINK_OUT)
      nbdkit_error ("array %s: member %s is recorded as out; going on without "
                    "it", params.array, name);
    return;
  }
  l->due_ms = next_report_ms (reply);
  if (status == 200 || in_use ||
      (conflict && strcmp (code, "last-copy") == 0))
    l->told = true;
  if (c->readonly && in_use) { /* it is well: the connection was not */
    l->state = LINK_WANTED;
    l->due_ms = control_now_ms ();
    pthread_cond_broadcast (&c->wake);
  } else if (!l->said && status != 200) {
    l->said = true;
    nbdkit_error ("array %s: can't record that member %s is lost, requests "
                  "to it wait: %s", params.array, name,
                  admin_error (c->reporter_admin));
  }
  pthread_cond_broadcast (&c->wake); /* told: we may be settled now */
}

/* When the whole host goes down, members often end a moment before we do:
 * that is no loss to be recorded.  Without the lock.
 */
static bool
is_ending (struct control *c, const char *name)
{
  if (!hangup_wait (ENDING_WAIT_MS))
    return false;
  nbdkit_error ("array %s: ending, so it does not report that member %s is "
                "gone", params.array, name);
  engine_abandon (c->engine);
  return true;
}

/* Report a member; called and returns with the lock. */
static void
report (struct control *c, unsigned m, unsigned timeout_ms)
{
  struct link *l = &c->link[m];
  char path[128], name[NAME_BYTES_MAX + 1], reason[sizeof l->reason];
  bool first = !l->told;
  json_t *body, *reply = NULL;
  uint64_t round;
  int status;

  strcpy (name, control_newest (c)->member[m].name);
  strcpy (reason, l->reason);
  pthread_mutex_unlock (&c->lock);
  if (first && is_ending (c, name)) {
    pthread_mutex_lock (&c->lock);
    l->due_ms = UINT64_MAX;
    return;
  }
  snprintf (path, sizeof path, "/api/v1/sessions/%s/lost", c->session);
  round = engine_round (c->engine);
  body = json_pack ("{s:i, s:I, s:s}", "member", (int) m, "round",
                    (json_int_t) round, "reason", reason);
  if (body == NULL) /* the reason is no UTF-8 */
    body = json_pack ("{s:i, s:I, s:s}", "member", (int) m, "round",
                      (json_int_t) round, "reason", "it failed");
  status = admin_call (c->reporter_admin, "POST", path, body, &reply,
                       timeout_ms);
  json_decref (body);
  if (weft_debug_control)
    nbdkit_debug ("weft: lost %s: %d %s", name, status,
                  admin_error (c->reporter_admin));
  if (status == 200)
    control_take (c, reply);
  else if (status == 410)
    control_over (c, admin_error (c->reporter_admin));
  pthread_mutex_lock (&c->lock);
  answered (c, m, status, reply);
  json_decref (reply);
}

/* The member whose report is the most due, and how many there are in all. */
static unsigned
reports_due (const struct control *c, unsigned *member)
{
  uint64_t first_ms = UINT64_MAX;
  unsigned count = 0;

  for (unsigned m = 0; m < c->members; m++)
    if (c->link[m].state == LINK_LOST) {
      count++;
      if (c->link[m].due_ms < first_ms) {
        first_ms = c->link[m].due_ms;
        *member = m;
      }
    }
  return first_ms == UINT64_MAX ? 0 : count;
}

void *
links_reporter (void *opaque)
{
  struct control *c = opaque;
  unsigned count, m = 0;

  pthread_setname_np (pthread_self (), "weft-reporter");
  pthread_mutex_lock (&c->lock);
  while (!c->quit && !c->over) {
    count = reports_due (c, &m);
    if (count == 0)
      control_sleep (c, UINT64_MAX);
    else if (c->link[m].due_ms > control_now_ms ())
      control_sleep (c, c->link[m].due_ms);
    else
      report (c, m, count > 1 ? HURRY_MS : CALL_TIMEOUT_MS);
  }
  pthread_mutex_unlock (&c->lock);
  return NULL;
}
