/* grants.c: what a lease costs where many hosts have them: messages, weftd's processor
 * time, and how long a host waits.
 *
 *   grants HOSTS LESSEES adaptive|naive|token stream|jump|fight MS DELAY_US [WARM_MS]
 *
 * weftd's engine (core/cluster), and of each host the engines that write (core/array)
 * and that ask for leases (core/host/lessee.h), in simulated time.  LESSEES hosts share
 * each array, of ARRAY_BYTES in two copies; a host writes WRITE_BYTES at a time, the next
 * when the last one is done, which takes a member IO_NS.  It goes through the
 * array from a place of its own on (stream), to random places (jump), or again and again
 * through 1 MiB, as one other does (fight).  A message takes DELAY_US one way.  Members and
 * hosts send heartbeats, and weftd its ticks.  What the first WARM_MS (1000) bring, in which
 * hosts begin, counts for nothing.
 *
 * Printed is one line: hosts, then for each grant: asks, gives, heartbeats, ranges
 * asked back, weftd's microseconds of processor for all of these, the same with ticks
 * and heartbeats of disks; then of the wait from the first ask on p50 and p99 in ms; then
 * grants a second, writes a second, leases in the tables at the end, and records that
 * were stored.
 */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array/array.h"
#include "cluster/inputs/cluster-inputs.h"
#include "common/clock.h"
#include "host/lessee.h"

#define ARRAY_BYTES MiB (64)
#define WRITE_BYTES KiB (64)
#define UNIT KiB (64)
#define IO_NS 1000000
#define SECOND UINT64_C (1000000000)
#define BEAT_NS                                                                \
  (SECOND / 10) /* between heartbeats, where nothing is asked back */
#define TICK_NS (CLUSTER_TICK_MS * UINT64_C (1000000))
#define MEMBERS 4
#define HOSTS_MAX (ARRAYS_MAX * WRITERS_MAX)

enum call { BEAT, ASK, GIVE, CALLS };

struct host {
  unsigned number;
  struct array *array;
  struct array_client *client;
  struct lessee *lessee;
  struct array_request write;
  struct cluster_lease_message words[CALLS];
  uint64_t writes, beat_ns, wanted_ns, wake_ns;
};

/* What weftd answers. */
struct answer {
  int status;
  bool declare;
  uint64_t generation, recover;
  unsigned count;
  struct array_range granted[LEASE_ASKS_MAX];
  struct cluster_lease_told told;
};

/* What is to happen to the host. */
struct event {
  uint64_t at_ns, number;
  void (*happens) (struct host *h, enum call call, void *what);
  struct host *host;
  enum call call;
  void *what;
};

static struct cluster *weftd;
static struct host *hosts;
static unsigned host_count, lessees;
static enum { STREAM, JUMP, FIGHT } pattern;
static uint64_t now_ns = SECOND, warm_ns = SECOND, delay_ns, random_state = 1;
static char data[WRITE_BYTES];

static struct event *heap;
static size_t heap_count, heap_room;
static uint64_t events;

/* Counted from warm_ns on. */
static uint64_t calls[CALLS], asked_back, grants, writes_done, records;
static uint64_t calls_ns, other_ns;
static uint32_t *waits_us;
static size_t waits;

static void
quit (const char *why)
{
  fprintf (stderr, "grants: %s\n", why);
  exit (1);
}

static uint64_t
rnd (void)
{
  random_state = random_state * 6364136223846793005 + 1442695040888963407;
  return random_state >> 33;
}

/* ---- Time. ---- */

static bool
before (const struct event *a, const struct event *b)
{
  return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->number < b->number;
}

static void
after (uint64_t ns, void (*happens) (struct host *, enum call, void *),
       struct host *h, enum call call, void *what)
{
  struct event e = { now_ns + ns, events++, happens, h, call, what };
  size_t i = heap_count++;

  if (heap_count > heap_room) {
    heap_room = heap_room ? heap_room * 2 : 1024;
    heap = realloc (heap, heap_room * sizeof *heap);
    if (heap == NULL)
      abort ();
  }
  for (; i > 0 && before (&e, &heap[(i - 1) / 2]); i = (i - 1) / 2)
    heap[i] = heap[(i - 1) / 2];
  heap[i] = e;
}

static struct event
next_event (void)
{
  struct event first = heap[0], last = heap[--heap_count];
  size_t i = 0, child;

  while ((child = 2 * i + 1) < heap_count) {
    if (child + 1 < heap_count && before (&heap[child + 1], &heap[child]))
      child++;
    if (!before (&heap[child], &last))
      break;
    heap[i] = heap[child];
    i = child;
  }
  heap[i] = last;
  return first;
}

static bool
counts (void)
{
  return now_ns >= SECOND + warm_ns;
}

/* ---- weftd. ---- */

static void answered (struct host *h, enum call call, void *what);

static struct cluster_input
input (uint64_t op)
{
  struct cluster_input in = { .op = op,
                              .now_ms = now_ns / 1000000,
                              .wall_ms = now_ns / 1000000 };

  for (unsigned i = 0; i < sizeof in.random; i++)
    in.random[i] = (uint8_t) rnd ();
  return in;
}

/* An operation's number says who waits for its answer. */
static uint64_t
op_of (const struct host *h, enum call call)
{
  return (uint64_t) h->number * CALLS + call + 1;
}

static void
answer (const struct cluster_output *o)
{
  struct answer *a;
  uint64_t op = o->op - 1;

  if (o->op > (uint64_t) HOSTS_MAX * CALLS)
    return; /* a disk's */
  a = alloc_zeroed (sizeof *a);
  a->status = o->reply == CLUSTER_REPLY_PROBLEM ? 409 : 200;
  a->declare = a->status == 409 && strcmp (o->problem->code, "declare") == 0;
  a->generation = cluster_identity (weftd)->generation;
  if (o->reply == CLUSTER_REPLY_LEASES)
    for (; a->count < o->granted_count; a->count++)
      a->granted[a->count] = (struct array_range) {
        o->granted[a->count].offset, o->granted[a->count].length
      };
  if (o->reply == CLUSTER_REPLY_SESSION)
    cluster_lease_told (weftd, o->array, o->session, &a->told);
  if (counts ())
    asked_back += a->told.revokes;
  after (delay_ns, answered, &hosts[op / CALLS], op % CALLS, a);
}

/* What its engine wants done, which is its work as well. */
static void
carry_out (uint64_t begin_ns, uint64_t *spent_ns)
{
  struct cluster_step *s;

  while ((s = cluster_next_step (weftd))) {
    if (counts ())
      records += s->records_count;
    for (size_t i = 0; i < s->outputs_count; i++)
      if (s->outputs[i].kind == CLUSTER_OUTPUT_REPLY)
        answer (&s->outputs[i]);
    cluster_step_free (s);
  }
  if (counts ())
    *spent_ns += clock_of (CLOCK_THREAD_CPUTIME_ID, SECOND) - begin_ns;
}

static void
arrives (struct host *h, enum call call, void *what)
{
  uint64_t op = op_of (h, call), begin_ns;
  struct cluster_input in = input (op);
  struct cluster_session_heartbeat hb = { .epoch = 1,
                                          .equal = true,
                                          .wait_ms = HEARTBEAT_MS };

  (void) what;
  calls[call] += counts ();
  hb.order = lessee_order (h->lessee);
  begin_ns = clock_of (CLOCK_THREAD_CPUTIME_ID, SECOND);
  if (call == BEAT)
    cluster_session_heartbeat (weftd, &in, h->number + 1, &hb);
  else
    cluster_session_leases (weftd, &in, h->number + 1, &h->words[call]);
  carry_out (begin_ns, &calls_ns);
}

static void
fill_uuid (uint8_t uuid[16], unsigned number, unsigned member)
{
  memset (uuid, 0x40, 16);
  memcpy (uuid, &number, sizeof number);
  uuid[15] = (uint8_t) member;
}

/* The disks of the host's array send heartbeats. */
static void
disks_beat (struct host *h, enum call call, void *what)
{
  unsigned array = h->number / lessees;
  struct cluster_disk_heartbeat hb = { .uri = "nbd://127.0.0.1:1",
                                       .instance = "d",
                                       .node = "n",
                                       .size = GiB (1),
                                       .data_bytes = GiB (1) - MiB (1),
                                       .min_epoch = 1,
                                       .generation = 1,
                                       .states_epoch = 1,
                                       .sequence = 1,
                                       .wait_ms = HEARTBEAT_MS };

  fill_uuid (hb.array, array, MEMBERS);
  memcpy (hb.cluster, cluster_identity (weftd)->uuid, 16);
  for (; hb.position < MEMBERS; hb.position++) {
    struct cluster_input in = input (UINT64_MAX - array * MEMBERS -
                                     hb.position);
    uint64_t begin_ns = clock_of (CLOCK_THREAD_CPUTIME_ID, SECOND);

    fill_uuid (hb.uuid, array, hb.position);
    snprintf (hb.path, sizeof hb.path, "/dev/d%u", hb.position);
    cluster_disk_heartbeat (weftd, &in, &hb);
    carry_out (begin_ns, &other_ns);
  }
  after (SECOND, disks_beat, h, call, what);
}

static void
tick (struct host *h, enum call call, void *what)
{
  struct cluster_input in = input (0);
  uint64_t begin_ns = clock_of (CLOCK_THREAD_CPUTIME_ID, SECOND);

  cluster_tick (weftd, &in);
  carry_out (begin_ns, &other_ns);
  after (TICK_NS, tick, h, call, what);
}

/* *r is empty again afterwards. */
static void
load (struct cluster_record *r)
{
  char why[200];

  if (cluster_load (weftd, r, why, sizeof why) == -1)
    quit (why);
  memset (r, 0, sizeof *r);
}

/* It was started just now, and sessions have their arrays from before. */
static void
start_weftd (const struct layout *layout)
{
  struct cluster_record *r = alloc_zeroed (sizeof *r);
  struct cluster_input in = input (0);
  char why[200];

  weftd = cluster_new ();
  r->kind = CLUSTER_RECORD_IDENTITY;
  memset (r->identity.uuid, 0x40, 16);
  load (r);
  for (unsigned i = 0; i < host_count; i += lessees) {
    unsigned array = i / lessees;

    for (unsigned m = 0; m < MEMBERS; m++) {
      r->kind = CLUSTER_RECORD_DISK;
      fill_uuid (r->disk.uuid, array, m);
      strcpy (r->disk.node, "n");
      strcpy (r->disk.instance, "d");
      snprintf (r->disk.path, sizeof r->disk.path, "/dev/d%u", m);
      r->disk.size = GiB (1);
      load (r);
    }
    r->kind = CLUSTER_RECORD_ARRAY;
    fill_uuid (r->array.uuid, array, MEMBERS);
    snprintf (r->array.name, sizeof r->array.name, "a%u", array);
    r->array.layout = layout->kind;
    r->array.n = MEMBERS;
    r->array.groups = 1;
    r->array.unit = UNIT;
    r->array.member_bytes = ARRAY_BYTES;
    r->array.ready = true;
    r->array.epoch = r->array.writer_epoch = 1;
    for (unsigned m = 0; m < MEMBERS; m++) {
      fill_uuid (r->array.member[m].disk, array, m);
      r->array.member[m].state = MEMBER_IN_SYNC;
      r->array.member[m].fence = r->array.member[m].confirmed = 1;
    }
    load (r);
  }
  for (unsigned i = 0; i < host_count; i++) {
    r->kind = CLUSTER_RECORD_SESSION;
    r->session.id = i + 1;
    fill_uuid (r->session.array, i / lessees, MEMBERS);
    snprintf (r->session.array_name, NAME_BYTES_MAX, "a%u", i / lessees);
    snprintf (r->session.node, NAME_BYTES_MAX, "h%u", i);
    r->session.writable = r->session.leases = true;
    r->session.part.length = layout->size;
    r->session.epoch = 1;
    load (r);
  }
  free (r);
  if (cluster_start (weftd, &in, why, sizeof why) == -1)
    quit (why);
  while (cluster_next_step (weftd))
    ;
}

/* ---- A host. ---- */

static void take (struct host *h);

static void
wakes (struct host *h, enum call call, void *what)
{
  (void) call;
  (void) what;
  if (h->wake_ns > now_ns)
    return; /* another one comes */
  h->wake_ns = UINT64_MAX;
  array_tick (h->array, now_ns);
  take (h);
}

static void
io_ends (struct host *h, enum call call, void *what)
{
  (void) call;
  array_io_done (h->array, what, 0, now_ns);
  take (h);
}

static void
submit (struct host *h)
{
  unsigned index = h->number % lessees;
  uint64_t all = ARRAY_BYTES / WRITE_BYTES, part = all / lessees;
  uint64_t at;

  if (pattern == STREAM)
    at = (index * part + h->writes) % all;
  else if (pattern == JUMP)
    at = rnd () % all;
  else
    at = index / 2 * 2 * part + h->writes % (MiB (1) / WRITE_BYTES);
  h->writes++;
  h->write = (struct array_request) { .op = ARRAY_WRITE,
                                      .client = h->client,
                                      .offset = at * WRITE_BYTES,
                                      .length = WRITE_BYTES,
                                      .buf = data };
  array_submit (h->array, &h->write, now_ns);
}

static void
say_wants (struct host *h,
           void (*say) (struct lessee *, const struct array_range *, unsigned,
                        uint64_t))
{
  struct array_range wants[LESSEE_WANTS_MAX];
  unsigned count = array_lease_wants (h->array, wants, LESSEE_WANTS_MAX);

  say (h->lessee, wants, count, now_ns / 1000000);
}

static void
hear_notice (struct host *h, const struct array_notice *n)
{
  struct array_range left[256];
  unsigned count;

  if (n->kind == NOTICE_LEASE)
    say_wants (h, lessee_wants);
  else if (n->kind != NOTICE_LEFT)
    abort (); /* nothing is ever lost here */
  while (n->kind == NOTICE_LEFT &&
         (count = array_lease_left (h->array, left, 256)) > 0)
    lessee_left (h->lessee, left, count);
}

static struct cluster_part
part_of (const struct array_range *r)
{
  return (struct cluster_part) { r->offset, r->length };
}

static struct cluster_part *
parts_of (const struct array_range *list, size_t count)
{
  struct cluster_part *p = alloc_zeroed ((count + 1) * sizeof *p);

  for (size_t i = 0; i < count; i++)
    p[i] = part_of (&list[i]);
  return p;
}

static void
act (struct host *h, const struct lessee_action *a)
{
  enum call call = a->kind == LESSEE_DO_ASK ? ASK : GIVE;
  struct cluster_lease_message *w = &h->words[call];
  struct array_range *all = NULL;

  if (a->kind == LESSEE_DO_RECOVER)
    abort (); /* nobody dies here */
  if (a->kind == LESSEE_DO_LEAVE) {
    array_lease_leave (h->array, &a->leave.must, &a->leave.wish, now_ns);
    return;
  }
  *w = (struct cluster_lease_message) { .number = a->number,
                                        .declare = a->declare,
                                        .asks = a->asks,
                                        .wait_ms = a->wait_ms };
  for (unsigned i = 0; i < a->asks; i++)
    w->ask[i] = (struct cluster_lease_ask) { part_of (&a->ask[i].must),
                                             part_of (&a->ask[i].wish) };
  w->given = parts_of (a->ranges, w->given_count = a->count);
  if (a->declare) {
    w->declared_count = (unsigned) array_lease_all (h->array, &all);
    w->declared = parts_of (all, w->declared_count);
    free (all);
  }
  if (call == ASK && h->wanted_ns == 0)
    h->wanted_ns = now_ns;
  after (delay_ns, arrives, h, call, NULL);
}

/* Do what its engines want done. */
static void
take (struct host *h)
{
  struct array_io *io;
  struct array_notice n;
  struct lessee_action a;
  uint64_t due_ms, due_ns;
  bool more = true;

  while (more) {
    more = false;
    while ((io = array_next_io (h->array)))
      after (IO_NS, io_ends, h, BEAT, io);
    while (array_next_notice (h->array, &n))
      hear_notice (h, &n);
    while (array_next_done (h->array)) {
      if (h->write.error)
        abort ();
      writes_done += counts ();
      submit (h);
      more = true;
    }
    while (lessee_next (h->lessee, now_ns / 1000000, LESSEE_DO_ALL, &a)) {
      act (h, &a);
      more = true;
    }
  }
  due_ms = lessee_due_ms (h->lessee, LESSEE_DO_ALL);
  due_ns = array_deadline (h->array);
  if (due_ms < due_ns / 1000000)
    due_ns = due_ms * 1000000;
  if (due_ns >= h->wake_ns)
    return;
  h->wake_ns = due_ns > now_ns ? due_ns : now_ns;
  after (h->wake_ns - now_ns, wakes, h, BEAT, NULL);
}

static void
beat (struct host *h, enum call call, void *what)
{
  h->beat_ns = now_ns;
  after (delay_ns, arrives, h, call, what);
}

static void
answered (struct host *h, enum call call, void *what)
{
  struct answer *a = what;
  uint64_t now_ms = now_ns / 1000000, next_ns = h->beat_ns + BEAT_NS;
  struct lease_wish *back;
  bool at_once;

  switch (call) {
  case BEAT:
    back = alloc_zeroed ((a->told.revokes + 1) * sizeof *back);
    for (unsigned i = 0; i < a->told.revokes; i++) {
      const struct cluster_lease_ask *r = &a->told.revoke[i];

      back[i] = (struct lease_wish) { { r->must.offset, r->must.length },
                                      { r->wish.offset, r->wish.length } };
    }
    at_once = lessee_heard (h->lessee, a->generation, back, a->told.revokes,
                            a->told.recover, NULL, 0);
    free (back);
    after (at_once || next_ns < now_ns ? 0 : next_ns - now_ns, beat, h, BEAT,
           NULL);
    break;
  case ASK:
    a->count = lessee_granted (h->lessee, a->status, a->declare, a->granted,
                               a->count, LEASE_ASKS_MAX, now_ms);
    if (a->count > 0) {
      if (counts ()) {
        grants++;
        waits_us = realloc (waits_us, (waits + 1) * sizeof *waits_us);
        waits_us[waits++] = (uint32_t) ((now_ns - h->wanted_ns) / 1000);
      }
      h->wanted_ns = 0;
      array_lease_grant (h->array, a->granted, a->count, now_ns);
    }
    say_wants (h, lessee_asked);
    break;
  case GIVE:
    lessee_gave (h->lessee, a->status, a->declare, now_ms);
    break;
  case CALLS:
    abort ();
  }
  if (call != BEAT) {
    free (h->words[call].given);
    free (h->words[call].declared);
  }
  free (a->told.revoke);
  free (a->told.ranges);
  free (a);
  take (h);
}

static void
start_host (struct host *h, const struct array_config *config,
            enum lessee_kind kind)
{
  char why[200];

  h->number = (unsigned) (h - hosts);
  h->array = array_new (config, now_ns, why, sizeof why);
  h->lessee = lessee_new (kind, config->layout.size, 1, false, 0);
  if (h->array == NULL || h->lessee == NULL)
    abort ();
  array_settled (h->array, 0, 0, 0, now_ns);
  h->client = array_client_open (h->array);
  h->wake_ns = UINT64_MAX;
  if (h->number % lessees == 0)
    after (rnd () % warm_ns, disks_beat, h, BEAT, NULL);
  after (rnd () % warm_ns, beat, h, BEAT, NULL);
  submit (h);
  take (h);
}

static int
compare (const void *a, const void *b)
{
  const uint32_t *x = a, *y = b;

  return *x < *y ? -1 : *x > *y;
}

int
main (int argc, char *argv[])
{
  struct array_config config = { .batches = true,
                                 .leases = true,
                                 .epoch = 1,
                                 .image_buffer_bytes = MiB (1),
                                 .image_age_ms = IMAGE_AGE_MS_DEFAULT,
                                 .io_timeout_ms = IO_TIMEOUT_MS_DEFAULT };
  const struct cluster_array *a;
  enum lessee_kind kind;
  uint64_t ms, spans = 0;
  char why[200];
  double n;

  if (argc != 7 && argc != 8) {
    fprintf (stderr, "usage: grants HOSTS LESSEES adaptive|naive|token "
                     "stream|jump|fight MS DELAY_US [WARM_MS]\n");
    return 1;
  }
  host_count = (unsigned) strtoul (argv[1], NULL, 10);
  lessees = (unsigned) strtoul (argv[2], NULL, 10);
  kind = argv[3][0] == 'a'   ? LESSEE_ADAPTIVE
         : argv[3][0] == 'n' ? LESSEE_NAIVE
                             : LESSEE_TOKEN;
  pattern = argv[4][0] == 's' ? STREAM : argv[4][0] == 'j' ? JUMP : FIGHT;
  ms = strtoull (argv[5], NULL, 10);
  delay_ns = strtoull (argv[6], NULL, 10) * 1000;
  if (argc == 8)
    warm_ns = strtoull (argv[7], NULL, 10) * 1000000;
  if (lessees == 0 || lessees > WRITERS_MAX || host_count == 0 ||
      host_count > SESSIONS_MAX || ms == 0 || warm_ns == 0)
    quit ("a number is 0, or too large");
  if (layout_init (&config.layout, LAYOUT_RAIDX, MEMBERS, 1, UNIT, ARRAY_BYTES,
                   why, sizeof why) == -1)
    quit (why);
  start_weftd (&config.layout);
  hosts = alloc_zeroed (host_count * sizeof *hosts);
  for (unsigned i = 0; i < host_count; i++)
    start_host (&hosts[i], &config, kind);
  after (TICK_NS, tick, NULL, BEAT, NULL);
  while (now_ns < SECOND + warm_ns + ms * 1000000) {
    struct event e = next_event ();

    now_ns = e.at_ns;
    e.happens (e.host, e.call, e.what);
  }
  if (grants == 0)
    quit ("nothing was granted");
  qsort (waits_us, waits, sizeof *waits_us, compare);
  TAILQ_FOREACH (a, cluster_arrays (weftd), link)
    spans += a->leases->spans.count;
  n = (double) grants;
  printf ("%u %.2f %.2f %.2f %.2f %.2f %.2f %.2f %.2f %.0f %.0f %" PRIu64
          " %" PRIu64 "\n",
          host_count, calls[ASK] / n, calls[GIVE] / n, calls[BEAT] / n,
          asked_back / n, calls_ns / n / 1000, (calls_ns + other_ns) / n / 1000,
          waits_us[waits / 2] / 1000.0, waits_us[waits * 99 / 100] / 1000.0,
          n * 1000 / ms, writes_done * 1000.0 / ms, spans, records);
  return 0;
}
