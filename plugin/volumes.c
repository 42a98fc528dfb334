/* volumes.c: see volumes.h.
 *
 * The holder (core/host/holder.h) decides which messages weftd gets; a thread, the speaker,
 * sends them, and carries out weftd's orders.  A client's own thread opens the volume that it asks
 * for.  `opening` is held by the thread that opens or deletes a volume, while it waits for
 * weftd and for the array; `lock` protects the rest, and is held across no call of weftd and
 * no I/O.  The engine's lock may be taken with it.  `bell` wakes the speaker, and may be rung
 * with any lock held.  `listing` is held while weftd is asked for the list of volumes, and
 * `lock` may be taken with it.
 */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/sys/queue.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "base/name.h"
#include "base/spares.h"
#include "common/admin.h"
#include "common/clock.h"
#include "engine.h"
#include "format/format.h"
#include "hangup.h"
#include "host/holder.h"
#include "process.h"
#include "role.h"
#include "nbdkit-options.h"
#include "volumes-block.h"
#include "volumes-scan.h"
#include "volumes-wish.h"
#include "volumes-messages.h"
#include "volumes.h"

#define CALL_MS 10000
/* A client waits so long for a weftd that was just started. */
#define STARTING_MS 10000
#define AGAIN_MS 200
/* Figures, and segments that can be given back, are looked for so often. */
#define LOOK_MS 1000
#define PAUSE_MS 2 /* between two looks whether a volume is open, or closed */
#define CLOSE_MS 10000
/* A volume without clients is closed after this time. */
#define IDLE_MS 5000
#define ERASE_BYTES MiB (32) /* of the roots of a new pool, at a time */
#define LIST_MS 1000 /* a list, or that weftd has sent none, is kept so long */

struct volumes_export {
  TAILQ_ENTRY (volumes_export) link;
  char name[NAME_BYTES_MAX + 1];
  uint8_t uuid[16];
  uint32_t root;
  struct volumes_slot *slot;
  struct holder_volume *holder;
  unsigned clients;
  uint64_t idle_ms; /* since when it has none */
  bool deleting;
  enum { LEAVES_NOT, LEAVES_SOON, LEAVES_CLOSING, LEAVES_CLOSED } leaves;
};

struct volumes {
  pthread_mutex_t opening, lock;
  struct engine *engine;
  struct block *block;
  pthread_mutex_t listing;
  struct admin *admin, *speaker; /* of `opening`, and of the speaker */
  struct admin *lister;          /* of `listing` */
  json_t *listed;     /* weftd's last list of volumes; NULL: it sent none */
  uint64_t listed_ms; /* 0: it was not asked yet */
  char session[NAME_BYTES_MAX + 1], instance[PROCESS_INSTANCE_BYTES];
  struct pool_header pool;
  uint64_t array_bytes;
  bool formatted;
  bool scan;     /* weftd needs a scan */
  bool imported; /* weftd does not know whether the array is a pool */
  bool plain;    /* it is none */
  TAILQ_HEAD (, volumes_export) exports;
  struct holder *holder; /* NULL: the pool is not known */

  pthread_mutex_t bell_lock;
  pthread_cond_t bell;
  bool rung, quit;
  pthread_t thread;
  bool started, silent;
};

static void
ring (struct volumes *vs)
{
  pthread_mutex_lock (&vs->bell_lock);
  vs->rung = true;
  pthread_cond_signal (&vs->bell);
  pthread_mutex_unlock (&vs->bell_lock);
}

static void
news (void *opaque)
{
  ring (opaque);
}

static bool
quits (struct volumes *vs)
{
  bool quit;

  pthread_mutex_lock (&vs->bell_lock);
  quit = vs->quit;
  pthread_mutex_unlock (&vs->bell_lock);
  return quit || hangup_ending ();
}

/* ---- Opening and deleting, with `opening` ---- */

/* Until the volume is in none of these two states.  False: the process ends first. */
static bool
wait_while (struct volumes *vs, struct volumes_wish *w, enum volume_state one,
            enum volume_state other)
{
  for (;;) {
    engine_call (vs->engine, volumes_wish_look, w);
    if (w->state != one && w->state != other)
      return true;
    if (quits (vs))
      return false;
    clock_sleep_ms (PAUSE_MS);
  }
}

static struct volumes_export *
find (struct volumes *vs, const char *name, const uint8_t *uuid)
{
  struct volumes_export *x;

  TAILQ_FOREACH (x, &vs->exports, link)
    if (uuid ? memcmp (x->uuid, uuid, 16) == 0 : strcmp (x->name, name) == 0)
      return x;
  return NULL;
}

/* With `lock`: it is idle, and has no clients. */
static void
drop (struct volumes *vs, struct volumes_export *x)
{
  struct volumes_wish w = { .slot = x->slot };

  TAILQ_REMOVE (&vs->exports, x, link);
  holder_close (vs->holder, x->holder);
  engine_call (vs->engine, volumes_wish_drop, &w);
  free (x);
}

/* Until nothing of the volume is in flight. */
static void
wait_idle (struct volumes *vs, struct volumes_wish *w)
{
  for (;;) {
    engine_call (vs->engine, volumes_wish_look, w);
    if (w->idle)
      return;
    clock_sleep_ms (PAUSE_MS);
  }
}

/* It has no clients. */
static void
forget (struct volumes *vs, struct volumes_export *x)
{
  struct volumes_wish w = { .slot = x->slot };

  wait_idle (vs, &w);
  pthread_mutex_lock (&vs->lock);
  drop (vs, x);
  pthread_mutex_unlock (&vs->lock);
}

static struct volume_config
configuration (const struct volumes *vs,
               const struct volumes_messages_volume *d)
{
  struct volume_config config = {
    .pool = vs->pool,
    .number = d->root,
    .size = d->size,
    .full_wait_ms = params.full_wait_ms,
  };

  memcpy (config.uuid, d->uuid, 16);
  return config;
}

/* Ask weftd for it, and begin to open it.  NULL: *error is an errno, and `why` says why. */
static struct volumes_export *
begin (struct volumes *vs, const char *name, int *error, char *why, size_t size)
{
  struct volumes_export *x = NULL;
  struct volume_run *runs = NULL;
  struct volume_config config;
  struct volumes_wish w = { 0 };
  struct volumes_messages_volume d;
  const char *refused = NULL;
  json_t *body = json_pack ("{s:s}", "instance", vs->instance), *reply = NULL;
  unsigned count = 0;
  uint64_t until_ms;
  char path[256];
  int status;

  snprintf (path, sizeof path, "/api/v1/sessions/%s/volumes/%s", vs->session,
            name);
  until_ms = clock_ms () + STARTING_MS;
  while ((status = admin_call (vs->admin, "POST", path, body, &reply,
                               CALL_MS)) == 503 &&
         clock_ms () < until_ms && !quits (vs)) {
    json_decref (reply);
    reply = NULL;
    clock_sleep_ms (AGAIN_MS);
  }
  json_decref (body);
  *error = status == 404 ? ENOENT : EIO;
  if (status != 200)
    snprintf (why, size, "%s", admin_error (vs->admin));
  else if (!volumes_messages_volume (json_object_get (reply, "volume"),
                                     &vs->pool, &d) ||
           !volumes_messages_runs (json_object_get (reply, "runs"), &runs,
                                   &count))
    snprintf (why, size,
              "weftd's answer is not usable; are weftd and this "
              "nbdkit of the same version?");
  else {
    x = alloc_zeroed (sizeof *x);
    strcpy (x->name, d.name);
    memcpy (x->uuid, d.uuid, 16);
    x->root = d.root;
    x->idle_ms = clock_ms ();
    config = configuration (vs, &d);
    config.name = d.new ? x->name : NULL; /* its root is written later */
    w.config = &config;
    w.runs = runs;
    w.count = count;
    pthread_mutex_lock (&vs->lock);
    x->holder = holder_open (vs->holder, d.uuid, runs, count, &refused);
    if (x->holder)
      engine_call (vs->engine, volumes_wish_add, &w);
    x->slot = w.slot;
    if (x->slot)
      TAILQ_INSERT_TAIL (&vs->exports, x, link);
    else if (x->holder)
      holder_close (vs->holder, x->holder);
    pthread_mutex_unlock (&vs->lock);
    if (x->slot == NULL) {
      snprintf (why, size, "%s",
                refused ? refused : "there is no memory for it");
      free (x);
      x = NULL;
    }
  }
  free (runs);
  json_decref (reply);
  return x;
}

/* A volume that was closed, and that weftd still believes to be open, is opened again with the
 * segments that it has: weftd may be silent.
 */
static bool
reopen (struct volumes *vs, struct volumes_export *x)
{
  struct volumes_messages_volume d = { .root = x->root };
  struct volumes_wish old = { .slot = x->slot }, w = { 0 };
  struct volume_config config;
  struct volume_run *runs;

  memcpy (d.uuid, x->uuid, 16);
  config = configuration (vs, &d);
  w.config = &config;
  wait_idle (vs, &old);
  pthread_mutex_lock (&vs->lock);
  w.runs = runs = holder_runs (vs->holder, x->holder, &w.count);
  engine_call (vs->engine, volumes_wish_add, &w);
  if (w.slot) {
    x->slot = w.slot;
    x->leaves = LEAVES_NOT;
    x->idle_ms = clock_ms ();
    engine_call (vs->engine, volumes_wish_drop, &old);
  }
  pthread_mutex_unlock (&vs->lock);
  free (runs);
  return w.slot != NULL;
}

/* The volume, when it is open.  With `opening`.  NULL: as of `begin`. */
static struct volumes_export *
open_volume (struct volumes *vs, const char *name, int *error, char *why,
             size_t size)
{
  struct volumes_export *x;
  struct volumes_wish w = { 0 };

  *error = ESHUTDOWN;
  snprintf (why, size, "this process ends");
  pthread_mutex_lock (&vs->lock);
  x = find (vs, name, NULL);
  pthread_mutex_unlock (&vs->lock);
  if (x) {
    w.slot = x->slot;
    if (!wait_while (vs, &w, VOLUME_CLOSING, VOLUME_CLOSING))
      return NULL;
    if (w.state == VOLUME_CLOSED && !reopen (vs, x)) {
      *error = ENOMEM;
      snprintf (why, size, "there is no memory for it");
      return NULL;
    }
    if (w.state == VOLUME_FAILED && x->clients == 0) {
      forget (vs, x);
      x = NULL;
    }
  }
  if (x == NULL)
    x = begin (vs, name, error, why, size);
  if (x == NULL)
    return NULL;
  w.slot = x->slot;
  *error = ESHUTDOWN;
  snprintf (why, size, "this process ends");
  if (!wait_while (vs, &w, VOLUME_OPENING, VOLUME_OPENING))
    return NULL;
  ring (vs);
  if (w.state == VOLUME_OPEN)
    return x;
  *error = EIO;
  snprintf (why, size, "%s", w.why ? w.why : "it is closed");
  return NULL;
}

/* ---- Clients ---- */

/* A client of a volume that is open; with `lock`. */
static struct array_client *
client_of (struct volumes *vs, struct volumes_export *x)
{
  struct volumes_wish w = { .slot = x->slot };

  engine_call (vs->engine, volumes_wish_look, &w);
  if (x->deleting || w.state != VOLUME_OPEN)
    return NULL;
  engine_call (vs->engine, volumes_wish_client, &w);
  x->clients++;
  x->leaves = LEAVES_NOT;
  return w.client;
}

struct array_client *
volumes_open (struct volumes *vs, const char *name,
              struct volumes_export **export)
{
  struct array_client *client = NULL;
  struct volumes_export *x;
  char why[512] = "it is being deleted";
  int error = ENOENT;

  if (name[0] == '\0' || !name_valid (name)) {
    nbdkit_error ("array %s is a pool, and \"%s\" is no volume of it: a client "
                  "names one as its export; weftctl volume ls %s shows them",
                  params.array, name, params.array);
    nbdkit_set_error (ENOENT);
    return NULL;
  }
  pthread_mutex_lock (&vs->lock);
  x = find (vs, name, NULL);
  if (x)
    client = client_of (vs, x);
  pthread_mutex_unlock (&vs->lock);
  if (client == NULL) {
    pthread_mutex_lock (&vs->opening);
    x = open_volume (vs, name, &error, why, sizeof why);
    pthread_mutex_lock (&vs->lock);
    if (x)
      client = client_of (vs, x);
    pthread_mutex_unlock (&vs->lock);
    pthread_mutex_unlock (&vs->opening);
  }
  *export = x;
  if (client) {
    ring (vs);
    return client;
  }
  nbdkit_error ("volume %s/%s cannot be opened: %s", params.array, name, why);
  nbdkit_set_error (error);
  return NULL;
}

void
volumes_close (struct volumes *vs, struct volumes_export *export,
               struct array_client *client)
{
  pthread_mutex_lock (&vs->lock);
  engine_client_close (vs->engine, client);
  export->clients--;
  export->idle_ms = clock_ms ();
  pthread_mutex_unlock (&vs->lock);
  ring (vs);
}

uint64_t
volumes_size (struct volumes *vs, struct volumes_export *export)
{
  struct volumes_wish w = { .slot = export->slot };

  engine_call (vs->engine, volumes_wish_look, &w);
  return w.size;
}

/* With `listing`: weftd's list, at most LIST_MS old; NULL: it has sent none. */
static const json_t *
list_of_weftd (struct volumes *vs)
{
  json_t *reply = NULL;
  char path[256];

  if (vs->listed_ms > 0 && clock_ms () < vs->listed_ms + LIST_MS)
    return vs->listed;
  snprintf (path, sizeof path, "/api/v1/sessions/%s/volumes?instance=%s",
            vs->session, vs->instance);
  if (admin_call (vs->lister, "GET", path, NULL, &reply, CALL_MS) != 200) {
    json_decref (reply);
    reply = NULL;
  }
  json_decref (vs->listed);
  vs->listed = reply;
  vs->listed_ms = clock_ms ();
  return reply;
}

int
volumes_list (struct volumes *vs, struct nbdkit_exports *exports)
{
  const struct volumes_export *x;
  const json_t *list, *one;
  const char *name;
  size_t i;
  int r = 0;

  pthread_mutex_lock (&vs->listing);
  list = list_of_weftd (vs);
  json_array_foreach (json_object_get (list, "volumes"), i, one) {
    name = json_string_value (json_object_get (one, "name"));
    if (r == 0 && name)
      r = nbdkit_add_export (exports, name, "a volume");
  }
  if (list == NULL) {
    pthread_mutex_lock (&vs->lock);
    TAILQ_FOREACH (x, &vs->exports, link)
      if (r == 0)
        r = nbdkit_add_export (exports, x->name, "a volume");
    pthread_mutex_unlock (&vs->lock);
  }
  pthread_mutex_unlock (&vs->listing);
  return r;
}

/* ---- Orders ---- */

static void
resize (struct volumes *vs, const struct holder_order *o, char *why,
        size_t size)
{
  struct volumes_export *x;
  struct volumes_wish w = { .size = o->size };
  int error;

  x = open_volume (vs, o->name, &error, why, size);
  if (x == NULL)
    return;
  w.slot = x->slot;
  engine_call (vs->engine, volumes_wish_resize, &w);
  if (w.error) {
    snprintf (why, size, "%s",
              w.error == EINVAL  ? "a volume cannot become smaller"
              : w.error == EBUSY ? "its log or its root cannot be written"
                                 : strerror (w.error));
    return;
  }
  do {
    clock_sleep_ms (PAUSE_MS);
    engine_call (vs->engine, volumes_wish_look, &w);
  } while (w.size < o->size && w.why == NULL && !quits (vs));
  if (w.size >= o->size)
    why[0] = '\0';
  else
    snprintf (why, size, "%s", w.why ? w.why : "this process ends");
}

/* The volume is not open. */
static void
delete_closed (struct volumes *vs, const struct holder_order *o, char *why,
               size_t size)
{
  struct volumes_messages_volume d = { .root = o->root };
  struct volume_config config;
  struct volumes_wish w = { .config = &config, .delete = true };

  memcpy (d.uuid, o->uuid, 16);
  config = configuration (vs, &d);
  engine_call (vs->engine, volumes_wish_add, &w);
  if (w.slot == NULL) {
    snprintf (why, size, "there is no memory for it");
    return;
  }
  if (!wait_while (vs, &w, VOLUME_OPENING, VOLUME_CLOSING))
    snprintf (why, size, "this process ends");
  else if (w.state == VOLUME_DELETED)
    why[0] = '\0';
  else
    snprintf (why, size, "%s", w.why ? w.why : "its root cannot be written");
  wait_idle (vs, &w);
  engine_call (vs->engine, volumes_wish_drop, &w);
}

static void delete (struct volumes *vs, const struct holder_order *o, char *why,
                    size_t size)
{
  struct volumes_export *x;
  struct volumes_wish w = { 0 };
  unsigned clients = 0;

  pthread_mutex_lock (&vs->lock);
  x = find (vs, NULL, o->uuid);
  if (x) {
    clients = x->clients;
    x->deleting = clients == 0;
  }
  pthread_mutex_unlock (&vs->lock);
  if (clients > 0) {
    snprintf (why, size, "%u client%s connected to it", clients,
              clients == 1 ? " is" : "s are");
    return;
  }
  if (x) {
    w.slot = x->slot;
    if (!wait_while (vs, &w, VOLUME_CLOSING, VOLUME_CLOSING)) {
      snprintf (why, size, "this process ends");
      return;
    }
    engine_call (vs->engine, volumes_wish_delete, &w);
    if (!wait_while (vs, &w, VOLUME_OPENING, VOLUME_CLOSING)) {
      snprintf (why, size, "this process ends");
      return;
    }
    forget (vs, x);
  }
  if (w.state == VOLUME_DELETED)
    why[0] = '\0';
  else
    delete_closed (vs, o, why, size);
}

static void
carry_out (struct volumes *vs, const struct holder_order *o)
{
  char why[256] = "";

  pthread_mutex_lock (&vs->opening);
  if (o->what == HOLDER_DO_RESIZE)
    resize (vs, o, why, sizeof why);
  else
    delete (vs, o, why, sizeof why);
  pthread_mutex_unlock (&vs->opening);
  if (why[0])
    nbdkit_error ("volume %s/%s cannot be %s: %s", params.array, o->name,
                  o->what == HOLDER_DO_RESIZE ? "resized" : "deleted", why);
  if (quits (vs))
    return; /* weftd orders it of the next process */
  pthread_mutex_lock (&vs->lock);
  holder_did (vs->holder, o->number, why[0] ? why : NULL);
  pthread_mutex_unlock (&vs->lock);
}

void
volumes_heard (struct volumes *vs, const json_t *reply)
{
  const json_t *list = json_object_get (reply, "volumes"), *one;
  struct holder_order o;
  size_t i;

  if (json_array_size (list) == 0)
    return;
  pthread_mutex_lock (&vs->lock);
  json_array_foreach (list, i, one)
    if (vs->holder && volumes_messages_order (one, &vs->pool, &o))
      holder_ordered (vs->holder, &o, 1);
  pthread_mutex_unlock (&vs->lock);
  ring (vs);
}

bool
volumes_number (struct volumes *vs, uint64_t *number)
{
  bool known;

  pthread_mutex_lock (&vs->lock);
  known = vs->holder != NULL;
  if (known)
    *number = holder_number (vs->holder);
  pthread_mutex_unlock (&vs->lock);
  return known;
}

/* ---- The speaker ---- */

/* With `lock`. */
static void
take_grants (struct volumes *vs, const json_t *reply)
{
  const json_t *one;
  size_t i;

  json_array_foreach (json_object_get (reply, "volumes"), i, one) {
    const char *text = json_string_value (json_object_get (one, "volume"));
    struct volumes_export *x = NULL;
    struct volume_run *runs;
    struct volumes_wish w = { 0 };
    unsigned count, n = 0;
    uint8_t uuid[16];

    if (text && format_uuid_parse (text, uuid) == 0)
      x = find (vs, NULL, uuid);
    if (x == NULL || x->holder == NULL)
      continue;
    volumes_messages_runs (json_object_get (one, "granted"), &runs, &count);
    for (unsigned k = 0; k < count; k++)
      if (holder_granted (vs->holder, x->holder, &runs[k]))
        runs[n++] = runs[k];
      else
        nbdkit_error ("volume %s/%s: weftd granted %u segments from %u on, "
                      "which are in use or none of the pool: they are not "
                      "used",
                      params.array, x->name, runs[k].count, runs[k].first);
    w.slot = x->slot;
    w.runs = runs;
    w.count = n;
    if (n > 0)
      engine_call (vs->engine, volumes_wish_granted, &w);
    free (runs);
  }
}

static void
end_speaking (struct volumes *vs)
{
  pthread_mutex_lock (&vs->bell_lock);
  vs->quit = true;
  pthread_cond_signal (&vs->bell);
  pthread_mutex_unlock (&vs->bell_lock);
}

static void
speak (struct volumes *vs, const struct holder_message *m)
{
  json_t *body = volumes_messages (vs->instance, m), *reply = NULL;
  bool refused;
  char path[128];
  int status;

  snprintf (path, sizeof path, "/api/v1/sessions/%s/volumes", vs->session);
  status = admin_call (vs->speaker, "POST", path, body, &reply, CALL_MS);
  json_decref (body);
  refused = status >= 400 && status != 410;
  if (refused && !vs->silent)
    nbdkit_error ("array %s: weftd refuses a call about volumes: %s; trying "
                  "again",
                  params.array, admin_error (vs->speaker));
  vs->silent = refused;
  if (status == 410)
    end_speaking (vs);
  pthread_mutex_lock (&vs->lock);
  if (status == 200)
    take_grants (vs, reply);
  holder_answered (vs->holder, status, clock_ms ());
  pthread_mutex_unlock (&vs->lock);
  json_decref (reply);
}

/* With `lock`. */
static void
tell (struct volumes *vs)
{
  struct volumes_export *x;

  TAILQ_FOREACH (x, &vs->exports, link) {
    struct volumes_wish w = { .slot = x->slot };

    do {
      engine_call (vs->engine, volumes_wish_facts, &w);
      if (w.state == VOLUME_OPENING)
        break;
      w.facts.said.clients = x->clients;
      holder_give (vs->holder, x->holder, w.gives, w.gives_count);
      holder_tell (vs->holder, x->holder, &w.facts);
    } while (w.gives_count == VOLUMES_WISH_GIVES);
  }
}

/* ---- Volumes without clients ---- */

/* With `opening` and `lock`: one step towards its end.  Each step waits for weftd's answer to
 * the step before.  The first tells weftd of the volume once more, the second closes the
 * volume, the third gives its spare segments back, and the last drops it.  So a volume keeps
 * its spare segments while weftd is silent, and a client that comes back can write.  A client
 * that comes meanwhile opens it again.
 */
static void
leave_one (struct volumes *vs, struct volumes_export *x)
{
  struct volumes_wish w = { .slot = x->slot };

  engine_call (vs->engine, volumes_wish_look, &w);
  if (w.state == VOLUME_OPENING || w.state == VOLUME_CLOSING)
    return;
  if (w.state == VOLUME_FAILED)
    x->leaves = LEAVES_CLOSED; /* it gives nothing back */
  switch (x->leaves) {
  case LEAVES_NOT:
    holder_leave (vs->holder, x->holder);
    x->leaves = LEAVES_SOON;
    break;
  case LEAVES_SOON:
    if (!holder_settled (vs->holder, x->holder))
      break;
    engine_call (vs->engine, volumes_wish_close, &w);
    x->leaves = LEAVES_CLOSING;
    break;
  case LEAVES_CLOSING:
    holder_leave (vs->holder, x->holder); /* with what it gives back */
    x->leaves = LEAVES_CLOSED;
    break;
  case LEAVES_CLOSED:
    if (w.idle && holder_settled (vs->holder, x->holder))
      drop (vs, x);
    break;
  }
}

static void
leave (struct volumes *vs)
{
  struct volumes_export *x, *next;

  if (pthread_mutex_trylock (&vs->opening) != 0)
    return; /* a thread opens a volume, perhaps one of these */
  pthread_mutex_lock (&vs->lock);
  TAILQ_FOREACH_SAFE (x, &vs->exports, link, next)
    if (x->clients == 0 && clock_ms () >= x->idle_ms + IDLE_MS)
      leave_one (vs, x);
  pthread_mutex_unlock (&vs->lock);
  pthread_mutex_unlock (&vs->opening);
}

static void
sleep_until (struct volumes *vs, uint64_t due_ms)
{
  uint64_t now_ms = clock_ms ();

  if (due_ms > now_ms + LOOK_MS)
    due_ms = now_ms + LOOK_MS;
  pthread_mutex_lock (&vs->bell_lock);
  while (!vs->rung && !vs->quit &&
         clock_wait_ms (&vs->bell, &vs->bell_lock, due_ms))
    ;
  vs->rung = false;
  pthread_mutex_unlock (&vs->bell_lock);
}

static void *
work (void *opaque)
{
  struct volumes *vs = opaque;
  const struct holder_message *m;
  struct holder_order o;
  uint64_t due_ms;
  bool ordered;

  pthread_setname_np (pthread_self (), "weft-volumes");
  while (!quits (vs)) {
    leave (vs);
    pthread_mutex_lock (&vs->lock);
    tell (vs);
    ordered = holder_next_order (vs->holder, &o);
    m = ordered ? NULL : holder_next (vs->holder, clock_ms ());
    due_ms = holder_due_ms (vs->holder);
    pthread_mutex_unlock (&vs->lock);
    if (ordered)
      carry_out (vs, &o);
    else if (m)
      speak (vs, m);
    else
      sleep_until (vs, due_ms);
  }
  return NULL;
}

/* ---- The header ---- */

static int
header_io (struct engine *e, enum array_op op, void *buf, uint64_t offset,
           uint64_t bytes)
{
  struct array_request r = { .op = op,
                             .flags = op == ARRAY_READ ? 0 : ARRAY_FUA,
                             .offset = offset,
                             .length = bytes,
                             .buf = buf };
  int error = engine_run_alone (e, &r);

  if (error)
    nbdkit_error ("array %s: the header of the pool cannot be %s: %s",
                  params.array, op == ARRAY_READ ? "read" : "written",
                  strerror (error));
  return error ? -1 : 0;
}

/* The disks may have roots of an array before.  All become zeroes, so a root that is neither
 * zeroes nor valid is a damaged one.
 */
static int
roots_erase (struct volumes *vs)
{
  uint64_t at = pool_root_offset (&vs->pool, 0);
  uint64_t end = at + (uint64_t) vs->pool.roots * 2 * POOL_ROOT_BYTES, bytes;
  int error = 0;

  for (; at < end && error == 0; at += bytes) {
    struct array_request r = { .op = ARRAY_ZERO,
                               .flags = ARRAY_FUA | ARRAY_MAY_TRIM,
                               .offset = at };

    if (hangup_ending ())
      return -1;
    r.length = bytes = end - at < ERASE_BYTES ? end - at : ERASE_BYTES;
    error = engine_run_alone (vs->engine, &r);
  }
  if (error)
    nbdkit_error ("array %s: the roots of the new pool cannot be erased: %s",
                  params.array, strerror (error));
  return error ? -1 : 0;
}

/* The header is written last: without it the next process formats the pool again.  The slot of
 * sequence number 1 is the second one; the first one becomes zeroes before, because it may
 * have the header of an array that had these disks before.
 */
static int
pool_format (struct volumes *vs, uint8_t slots[2 * POOL_SLOT_BYTES])
{
  if (roots_erase (vs) == -1)
    return -1;
  vs->pool.sequence = 1;
  pool_header_encode (&vs->pool, slots + POOL_SLOT_BYTES);
  if (header_io (vs->engine, ARRAY_ZERO, NULL, 0, POOL_SLOT_BYTES) == -1)
    return -1;
  return header_io (vs->engine, ARRAY_WRITE, slots + POOL_SLOT_BYTES,
                    POOL_SLOT_BYTES, POOL_SLOT_BYTES);
}

enum header {
  HEADER_OURS,
  HEADER_NONE, /* of this array's pool */
  HEADER_TORN, /* *why says why */
  HEADER_FAILED,
};

static enum header
header_read (struct engine *e, const uint8_t array[16],
             uint8_t slots[2 * POOL_SLOT_BYTES], struct pool_header *h,
             const char **why)
{
  if (header_io (e, ARRAY_READ, slots, 0, 2 * POOL_SLOT_BYTES) == -1)
    return HEADER_FAILED;
  if (pool_header_newest (slots, h, why) != -1 &&
      memcmp (h->array, array, 16) == 0)
    return HEADER_OURS;
  return pool_header_present (slots, array) ? HEADER_TORN : HEADER_NONE;
}

static int
header_refuse (const char *why)
{
  nbdkit_error ("array %s is a pool, and its header is not usable: %s; nothing "
                "was changed",
                params.array, why);
  return -1;
}

static struct volumes_scan
scan_of (const struct volumes *vs)
{
  return (struct volumes_scan) { .engine = vs->engine,
                                 .admin = vs->admin,
                                 .session = vs->session,
                                 .instance = vs->instance,
                                 .pool = &vs->pool,
                                 .imported = vs->imported };
}

static bool
holder_make (struct volumes *vs)
{
  struct holder *h = holder_new (pool_first_segment (&vs->pool),
                                 vs->pool.segments);

  pthread_mutex_lock (&vs->lock);
  vs->holder = h;
  pthread_mutex_unlock (&vs->lock);
  if (h == NULL)
    nbdkit_error ("calloc: %m");
  return h != NULL;
}

/* The array was imported, and its header says that it is a pool. */
static int
learn_pool (struct volumes *vs, const struct pool_header *h)
{
  struct pool_header plan;
  const char *why = "its size does not fit the array";

  if (pool_plan (vs->array_bytes, h->segment_bytes, &plan, &why) == 0 &&
      plan.segments == h->segments && plan.roots == h->roots) {
    vs->pool = *h;
    return holder_make (vs) ? 0 : -1;
  }
  return header_refuse (why);
}

/* weftd says that the pool has a header, or cannot know.  It gets one only if no volume of
 * the array was ever made.
 */
static int
header_missing (struct volumes *vs, uint8_t slots[2 * POOL_SLOT_BYTES],
                const char *why)
{
  struct volumes_scan s = scan_of (vs);
  int any = vs->scan || !vs->formatted ? 0 : 1;

  if (vs->scan)
    any = volumes_scan_any (&s);
  if (any == 0)
    return pool_format (vs, slots);
  return any == 1 ? header_refuse (why) : -1;
}

/* The header, and the geometry of the pool by it. */
static int
header_check (struct volumes *vs)
{
  uint8_t slots[2 * POOL_SLOT_BYTES];
  struct pool_header h;
  struct volumes_scan s = scan_of (vs);
  const char *why = "it is missing";
  enum header found = header_read (vs->engine, vs->pool.array, slots, &h, &why);

  if (found == HEADER_FAILED)
    return -1;
  if (found != HEADER_OURS && !vs->imported)
    return header_missing (vs, slots, why);
  if (found == HEADER_TORN)
    return header_refuse (why);
  if (found == HEADER_NONE) {
    vs->plain = true;
    return volumes_scan_plain (&s);
  }
  if (vs->imported)
    return learn_pool (vs, &h);
  if (h.segment_bytes == vs->pool.segment_bytes &&
      h.segments == vs->pool.segments && h.roots == vs->pool.roots)
    return 0;
  return header_refuse ("its segments are not those that weftd has recorded");
}

/* ---- Start and end ---- */

static bool
unknown (const json_t *reply)
{
  return json_is_true (
    json_object_get (json_object_get (reply, "pool"), "unknown"));
}

bool
volumes_are_told (const json_t *reply)
{
  if (unknown (reply))
    return !params.shared && !params.serves && !options.readonly;
  return json_is_object (json_object_get (reply, "pool"));
}

int
volumes_are_absent (const json_t *reply, struct engine *e)
{
  const json_t *pool = json_object_get (reply, "pool");
  const char *text = json_string_value (json_object_get (pool, "uuid"));
  uint8_t slots[2 * POOL_SLOT_BYTES], uuid[16];
  struct pool_header h;
  const char *why;

  if (!unknown (reply) || text == NULL || format_uuid_parse (text, uuid) == -1)
    return 0;
  switch (header_read (e, uuid, slots, &h, &why)) {
  case HEADER_NONE:
    return 0;
  case HEADER_TORN:
    return header_refuse (why);
  case HEADER_OURS:
    nbdkit_error ("array %s was imported, and is a pool of volumes: attach it "
                  "first without -r, mode= and service=, so that its volumes "
                  "are read from the disks; nothing was changed",
                  params.array);
    break;
  case HEADER_FAILED:
    break;
  }
  return -1;
}

struct volumes *
volumes_new (const json_t *reply, const char *instance, uint64_t array_bytes,
             struct block *below, struct array *array)
{
  const char *session = json_string_value (json_object_get (reply, "session"));
  const json_t *pool = json_object_get (reply, "pool");
  struct volumes *vs = calloc (1, sizeof *vs);
  const char *why;

  if (vs == NULL) {
    nbdkit_error ("calloc: %m");
    return NULL;
  }
  pthread_mutex_init (&vs->opening, NULL);
  pthread_mutex_init (&vs->lock, NULL);
  pthread_mutex_init (&vs->listing, NULL);
  pthread_mutex_init (&vs->bell_lock, NULL);
  clock_condition (&vs->bell);
  TAILQ_INIT (&vs->exports);
  snprintf (vs->session, sizeof vs->session, "%s", session);
  snprintf (vs->instance, sizeof vs->instance, "%s", instance);
  vs->array_bytes = array_bytes;
  vs->imported = unknown (reply);
  vs->scan = vs->imported || json_is_true (json_object_get (pool, "scan"));
  why = vs->imported ? volumes_messages_uuid (pool, vs->pool.array)
                     : volumes_messages_pool (pool, array_bytes, &vs->pool,
                                              &vs->formatted);
  if (why)
    nbdkit_error ("array %s: weftd's answer has no usable pool: %s",
                  params.array, why);
  else {
    vs->admin = admin_new (params.admin, params.tls, NULL);
    vs->speaker = admin_new (params.admin, params.tls, NULL);
    vs->lister = admin_new (params.admin, params.tls, NULL);
    if (vs->admin && vs->speaker && vs->lister &&
        (vs->imported || holder_make (vs)))
      vs->block = volumes_block_new (below, array, news, vs);
    if (vs->block)
      return vs;
    nbdkit_error ("calloc: %m");
  }
  volumes_free (vs);
  return NULL;
}

struct block *
volumes_block (const struct volumes *vs)
{
  return vs->block;
}

void
volumes_ready (struct volumes *vs, struct engine *e)
{
  vs->engine = e;
}

bool
volumes_plain (const struct volumes *vs)
{
  return vs->plain;
}

int
volumes_start (struct volumes *vs)
{
  struct volumes_scan s;
  int r;

  if (header_check (vs) == -1)
    return -1;
  if (vs->plain)
    return 0;
  s = scan_of (vs);
  if (vs->scan && volumes_scan (&s) == -1)
    return -1;
  if (!vs->scan && !vs->formatted)
    holder_formatted (vs->holder);
  r = pthread_create (&vs->thread, NULL, work, vs);
  vs->started = r == 0;
  if (r != 0)
    nbdkit_error ("pthread_create: %s", strerror (r));
  return r == 0 ? 0 : -1;
}

void
volumes_stop (struct volumes *vs)
{
  uint64_t until_ms = clock_ms () + CLOSE_MS;
  struct volumes_export *x;

  end_speaking (vs);
  admin_cancel (vs->speaker);
  admin_cancel (vs->admin);
  admin_cancel (vs->lister);
  if (vs->started)
    pthread_join (vs->thread, NULL);
  vs->started = false;
  TAILQ_FOREACH (x, &vs->exports, link) {
    struct volumes_wish w = { .slot = x->slot };

    engine_call (vs->engine, volumes_wish_close, &w);
  }
  TAILQ_FOREACH (x, &vs->exports, link) {
    struct volumes_wish w = { .slot = x->slot };

    for (;;) {
      engine_call (vs->engine, volumes_wish_look, &w);
      if ((w.state != VOLUME_CLOSING && w.state != VOLUME_OPENING) ||
          clock_ms () >= until_ms)
        break;
      clock_sleep_ms (PAUSE_MS);
    }
    if (w.state == VOLUME_FAILED && w.why)
      nbdkit_error ("volume %s/%s was not closed: %s", params.array, x->name,
                    w.why);
  }
}

void
volumes_free (struct volumes *vs)
{
  struct volumes_export *x;

  if (vs == NULL)
    return;
  while ((x = TAILQ_FIRST (&vs->exports))) {
    TAILQ_REMOVE (&vs->exports, x, link);
    free (x);
  }
  holder_free (vs->holder);
  admin_free (vs->admin);
  admin_free (vs->speaker);
  admin_free (vs->lister);
  json_decref (vs->listed);
  free (vs);
}
