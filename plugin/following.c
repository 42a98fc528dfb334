/* following.c: see following.h.
 *
 * The follow engine (core/host/follow.h) decides; one thread carries out what it says,
 * one thing at a time.  For the start that is the thread which calls following_begin.
 */

#include <config.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/admin.h"
#include "common/clock.h"
#include "following.h"
#include "host/follow.h"
#include "host/host.h"
#include "identity.h"
#include "nbdkit-options.h"
#include "revoked.h"
#include "role.h"

#define ASK_TIMEOUT_MS 5000

struct following {
  struct follow follow; /* under the lock */
  struct admin *admin;
  struct identity identity;
  struct peer *peer;     /* that is being made; NULL: none */
  uint64_t size;         /* of the array; 0: not known yet */
  struct engine *engine; /* NULL: there is none yet */
  bool refused;          /* weftd says that our node may not have the array */
  /* Acknowledged writes may be lost: the device has not got the error yet; an
   * earlier process of it acknowledged them, so this process must report it.
   */
  bool owes, untold;
  unsigned takes;       /* connections that were taken */
  bool unkept;          /* the device's file says that it has written nothing */
  char said[1024];      /* the last logged reason why no process serves */
  pthread_mutex_t lock; /* held across no call */
  pthread_cond_t wake;
  bool quit, threaded;
  pthread_t thread;
};

/* Log a problem once; "": it is over. */
static void
tell (struct following *f, const char *what)
{
  if (strncmp (f->said, what, sizeof f->said - 1) == 0)
    return;
  snprintf (f->said, sizeof f->said, "%s", what);
  if (what[0])
    nbdkit_error ("array %s: %s", params.service, what);
}

/* ----- Actions ----- */

static void
take_text (const json_t *from, const char *key, char *to, size_t size)
{
  const char *text = json_string_value (json_object_get (from, key));

  snprintf (to, size, "%s", text ? text : "");
}

/* Processes here that were started before this number are refused; 0: none. */
static uint64_t
fenced_below (const json_t *list)
{
  json_t *v;
  size_t i;

  json_array_foreach (list, i, v)
    if (json_string_value (json_object_get (v, "node")) &&
        strcmp (json_string_value (json_object_get (v, "node")), params.node) ==
          0)
      return json_integer_value (json_object_get (v, "below"));
  return 0;
}

static void
ask (struct following *f, const struct follow_action *a)
{
  struct follow_answer answer = { .status = -1 };
  const json_t *serving;
  json_t *reply = NULL;
  char path[400];

  snprintf (path, sizeof path,
            "/api/v1/arrays/%s/service?attach=%s&node=%s%s%s", params.service,
            options.readonly ? "ro" : "rw", params.node,
            a->session[0] == '\0' ? ""
            : a->reached          ? "&reached="
                                  : "&unreached=",
            a->session);
  answer.status = admin_call (f->admin, "GET", path, NULL, &reply,
                              ASK_TIMEOUT_MS);
  if (answer.status == 200) {
    serving = json_object_get (reply, "serving");
    answer.epoch = json_integer_value (json_object_get (reply, "epoch"));
    answer.lapse = json_integer_value (json_object_get (reply, "lapse"));
    answer.fences = json_integer_value (json_object_get (reply, "fences"));
    answer.below = fenced_below (json_object_get (reply, "fenced"));
    take_text (reply, "uuid", answer.array, sizeof answer.array);
    take_text (serving, "session", answer.session, sizeof answer.session);
    take_text (serving, "uri", answer.uri, sizeof answer.uri);
    if (answer.uri[0] == '\0')
      answer.session[0] = '\0';
  }
  answer.refused = answer.status == 403 &&
                   strcmp (admin_code (f->admin), "not-allowed") == 0;
  f->refused = f->refused || answer.refused;
  pthread_mutex_lock (&f->lock);
  follow_heard (&f->follow, &answer, clock_ms ());
  pthread_mutex_unlock (&f->lock);
  if (answer.status != 200)
    tell (f, admin_error (f->admin));
  else if (f->follow.stranger)
    tell (f, "it was deleted, and there is another array of this name: start "
             "this process again to use that");
  else if (answer.session[0] == '\0')
    tell (f, "no node serves it now");
  revoked_heard (f->admin);
  json_decref (reply);
}

/* Before anything is sent the next process must be able to know what we were. */
static bool
keep_identity (struct following *f, uint64_t fences)
{
  struct identity known = f->identity;

  if (known.known)
    return true;
  known.known = true;
  known.fences = fences;
  if (identity_keep (&known) == -1)
    return false;
  f->identity = known;
  return true;
}

/* The next process of the device has nothing to tell of what was before this epoch. */
static void
keep_used (struct following *f, uint64_t used)
{
  bool first;

  pthread_mutex_lock (&f->lock);
  first = f->identity.used == 0;
  f->identity.used = used;
  pthread_mutex_unlock (&f->lock);
  f->unkept = identity_keep_used (&f->identity) == -1 && first;
}

/* Take a connection. */
static void
take (struct following *f, bool kept)
{
  pthread_mutex_lock (&f->lock);
  f->takes++;
  if (!kept && f->identity.used > 0) {
    f->owes = true;
    f->untold = f->untold || f->engine == NULL;
  }
  pthread_mutex_unlock (&f->lock);
}

/* False: there is none, or it is not valid. */
static bool
open_peer (struct following *f, const struct follow_action *a)
{
  struct map_member mm = { .name = "service" };
  char token[256], uri[FOLLOW_URI_BYTES], why[8192] = "it has no NBD URI";

  snprintf (uri, sizeof uri, "%s", a->uri);
  snprintf (token, sizeof token, "%s/%s/%s/%llu/%llu", a->session, params.node,
            f->identity.instance, (unsigned long long) a->number,
            (unsigned long long) a->fences);
  mm.uri = uri;
  mm.token_data = token;
  if (strstr (uri, "://"))
    f->peer = peer_open (0, &mm, FOLLOW_CONNECT_MS, engine_io_done, why,
                         sizeof why);
  if (f->peer && f->size && f->peer->size != f->size) {
    snprintf (why, sizeof why,
              "%s has %llu bytes, but the array had %llu: it is another one",
              f->peer->label, (unsigned long long) f->peer->size,
              (unsigned long long) f->size);
    peer_close (f->peer);
    f->peer = NULL;
  }
  if (f->peer == NULL)
    tell (f, why);
  return f->peer != NULL;
}

static enum follow_flush
flush_peer (struct following *f)
{
  switch (peer_flush (f->peer, HEARTBEAT_MS)) {
  case 0:
    return FOLLOW_STABLE;
  case EINPROGRESS:
    return FOLLOW_PENDING;
  case EIO:
    return FOLLOW_GONE;
  default:
    return FOLLOW_BROKEN;
  }
}

static void
carry_out (struct following *f, const struct follow_action *a)
{
  enum follow_flush flush;
  uint64_t used;
  bool ok, owes;

  switch (a->kind) {
  case FOLLOW_ASK:
    ask (f, a);
    return;
  case FOLLOW_OPEN:
    /* The serving process must end our earlier requests: so they get no
     * further.
     */
    if (f->engine)
      engine_sever (f->engine, 0);
    ok = keep_identity (f, a->fences) && open_peer (f, a);
    pthread_mutex_lock (&f->lock);
    follow_opened (&f->follow, ok, clock_ms ());
    pthread_mutex_unlock (&f->lock);
    return;
  case FOLLOW_FLUSH:
    flush = flush_peer (f);
    pthread_mutex_lock (&f->lock);
    follow_flushed (&f->follow, flush, clock_ms ());
    pthread_mutex_unlock (&f->lock);
    return;
  case FOLLOW_TAKE:
    take (f, a->kept);
    ok = f->engine == NULL || engine_replace (f->engine, f->peer, a->connection,
                                              a->kept, UINT64_MAX);
    if (!ok)
      peer_close (f->peer);
    if (f->engine || !ok)
      f->peer = NULL;
    pthread_mutex_lock (&f->lock);
    follow_taken (&f->follow, ok, clock_ms ());
    used = f->follow.used;
    owes = f->owes;
    pthread_mutex_unlock (&f->lock);
    if (ok && !owes)
      keep_used (f, used);
    tell (f, "");
    if (f->engine && ok)
      nbdkit_error ("array %s: served again%s", params.service,
                    a->kept ? "" : "; unflushed writes may be lost");
    return;
  case FOLLOW_DROP:
    peer_close (f->peer);
    f->peer = NULL;
    return;
  case FOLLOW_LEAVE:
    nbdkit_error ("array %s: %s: connecting again", params.service,
                  a->kept ? "another process serves it"
                          : "unflushed writes may be lost");
    engine_break (f->engine, 0);
    return;
  case FOLLOW_STOP:
    if (!f->refused)
      nbdkit_error ("array %s: node %s was fenced: every request fails from "
                    "now on; weftctl node fence off %s, detach the device if "
                    "there is one, then start this process again",
                    params.service, params.node, params.node);
    else if (f->engine) /* the reason was logged */
      nbdkit_error ("array %s: every request fails from now on; start this "
                    "process again when node %s may attach the array again",
                    params.service, params.node);
    if (f->engine)
      engine_abandon (f->engine);
    return;
  }
}

static void *
work (void *opaque)
{
  struct following *f = opaque;
  struct follow_action a;

  pthread_setname_np (pthread_self (), "weft-follow");
  pthread_mutex_lock (&f->lock);
  while (!f->quit) {
    uint64_t now_ms = clock_ms (), due_ms;

    if (follow_next (&f->follow, now_ms, &a)) {
      pthread_mutex_unlock (&f->lock);
      carry_out (f, &a);
      pthread_mutex_lock (&f->lock);
      continue;
    }
    due_ms = follow_due_ms (&f->follow);
    if (due_ms == UINT64_MAX)
      pthread_cond_wait (&f->wake, &f->lock);
    else
      clock_wait_ms (&f->wake, &f->lock, due_ms);
  }
  pthread_mutex_unlock (&f->lock);
  return NULL;
}

/*----- Start and end -----*/

/* The array that is served, as one of raid-0 over that one "member". */
static struct map *
make_map (struct following *f)
{
  uint64_t unit = UNIT_BYTES_MAX;
  char why[512];
  json_t *json;
  struct map *m;

  /* Each array has a size that is a multiple of its own unit. */
  while (unit > UNIT_BYTES_MIN && f->peer->size % unit)
    unit /= 2;
  json = json_pack ("{ss ss sI s[{ss ss}]}", "name", params.service, "layout",
                    layout_name (LAYOUT_SINGLE), "unit", (json_int_t) unit,
                    "members", "name", "service", "uri", f->follow.uri);
  m = map_from_json (json, why, sizeof why);
  json_decref (json);
  if (m == NULL)
    nbdkit_error ("array %s: %s", params.service, why);
  return m;
}

struct following *
following_begin (struct map **map, struct peer **peer)
{
  struct following *f = calloc (1, sizeof *f);
  const uint64_t until_ms = clock_ms () + HOST_ATTACH_WAIT_MS;
  struct follow_action a = { .kind = FOLLOW_ASK };
  bool waits = false;

  if (f == NULL) {
    nbdkit_error ("calloc: %m");
    return NULL;
  }
  pthread_mutex_init (&f->lock, NULL);
  clock_condition (&f->wake);
  f->admin = admin_new (params.admin, params.tls, NULL);
  if (f->admin == NULL)
    nbdkit_error ("admin=%s: not the address of a weftd; write it like "
                  "http://127.0.0.1:7380",
                  params.admin);
  else if (identity_take (&f->identity, params.client) == 0) {
    follow_resume (&f->follow, (f->identity.starts - 1) * IDENTITY_NUMBERS,
                   f->identity.known, f->identity.fences, f->identity.used);
    while (f->follow.state != FOLLOW_UP && !f->follow.stopped &&
           clock_ms () < until_ms) {
      if (follow_next (&f->follow, clock_ms (), &a)) {
        carry_out (f, &a);
        continue;
      }
      if (!waits && f->follow.state == FOLLOW_SEEK)
        fprintf (stderr,
                 "nbdkit: weft: array %s: waiting for the serving node, for up "
                 "to %u s\n",
                 params.service, HOST_ATTACH_WAIT_MS / 1000);
      waits = true;
      clock_sleep_ms (20);
    }
  }
  if (f->follow.state == FOLLOW_UP && !f->unkept) {
    f->size = f->peer->size;
    *map = make_map (f);
    *peer = f->peer;
    f->peer = NULL;
    if (*map)
      return f;
    peer_close (*peer);
  }
  following_end (f);
  return NULL;
}

void
following_ready (struct following *f, struct engine *e)
{
  f->engine = e;
}

int
following_start (struct following *f)
{
  int r = pthread_create (&f->thread, NULL, work, f);

  f->threaded = r == 0;
  if (r == 0)
    return 0;
  nbdkit_error ("pthread_create: %s", strerror (r));
  return -1;
}

/* The detach of a device has removed the file, and a new device may come to us.
 */
int
following_client (struct following *f)
{
  int r = identity_keep (&f->identity);

  if (r == 1) {
    pthread_mutex_lock (&f->lock);
    f->owes = f->untold = false;
    pthread_mutex_unlock (&f->lock);
  }
  return r;
}

unsigned
following_takes (struct following *f)
{
  unsigned takes;

  pthread_mutex_lock (&f->lock);
  takes = f->takes;
  pthread_mutex_unlock (&f->lock);
  return takes;
}

int
following_flushed (struct following *f, unsigned takes, int error)
{
  bool told = false;
  uint64_t used;

  pthread_mutex_lock (&f->lock);
  if (error == 0 && f->untold)
    error = EIO;
  if (error == EIO)
    f->untold = false;
  /* A FLUSH that began before the last connection covers the earlier
   * connections only.
   */
  if ((error == 0 || error == EIO) && f->takes == takes) {
    told = f->owes;
    f->owes = false;
  }
  used = f->follow.used;
  pthread_mutex_unlock (&f->lock);
  if (told)
    keep_used (f, used);
  return error;
}

void
following_flushed_all (struct following *f)
{
  if (!f->owes && f->identity.used > 0)
    keep_used (f, 0);
}

void
following_notice (struct following *f, const struct array_notice *n,
                  uint64_t connection)
{
  if (n->kind != NOTICE_LOST)
    return;
  nbdkit_error ("array %s: the connection to the serving node is lost: %s",
                params.service, n->reason);
  pthread_mutex_lock (&f->lock);
  follow_lost (&f->follow, connection, clock_ms ());
  pthread_cond_broadcast (&f->wake);
  pthread_mutex_unlock (&f->lock);
}

void
following_end (struct following *f)
{
  if (f == NULL)
    return;
  pthread_mutex_lock (&f->lock);
  f->quit = true;
  pthread_cond_broadcast (&f->wake);
  pthread_mutex_unlock (&f->lock);
  if (f->threaded) {
    admin_cancel (f->admin);
    pthread_join (f->thread, NULL);
  }
  peer_close (f->peer);
  admin_free (f->admin);
  pthread_cond_destroy (&f->wake);
  pthread_mutex_destroy (&f->lock);
  free (f);
}
