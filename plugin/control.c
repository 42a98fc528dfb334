/* control.c: an array process's session with weftd.
 *
 * Two threads, because a lost member can't wait for the heartbeat's long poll
 * to end: `heartbeat` says every second that we live, and learns when the
 * session is over; `reporter` tells weftd of lost members and lets the array
 * engine go on when that is recorded.  Each has an HTTP client of its own.
 *
 * While weftd is silent I/O goes on; only a report of a lost member is
 * repeated until it is recorded, for nothing may be acknowledged on the
 * strength of a failure that is not.  When weftd says that the session is over
 * (410) the array engine is stopped for good.
 *
 * A member that was out stays out: states only ever get worse here, whichever
 * of two answers comes first.
 */

#include <config.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "admin.h"
#include "control.h"
#include "engine.h"
#include "hangup.h"
#include "role.h"

#define ATTACH_TIMEOUT_MS 30000
#define ATTACH_WAIT_MS 15000  /* for a silent holder */
#define CALL_TIMEOUT_MS 10000
#define DETACH_TIMEOUT_MS 3000
#define BEAT_MS_MIN 100       /* between heartbeats, however fast the answers */
#define RETRY_MS 1000
#define HOLDER_SIGNS 2
#define ENDING_WAIT_MS 100    /* before a lost member is reported */

NBDKIT_DLL_PUBLIC int weft_debug_control = 0;

struct report {
  struct report *next;
  unsigned member;
  char reason[160];
};

struct control {
  struct admin *admin; /* attach, detach, heartbeat */
  struct admin *reporter_admin;
  char instance[33];
  char session[NAME_BYTES_MAX + 1];
  struct engine *engine;
  const struct map *map; /* the caller's; for the members' names */
  pthread_t heartbeat, reporter;
  unsigned threads;

  pthread_mutex_t lock; /* held across no call */
  pthread_cond_t wake;
  struct report *reports, **reports_tail;
  bool quit, over;
  uint64_t epoch;
  unsigned members;
  enum member_state states[ARRAY_MEMBERS_MAX];
};

/*----- Attach -----*/

static int
make_instance (char text[33])
{
  uint8_t r[16];
  unsigned i;

  if (getrandom (r, sizeof r, 0) != sizeof r) {
    nbdkit_error ("getrandom: %m");
    return -1;
  }
  for (i = 0; i < sizeof r; i++)
    sprintf (text + 2 * i, "%02x", r[i]);
  return 0;
}

/* weftd's answer to an attach, in which everything is to be found. */
static struct map *
take_answer (struct control *c, const json_t *reply)
{
  const char *session =
      json_string_value (json_object_get (reply, "session"));
  char why[512];
  struct map *m;
  unsigned i;

  if (session == NULL || session[0] == '\0' ||
      strlen (session) > NAME_BYTES_MAX ||
      session[strspn (session, "0123456789abcdef")]) {
    nbdkit_error ("array %s: weftd's answer has no usable session; are weftd "
                  "and this nbdkit of the same version?", params.array);
    return NULL;
  }
  strcpy (c->session, session);
  m = map_from_json (json_object_get (reply, "map"), why, sizeof why);
  if (m == NULL) {
    nbdkit_error ("array %s: weftd's map is not usable: %s", params.array,
                  why);
    return NULL;
  }
  c->epoch = m->epoch;
  c->members = m->members;
  for (i = 0; i < m->members; i++)
    c->states[i] = m->member[i].state;
  return m;
}

/* Who holds the array that we want, as far as we see. */
struct holder {
  bool asked;
  json_int_t heard_ms; /* how long ago it was heard, when asked before */
  unsigned signs;      /* of life that we have seen */
};

/* How long to wait before asking again, 0 for no use.  weftd says how long to
 * wait for what will pass, such as a holder that is silent.  One that may have
 * died a moment ago is not silent yet: ask again to see whether it is heard
 * more than once, for its last words may have been under way.
 */
static unsigned
retry_after (int status, const json_t *reply, struct holder *h)
{
  const json_t *holder = json_object_get (reply, "holder");
  json_int_t ms = json_integer_value (json_object_get (reply,
                                                       "retry_after_ms"));
  json_int_t heard = json_integer_value (json_object_get (holder,
                                                          "last_heard_ms"));

  if (status != 409)
    return 0;
  if (ms > 0)
    return ms > ATTACH_WAIT_MS ? ATTACH_WAIT_MS : (unsigned) ms;
  if (holder == NULL)
    return 0;
  h->signs += h->asked && heard < h->heard_ms + RETRY_MS / 2;
  h->asked = true;
  h->heard_ms = heard;
  return h->signs < HOLDER_SIGNS ? RETRY_MS : 0;
}

static struct map *
attach (struct control *c, bool readonly)
{
  json_t *body, *reply = NULL;
  struct map *m = NULL;
  char path[128];
  unsigned waited = 0, wait;
  struct holder holder = { .asked = false };
  int status;

  body = json_pack ("{s:s, s:s, s:i, s:s, s:s?}", "instance", c->instance,
                    "node", params.node, "pid", (int) getpid (), "mode",
                    readonly ? "ro" : "rw", "uri", params.uri);
  if (body == NULL) {
    nbdkit_error ("array %s: can't make the request; node= and uri= must be "
                  "UTF-8", params.array);
    return NULL;
  }
  snprintf (path, sizeof path, "/api/v1/arrays/%s/sessions", params.array);
  for (;;) {
    status = admin_call (c->admin, "POST", path, body, &reply,
                         ATTACH_TIMEOUT_MS);
    wait = retry_after (status, reply, &holder);
    if (wait == 0 || waited >= ATTACH_WAIT_MS)
      break;
    if (wait < RETRY_MS / 2)
      wait = RETRY_MS / 2;
    if (waited == 0)
      fprintf (stderr, "nbdkit: weft: %s; trying again for up to %u s\n",
               admin_error (c->admin), ATTACH_WAIT_MS / 1000);
    usleep (wait * 1000);
    waited += wait;
    json_decref (reply);
    reply = NULL;
  }
  if (status == 200 || status == 201)
    m = take_answer (c, reply);
  else
    nbdkit_error ("array %s: %s", params.array, admin_error (c->admin));
  json_decref (reply);
  json_decref (body);
  return m;
}

struct control *
control_attach (bool readonly, struct map **map)
{
  struct control *c = calloc (1, sizeof *c);
  pthread_condattr_t attr;

  if (c == NULL) {
    nbdkit_error ("calloc: %m");
    return NULL;
  }
  c->reports_tail = &c->reports;
  pthread_mutex_init (&c->lock, NULL);
  pthread_condattr_init (&attr);
  pthread_condattr_setclock (&attr, CLOCK_MONOTONIC);
  pthread_cond_init (&c->wake, &attr);
  pthread_condattr_destroy (&attr);
  c->admin = admin_new (params.admin);
  c->reporter_admin = admin_new (params.admin);
  if (c->admin == NULL || c->reporter_admin == NULL) {
    nbdkit_error ("admin=%s: not the address of a weftd; write it like "
                  "http://127.0.0.1:7380", params.admin);
    goto err;
  }
  if (make_instance (c->instance) == -1)
    goto err;
  *map = attach (c, readonly);
  if (*map == NULL)
    goto err;
  c->map = *map;
  return c;
err:
  control_end (c, true);
  return NULL;
}

/*----- What weftd says -----*/

/* Sleep on `wake`, at most ms; called and returns with the lock. */
static void
sleep_locked (struct control *c, unsigned ms)
{
  struct timespec until;

  clock_gettime (CLOCK_MONOTONIC, &until);
  until.tv_nsec += (long) (ms % 1000) * 1000000;
  until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  pthread_cond_timedwait (&c->wake, &c->lock, &until);
}

static void
session_over (struct control *c, const char *why)
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
  engine_stop (c->engine, ESHUTDOWN);
}

/* Take over {"epoch", "states"}; returns whether anything is new. */
static bool
merge_states (struct control *c, const json_t *reply)
{
  const json_t *states = json_object_get (reply, "states");
  json_int_t epoch = json_integer_value (json_object_get (reply, "epoch"));
  bool news = false;
  const char *name;
  unsigned i;

  if (json_array_size (states) != c->members)
    return false;
  for (i = 0; i < c->members; i++) {
    name = json_string_value (json_array_get (states, i));
    if (name && member_state_parse (name) == MEMBER_OUT &&
        c->states[i] != MEMBER_OUT) {
      c->states[i] = MEMBER_OUT;
      news = true;
    }
  }
  if (epoch > 0 && (uint64_t) epoch > c->epoch) {
    c->epoch = epoch;
    news = true;
  }
  return news;
}

/* An answer of weftd with states: commit what is new, or in any case when it
 * answers our report.
 */
static void
commit (struct control *c, const json_t *reply, bool always)
{
  enum member_state states[ARRAY_MEMBERS_MAX];
  uint64_t epoch;

  pthread_mutex_lock (&c->lock);
  if (!merge_states (c, reply) && !always) {
    pthread_mutex_unlock (&c->lock);
    return;
  }
  epoch = c->epoch;
  memcpy (states, c->states, sizeof states);
  pthread_mutex_unlock (&c->lock);
  engine_commit (c->engine, epoch, states);
}

/*----- The heartbeat -----*/

static json_t *
stats_json (struct engine *e)
{
  struct array_stats s;
  json_t *json = json_object ();

  engine_stats (e, &s);
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

/* One heartbeat; returns the HTTP status. */
static int
beat (struct control *c, bool *silent)
{
  char path[128];
  json_t *body, *reply;
  uint64_t epoch;
  int status;

  pthread_mutex_lock (&c->lock);
  epoch = c->epoch;
  pthread_mutex_unlock (&c->lock);
  snprintf (path, sizeof path, "/api/v1/sessions/%s/heartbeat", c->session);
  body = json_pack ("{s:s, s:I, s:s?, s:o, s:b, s:i}", "instance",
                    c->instance, "epoch", (json_int_t) epoch, "uri",
                    params.uri, "stats", stats_json (c->engine), "draining",
                    (int) engine_ending (c->engine), "wait_ms", HEARTBEAT_MS);
  status = admin_call (c->admin, "POST", path, body, &reply,
                       HEARTBEAT_MS + CALL_TIMEOUT_MS);
  json_decref (body);
  if (weft_debug_control)
    nbdkit_debug ("weft: heartbeat: %d %s", status,
                  admin_error (c->admin));
  if (status == 200) {
    if (*silent)
      nbdkit_debug ("weft: weftd answers again");
    *silent = false;
    commit (c, reply, false);
  } else if (status == 410)
    session_over (c, admin_error (c->admin));
  else if (!*silent) {
    *silent = true;
    nbdkit_debug ("weft: %s; I/O goes on", admin_error (c->admin));
  }
  json_decref (reply);
  return status;
}

static void *
heartbeat_thread (void *opaque)
{
  struct control *c = opaque;
  bool silent = false;
  int status;

  pthread_setname_np (pthread_self (), "weft-heartbeat");
  pthread_mutex_lock (&c->lock);
  while (!c->quit && !c->over) {
    pthread_mutex_unlock (&c->lock);
    status = beat (c, &silent);
    pthread_mutex_lock (&c->lock);
    if (!c->quit && !c->over)
      sleep_locked (c, status == 200 ? BEAT_MS_MIN : RETRY_MS);
  }
  pthread_mutex_unlock (&c->lock);
  return NULL;
}

/*----- Lost members -----*/

void
control_notice (struct control *c, const struct array_notice *n)
{
  struct report *r;

  if (n->kind != NOTICE_LOST)
    return;
  r = malloc (sizeof *r);
  if (r == NULL) {
    /* The requests that touch the member stay held; better than a lie. */
    nbdkit_error ("array %s: out of memory: can't report member %s as lost",
                  params.array, c->map->member[n->member].name);
    return;
  }
  r->next = NULL;
  r->member = n->member;
  memcpy (r->reason, n->reason, sizeof r->reason);
  pthread_mutex_lock (&c->lock);
  *c->reports_tail = r;
  c->reports_tail = &r->next;
  pthread_cond_broadcast (&c->wake);
  pthread_mutex_unlock (&c->lock);
}

/* weftd does not record the loss of what has no other copy, nor a reader's of a
 * member that is well: then we stop.
 */
static bool
is_no_loss (int status, const json_t *reply)
{
  const char *code = json_string_value (json_object_get (reply, "code"));

  return status == 409 && code &&
         (strcmp (code, "last-copy") == 0 || strcmp (code, "in-use") == 0);
}

/* Report until it is recorded or there is no use. */
static void
report (struct control *c, const struct report *r)
{
  const char *name = c->map->member[r->member].name;
  char path[128];
  json_t *body, *reply;
  bool said = false, stop = false;
  int status;

  /* When the whole host goes down, members often end a moment before we do:
   * that is no loss to be recorded.
   */
  if (hangup_wait (ENDING_WAIT_MS)) {
    nbdkit_error ("array %s: ending, so it does not report that member %s is "
                  "gone", params.array, name);
    engine_stop (c->engine, ESHUTDOWN);
    return;
  }
  snprintf (path, sizeof path, "/api/v1/sessions/%s/lost", c->session);
  body = json_pack ("{s:i, s:s%}", "member", (int) r->member, "reason",
                    r->reason, strlen (r->reason));
  if (body == NULL) /* the reason is no UTF-8 */
    body = json_pack ("{s:i, s:s}", "member", (int) r->member, "reason",
                      "it failed");
  while (!stop) {
    status = admin_call (c->reporter_admin, "POST", path, body, &reply,
                         CALL_TIMEOUT_MS);
    if (weft_debug_control)
      nbdkit_debug ("weft: lost %s: %d %s", name, status,
                    admin_error (c->reporter_admin));
    if (status == 200) {
      nbdkit_error ("array %s: member %s is recorded as out; going on without "
                    "it", params.array, name);
      commit (c, reply, true);
    } else if (status == 410)
      session_over (c, admin_error (c->reporter_admin));
    else if (is_no_loss (status, reply)) {
      nbdkit_error ("array %s: stops, every request fails from now on: %s",
                    params.array, admin_error (c->reporter_admin));
      engine_stop (c->engine, EIO);
      stop = true;
    }
    json_decref (reply);
    if (status == 200 || status == 410 || stop)
      break;
    if (!said)
      nbdkit_error ("array %s: can't record that member %s is lost, requests "
                    "to it wait: %s", params.array, name,
                    admin_error (c->reporter_admin));
    said = true;
    pthread_mutex_lock (&c->lock);
    if (!c->quit && !c->over)
      sleep_locked (c, RETRY_MS);
    stop = c->quit || c->over;
    pthread_mutex_unlock (&c->lock);
  }
  json_decref (body);
}

static void *
reporter_thread (void *opaque)
{
  struct control *c = opaque;
  struct report *r;

  pthread_setname_np (pthread_self (), "weft-reporter");
  pthread_mutex_lock (&c->lock);
  while (!c->quit && !c->over) {
    r = c->reports;
    if (r == NULL) {
      pthread_cond_wait (&c->wake, &c->lock);
      continue;
    }
    c->reports = r->next;
    if (c->reports == NULL)
      c->reports_tail = &c->reports;
    pthread_mutex_unlock (&c->lock);
    report (c, r);
    free (r);
    pthread_mutex_lock (&c->lock);
  }
  pthread_mutex_unlock (&c->lock);
  return NULL;
}

/*----- Start and end -----*/

int
control_start (struct control *c, struct engine *e)
{
  int r;

  c->engine = e;
  r = pthread_create (&c->heartbeat, NULL, heartbeat_thread, c);
  if (r == 0) {
    c->threads = 1;
    r = pthread_create (&c->reporter, NULL, reporter_thread, c);
    if (r == 0)
      c->threads = 2;
  }
  if (r != 0)
    nbdkit_error ("pthread_create: %s", strerror (r));
  return r == 0 ? 0 : -1;
}

static void
stop_threads (struct control *c)
{
  pthread_mutex_lock (&c->lock);
  c->quit = true;
  pthread_cond_broadcast (&c->wake);
  pthread_mutex_unlock (&c->lock);
  if (c->threads == 0)
    return;
  admin_cancel (c->admin);
  admin_cancel (c->reporter_admin);
  pthread_join (c->heartbeat, NULL);
  if (c->threads > 1)
    pthread_join (c->reporter, NULL);
}

/* On a client of its own: the other ones are cancelled for good. */
static void
detach (struct control *c)
{
  struct admin *admin = admin_new (params.admin);
  char path[128];
  int status;

  if (admin == NULL)
    return;
  snprintf (path, sizeof path, "/api/v1/sessions/%s", c->session);
  status = admin_call (admin, "DELETE", path, NULL, NULL, DETACH_TIMEOUT_MS);
  if (status == -1 || (status >= 400 && status != 404 && status != 410))
    nbdkit_error ("array %s: can't detach: %s; the session ends by itself",
                  params.array, admin_error (admin));
  admin_free (admin);
}

void
control_end (struct control *c, bool clean)
{
  struct report *r;

  if (c == NULL)
    return;
  stop_threads (c);
  if (clean && !c->over && c->session[0])
    detach (c);
  while ((r = c->reports) != NULL) {
    c->reports = r->next;
    free (r);
  }
  admin_free (c->admin);
  admin_free (c->reporter_admin);
  pthread_cond_destroy (&c->wake);
  pthread_mutex_destroy (&c->lock);
  free (c);
}
