/* fuzz-session.c: an array process's session with weftd: the answers to the attach, to
 * heartbeats and reports, and to calls about leases, as plugin/control*.c and
 * plugin/loss.c read them, against the host engine, the lessee's and the array engine.
 * The engines' invariants hold after each answer, and no answer ends the process.
 *
 * There are no threads: an action that is due is carried out at once, and its call to
 * weftd gets the next answer of the input.  Members answer everything at once.
 *
 * The input: 1 byte, how the array is attached; the answer to that; then actions, each a
 * byte and what belongs to it (`act` below).
 */

#include <config.h>

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "common/clock.h"
#include "fuzz.h"

/* Only this thread makes things happen that others wait for: a wait would never end.  It
 * makes connections itself.
 */
static uint64_t time_ms;

static int
run_at_once (pthread_t *thread, const pthread_attr_t *attr,
             void *(*fn) (void *), void *opaque)
{
  fn (opaque);
  return 0;
}

static bool
never_waits (uint64_t until_ms)
{
  (void) until_ms;
  abort ();
}

#define pthread_cond_wait(condition, lock) abort ()
#define clock_wait_ms(condition, lock, until_ms) never_waits (until_ms)
#define clock_ms() time_ms
#define pthread_create run_at_once
#define pthread_join(thread, result) ((void) (thread))
#define usleep(us) (time_ms += (us) / 1000)
#define kill(pid, number) ((void) (pid))
#define fprintf(file, ...) ((void) 0)

#include "plugin/control.c"
#include "plugin/control-attach.c"
#include "plugin/control-messages.c"
#define carry_out lease_carry_out
#define same lease_same
#define speak lease_speak
#define work lease_work
#define workers lease_kinds
#include "plugin/control-lease.c"
#undef carry_out
#undef same
#undef speak
#undef work
#undef workers
#define carry_out loss_carry_out
#define newest loss_newest
#include "plugin/loss.c"
#undef carry_out
#undef newest
#undef clock_ms
#undef pthread_create
#undef pthread_join
#undef usleep
#undef kill
#undef fprintf

#include "host/seats.h"

/* An array of more takes longer, and is no other one. */
#define MEMBER_BYTES_MAX MiB (32)
#define REQUESTS 8
#define REQUEST_MAX 20000
#define TURNS_MAX 64

struct params params;
struct options options;

static struct fuzz *input;
static struct control *control;
static struct array *array;
static struct array_client *client;
static struct layout geometry;
static struct seats seats;
static struct peer peers[ARRAY_MEMBERS_MAX];
static bool up[ARRAY_MEMBERS_MAX];
static struct array_request requests[REQUESTS];
static bool under_way[REQUESTS];
static uint8_t bytes[REQUEST_MAX];
static struct guest guest; /* a client on another host */
static char code[64];      /* of the last answer */

static uint64_t
now_ns (void)
{
  return time_ms * 1000000;
}

/* ---- nbdkit, and weftd. ---- */

void
nbdkit_error (const char *fs, ...)
{
  char text[4096];
  va_list ap;

  va_start (ap, fs);
  vsnprintf (text, sizeof text, fs, ap);
  va_end (ap);
}

void
nbdkit_debug (const char *fs, ...)
{
}

void
nbdkit_set_error (int error)
{
  assert (error > 0);
}

struct admin *
admin_new (const char *url, const char *tls, const char *said)
{
  static int one;

  return (struct admin *) &one;
}

void
admin_free (struct admin *c)
{
}

void
admin_cancel (struct admin *c)
{
}

const char *
admin_error (const struct admin *c)
{
  return "weftd has refused it";
}

const char *
admin_code (const struct admin *c)
{
  return code;
}

/* The next answer of the input, which no call outlives. */
int
admin_call (struct admin *c, const char *method, const char *path,
            const json_t *body, json_t **reply, unsigned timeout_ms)
{
  static const int statuses[] = { 200, 200, 200, 200, 409, 410, 500, 0 };
  int status = statuses[fuzz_below (input, 8)];
  const char *said;
  json_t *json;
  size_t n;
  char *text;

  assert (json_is_object (body) || body == NULL);
  time_ms += fuzz_number (input, 1);
  text = fuzz_text (input, &n);
  json = status ? json_loadb (text, n, 0, NULL) : NULL;
  free (text);
  said = json_string_value (json_object_get (json, "code"));
  snprintf (code, sizeof code, "%s", said ? said : "");
  if (reply)
    *reply = json;
  else
    json_decref (json);
  return status;
}

void
revoked_heard (struct admin *admin)
{
}

int
process_draw_instance (char text[PROCESS_INSTANCE_BYTES])
{
  strcpy (text, "i");
  return 0;
}

void
process_self (char text[PROCESS_TEXT_BYTES])
{
  strcpy (text, "p");
}

bool
process_has_ended (const char *text)
{
  return text[0] == 'x';
}

bool
exposure_listens (void)
{
  return true;
}

bool
hangup_ending (void)
{
  return false;
}

void
hangup_cut (void)
{
}

/* ---- The array is no pool; fuzz-volumes has messages about volumes. ---- */

bool
volumes_number (struct volumes *vs, uint64_t *number)
{
  abort ();
}

void
volumes_heard (struct volumes *vs, const json_t *reply)
{
  abort ();
}

/* ---- The client on another host (plugin/guests.c). ---- */

const char *
tls_client (void)
{
  return "n2";
}

const char *
tls_client_process (void)
{
  return "";
}

struct caller *
lobby_caller (void)
{
  return NULL;
}

void
lobby_hang_up (const struct caller *c)
{
}

/* ---- In place of engine.c and engine-member.c. ---- */

static void
lose (unsigned m, const char *why)
{
  if (!up[m])
    return;
  up[m] = false;
  array_lost (array, m, why, now_ns ());
}

static void
send_io (struct array_io *io)
{
  int error = up[io->member] ? 0 : ENOTCONN;

  if (error)
    array_lost (array, io->member, "it is not connected", now_ns ());
  else if (io->kind == IO_READ || io->kind == IO_ROUND || io->kind == IO_PULSE)
    memset (io->buf, 0, io->length);
  else if (io->kind == IO_EXTENTS) {
    io->extents = calloc (1, sizeof *io->extents);
    assert (io->extents);
    io->extents[0].length = io->length;
    io->extents_count = 1;
  }
  array_io_done (array, io, error, now_ns ());
}

static void
pass_on (const struct array_notice *n)
{
  if (n->kind == NOTICE_LEASE || n->kind == NOTICE_LEFT)
    control_lease_notice (control, n);
  else
    control_notice (control, n, seats.connection[n->member]);
}

static void
take (void)
{
  struct array_request *r;
  struct array_notice n;
  struct array_io *io;
  bool more;

  do {
    more = false;
    while ((io = array_next_io (array)) != NULL) {
      send_io (io);
      more = true;
    }
    while ((r = array_next_done (array)) != NULL) {
      free (r->extents);
      under_way[r - requests] = false;
      more = true;
    }
    if (control->host)
      while (array_next_notice (array, &n)) {
        pass_on (&n);
        more = true;
      }
  } while (more);
}

void
engine_commit (struct engine *e, uint64_t epoch,
               const enum member_state states[])
{
  if (seats_commit (&seats, array, epoch, states, now_ns ()))
    for (unsigned m = 0; m < geometry.members; m++)
      if (states[m] == MEMBER_OUT)
        lose (m, "it is out");
}

void
engine_prepare (struct engine *e, uint64_t epoch,
                const enum member_state states[])
{
  seats_prepare (&seats, array, epoch, states, now_ns ());
}

uint64_t
engine_epoch (struct engine *e)
{
  return array_epoch (array);
}

uint64_t
engine_arrived (struct engine *e)
{
  return array_arrived (array, now_ns ());
}

uint64_t
engine_round (struct engine *e)
{
  return array_round (array);
}

uint64_t
engine_round_entered (struct engine *e)
{
  return array_round_entered (array);
}

void
engine_trust (struct engine *e, uint64_t until_ms)
{
  array_trust (array, until_ms * 1000000, now_ns ());
}

void
engine_all_arrived (struct engine *e, uint64_t epoch)
{
  array_all_arrived (array, epoch, now_ns ());
}

unsigned
engine_lease_wants (struct engine *e, struct array_range *wants, unsigned max)
{
  return array_lease_wants (array, wants, max);
}

void
engine_lease_grant (struct engine *e, const struct array_range *granted,
                    unsigned count)
{
  array_lease_grant (array, granted, count, now_ns ());
}

void
engine_lease_recover (struct engine *e, const struct array_range *ranges,
                      unsigned count)
{
  array_lease_recover (array, ranges, count, now_ns ());
}

void
engine_lease_recovered (struct engine *e)
{
  array_lease_recovered (array, now_ns ());
}

bool
engine_lease_leaves (struct engine *e)
{
  return array_lease_leaves (array);
}

void
engine_lease_leave (struct engine *e, const struct lease_wish *leave)
{
  array_lease_leave (array, &leave->must, &leave->wish, now_ns ());
}

unsigned
engine_lease_left (struct engine *e, struct array_range *left, unsigned max)
{
  return array_lease_left (array, left, max);
}

size_t
engine_lease_all (struct engine *e, struct array_range **list)
{
  return array_lease_all (array, list);
}

void
engine_stats (struct engine *e, struct array_stats *stats)
{
  array_stats (array, now_ns (), stats);
}

void
engine_abandon (struct engine *e)
{
  array_stop (array, ESHUTDOWN, now_ns ());
  for (unsigned m = 0; m < geometry.members; m++)
    up[m] = false;
}

bool
engine_ending (struct engine *e)
{
  return false;
}

bool
engine_sever (struct engine *e, unsigned member)
{
  lose (member, "it is severed");
  take ();
  return true;
}

bool
engine_replace (struct engine *e, struct peer *peer, uint64_t connection,
                bool kept, uint64_t reach)
{
  up[peer->member] = true;
  seats_take (&seats, array, peer->member, connection, kept, reach, now_ns ());
  return true;
}

struct peer *
peer_open (unsigned member, const struct map_member *mm, unsigned wait_ms,
           void (*done) (struct peer_io *), char *why, size_t why_size)
{
  peers[member].member = member;
  peers[member].size = geometry.member_bytes;
  return fuzz_number (input, 1) & 1 ? NULL : &peers[member];
}

void
peer_close (struct peer *p)
{
}

void
engine_io_done (struct peer_io *pio)
{
}

int
resync_recover (struct engine *e, const struct layout *l, struct control *c,
                const struct array_range *ranges, unsigned count)
{
  return fuzz_number (input, 1) & 1 ? -1 : 0;
}

/* loss.c calls it, for whole blocks of the array alone. */
int
engine_run (struct engine *e, struct array_request *r)
{
  assert (r->op == ARRAY_ACCEPT && r->length == BAD_BLOCK_BYTES &&
          r->offset % BAD_BLOCK_BYTES == 0 && r->offset < geometry.size &&
          r->length <= geometry.size - r->offset);
  r->lost = r->offset & BAD_BLOCK_BYTES;
  return r->lost ? 0 : EIO;
}

struct array_client *
engine_client_open (struct engine *e)
{
  return NULL;
}

void
engine_client_close (struct engine *e, struct array_client *c)
{
}

/* ---- Life ---- */

/* As array-role.c does it; false: the map cannot be used here. */
static bool
make_array (const struct map *map)
{
  struct array_config config = { .batches = true,
                                 .pulses = true,
                                 .rounds = true,
                                 .dup = map->dup,
                                 .readonly = options.readonly,
                                 .leases = params.shared,
                                 .lease_all = params.shared &&
                                              control_order (control) > 0,
                                 .epoch = map->epoch,
                                 .round = map->round,
                                 .image_buffer_bytes = MiB (1),
                                 .image_age_ms = 1000,
                                 .io_timeout_ms = 10000 };
  enum member_state states[ARRAY_MEMBERS_MAX];
  bool lost[ARRAY_MEMBERS_MAX] = { false };
  char why[256];

  if (map->member_bytes == 0 || map->member_bytes > MEMBER_BYTES_MAX ||
      layout_init (&geometry, map->layout, map->n, map->groups, map->unit,
                   map->member_bytes, why, sizeof why) == -1)
    return false;
  for (unsigned m = 0; m < map->members; m++) {
    states[m] = map->member[m].state;
    config.member_round[m] = map->member[m].round;
    up[m] = states[m] != MEMBER_OUT;
    lost[m] = states[m] != MEMBER_IN_SYNC;
  }
  if (layout_loss (&geometry, lost, NULL) > 0)
    return false;
  config.layout = geometry;
  seats_begin (&seats, map->members, map->epoch, states, up);
  seats_seen (&seats, config.states);
  array = array_new (&config, now_ns (), why, sizeof why);
  return array != NULL;
}

static bool
begin (unsigned how)
{
  struct map *map;

  time_ms = 1000000;
  memset (under_way, 0, sizeof under_way);
  params = (struct params) { .array = "a",
                             .node = "n1",
                             .admin = "http://127.0.0.1",
                             .uri = "nbd://n1",
                             .shared = how == 2,
                             .leases = how == 2,
                             .serves = how == 3 };
  options.readonly = how == 1;
  control = control_attach (&map);
  if (control == NULL)
    return false;
  if (!make_array (map)) {
    control_end (control, false);
    map_free (map);
    return false;
  }
  client = array_client_open (array);
  assert (control_ready (control, (struct engine *) array, up, &geometry) == 0);
  for (unsigned i = 0; i < WORKERS; i++) {
    control->worker[i].control = control;
    control->worker[i].kinds = workers[i].kinds;
  }
  for (unsigned i = 0; i < LEASE_WORKERS; i++) {
    control->lease_worker[i].control = control;
    control->lease_worker[i].kinds = lease_kinds[i].kinds;
  }
  layout = &geometry;
  guest = (struct guest) { .node = "" };
  if (guests_open (&guest, "n2") == -1)
    guest.node[0] = '\0';
  if (!options.readonly) {
    array_settled (array, 0, 0, 0, now_ns ());
    control_equal (control);
    if (control_order (control) > 0 && params.shared)
      control_lease_recovered (control);
  }
  take ();
  return true;
}

static void
end (void)
{
  const struct map *map = control->first;

  array_stop (array, ESHUTDOWN, now_ns ());
  take ();
  for (unsigned i = 0; i < REQUESTS; i++)
    assert (!under_way[i]);
  if (guest.node[0])
    guests_leave (&guest);
  array_client_close (array, client);
  array_free (array);
  control_end (control, false);
  map_free ((struct map *) map);
}

/* ---- Actions ---- */

/* Carry out the due actions, as the threads of control.c and control-lease.c do. */
static void
go_on (void)
{
  struct host_action a;
  struct lessee_action l;
  bool more = true;

  for (unsigned turns = 0; more && turns < TURNS_MAX; turns++) {
    more = false;
    for (unsigned i = 0; i < WORKERS && input->left > 0; i++)
      if (host_next (control->host, time_ms, workers[i].kinds, &a)) {
        carry_out (&control->worker[i], &a);
        take ();
        more = true;
      }
    for (unsigned i = 0; control->lessee && i < LEASE_WORKERS; i++)
      if (input->left > 0 && !host_is_over (control->host) &&
          lessee_next (control->lessee, time_ms, lease_kinds[i].kinds, &l)) {
        lease_carry_out (&control->lease_worker[i], &l);
        take ();
        more = true;
      }
  }
}

static void
request (unsigned op)
{
  unsigned i = fuzz_below (input, REQUESTS);
  struct array_request *r = &requests[i];
  uint64_t offset = fuzz_number (input, 3) * 512;
  uint32_t length = 512 * (1 + fuzz_below (input, REQUEST_MAX / 512 - 1));

  if (under_way[i] || (options.readonly && op != ARRAY_READ))
    return;
  under_way[i] = true;
  *r = (struct array_request) { .op = op,
                                .client = client,
                                .offset = offset % geometry.size,
                                .length = length,
                                .buf = bytes };
  if (op == ARRAY_FLUSH)
    r->offset = r->length = 0;
  else if (r->length > geometry.size - r->offset)
    r->length = geometry.size - r->offset;
  array_submit (array, r, now_ns ());
}

/* The orders of weftd to accept a loss, which a thread of loss.c takes. */
static void
accept_losses (void)
{
  json_t *order = ordered, *one;
  size_t i;

  ordered = NULL;
  json_array_foreach (order, i, one)
    loss_carry_out (NULL, one);
  json_decref (order);
}

static void
act (void)
{
  switch (fuzz_below (input, 8)) {
  case 0:
    request (ARRAY_READ);
    break;
  case 1:
    request (ARRAY_WRITE);
    break;
  case 2:
    request (ARRAY_ZERO);
    break;
  case 3:
    request (ARRAY_FLUSH);
    break;
  case 4:
    lose (fuzz_below (input, geometry.members), "its line was cut");
    break;
  case 5:
    time_ms += fuzz_number (input, 2);
    array_tick (array, now_ns ());
    break;
  default:
    go_on ();
  }
  take ();
  accept_losses ();
  array_check (array);
  host_check (control->host);
  if (control->lessee)
    lessee_check (control->lessee);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  struct fuzz f = { data, size };

  input = &f;
  if (begin (fuzz_below (&f, 4))) {
    for (unsigned i = 0; i < 64 && f.left > 0; i++)
      act ();
    end ();
  }
  accept_losses ();
  return 0;
}

/* ---- Seeds ---- */

static void
put_answer (unsigned status, const char *format, ...)
{
  char text[4096];
  va_list ap;
  int n;

  va_start (ap, format);
  n = vsnprintf (text, sizeof text, format, ap);
  va_end (ap);
  FUZZ_PUT (status, 1);
  fuzz_put (text, (size_t) n + 1);
}

#define MAP                                                                    \
  "{\"layout\": \"raid-1\", \"unit\": 4096, \"n\": 2, \"groups\": 1, "         \
  "\"epoch\": %u, \"session\": \"5\", \"member_bytes\": 8388608, "             \
  "\"members\": [{\"uri\": \"nbd://a\", \"name\": \"m0\", \"fence\": %u}, "    \
  "{\"uri\": \"nbd://b\", \"name\": \"m1\", \"fence\": %u}]}"
#define FENCES                                                                 \
  "\"fences\": 7, \"fenced\": [{\"node\": \"n3\", \"below\": 7}], "            \
  "\"allow\": {\"n1\": \"rw\", \"n2\": \"ro\"}"

static void
put_attach (unsigned how, const char *leases)
{
  FUZZ_PUT (how);
  put_answer (0,
              "{\"session\": \"5\", \"generation\": 1, \"bad\": false, " FENCES
              ", \"leases\": %s, \"map\": " MAP "}",
              leases, 3, 3, 3);
}

void
fuzz_seeds (void (*seed) (const void *data, size_t size))
{
  static const char *const whole = "\"in-sync\", \"in-sync\"";

  /* It loses a member, which goes out, joins and is in-sync again. */
  put_attach (0, "null");
  FUZZ_PUT (1, 0, 9, 0, 0, 4); /* write */
  FUZZ_PUT (4, 1, 0, 1, 0, 0, 0, 2, 6);
  put_answer (6, "{}");
  put_answer (0, "{}");
  put_answer (0, "{\"epoch\": 4, \"states\": [\"in-sync\", \"out\"]}");
  FUZZ_PUT (5, 0, 8, 6);
  put_answer (0, "{\"epoch\": 4, \"states\": true, \"map\": " MAP "}", 4, 4, 3);
  put_answer (0,
              "{\"epoch\": 5, \"states\": [\"in-sync\", \"joining\"], "
              "\"map\": " MAP "}",
              5, 4, 5);
  FUZZ_PUT (0); /* it is connected */
  FUZZ_PUT (6);
  put_answer (0,
              "{\"epoch\": 5, \"states\": true, \"change\": {\"epoch\": 6, "
              "\"states\": [%s]}}",
              whole);
  FUZZ_PUT (6);
  put_answer (0, "{\"epoch\": 6, \"states\": [%s]}", whole);
  FUZZ_PUT (3, 0, 0, 0, 0, 0);
  FUZZ_PUT (5, 0, 64, 6);
  put_answer (0,
              "{\"epoch\": 6, \"states\": true, \"accept_loss\": {\"number\": "
              "1, \"epoch\": 6, \"ranges\": [[4096, 8192]]}, \"fences\": 8, "
              "\"fenced\": [{\"node\": \"n2\", \"below\": 8}], \"allow\": {}}");
  put_answer (5, "{\"code\": \"over\"}");
  fuzz_put_end (seed);

  /* Somebody holds the array, then it is read. */
  FUZZ_PUT (1);
  put_answer (4, "{\"code\": \"held\", \"retry_after_ms\": 100, \"holder\": "
                 "{\"session\": \"4\", \"process\": \"x 1\", "
                 "\"last_heard_ms\": 12}}");
  put_answer (0,
              "{\"session\": \"5\", \"generation\": 1, \"hold\": true, \"map\""
              ": " MAP "}",
              3, 0, 0);
  FUZZ_PUT (0, 0, 0, 0, 0, 4, 6);
  put_answer (0, "{\"epoch\": 3, \"states\": [%s]}", whole);
  fuzz_put_end (seed);

  /* By leases: it asks, has to give back, and recovers. */
  put_attach (2, "{\"order\": 0, \"declare\": false}");
  FUZZ_PUT (1, 0, 9, 0, 0, 4, 6);
  put_answer (0, "{\"epoch\": 3, \"states\": true, \"generation\": 1}");
  put_answer (0, "{\"granted\": [[0, 1048576]]}");
  FUZZ_PUT (5, 0, 8, 6);
  put_answer (0,
              "{\"epoch\": 3, \"states\": true, \"generation\": 1, "
              "\"revoke\": [{\"must\": [0, 65536], \"wish\": [0, 131072]}], "
              "\"recover\": {\"order\": 2, \"ranges\": [[2097152, 65536]]}}");
  put_answer (0, "{}");
  put_answer (0, "{}");
  FUZZ_PUT (5, 0, 8, 6);
  put_answer (0, "{\"epoch\": 3, \"states\": true, \"generation\": 2}");
  put_answer (4, "{\"code\": \"declare\"}");
  put_answer (0, "{}");
  fuzz_put_end (seed);

  /* By leases: it recovers all of the array at first. */
  put_attach (2, "{\"order\": 1, \"declare\": true}");
  FUZZ_PUT (0, 0, 9, 0, 0, 4, 6);
  put_answer (0, "{\"epoch\": 3, \"states\": true, \"generation\": 1}");
  put_answer (0, "{}");
  fuzz_put_end (seed);

  /* It stands by, serves, and leaves. */
  FUZZ_PUT (3);
  put_answer (4, "{\"code\": \"standby\"}");
  put_answer (0, "{\"session\": \"5\", \"generation\": 1, \"map\": " MAP "}", 3,
              0, 0);
  FUZZ_PUT (6);
  put_answer (0, "{\"epoch\": 3, \"states\": [%s], \"leave\": true}", whole);
  fuzz_put_end (seed);
}
