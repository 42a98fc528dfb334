/* control.c: an array process's session with weftd.
 *
 * weftd has its say in the answers to heartbeats and reports: the epoch with
 * the states of the members, a map with fresh tokens when we are not in that
 * epoch yet, and the change that it has PREPARED.  Answers may cross; what is
 * older than what we know is ignored.
 *
 *   epoch   committed to the engine at once: work that a lost member held up
 *           goes on.  Members that are back are connected (control-links.c).
 *           Only when that is done do we say that we are in the epoch.
 *   change  given to the engine when the members that it counts on are
 *           connected; NOTICE_PREPARED is told at once.
 *
 * Four threads, because none may wait for what another waits for: `heartbeat`
 * polls, each time for up to a second; `teller` says what can't wait for that;
 * `reporter` reports lost members; `keeper` connects, and looks at the clock.
 * The first three have an HTTP client each.
 *
 * While weftd is silent a writer's I/O goes on; only a report of a lost member
 * is repeated until there is a way, for nothing may be acknowledged on the
 * strength of a failure that is not recorded.  A reader holds its reads when
 * weftd may have passed it over.  When weftd says that the session is over
 * (410) the array engine is stopped for good.
 */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "control-internal.h"
#include "loss.h"
#include "role.h"

#define BEAT_MS_MIN 100 /* between heartbeats, however fast the answers */

NBDKIT_DLL_PUBLIC int weft_debug_control = 0;

uint64_t
control_now_ms (void)
{
  struct timespec ts;

  clock_gettime (CLOCK_MONOTONIC, &ts);
  return (uint64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

void
control_sleep (struct control *c, uint64_t until_ms)
{
  const struct timespec until = { .tv_sec = until_ms / 1000,
                                  .tv_nsec = until_ms % 1000 * 1000000 };

  if (until_ms == UINT64_MAX)
    pthread_cond_wait (&c->wake, &c->lock);
  else
    pthread_cond_timedwait (&c->wake, &c->lock, &until);
}

const struct map *
control_newest (const struct control *c)
{
  return c->latest ? c->latest : c->first;
}

/*----- What weftd says -----*/

void
control_over (struct control *c, const char *why)
{
  bool was;

  pthread_mutex_lock (&c->lock);
  was = c->over;
  c->over = true;
  pthread_cond_broadcast (&c->wake);
  pthread_mutex_unlock (&c->lock);
  if (was)
    return;
  nbdkit_error ("array %s: %s: every request fails from now on; end this "
                "nbdkit and start it again to attach anew", params.array, why);
  engine_abandon (c->engine);
}

/* {"epoch", "states"}: false when there is nothing of use. */
static bool
take_states (const struct control *c, const json_t *json, uint64_t *epoch,
             enum member_state states[])
{
  const json_t *list = json_object_get (json, "states");
  json_int_t n = json_integer_value (json_object_get (json, "epoch"));
  const char *name;
  int state;

  if (n <= 0 || json_array_size (list) != c->members)
    return false;
  for (unsigned i = 0; i < c->members; i++) {
    name = json_string_value (json_array_get (list, i));
    state = name ? member_state_parse (name) : -1;
    if (state == -1)
      return false;
    states[i] = state;
  }
  *epoch = n;
  return true;
}

/* The map in an answer, when it is newer than ours. */
static struct map *
take_map (struct control *c, const json_t *reply, uint64_t epoch)
{
  const json_t *json = json_object_get (reply, "map");
  char why[512];
  struct map *m;

  if (!json_is_object (json))
    return NULL;
  m = map_from_json (json, why, sizeof why);
  if (m == NULL)
    nbdkit_error ("array %s: weftd's map is not usable: %s", params.array,
                  why);
  else if (m->epoch == epoch && m->members == c->members)
    return m;
  map_free (m);
  return NULL;
}

void
control_take (struct control *c, const json_t *reply)
{
  const json_t *change = json_object_get (reply, "change");
  enum member_state states[ARRAY_MEMBERS_MAX], next[ARRAY_MEMBERS_MAX];
  uint64_t epoch, change_epoch;
  struct map *map, *old = NULL;
  bool same, commit;

  loss_take (reply);
  /* True: those of the epoch in which we work. */
  same = json_is_true (json_object_get (reply, "states"));
  if (same)
    epoch = json_integer_value (json_object_get (reply, "epoch"));
  else if (!take_states (c, reply, &epoch, states))
    return;
  map = take_map (c, reply, epoch);
  pthread_mutex_lock (&c->lock);
  if (!same && epoch > c->epoch) {
    c->epoch = epoch;
    memcpy (c->states, states, sizeof states);
  }
  if (epoch == c->epoch && map && map->epoch > control_newest (c)->epoch) {
    old = c->latest;
    c->latest = map;
    map = NULL;
  }
  if (take_states (c, change, &change_epoch, next) &&
      change_epoch > c->epoch && change_epoch > c->change) {
    c->change = change_epoch;
    memcpy (c->change_states, next, sizeof next);
  }
  links_look (c);
  commit = c->committed < c->epoch;
  epoch = c->epoch;
  memcpy (states, c->states, sizeof states);
  pthread_cond_broadcast (&c->wake);
  pthread_mutex_unlock (&c->lock);
  map_free (old);
  map_free (map);
  if (!commit)
    return;
  engine_commit (c->engine, epoch, states);
  pthread_mutex_lock (&c->lock);
  if (c->committed < epoch)
    c->committed = epoch;
  pthread_cond_broadcast (&c->wake);
  pthread_mutex_unlock (&c->lock);
}

/*----- The heartbeat -----*/

/* The empty buckets at its end are left out. */
static json_t *
latency_json (const struct latency *l)
{
  json_t *counts = json_array ();
  unsigned n = LATENCY_BUCKETS + 1;

  while (n > 0 && l->count[n - 1] == 0)
    n--;
  for (unsigned i = 0; i < n; i++)
    json_array_append_new (counts, json_integer ((json_int_t) l->count[i]));
  return json_pack ("{s:I, s:o}", "sum_us", (json_int_t) (l->sum_ns / 1000),
                    "counts", counts);
}

/* How the members look from here. */
static json_t *
members_json (const struct array_stats *s, unsigned members)
{
  json_t *list = json_array ();

  for (unsigned m = 0; m < members; m++)
    json_array_append_new (
        list, json_pack ("{s:I, s:b, s:o}", "service_us",
                         (json_int_t) (s->member[m].service_ns / 1000),
                         "suspect", (int) s->member[m].suspect, "latency",
                         latency_json (&s->member[m].service)));
  return list;
}

static json_t *
stats_json (struct engine *e, unsigned members)
{
  struct array_stats s;
  json_t *json = json_object ();

  engine_stats (e, &s);
  json_object_set_new (json, "members", members_json (&s, members));
  json_object_set_new (json, "read_latency", latency_json (&s.read));
  json_object_set_new (json, "write_latency", latency_json (&s.write));
  json_object_set_new (json, "flush_latency", latency_json (&s.flush));
#define FIELD(name) \
  json_object_set_new (json, #name, json_integer ((json_int_t) s.name))
  FIELD (reads);
  FIELD (writes);
  FIELD (flushes);
  FIELD (zeroes);
  FIELD (trims);
  FIELD (read_bytes);
  FIELD (write_bytes);
  FIELD (read_ns);
  FIELD (write_ns);
  FIELD (flush_ns);
  FIELD (image_bytes);
  FIELD (image_bytes_max);
  FIELD (image_oldest_ns);
  FIELD (images_sent);
  FIELD (images_replaced);
  FIELD (batches);
  FIELD (requests_waiting);
  FIELD (ios_in_flight);
#undef FIELD
  return json;
}

/* What has not changed since weftd took it in is not said again. */
static void
add_stats (struct control *c, json_t *body)
{
  json_t *said = json_copy (body);
  json_t *stats = stats_json (c->engine, c->members);
  bool same = json_equal (stats, c->taken_stats);

  json_object_set_new (body, "news",
                       json_boolean (!json_equal (said, c->taken)));
  json_object_set (body, "stats", same ? json_true () : stats);
  json_decref (c->taken);
  json_decref (c->taken_stats);
  c->taken = said;
  c->taken_stats = stats;
}

/* weftd has answered; NULL: it has not. */
static void
keep_taken (struct control *c, const json_t *reply)
{
  json_t *generation = json_object_get (reply, "generation");

  if (generation && json_integer_value (generation) == c->generation)
    return;
  c->generation = json_integer_value (generation);
  json_decref (c->taken);
  json_decref (c->taken_stats);
  c->taken = c->taken_stats = NULL;
}

/* One heartbeat; returns the HTTP status.  The heartbeat thread's waits. */
static int
beat (struct control *c, struct admin *admin, unsigned wait_ms)
{
  char path[128];
  json_t *body, *reply;
  uint64_t epoch, prepared, sent_ms = control_now_ms ();
  int status;

  pthread_mutex_lock (&c->lock);
  epoch = c->settled;
  prepared = c->prepared;
  pthread_mutex_unlock (&c->lock);
  snprintf (path, sizeof path, "/api/v1/sessions/%s/heartbeat", c->session);
  body = json_pack ("{s:s, s:I, s:I, s:I, s:s?, s:s, s:b, s:i}", "instance",
                    c->instance, "epoch", (json_int_t) epoch, "prepared",
                    (json_int_t) prepared, "round",
                    (json_int_t) engine_round (c->engine), "uri", params.uri,
                    "process", c->process, "draining",
                    (int) engine_ending (c->engine), "wait_ms",
                    (int) wait_ms);
  if (wait_ms > 0)
    add_stats (c, body);
  status = admin_call (admin, "POST", path, body, &reply,
                       wait_ms + CALL_TIMEOUT_MS);
  json_decref (body);
  if (wait_ms > 0)
    keep_taken (c, status == 200 ? reply : NULL);
  if (weft_debug_control)
    nbdkit_debug ("weft: heartbeat: %d %s", status, admin_error (admin));
  if (status == 200) {
    pthread_mutex_lock (&c->lock);
    if (c->heard_ms < sent_ms)
      c->heard_ms = sent_ms;
    if (c->told_settled < epoch)
      c->told_settled = epoch;
    if (c->told_prepared < prepared)
      c->told_prepared = prepared;
    pthread_mutex_unlock (&c->lock);
    control_take (c, reply);
  } else if (status == 410)
    control_over (c, admin_error (admin));
  json_decref (reply);
  return status;
}

static void *
heartbeat_thread (void *opaque)
{
  struct control *c = opaque;
  bool silent = false;
  uint64_t begin_ms;
  int status;

  pthread_setname_np (pthread_self (), "weft-heartbeat");
  pthread_mutex_lock (&c->lock);
  while (!c->quit && !c->over) {
    pthread_mutex_unlock (&c->lock);
    begin_ms = control_now_ms ();
    status = beat (c, c->admin, HEARTBEAT_MS);
    if (silent != (status != 200)) {
      silent = !silent;
      nbdkit_debug ("weft: %s", silent ? admin_error (c->admin)
                                       : "weftd answers again");
    }
    pthread_mutex_lock (&c->lock);
    begin_ms += status == 200 ? BEAT_MS_MIN : RETRY_MS;
    while (!c->quit && !c->over && control_now_ms () < begin_ms)
      control_sleep (c, begin_ms);
  }
  pthread_mutex_unlock (&c->lock);
  return NULL;
}

/* Says what weftd waits for while the heartbeat is under way. */
static void *
teller_thread (void *opaque)
{
  struct control *c = opaque;
  uint64_t retry_ms;
  int status;

  pthread_setname_np (pthread_self (), "weft-teller");
  pthread_mutex_lock (&c->lock);
  while (!c->quit && !c->over) {
    if (c->settled <= c->told_settled && c->prepared <= c->told_prepared) {
      control_sleep (c, UINT64_MAX);
      continue;
    }
    pthread_mutex_unlock (&c->lock);
    status = beat (c, c->teller_admin, 0);
    pthread_mutex_lock (&c->lock);
    retry_ms = control_now_ms () + RETRY_MS;
    while (status != 200 && !c->quit && !c->over &&
           control_now_ms () < retry_ms)
      control_sleep (c, retry_ms);
  }
  pthread_mutex_unlock (&c->lock);
  return NULL;
}

/*----- Start and end -----*/

struct control *
control_attach (bool readonly, struct map **map)
{
  struct control *c = calloc (1, sizeof *c);
  pthread_condattr_t attr;

  if (c == NULL) {
    nbdkit_error ("calloc: %m");
    return NULL;
  }
  c->readonly = readonly;
  pthread_mutex_init (&c->lock, NULL);
  pthread_condattr_init (&attr);
  pthread_condattr_setclock (&attr, CLOCK_MONOTONIC);
  pthread_cond_init (&c->wake, &attr);
  pthread_condattr_destroy (&attr);
  c->admin = admin_new (params.admin, params.tls, NULL);
  c->teller_admin = admin_new (params.admin, params.tls, NULL);
  c->reporter_admin = admin_new (params.admin, params.tls, NULL);
  if (c->admin == NULL || c->teller_admin == NULL ||
      c->reporter_admin == NULL) {
    nbdkit_error ("admin=%s: not the address of a weftd; write it like "
                  "http://127.0.0.1:7380", params.admin);
    goto err;
  }
  if (control_make_instance (c->instance) == -1)
    goto err;
  c->first = *map = control_attach_session (c);
  if (*map == NULL)
    goto err;
  return c;
err:
  control_end (c, true);
  return NULL;
}

static void
init_links (struct control *c, const bool connected[])
{
  const uint64_t now_ms = control_now_ms ();

  for (unsigned m = 0; m < c->members; m++) {
    struct link *l = &c->link[m];

    l->control = c;
    l->epoch = l->used = c->epoch;
    l->due_ms = now_ms;
    l->state = c->states[m] == MEMBER_OUT ? LINK_OUT
               : connected[m]             ? LINK_UP
                                          : LINK_LOST;
    strcpy (l->reason, "it can't be reached");
  }
  c->committed = c->epoch;
  c->settled = links_settled (c) ? c->epoch : c->epoch - 1;
  c->told_settled = c->settled;
}

void
control_ready (struct control *c, struct engine *e, const bool connected[],
               uint64_t member_bytes)
{
  c->engine = e;
  c->member_bytes = member_bytes;
  init_links (c, connected);
}

int
control_start (struct control *c)
{
  const struct {
    pthread_t *id;
    void *(*run) (void *);
  } threads[] = {
    { &c->heartbeat, heartbeat_thread }, { &c->teller, teller_thread },
    { &c->reporter, links_reporter },    { &c->keeper, links_keeper },
  };
  int r;

  process_self (c->process);
  for (c->threads = 0; c->threads < 4; c->threads++) {
    r = pthread_create (threads[c->threads].id, NULL,
                        threads[c->threads].run, c);
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
  const pthread_t *const ids[] = { &c->heartbeat, &c->teller, &c->reporter,
                                   &c->keeper };

  pthread_mutex_lock (&c->lock);
  c->quit = true;
  pthread_cond_broadcast (&c->wake);
  pthread_mutex_unlock (&c->lock);
  if (c->threads == 0)
    return;
  admin_cancel (c->admin);
  admin_cancel (c->teller_admin);
  admin_cancel (c->reporter_admin);
  for (; c->threads > 0; c->threads--)
    pthread_join (*ids[c->threads - 1], NULL);
  links_join (c);
}

bool
control_member (struct control *c, unsigned member, struct map_member *mm)
{
  bool copied;

  pthread_mutex_lock (&c->lock);
  copied = map_member_copy (mm, &control_newest (c)->member[member]);
  pthread_mutex_unlock (&c->lock);
  return copied;
}

bool
control_whole (const struct control *c)
{
  if (c->over || c->relinked)
    return false;
  for (unsigned m = 0; m < c->members; m++)
    if (c->states[m] != MEMBER_IN_SYNC || c->link[m].state != LINK_UP)
      return false;
  return true;
}

void
control_end (struct control *c, bool clean)
{
  if (c == NULL)
    return;
  control_stop (c);
  if (clean && !c->over && c->session[0])
    control_detach_session (c);
  map_free (c->latest);
  json_decref (c->taken);
  json_decref (c->taken_stats);
  admin_free (c->admin);
  admin_free (c->teller_admin);
  admin_free (c->reporter_admin);
  pthread_cond_destroy (&c->wake);
  pthread_mutex_destroy (&c->lock);
  free (c);
}
