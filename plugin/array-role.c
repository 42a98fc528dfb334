/* array-role.c: an array as an nbdkit export.
 *
 * get_ready does all that may fail: the session with weftd (control.c) or the
 * static map (map.c), the connections to the members (peer.c), the array
 * engine (core/array/array.h); so every error ends the start with one line.  The
 * threads come after nbdkit's fork.  A request is carried out by engine.c.
 *
 * There is one array in a process, and a FLUSH of one connection covers the writes
 * of all.  A connection has one thing of its own, its handle, with an array_client, for
 * which a FLUSH fails if writes of it are gone (core/array/array.h).
 */

#include <config.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "array/array.h"
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
#include "format/bad.h"
#include "options.h"
#include "peer.h"
#include "resync.h"
#include "role.h"
#include "served.h"

/* For a member that doesn't answer the handshake: less than a session may be
 * silent.
 */
#define CONNECT_TIMEOUT_MS 8000
/* Images that are buffered when nbdkit ends get so long to be written. */
#define DRAIN_TIMEOUT_MS 10000

static struct map *map;
static struct control *control; /* NULL with a static map, and of a service */
static struct following *following; /* of a service */
static struct engine *engine;
static struct layout layout;
static bool connected[ARRAY_MEMBERS_MAX]; /* at the start */
static bool resynced; /* the copies were equal at the start */

/* With a static map: what it says, and what was lost since. */
static pthread_mutex_t static_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t static_epoch;
static enum member_state static_states[ARRAY_MEMBERS_MAX];

/*----- Start -----*/

/* One member that is to be connected, by a thread of its own: many that do not
 * answer must not take longer than one.
 */
struct opening {
  pthread_t thread;
  bool threaded;
  unsigned member;
  struct peer *peer;
  char why[8192];
};

static void *
open_one (void *opaque)
{
  struct opening *o = opaque;

  o->peer = peer_open (o->member, &map->member[o->member], CONNECT_TIMEOUT_MS,
                       engine_io_done, o->why, sizeof o->why);
  return NULL;
}

/* Connect to all members that are not out.  weftd will hear of a joining one
 * that can't be reached; with one that is in-sync something is wrong with us.
 */
static int
open_peers (struct peer **peers)
{
  struct opening *list = calloc (map->members, sizeof *list);
  unsigned m, o;
  int r = 0;

  if (list == NULL) {
    nbdkit_error ("calloc: %m");
    return -1;
  }
  for (m = 0; m < map->members; m++) {
    list[m].member = m;
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
    connected[m] = peers[m] != NULL;
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
make_layout (struct peer **peers)
{
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
  if (layout_init (&layout, map->layout, map->n, map->groups, map->unit, bytes,
                   why, sizeof why) == -1) {
    nbdkit_error ("%s", why);
    return -1;
  }
  /* weftd has seen that the part lies in the array. */
  if (params.shared && !params.leases && params.part_length == 0)
    params.part_length = layout.size - params.part_offset;
  for (m = 0; m < map->members; m++)
    if (peers[m] && peers[m]->size < layout.member_bytes) {
      nbdkit_error ("%s has %llu bytes, but %llu of each member are in use: it "
                    "was truncated or is another disk; give back the right "
                    "one",
                    peers[m]->label, (unsigned long long) peers[m]->size,
                    (unsigned long long) layout.member_bytes);
      return -1;
    }
  return 0;
}

/* Members that are out from the start must not be the only ones with some of
 * the data.
 */
static int
check_loss (void)
{
  bool lost[ARRAY_MEMBERS_MAX] = { false };
  unsigned m, out = 0;
  uint64_t bytes;

  for (m = 0; m < map->members; m++)
    if (map->member[m].state != MEMBER_IN_SYNC) {
      lost[m] = true;
      out++;
    }
  bytes = layout_loss (&layout, lost, NULL);
  if (bytes == 0)
    return 0;
  nbdkit_error ("%u members are not in-sync in the map, and %llu bytes of the "
                "array have no copy on any other: bring one of them back",
                out, (unsigned long long) bytes);
  return -1;
}

static struct array *
make_array (struct peer **peers, struct seats *seats)
{
  struct array_config config;
  struct array *a;
  char why[256];
  unsigned m;

  config = (struct array_config) {
    .layout = layout,
    .dup = map->dup,
    .readonly = options.readonly,
    .part_offset = params.part_offset,
    .part_length = params.part_length,
    .leases = params.leases,
    .lease_all = params.leases && control_order (control) > 0,
    .service = following != NULL,
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
    static_states[m] = map->member[m].state;
    config.member_round[m] = map->member[m].round;
    if (peers[m] && !peer_takes_batches (peers[m]))
      config.batches = config.pulses = false;
  }
  static_epoch = map->epoch;
  seats_begin (seats, map->members, map->epoch, static_states, connected);
  seats_seen (seats, config.states);
  a = array_new (&config, clock_ns (), why, sizeof why);
  if (a == NULL)
    nbdkit_error ("%s", why);
  return a;
}

static void
notice (const struct array_notice *n, uint64_t connection)
{
  enum member_state states[ARRAY_MEMBERS_MAX];
  uint64_t epoch;

  if (n->kind == NOTICE_DATA_LOST)
    nbdkit_error ("weft: data is lost: %s", n->reason);
  if (n->kind == NOTICE_LEASE || n->kind == NOTICE_LEFT)
    control_lease_notice (control, n);
  else if (control)
    control_notice (control, n, connection);
  else if (following)
    following_notice (following, n, connection);
  else if (n->kind == NOTICE_LOST) {
    nbdkit_error ("weft: member %s is lost: %s; going on without it",
                  map->member[n->member].name, n->reason);
    /* Beside a static map there is nobody to record the loss. */
    pthread_mutex_lock (&static_lock);
    static_states[n->member] = MEMBER_OUT;
    memcpy (states, static_states, sizeof states);
    epoch = ++static_epoch;
    pthread_mutex_unlock (&static_lock);
    engine_commit (engine, epoch, states);
  }
}

static int
array_get_ready (void)
{
  struct seats seats;
  struct peer **peers = NULL, *served_by = NULL;
  struct array *a = NULL;
  const char *reason, *shortage;
  char why[1024];
  unsigned m;

  if (params.array)
    control = control_attach (&map);
  else if (params.service)
    following = following_begin (&map, &served_by);
  else {
    map = map_from_file (params.map, why, sizeof why);
    if (map == NULL)
      nbdkit_error ("map=%s", why);
  }
  if (map == NULL)
    goto err;
  peers = calloc (map->members, sizeof *peers);
  if (peers == NULL) {
    nbdkit_error ("calloc: %m");
    goto err;
  }
  if (served_by) {
    peers[0] = served_by;
    connected[0] = true;
  }
  else if (open_peers (peers) == -1)
    goto err;
  if (make_layout (peers) == -1 || check_loss () == -1)
    goto err;
  a = make_array (peers, &seats);
  if (a == NULL)
    goto err;
  engine = engine_new (a, peers, &seats, notice);
  if (engine == NULL) {
    reason = strerror (errno);
    shortage = descriptors_short ();
    nbdkit_error ("can't make the engine: %s", shortage ? shortage : reason);
    goto err;
  }
  return 0;

err:
  if (a)
    array_free (a);
  for (m = 0; peers && m < map->members; m++)
    peer_close (peers[m]);
  free (peers);
  control_end (control, true);
  following_end (following);
  map_free (map);
  control = NULL;
  following = NULL;
  map = NULL;
  return -1;
}

/* nbdkit is ending, all clients are gone. */
static void
array_cleanup (void)
{
  bool clean, recovered;

  if (engine == NULL)
    return;
  hangup_stop ();
  loss_stop ();
  recovered = !params.shared || control_lease_stop (control);
  clean = engine_end (engine, !options.readonly, DRAIN_TIMEOUT_MS);
  if (control)
    control_stop (control);
  /* No intent bit may fall while a member lacks writes. */
  if (clean && control && !options.readonly && resynced &&
      control_whole (control) && !engine_differs (engine))
    resync_settle (engine, &layout, control, params.leases);
  if (!clean)
    nbdkit_error ("weft: not everything that was written could be written to "
                  "both copies; the array makes up for it when it is next "
                  "attached");
  if (clean && following)
    following_flushed_all (following);
  control_end (control, clean && recovered);
  following_end (following);
  engine_free (engine);
  served_end ();
  map_free (map);
  engine = NULL;
  control = NULL;
  following = NULL;
  map = NULL;
}

/* As resync_run.  Who shares the array by leases does so where it has all of it. */
static int
make_equal (void)
{
  int r;

  /* Who comes later gets what is equal.  But a member may have come back before without
   * what it had not flushed: so this one does not call engine_settled.
   */
  if (params.leases && control_order (control) == 0)
    return 0;
  r = resync_run (engine, &layout, control);
  if (!params.leases || r == -1)
    return r;
  /* Nobody else has written anything since: so all bits may fall.  Later none of them
   * do that one has left who is dead.
   */
  if (r == 0 && control_whole (control) && !engine_differs (engine) &&
      engine_cover (engine) == 0)
    resync_settle (engine, &layout, control, false);
  control_lease_recovered (control);
  return r;
}

static int
array_after_fork (void)
{
  int r;

  if (control && control_ready (control, engine, connected, &layout) == -1)
    return -1;
  if (following)
    following_ready (following, engine);
  r = engine_start (engine);
  if (r != 0) {
    nbdkit_error ("pthread_create: %s", strerror (r));
    return -1;
  }
  if (layout.copies == 1 && !following)
    nbdkit_error ("weft: warning: %s keeps one copy only: the loss of any "
                  "member loses data",
                  layout_name (layout.kind));
  if (hangup_start (false) == -1 ||
      (following && following_start (following) == -1))
    return -1;
  if (control == NULL)
    return 0;
  if (control_start (control) == -1)
    return -1;
  if (options.readonly)
    return 0;
  /* No client is let in before the copies are equal: what is read may not change
   * when a member is lost.
   */
  r = make_equal ();
  resynced = r == 0;
  if (!resynced)
    nbdkit_error ("weft: array %s: extents stay marked as dirty; the next "
                  "attach copies them",
                  params.array);
  if (r != -1) {
    control_equal (control);
    r = params.shared ? control_lease_start (control) : 0;
    if (r == 0)
      r = loss_start (engine, &layout);
    if (r == 0)
      return 0;
    nbdkit_error ("pthread_create: %s", strerror (r));
  }
  array_cleanup ();
  return -1;
}

/*----- Clients -----*/

/* A connection. */
struct handle {
  struct array_client *client;
  struct served *served; /* NULL: it is no client of the service */
  struct guest *guest;   /* NULL: it came from this host */
  struct guest own;      /* of who is no client of the service */
};

/* By what a client that came from another host is known.  -1: it is refused, and an
 * error was said.
 */
static int
guest_node (const char **node)
{
  *node = NULL;
  if (params.map || !exposure_far_client ())
    return 0;
  if (following) {
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

static bool
open_export (struct handle *h)
{
  const char *name = nbdkit_export_name (), *node;

  if (name == NULL || guest_node (&node) == -1)
    return false;
  if (params.serves && served_named (name)) {
    h->served = served_open (engine, name, map->session, node);
    if (h->served) {
      h->client = served_client (h->served);
      h->guest = served_guest (h->served);
    }
    return h->served != NULL;
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
  if (following && following_client (following) == -1)
    return false;
  if (node && guests_open (&h->own, node) == -1)
    return false;
  if (node)
    h->guest = &h->own;
  h->client = engine_client_open (engine);
  return true;
}

static void *
array_open (int ro)
{
  struct handle *h = calloc (1, sizeof *h);

  if (h == NULL)
    nbdkit_error ("calloc: %m");
  if (h && open_export (h))
    return h;
  free (h);
  return NULL;
}

/* nbdkit may close connections when all has ended. */
static void
array_close (void *handle)
{
  struct handle *h = handle;

  if (h->guest == &h->own)
    guests_leave (&h->own);
  if (engine && h->served)
    served_close (engine, h->served);
  else if (engine)
    engine_client_close (engine, h->client);
  free (h);
}

static int64_t
array_get_size (void *handle)
{
  return (int64_t) layout.size;
}

/* A block that is bad stays so until it is written as a whole: while there are any
 * nobody is to write less.  Those who are connected already may, and clients of the
 * service, which have clients of their own; what they write is kept, and what is beside
 * it in the block stays unreadable.
 */
static int
array_block_size (void *handle, uint32_t *minimum, uint32_t *preferred,
                  uint32_t *maximum)
{
  const struct handle *h = handle;

  *minimum = loss_any () && !h->served ? BAD_BLOCK_BYTES : 1;
  *preferred = 4096;
  *maximum = REQUEST_BYTES_ADVERTISED;
  return 0;
}

static bool
array_can_write (void *handle)
{
  const struct handle *h = handle;

  return !options.readonly && !(h->guest && h->guest->readonly);
}

/* What nbdkit asks, as the array engine is asked for it. */
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
  int error = ESHUTDOWN;
  unsigned takes;

  if (h->served)
    served_heard (h->served);
  if (h->guest == NULL && following && r->op == ARRAY_FLUSH) {
    takes = following_takes (following);
    error = following_flushed (following, takes, engine_run (engine, r));
  }
  else if (h->guest == NULL)
    error = engine_run (engine, r);
  else if (guests_begin (h->guest)) {
    error = engine_run (engine, r);
    if (h->served && r->op == ARRAY_FLUSH)
      error = served_flushed (h->served, error);
    guests_end (h->guest);
  }
  if (error == 0)
    return 0;
  /* That the session is over has been said: not again for each request. */
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
