/* array-role.c: an array as an nbdkit export.
 *
 * get_ready does all that may fail: the session with weftd (control.c) or the
 * static map (map.c), the connections to the members (peer.c), the array
 * engine (core/array/array.h); so every error ends the start with one line.  The
 * threads come after nbdkit's fork.  A request is carried out by engine.c.
 *
 * An export has one array, and a FLUSH of one connection covers the writes of all.  A
 * connection has one thing of its own, its handle, with an array_client, for
 * which a FLUSH fails if writes of it are gone (core/array/array.h).
 */

#include <config.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "array/array.h"
#include "array-block.h"
#include "control.h"
#include "control-lease.h"
#include "common/descriptors.h"
#include "engine.h"
#include "exposure.h"
#include "following.h"
#include "guests.h"
#include "hangup.h"
#include "loss.h"
#include "common/map.h"
#include "nbdkit-options.h"
#include "peer.h"
#include "array-resync.h"
#include "role.h"
#include "volumes.h"
#include "served.h"

/* For a member that doesn't answer the handshake: less than a session may be
 * silent.
 */
#define CONNECT_TIMEOUT_MS 8000
/* Images that are buffered when nbdkit ends get so long to be written. */
#define DRAIN_TIMEOUT_MS 10000

/* An array that is served. */
struct array_export {
  struct map *map;
  struct control *control;     /* NULL with a static map, and of a service */
  struct following *following; /* of a service */
  struct block *block;         /* serves its clients */
  struct volumes *volumes;     /* of a pool */
  struct engine *engine;       /* NULL: it has ended */
  struct layout layout;
  bool connected[ARRAY_MEMBERS_MAX]; /* at the start */
  bool resynced;                     /* the copies were equal at the start */

  /* With a static map: the map, and the losses since. */
  pthread_mutex_t static_lock;
  uint64_t static_epoch;
  enum member_state static_states[ARRAY_MEMBERS_MAX];
};

/*----- Start -----*/

/* One member to connect, by a thread of its own: many that do not answer must
 * not take longer than one.
 */
struct opening {
  pthread_t thread;
  bool threaded;
  unsigned member;
  const struct map_member *reached_at;
  struct peer *peer;
  char why[8192];
};

static void *
open_one (void *opaque)
{
  struct opening *o = opaque;

  o->peer = peer_open (o->member, o->reached_at, CONNECT_TIMEOUT_MS,
                       engine_io_done, o->why, sizeof o->why);
  return NULL;
}

/* Connect to all members that are not out.  weftd will hear of a joining one
 * that can't be reached; with one that is in-sync something is wrong with us.
 */
static int
open_peers (struct array_export *x, struct peer **peers)
{
  const struct map *map = x->map;
  struct opening *list = calloc (map->members, sizeof *list);
  unsigned m, o;
  int r = 0;

  if (list == NULL) {
    nbdkit_error ("calloc: %m");
    return -1;
  }
  for (m = 0; m < map->members; m++) {
    list[m].member = m;
    list[m].reached_at = &map->member[m];
    if (map->member[m].state == MEMBER_OUT)
      continue;
    list[m].threaded = pthread_create (&list[m].thread, NULL, open_one,
                                       &list[m]) == 0;
    if (!list[m].threaded)
      open_one (&list[m]);
  }
  for (m = 0; m < map->members; m++) {
    if (list[m].threaded)
      pthread_join (list[m].thread, NULL);
    peers[m] = list[m].peer;
    x->connected[m] = peers[m] != NULL;
  }
  for (m = 0; r == 0 && m < map->members; m++) {
    if (peers[m] == NULL && map->member[m].state == MEMBER_IN_SYNC) {
      nbdkit_error ("%s%s", list[m].why,
                    params.map ? "; or write \"state\": \"out\" for it in "
                                 "the map to do without"
                               : "");
      r = -1;
    }
    for (o = 0; r == 0 && o < m; o++)
      if (peers[o] && peers[m] && peer_same (peers[o], peers[m])) {
        nbdkit_error ("%s is the same as %s: a member can be used once only; "
                      "correct the map",
                      peers[m]->label, peers[o]->label);
        r = -1;
      }
  }
  free (list);
  return r;
}

/* The layout, from the size that every member must have. */
static int
make_layout (struct array_export *x, struct peer **peers)
{
  const struct map *map = x->map;
  struct layout *layout = &x->layout;
  uint64_t bytes = map->member_bytes;
  char why[256];
  unsigned m;

  for (m = 0; m < map->members; m++)
    if (peers[m] && map->member_bytes == 0 &&
        (bytes == 0 || peers[m]->size < bytes))
      bytes = peers[m]->size;
  if (bytes == 0) {
    nbdkit_error ("no member is left: every one is out in the map");
    return -1;
  }
  if (layout_init (layout, map->layout, map->n, map->groups, map->unit, bytes,
                   why, sizeof why) == -1) {
    nbdkit_error ("%s", why);
    return -1;
  }
  /* weftd has seen that the part lies in the array. */
  if (params.shared && !params.leases && params.part_length == 0)
    params.part_length = layout->size - params.part_offset;
  for (m = 0; m < map->members; m++)
    if (peers[m] && peers[m]->size < layout->member_bytes) {
      nbdkit_error ("%s has %llu bytes, but %llu of each member are in use: it "
                    "was truncated or is another disk; give back the right "
                    "one",
                    peers[m]->label, (unsigned long long) peers[m]->size,
                    (unsigned long long) layout->member_bytes);
      return -1;
    }
  return 0;
}

/* Members that are out from the start must not be the only ones with some of
 * the data.
 */
static int
check_loss (const struct array_export *x)
{
  const struct map *map = x->map;
  bool lost[ARRAY_MEMBERS_MAX] = { false };
  unsigned m, out = 0;
  uint64_t bytes;

  for (m = 0; m < map->members; m++)
    if (map->member[m].state != MEMBER_IN_SYNC) {
      lost[m] = true;
      out++;
    }
  bytes = layout_loss (&x->layout, lost, NULL);
  if (bytes == 0)
    return 0;
  nbdkit_error ("%u members are not in-sync in the map, and %llu bytes of the "
                "array have no copy on any other: bring one of them back",
                out, (unsigned long long) bytes);
  return -1;
}

static struct array *
make_array (struct array_export *x, struct peer **peers, struct seats *seats)
{
  const struct map *map = x->map;
  struct array_config config;
  struct array *a;
  char why[256];
  unsigned m;

  config = (struct array_config) {
    .layout = x->layout,
    .dup = map->dup,
    .readonly = options.readonly,
    .part_offset = params.part_offset,
    .part_length = params.part_length,
    .leases = params.shared,
    .lease_all = params.shared && control_order (x->control) > 0,
    .service = x->following != NULL,
    .batches = true,
    .pulses = true,
    .epoch = map->epoch,
    .rounds = map->session != NULL,
    .round = map->round,
    .image_buffer_bytes = params.image_buffer_bytes,
    .image_age_ms = params.image_age_ms,
    .io_timeout_ms = params.io_timeout_ms,
  };
  for (m = 0; m < map->members; m++) {
    x->static_states[m] = map->member[m].state;
    config.member_round[m] = map->member[m].round;
    if (peers[m] && !peer_takes_batches (peers[m]))
      config.batches = config.pulses = false;
  }
  x->static_epoch = map->epoch;
  seats_begin (seats, map->members, map->epoch, x->static_states, x->connected);
  seats_seen (seats, config.states);
  a = array_new (&config, clock_ns (), why, sizeof why);
  if (a == NULL)
    nbdkit_error ("%s", why);
  return a;
}

static void
notice (void *opaque, const struct array_notice *n, uint64_t connection)
{
  struct array_export *x = opaque;
  enum member_state states[ARRAY_MEMBERS_MAX];
  uint64_t epoch;

  if (n->kind == NOTICE_DATA_LOST)
    nbdkit_error ("weft: data is lost: %s", n->reason);
  if (n->kind == NOTICE_LEASE || n->kind == NOTICE_LEFT)
    control_lease_notice (x->control, n);
  else if (x->control)
    control_notice (x->control, n, connection);
  else if (x->following)
    following_notice (x->following, n, connection);
  else if (n->kind == NOTICE_LOST) {
    nbdkit_error ("weft: member %s is lost: %s; going on without it",
                  x->map->member[n->member].name, n->reason);
    /* Beside a static map there is nobody to record the loss. */
    pthread_mutex_lock (&x->static_lock);
    x->static_states[n->member] = MEMBER_OUT;
    memcpy (states, x->static_states, sizeof states);
    epoch = ++x->static_epoch;
    pthread_mutex_unlock (&x->static_lock);
    engine_commit (x->engine, epoch, states);
  }
}

static void *
array_get_ready (void)
{
  struct array_export *x = calloc (1, sizeof *x);
  struct seats seats;
  struct peer **peers = NULL, *served_by = NULL;
  struct array *a = NULL;
  char short_of[DESCRIPTORS_WHY_BYTES];
  const char *reason, *shortage;
  char why[1024];
  unsigned m;
  bool pool;

  if (x == NULL) {
    nbdkit_error ("calloc: %m");
    return NULL;
  }
  pthread_mutex_init (&x->static_lock, NULL);
  if (params.array)
    x->control = control_attach (&x->map);
  else if (params.service)
    x->following = following_begin (&x->map, &served_by);
  else {
    x->map = map_from_file (params.map, why, sizeof why);
    if (x->map == NULL)
      nbdkit_error ("map=%s", why);
  }
  if (x->map == NULL)
    goto err;
  pool = x->control && volumes_are_told (control_answer (x->control));
  peers = calloc (x->map->members, sizeof *peers);
  if (peers == NULL) {
    nbdkit_error ("calloc: %m");
    goto err;
  }
  if (served_by) {
    peers[0] = served_by;
    x->connected[0] = true;
  }
  else if (open_peers (x, peers) == -1)
    goto err;
  if (make_layout (x, peers) == -1 || check_loss (x) == -1)
    goto err;
  a = make_array (x, peers, &seats);
  if (a == NULL)
    goto err;
  x->block = array_block_new (a, x->layout.size);
  if (x->block && pool) {
    x->volumes = volumes_new (control_answer (x->control),
                              control_instance (x->control), x->layout.size,
                              x->block, a);
    if (x->volumes == NULL)
      goto err;
    x->block = volumes_block (x->volumes);
  }
  if (x->block)
    x->engine = engine_new (x->block, a, peers, &seats, notice, x);
  if (x->engine == NULL) {
    reason = strerror (errno);
    shortage = descriptors_short (short_of);
    nbdkit_error ("can't make the engine: %s", shortage ? shortage : reason);
    goto err;
  }
  return x;

err:
  if (x->block)
    x->block->ops->free (x->block);
  else if (a)
    array_free (a);
  volumes_free (x->volumes);
  for (m = 0; peers && m < x->map->members; m++)
    peer_close (peers[m]);
  free (peers);
  control_end (x->control, true);
  following_end (x->following);
  map_free (x->map);
  free (x);
  return NULL;
}

static void
end (struct array_export *x)
{
  bool clean, recovered;

  if (x->engine == NULL)
    return;
  hangup_stop ();
  loss_stop ();
  if (x->volumes)
    volumes_stop (x->volumes);
  recovered = !params.shared || control_lease_stop (x->control);
  clean = engine_end (x->engine, !options.readonly, DRAIN_TIMEOUT_MS);
  if (x->control)
    control_stop (x->control);
  /* No intent bit may fall while a member lacks writes. */
  if (clean && x->control && !options.readonly && x->resynced &&
      control_whole (x->control) && !engine_differs (x->engine))
    resync_settle (x->engine, &x->layout, x->control, params.shared);
  if (!clean)
    nbdkit_error ("weft: not everything that was written could be written to "
                  "both copies; the array makes up for it when it is next "
                  "attached");
  if (clean && x->following)
    following_flushed_all (x->following);
  control_end (x->control, clean && recovered);
  following_end (x->following);
  engine_free (x->engine);
  volumes_free (x->volumes);
  served_end ();
  map_free (x->map);
  x->engine = NULL;
  x->block = NULL;
  x->volumes = NULL;
  x->control = NULL;
  x->following = NULL;
  x->map = NULL;
}

/* nbdkit is ending, all clients are gone. */
static void
array_cleanup (void *it)
{
  end (it);
  free (it);
}

/* As resync_run.  Of several sessions that share the array, the first has all of it.
 * A later one has its part, or nothing.
 */
static int
make_equal (struct array_export *x)
{
  bool all = !params.shared || control_order (x->control) > 0;
  int r;

  /* Its leases come later.  Their copies may differ, because a member has come back
   * without its unflushed writes: so this session does not call engine_settled.
   */
  if (!all && params.leases)
    return 0;
  r = resync_run (x->engine, &x->layout, x->control, all);
  if (!params.shared || !all || r == -1)
    return r;
  /* Nobody else has written anything since: so all bits may fall.  Later none of them
   * do that one has left who is dead.
   */
  if (r == 0 && control_whole (x->control) && !engine_differs (x->engine) &&
      engine_cover (x->engine) == 0)
    resync_settle (x->engine, &x->layout, x->control, false);
  control_lease_recovered (x->control);
  return r;
}

static int
array_after_fork (void *it)
{
  struct array_export *x = it;
  int r;

  if (x->control &&
      control_ready (x->control, x->engine, x->connected, &x->layout) == -1)
    return -1;
  if (x->following)
    following_ready (x->following, x->engine);
  if (x->volumes) {
    volumes_ready (x->volumes, x->engine);
    control_volumes (x->control, x->volumes);
  }
  r = engine_start (x->engine);
  if (r != 0) {
    nbdkit_error ("pthread_create: %s", strerror (r));
    return -1;
  }
  if (x->layout.copies == 1 && !x->following)
    nbdkit_error ("weft: warning: %s keeps one copy only: the loss of any "
                  "member loses data",
                  layout_name (x->layout.kind));
  if (hangup_start (false) == -1 ||
      (x->following && following_start (x->following) == -1))
    return -1;
  if (x->control == NULL)
    return 0;
  if (control_start (x->control) == -1)
    return -1;
  if (options.readonly) {
    r = volumes_are_absent (control_answer (x->control), x->engine);
    if (r == -1)
      end (x);
    return r;
  }
  /* No client is admitted before the copies are in sync: data that was read may
   * not change when a member is lost.
   */
  r = make_equal (x);
  x->resynced = r == 0;
  if (!x->resynced)
    nbdkit_error ("weft: array %s: extents stay marked as dirty; the next "
                  "attach copies them",
                  params.array);
  if (r != -1) {
    control_equal (x->control);
    r = params.shared ? control_lease_start (x->control) : 0;
    if (r == 0)
      r = loss_start (x->engine, &x->layout);
    if (r == 0 && x->volumes == NULL &&
        volumes_are_absent (control_answer (x->control), x->engine) == -1) {
      end (x);
      return -1;
    }
    if (r == 0 && (x->volumes == NULL || volumes_start (x->volumes) == 0))
      return 0;
    if (r != 0)
      nbdkit_error ("pthread_create: %s", strerror (r));
  }
  end (x);
  return -1;
}

/*----- Clients -----*/

static bool
is_pool (const struct array_export *x)
{
  return x->volumes && !volumes_plain (x->volumes);
}

/* A connection. */
struct handle {
  struct array_export *array;
  struct array_client *client;
  struct served *served;         /* NULL: it is no client of the service */
  struct volumes_export *volume; /* NULL: it is a client of the array */
  struct guest *guest;           /* NULL: it came from this host */
  /* the guest of clients that are no clients of the service */
  struct guest own;
};

/* The identity of a client from another host.  -1: it is refused, and an error
 * was logged.
 */
static int
guest_node (const struct array_export *x, const char **node)
{
  *node = NULL;
  if (!exposure_far_client ())
    return 0;
  if (guests_process () == -1)
    return -1;
  if (params.map)
    return 0;
  if (x->following) {
    nbdkit_error (
      "a client on another host asks for array %s, and is refused: this "
      "process uses its service for its own host; there, too, weftctl attach "
      "%s --shared, or nbdkit weft service=%s",
      params.service, params.service, params.service);
    nbdkit_set_error (EPERM);
    return -1;
  }
  *node = guests_node ();
  return *node ? 0 : -1;
}

/* The names of a pool's volumes are for clients that may open them. */
static int
list_volumes (const struct array_export *x, struct nbdkit_exports *exports)
{
  struct guest own = { 0 };
  const char *node;
  int r;

  if (guest_node (x, &node) == -1 || (node && guests_open (&own, node) == -1))
    return -1;
  r = volumes_list (x->volumes, exports);
  if (node)
    guests_leave (&own);
  return r;
}

static int
array_list_exports (void *it, struct nbdkit_exports *exports)
{
  const struct array_export *x = it;
  const char *name = params.array ? params.array : params.service;

  if (is_pool (x))
    return list_volumes (x, exports);
  if (nbdkit_add_export (exports, "", "the whole array") == -1)
    return -1;
  return name ? nbdkit_add_export (exports, name, "the whole array") : 0;
}

static bool
open_export (struct handle *h)
{
  const struct array_export *x = h->array;
  const struct map *map = x->map;
  const char *name = nbdkit_export_name (), *node;

  if (name == NULL || guest_node (x, &node) == -1)
    return false;
  if (params.serves && served_named (name)) {
    h->served = served_open (x->engine, name, map->session, node);
    if (h->served) {
      h->client = served_client (h->served);
      h->guest = served_guest (h->served);
    }
    return h->served != NULL;
  }
  if (is_pool (x)) {
    if (node && guests_open (&h->own, node) == -1)
      return false;
    h->client = volumes_open (x->volumes, name, &h->volume);
    if (node && h->client)
      h->guest = &h->own;
    else if (node)
      guests_leave (&h->own);
    return h->client != NULL;
  }
  if (name[0] != '\0' && (map->name == NULL || strcmp (name, map->name) != 0) &&
      (params.array == NULL || strcmp (name, params.array) != 0)) {
    nbdkit_error ("there is no export \"%s\" here; the array is the default "
                  "export \"\"",
                  name);
    nbdkit_set_error (ENOENT);
    return false;
  }
  /* A fence of its node would not reach it. */
  if (params.serves && node) {
    nbdkit_error (
      "a client asks for the array itself, and not by loopback, and is "
      "refused: hosts use it by way of its service; there, "
      "weftctl attach %s --shared, or nbdkit weft service=%s",
      params.array, params.array);
    nbdkit_set_error (EPERM);
    return false;
  }
  if (x->following && following_client (x->following) == -1)
    return false;
  if (node && guests_open (&h->own, node) == -1)
    return false;
  if (node)
    h->guest = &h->own;
  h->client = engine_client_open (x->engine);
  return true;
}

static void *
array_open (void *it, int ro)
{
  struct handle *h = calloc (1, sizeof *h);

  if (h == NULL) {
    nbdkit_error ("calloc: %m");
    return NULL;
  }
  h->array = it;
  if (open_export (h))
    return h;
  free (h);
  return NULL;
}

static void
array_close (void *handle)
{
  struct handle *h = handle;

  if (h->guest == &h->own)
    guests_leave (&h->own);
  if (h->served)
    served_close (h->array->engine, h->served);
  else if (h->volume)
    volumes_close (h->array->volumes, h->volume, h->client);
  else
    engine_client_close (h->array->engine, h->client);
  free (h);
}

static int64_t
array_get_size (void *handle)
{
  const struct handle *h = handle;
  const struct block *block = h->array->block;

  if (h->volume)
    return (int64_t) volumes_size (h->array->volumes, h->volume);
  return (int64_t) block->ops->size (block);
}

/* Clients of the service may always write less than the block wants: they have clients of
 * their own.
 */
static int
array_block_size (void *handle, uint32_t *minimum, uint32_t *preferred,
                  uint32_t *maximum)
{
  const struct handle *h = handle;
  const struct block *block = h->array->block;

  block->ops->limits (block, minimum, preferred, maximum);
  if (h->served)
    *minimum = 1;
  return 0;
}

static bool
array_can_write (void *handle)
{
  const struct handle *h = handle;

  return !options.readonly && !(h->guest && h->guest->readonly);
}

/* nbdkit's request as the array engine's. */
static struct array_request
request (enum array_op op, void *handle, void *buf, uint32_t count,
         uint64_t offset, uint32_t flags)
{
  const struct handle *h = handle;

  return (struct array_request) {
    .op = op,
    .client = h->client,
    .flags = (flags & NBDKIT_FLAG_FUA ? ARRAY_FUA : 0) |
             (flags & NBDKIT_FLAG_MAY_TRIM ? ARRAY_MAY_TRIM : 0),
    .offset = offset,
    .length = count,
    .buf = buf,
  };
}

static int
run (const char *what, void *handle, struct array_request *r)
{
  struct handle *h = handle;
  struct array_export *x = h->array;
  int error = ESHUTDOWN;
  unsigned takes;

  if (h->served)
    served_heard (h->served);
  if (h->guest == NULL && x->following && r->op == ARRAY_FLUSH) {
    takes = following_takes (x->following);
    error = following_flushed (x->following, takes, engine_run (x->engine, r));
  }
  else if (h->guest == NULL)
    error = engine_run (x->engine, r);
  else if (guests_begin (h->guest)) {
    error = engine_run (x->engine, r);
    if (h->served && r->op == ARRAY_FLUSH)
      error = served_flushed (h->served, error);
    guests_end (h->guest);
  }
  if (error == 0)
    return 0;
  /* Log once that the session is over, not for each request. */
  if (error == ESHUTDOWN)
    nbdkit_debug ("weft: %s at %llu: the session is over", what,
                  (unsigned long long) r->offset);
  else
    nbdkit_error ("weft: %s of %llu bytes at %llu: %s", what,
                  (unsigned long long) r->length,
                  (unsigned long long) r->offset, strerror (error));
  nbdkit_set_error (error);
  return -1;
}

static int
array_pread (void *handle, void *buf, uint32_t count, uint64_t offset,
             uint32_t flags)
{
  struct array_request r = request (ARRAY_READ, handle, buf, count, offset,
                                    flags);

  return run ("read", handle, &r);
}

static int
array_pwrite (void *handle, const void *buf, uint32_t count, uint64_t offset,
              uint32_t flags)
{
  struct array_request r = request (ARRAY_WRITE, handle, (void *) buf, count,
                                    offset, flags);

  return run ("write", handle, &r);
}

static int
array_flush (void *handle, uint32_t flags)
{
  struct array_request r = request (ARRAY_FLUSH, handle, NULL, 0, 0, flags);

  return run ("flush", handle, &r);
}

static int
array_trim (void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
  struct array_request r = request (ARRAY_TRIM, handle, NULL, count, offset,
                                    flags);

  return run ("trim", handle, &r);
}

static int
array_zero (void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
  struct array_request r = request (ARRAY_ZERO, handle, NULL, count, offset,
                                    flags);

  return run ("zero", handle, &r);
}

static int
array_extents (void *handle, uint32_t count, uint64_t offset, uint32_t flags,
               struct nbdkit_extents *extents)
{
  struct array_request r = request (ARRAY_EXTENTS, handle, NULL, count, offset,
                                    flags);
  int ret = run ("extents", handle, &r);
  size_t i;

  for (i = 0; ret == 0 && i < r.extents_count; i++) {
    const struct array_extent *x = &r.extents[i];

    ret = nbdkit_add_extent (extents, offset, x->length,
                             (x->hole ? NBDKIT_EXTENT_HOLE : 0) |
                               (x->zero ? NBDKIT_EXTENT_ZERO : 0));
    offset += x->length;
  }
  free (r.extents);
  return ret;
}

const struct role array_role = {
  .get_ready = array_get_ready,
  .after_fork = array_after_fork,
  .cleanup = array_cleanup,
  .list_exports = array_list_exports,
  .open = array_open,
  .close = array_close,
  .get_size = array_get_size,
  .block_size = array_block_size,
  .can_write = array_can_write,
  .pread = array_pread,
  .pwrite = array_pwrite,
  .flush = array_flush,
  .trim = array_trim,
  .zero = array_zero,
  .extents = array_extents,
};
