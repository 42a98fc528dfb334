/* control.c: an array process's session with weftd: the threads.
 *
 * The host engine (core/host/host.h) decides.  This file passes it, under one
 * lock, the answers of weftd, the progress of the array engine and the state of
 * connections; and it carries out the engine's actions, without the lock.
 *
 * Four threads, because none may wait for what another waits for: `heartbeat`
 * polls, each time for up to a second; `teller` sends urgent messages
 * meanwhile; `reporter` reports lost members; `keeper` runs the timers.  The
 * first three have an HTTP client each.  Each connection is made by a thread of
 * its own.
 */

#include <config.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "control-internal.h"
#include "hangup.h"
#include "guests.h"
#include "loss.h"
#include "nbdkit-options.h"
#include "peer.h"
#include "revoked.h"
#include "role.h"
#include "volumes.h"

#define CONNECT_MS 5000
/* How often the wait for weftd looks for the end, and when it is logged. */
#define OLDER_CHECK_MS 100
#define OLDER_SAY_MS 1000

NBDKIT_DLL_PUBLIC int weft_debug_control = 0;
/* An enum lessee_kind.  All but 0 are there to be measured. */
NBDKIT_DLL_PUBLIC int weft_debug_leases = LESSEE_ADAPTIVE;

static const struct {
  const char *name;
  unsigned kinds;
  bool speaks;
} workers[WORKERS] = {
  { "weft-heartbeat", HOST_DO_BEAT, true },
  { "weft-teller", HOST_DO_TELL, true },
  { "weft-reporter", HOST_DO_REPORT, true },
  { "weft-keeper",
    HOST_DO_ALL & ~(HOST_DO_BEAT | HOST_DO_TELL | HOST_DO_REPORT), false },
};

/* The newest map.  With the lock. */
static const struct map *
newest (const struct control *c)
{
  return c->latest ? c->latest : c->first;
}

static void
member_name (struct control *c, unsigned m, char name[NAME_BYTES_MAX + 1])
{
  pthread_mutex_lock (&c->lock);
  strcpy (name, newest (c)->member[m].name);
  pthread_mutex_unlock (&c->lock);
}

/*----- What the array engine says -----*/

void
control_notice (struct control *c, const struct array_notice *n,
                uint64_t connection)
{
  pthread_mutex_lock (&c->lock);
  if (n->kind == NOTICE_PREPARED)
    host_prepared (c->host, n->epoch);
  else if (n->kind == NOTICE_LOST &&
           host_lost (c->host, n->member, connection, n->answers, n->waited_ms,
                      n->reason, clock_ms ()))
    nbdkit_error ("weft: member %s is lost: %s",
                  newest (c)->member[n->member].name, n->reason);
  pthread_cond_broadcast (&c->wake);
  pthread_mutex_unlock (&c->lock);
}

/*----- Connecting -----*/

static void *
connect_thread (void *opaque)
{
  struct connecting *on = opaque;
  struct control *c = on->control;
  unsigned m = on->action.member;
  struct map_member mm;
  struct peer *p = NULL;
  char why[8192] = "out of memory", name[NAME_BYTES_MAX + 1] = "";
  bool kept, wanted, up = false;
  uint64_t reach;

  pthread_setname_np (pthread_self (), "weft-connect");
  engine_sever (c->engine, m); /* the old connection may be a stale one */
  if (control_member (c, m, &mm)) {
    p = peer_open (m, &mm, CONNECT_MS, engine_io_done, why, sizeof why);
    strcpy (name, mm.name);
    map_member_free (&mm);
  }
  if (p && p->size < c->layout->member_bytes) {
    snprintf (why, sizeof why, "%s has %llu bytes, but %llu are in use",
              p->label, (unsigned long long) p->size,
              (unsigned long long) c->layout->member_bytes);
    peer_close (p);
    p = NULL;
  }
  if (weft_debug_control)
    nbdkit_debug ("weft: connecting to member %s: %s", name, p ? "ok" : why);
  pthread_mutex_lock (&c->lock);
  wanted = host_opened (c->host, m, p != NULL, why, &kept, &reach, clock_ms ());
  pthread_cond_broadcast (&c->wake);
  pthread_mutex_unlock (&c->lock);
  if (wanted) {
    bool taken = engine_replace (c->engine, p, on->action.connection, kept,
                                 reach);

    if (taken)
      p = NULL;
    pthread_mutex_lock (&c->lock);
    up = host_seated (c->host, m, taken, clock_ms ());
    pthread_cond_broadcast (&c->wake);
    pthread_mutex_unlock (&c->lock);
  }
  peer_close (p);
  if (up)
    nbdkit_error ("array %s: member %s is connected again", params.array, name);
  return NULL;
}

/* The thread before it has ended, or is about to. */
static void
begin_connecting (struct control *c, const struct host_action *a)
{
  struct connecting *on = &c->connecting[a->member];
  bool kept;
  uint64_t reach;
  int r;

  if (on->made)
    pthread_join (on->thread, NULL);
  on->control = c;
  on->action = *a;
  r = pthread_create (&on->thread, NULL, connect_thread, on);
  on->made = r == 0;
  if (r == 0)
    return;
  pthread_mutex_lock (&c->lock);
  host_opened (c->host, a->member, false, strerror (r), &kept, &reach,
               clock_ms ());
  pthread_cond_broadcast (&c->wake);
  pthread_mutex_unlock (&c->lock);
}

/*----- Speaking to weftd -----*/

/* This process must stop serving the array: it ends, and may be started again,
 * to stand by.  (hangup.c hears of this signal, too.)
 */
static void
leave (struct control *c, const char *why)
{
  if (!params.serves || atomic_exchange (&c->leaving, true))
    return;
  nbdkit_error ("array %s: %s: ending", params.array, why);
  kill (getpid (), SIGTERM);
}

/* Say this, and hand the answer to the engine. */
static void
speak (struct worker *w, const struct host_action *a)
{
  struct control *c = w->control;
  bool report = a->kind == HOST_DO_REPORT;
  enum host_news news = HOST_NO_NEWS;
  json_t *body = report ? control_messages_report (c, a)
                        : control_messages (c, a);
  json_t *reply = NULL;
  char path[128], name[NAME_BYTES_MAX + 1];
  struct host_answer answer;
  struct lease_words leases;
  struct map *map;
  int status;

  snprintf (path, sizeof path, "/api/v1/sessions/%s/%s", c->session,
            report ? "lost" : "heartbeat");
  status = admin_call (w->admin, "POST", path, body, &reply, a->timeout_ms);
  json_decref (body);
  if (weft_debug_control)
    nbdkit_debug ("weft: %s: %d %s", report ? "lost" : "heartbeat", status,
                  admin_error (w->admin));
  if (a->kind == HOST_DO_BEAT) {
    control_messages_taken (&c->taken, status == 200 ? reply : NULL);
    if (w->silent != (status != 200)) {
      w->silent = !w->silent;
      nbdkit_debug ("weft: %s",
                    w->silent ? admin_error (w->admin) : "weftd answers again");
    }
  }
  control_messages_read (c, status, reply, &answer, &map);
  control_messages_leases (c, status == 200 ? reply : NULL, &leases);
  if (status == 200) {
    loss_take (reply);
    guests_take (reply);
  }
  if (status == 200 && c->volumes)
    volumes_heard (c->volumes, reply);
  if (status == 200 && json_is_true (json_object_get (reply, "leave")))
    leave (c, "another is to serve it");
  pthread_mutex_lock (&c->lock);
  if (leases.generation)
    answer.at_once = lessee_heard (c->lessee, leases.generation, leases.revoke,
                                   leases.revokes, leases.recover,
                                   leases.ranges, leases.count);
  if (status == 410 && !host_is_over (c->host))
    snprintf (c->why, sizeof c->why, "%s", admin_error (w->admin));
  if (report)
    news = host_reported (c->host, &answer, clock_ms ());
  else
    host_answered (c->host, a->kind, &answer, clock_ms ());
  if (map && map->epoch > newest (c)->epoch &&
      map->epoch == host_view (c->host)->map_epoch) {
    struct map *old = c->latest;

    c->latest = map;
    map = old;
  }
  pthread_cond_broadcast (&c->wake);
  pthread_mutex_unlock (&c->lock);
  map_free (map);
  control_messages_leases_free (&leases);
  json_decref (reply);
  revoked_heard (w->admin);
  if (news == HOST_NO_NEWS)
    return;
  member_name (c, a->member, name);
  if (news == HOST_RECORDED)
    nbdkit_error ("array %s: member %s is recorded as out; going on without "
                  "it",
                  params.array, name);
  else
    nbdkit_error ("array %s: can't record that member %s is lost, requests "
                  "to it wait: %s",
                  params.array, name, admin_error (w->admin));
}

/* When the whole node goes down, the member may have ended a moment before us. */
static void
report (struct worker *w, const struct host_action *a)
{
  struct control *c = w->control;
  char name[NAME_BYTES_MAX + 1];

  if (!a->first || !hangup_ending ()) {
    speak (w, a);
    return;
  }
  pthread_mutex_lock (&c->lock);
  host_ending (c->host);
  pthread_mutex_unlock (&c->lock);
  member_name (c, a->member, name);
  nbdkit_error ("array %s: ending, so it does not report that member %s is "
                "gone",
                params.array, name);
  hangup_cut ();
  engine_abandon (c->engine);
}

/*----- The threads -----*/

static void
carry_out (struct worker *w, const struct host_action *a)
{
  struct control *c = w->control;
  uint64_t entered, arrived;

  switch (a->kind) {
  case HOST_DO_STOP:
    nbdkit_error ("array %s: %s: every request fails from now on; end this "
                  "nbdkit and start it again to attach the array again",
                  params.array, c->why);
    engine_abandon (c->engine);
    leave (c, "its session is over");
    break;
  case HOST_DO_COMMIT:
    engine_commit (c->engine, a->epoch, a->states);
    pthread_mutex_lock (&c->lock);
    host_committed (c->host, a->epoch);
    pthread_mutex_unlock (&c->lock);
    break;
  case HOST_DO_PREPARE:
    engine_prepare (c->engine, a->epoch, a->states);
    break;
  case HOST_DO_ALL_ARRIVED:
    engine_all_arrived (c->engine, a->epoch);
    break;
  case HOST_DO_TRUST:
    if (a->until_ms)
      engine_trust (c->engine, a->until_ms);
    if (a->again || a->until_ms == 0)
      nbdkit_error ("array %s: %s", params.array,
                    a->until_ms && params.leases
                      ? "weftd is heard again: reads go on, and what needs "
                        "another lease"
                    : a->until_ms ? "weftd is heard again: reads go on"
                    : options.readonly
                      ? "weftd is silent: reads wait until it is heard again"
                    : params.leases
                      ? "weftd is silent: a read of what this host has a lease "
                        "of also asks the members of the other copies; any "
                        "other read, and each write that needs another lease, "
                        "waits until weftd is heard again"
                    : params.shared
                      ? "weftd is silent: a read of this part also asks the "
                        "members of the other copies, and one of other parts "
                        "waits until weftd is heard again"
                      : "weftd is silent: a read also asks the members of the "
                        "other copies, and waits where one of them is lost");
    break;
  case HOST_DO_ENTER:
    entered = engine_epoch (c->engine);
    arrived = engine_arrived (c->engine);
    pthread_mutex_lock (&c->lock);
    host_entered (c->host, entered, arrived);
    pthread_cond_broadcast (&c->wake);
    pthread_mutex_unlock (&c->lock);
    break;
  case HOST_DO_CONNECT:
    begin_connecting (c, a);
    break;
  case HOST_DO_REPORT:
    report (w, a);
    break;
  case HOST_DO_TELL:
  case HOST_DO_BEAT:
    speak (w, a);
    break;
  case HOST_DO_ALL:
    break;
  }
}

static void *
work (void *opaque)
{
  struct worker *w = opaque;
  struct control *c = w->control;
  struct host_action a;

  pthread_setname_np (pthread_self (), workers[w - c->worker].name);
  pthread_mutex_lock (&c->lock);
  while (!c->quit) {
    uint64_t now_ms = clock_ms (), due_ms;

    if (host_next (c->host, now_ms, w->kinds, &a)) {
      pthread_mutex_unlock (&c->lock);
      carry_out (w, &a);
      pthread_mutex_lock (&c->lock);
      continue;
    }
    due_ms = host_due_ms (c->host, now_ms, w->kinds);
    if (due_ms == UINT64_MAX)
      pthread_cond_wait (&c->wake, &c->lock);
    else
      clock_wait_ms (&c->wake, &c->lock, due_ms);
  }
  pthread_mutex_unlock (&c->lock);
  return NULL;
}

/*----- Start and end -----*/

struct control *
control_attach (struct map **map)
{
  struct control *c = calloc (1, sizeof *c);

  if (c == NULL) {
    nbdkit_error ("calloc: %m");
    return NULL;
  }
  pthread_mutex_init (&c->lock, NULL);
  pthread_mutex_init (&c->wants_lock, NULL);
  clock_condition (&c->wake);
  c->admin = admin_new (params.admin, params.tls, NULL);
  for (unsigned i = 0; i < WORKERS; i++) {
    struct worker *w = &c->worker[i];

    w->control = c;
    w->kinds = workers[i].kinds;
    if (workers[i].speaks)
      w->admin = admin_new (params.admin, params.tls, NULL);
    if (c->admin == NULL || (workers[i].speaks && w->admin == NULL)) {
      nbdkit_error ("admin=%s: not the address of a weftd; write it like "
                    "http://127.0.0.1:7380",
                    params.admin);
      goto err;
    }
  }
  if (process_draw_instance (c->instance) == -1) {
    nbdkit_error ("the kernel gives no random bytes: %m");
    goto err;
  }
  c->first = *map = control_attach_session (c);
  if (*map == NULL)
    goto err;
  return c;
err:
  control_end (c, true);
  return NULL;
}

const json_t *
control_answer (const struct control *c)
{
  return c->answer;
}

const char *
control_instance (const struct control *c)
{
  return c->instance;
}

void
control_volumes (struct control *c, struct volumes *volumes)
{
  c->volumes = volumes;
}

uint64_t
control_order (const struct control *c)
{
  return c->order;
}

int
control_ready (struct control *c, struct engine *e, const bool connected[],
               const struct layout *l)
{
  struct host_config config = { .members = c->first->members,
                                .readonly = options.readonly,
                                .heard_ms = c->heard_ms };

  c->engine = e;
  c->layout = l;
  config.view.epoch = c->first->epoch;
  config.view.all_arrived = c->held ? 0 : c->first->epoch;
  control_messages_view (c->first, &config.view);
  for (unsigned m = 0; m < config.members; m++) {
    config.view.states[m] = c->first->member[m].state;
    config.connected[m] = connected[m];
  }
  c->host = host_new (&config, clock_ms ());
  if (params.shared)
    c->lessee = lessee_new ((enum lessee_kind) weft_debug_leases, l->size,
                            c->generation, c->declared, c->order);
  engine_trust (e, c->heard_ms + SESSION_TTL_MS);
  engine_all_arrived (e, config.view.all_arrived);
  if (c->host && (c->lessee || !params.shared))
    return 0;
  nbdkit_error ("calloc: %m");
  return -1;
}

int
control_start (struct control *c)
{
  int r;

  process_self (c->process);
  for (; c->workers < WORKERS; c->workers++) {
    struct worker *w = &c->worker[c->workers];

    r = pthread_create (&w->thread, NULL, work, w);
    if (r != 0) {
      nbdkit_error ("pthread_create: %s", strerror (r));
      return -1;
    }
  }
  return 0;
}

void
control_stop (struct control *c)
{
  pthread_mutex_lock (&c->lock);
  c->quit = true;
  if (c->host)
    host_end (c->host);
  pthread_cond_broadcast (&c->wake);
  pthread_mutex_unlock (&c->lock);
  for (unsigned i = 0; i < c->workers; i++)
    if (c->worker[i].admin)
      admin_cancel (c->worker[i].admin);
  for (; c->workers > 0; c->workers--)
    pthread_join (c->worker[c->workers - 1].thread, NULL);
  for (unsigned m = 0; m < ARRAY_MEMBERS_MAX; m++) {
    if (c->connecting[m].made)
      pthread_join (c->connecting[m].thread, NULL);
    c->connecting[m].made = false;
  }
}

bool
control_member (struct control *c, unsigned member, struct map_member *mm)
{
  bool copied;

  pthread_mutex_lock (&c->lock);
  copied = map_member_copy (mm, &newest (c)->member[member]);
  pthread_mutex_unlock (&c->lock);
  return copied;
}

int
control_older (struct control *c)
{
  uint64_t say_ms = clock_ms () + OLDER_SAY_MS;
  int error = 0;

  pthread_mutex_lock (&c->lock);
  host_older (c->host);
  pthread_cond_broadcast (&c->wake);
  while (error == 0 && !host_older_told (c->host)) {
    if (host_is_over (c->host) || hangup_ending ())
      error = ESHUTDOWN;
    else
      clock_wait_ms (&c->wake, &c->lock, clock_ms () + OLDER_CHECK_MS);
    if (say_ms && clock_ms () >= say_ms) {
      nbdkit_error (
        "weft: array %s: resync: the newest copy of something can't be read; "
        "waiting for weftd to know that an older one is taken",
        params.array);
      say_ms = 0;
    }
  }
  pthread_mutex_unlock (&c->lock);
  return error;
}

void
control_equal (struct control *c)
{
  pthread_mutex_lock (&c->lock);
  host_equal (c->host);
  pthread_cond_broadcast (&c->wake);
  pthread_mutex_unlock (&c->lock);
}

bool
control_whole (struct control *c)
{
  bool whole;

  pthread_mutex_lock (&c->lock);
  whole = host_is_whole (c->host);
  pthread_mutex_unlock (&c->lock);
  return whole;
}

void
control_end (struct control *c, bool clean)
{
  if (c == NULL)
    return;
  control_stop (c);
  if (clean && c->session[0] && !(c->host && host_is_over (c->host)))
    control_attach_detach (c);
  host_free (c->host);
  lessee_free (c->lessee);
  map_free (c->latest);
  json_decref (c->answer);
  json_decref (c->taken.words);
  json_decref (c->taken.stats);
  admin_free (c->admin);
  for (unsigned i = 0; i < WORKERS; i++)
    admin_free (c->worker[i].admin);
  for (unsigned i = 0; i < LEASE_WORKERS; i++)
    admin_free (c->lease_worker[i].admin);
  pthread_cond_destroy (&c->wake);
  pthread_mutex_destroy (&c->wants_lock);
  pthread_mutex_destroy (&c->lock);
  free (c);
}
