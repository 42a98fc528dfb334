/* fuzz-cluster.c: the cluster engine, and a stream of members' and hosts' heartbeats.
 * Members and hosts obey the answers; but any field of any heartbeat may be something
 * else, within the API's limits.  No heartbeat ends weftd, breaks an invariant, or makes
 * records with which weftd can't start again.
 *
 * The input: actions, each a byte and what belongs to it (`act` below).
 */

#include <config.h>

/* Of SHA256_Init and those beside it, which OpenSSL would rather not have used. */
#define OPENSSL_SUPPRESS_DEPRECATED

#include <inttypes.h>
#include <stdio.h>

#include <openssl/hmac.h>
#include <openssl/sha.h>

#include "fuzz.h"
#include "fuzz-json.h"

/* In place of the one of the library of core: see mac_by. */
static unsigned char *mac_by (const void *key, int key_bytes, const void *text,
                              size_t bytes, unsigned char *sum,
                              unsigned *length);

#define HMAC(md, key, key_bytes, text, bytes, sum, length)                     \
  ((md) ? mac_by (key, key_bytes, text, bytes, sum, length) : NULL)
#include "format/token.c"
#undef HMAC

#include "base/spans.h"
#include "cluster/cluster-preflight.h"
#include "cluster/cluster.h"
#include "server/records.h"

#define DISKS 6
#define HOSTS 3
#define RECORDS_MAX 128
#define ACTIONS_MAX 200
/* Between two rounds of heartbeats; cluster_step_begin counts no more than two ticks. */
#define BEAT_MS (2 * CLUSTER_TICK_MS)
#define ROUNDS_MAX 64
#define PARTS_MAX 8 /* in one call of a host, and its answer */

/* A disk, and the member that serves it. */
struct fake_disk {
  struct cluster_disk_heartbeat hb; /* as it would say it honestly */
  bool silent;
  unsigned starts;
  uint64_t op; /* of its poll, which waits for news; 0: it has none */
};

/* A process that attaches array "a". */
struct fake_host {
  char instance[16];
  bool silent;
  uint64_t id; /* of its session; 0: none */
  uint64_t epoch, prepared, round, fences, op;

  /* Where it shares by leases. */
  bool stubborn;       /* it does nothing about them unless an action says so */
  uint64_t generation; /* of the weftd that it has declared to; */
  bool declares;       /* it is to do so again */
  uint64_t number;     /* of what it said last */
  uint64_t leases_op;  /* of its last call */
  struct spans has;
  uint64_t order; /* to recover some of it; 0: there is none */
  struct cluster_part back[PARTS_MAX]; /* ranges that others ask for */
  unsigned back_count;
};

static struct fake_disk disks[DISKS];
static struct fake_host hosts[HOSTS];
static struct stored {
  struct cluster_record *record;
  bool read; /* again, since it was kept */
} store[RECORDS_MAX];
static unsigned stored;
static struct cluster *engine;
static uint64_t now_ms, op, seed;
static unsigned rounds_left;

/* As HMAC (), but nothing is allocated: that took a fifth of an execution, as every
 * heartbeat needs one.
 */
static unsigned char *
mac_by (const void *key, int key_bytes, const void *text, size_t bytes,
        unsigned char *sum, unsigned *length)
{
  unsigned char inner[SHA256_CBLOCK] = { 0 }, outer[SHA256_CBLOCK];
  SHA256_CTX context;

  assert (key_bytes >= 0 && (size_t) key_bytes <= sizeof inner);
  memcpy (inner, key, (size_t) key_bytes);
  for (unsigned i = 0; i < sizeof inner; i++) {
    inner[i] ^= 0x36;
    outer[i] = inner[i] ^ 0x36 ^ 0x5c;
  }
  SHA256_Init (&context);
  SHA256_Update (&context, inner, sizeof inner);
  SHA256_Update (&context, text, bytes);
  SHA256_Final (sum, &context);
  SHA256_Init (&context);
  SHA256_Update (&context, outer, sizeof outer);
  SHA256_Update (&context, sum, SHA256_DIGEST_LENGTH);
  SHA256_Final (sum, &context);
  *length = SHA256_DIGEST_LENGTH;
  return sum;
}

/* ---- weftd: as server/loop.c ---- */

static const struct cluster_input *
input (void)
{
  static struct cluster_input in;

  in.op = ++op;
  in.now_ms = now_ms;
  in.wall_ms = 1700000000000 + now_ms;
  for (unsigned i = 0; i < sizeof in.random; i++) {
    seed = seed * 6364136223846793005 + 1442695040888963407;
    in.random[i] = (uint8_t) (seed >> 33);
  }
  return &in;
}

/* It takes the record over. */
static void
keep (struct cluster_record *r)
{
  unsigned i = 0;

  while (i < stored && !cluster_record_same (store[i].record, r))
    i++;
  assert (i < RECORDS_MAX);
  if (i < stored)
    free (store[i].record);
  if (!r->deleted) {
    store[i] = (struct stored) { .record = r };
    stored += i == stored;
    return;
  }
  free (r);
  if (i < stored)
    store[i] = store[--stored];
}

/* As it is when weftd starts again: written as JSON, and read. */
static void
read_again (struct stored *s)
{
  struct store_txn *t;
  char why[512] = "";

  if (s->read)
    return;
  t = store_txn_new ();
  records_add (t, s->record);
  assert (t->count == 1);
  if (records_parse (t->ops[0].kind, t->ops[0].key, t->ops[0].json, s->record,
                     why, sizeof why) == -1) {
    fprintf (stderr, "a record that can't be read again: %s\n%s\n", why,
             t->ops[0].json);
    abort ();
  }
  store_txn_free (t);
  s->read = true;
}

static uint64_t
part_end (const struct cluster_part *p)
{
  return p->offset + p->length;
}

static void
take_disk_reply (const struct cluster_disk *d)
{
  struct cluster_disk_told told;

  cluster_disk_told (engine, d, false, &told);
  for (unsigned i = 0; i < DISKS; i++) {
    struct cluster_disk_heartbeat *hb = &disks[i].hb;

    if (memcmp (hb->uuid, d->rec.uuid, 16) != 0 || d->rec.node[0] == '\0')
      continue;
    memcpy (hb->cluster, told.cluster, 16);
    hb->generation = told.generation;
    if (told.releases && memcmp (hb->array, told.release, 16) == 0) {
      memset (hb->array, 0, 16);
      hb->has_place = false;
      hb->states_epoch = 0;
    }
    if (told.min_epoch > hb->min_epoch)
      hb->min_epoch = told.min_epoch;
    if (told.over_count > 0)
      hb->over = told.over[told.over_count - 1].number;
    if (told.place) {
      const struct cluster_array_record *a = &told.place->rec;

      memcpy (hb->array, a->uuid, 16);
      hb->has_place = true;
      hb->position = told.position;
      hb->layout = a->layout;
      hb->dup = a->dup;
      hb->n = a->n;
      hb->groups = a->groups;
      hb->unit = a->unit;
      hb->member_bytes = a->member_bytes;
      hb->states_epoch = a->epoch;
      for (unsigned m = 0; m < a->n * a->groups; m++)
        hb->states[m] = (uint8_t) a->member[m].state;
    }
    hb->join.phase = told.joins ? hb->join.phase : CLUSTER_JOIN_NONE;
    if (told.joins) {
      hb->join.epoch = told.order.epoch;
      hb->join.phase = hb->join.phase < CLUSTER_JOIN_SYNCED && told.order.epoch
                         ? hb->join.phase + 1
                       : told.order.epoch ? CLUSTER_JOIN_SYNCED
                                          : CLUSTER_JOIN_WAITING;
    }
    if (hb->sequence < SEQUENCE_MAX)
      hb->sequence++;
  }
}

/* It gives ranges that others ask for back with its next call; ranges that it is ordered
 * to recover are its own from then on.
 */
static void
take_leases (struct fake_host *h, const struct cluster_array *a,
             const struct cluster_session *s)
{
  struct cluster_lease_told told;

  cluster_lease_told (engine, a, s, &told);
  h->back_count = told.revokes < PARTS_MAX ? told.revokes : PARTS_MAX;
  for (unsigned i = 0; i < h->back_count; i++)
    h->back[i] = told.revoke[i].must;
  if (told.recover)
    h->order = told.recover;
  for (unsigned i = 0; i < told.count; i++)
    spans_set (&h->has, told.ranges[i].offset, part_end (&told.ranges[i]), 1);
  free (told.revoke);
  free (told.ranges);
}

static void
take_session_reply (uint64_t to, const struct cluster_array *a,
                    const struct cluster_session *s)
{
  struct cluster_session_told told = { 0 };

  for (unsigned i = 0; i < HOSTS; i++) {
    struct fake_host *h = &hosts[i];

    if (h->op != to)
      continue;
    h->id = s->rec.id;
    cluster_session_told (engine, a, s, h->epoch, false, &told);
    h->epoch = told.epoch;
    if (told.change)
      h->prepared = told.change->epoch;
    h->fences = cluster_fence_number (engine);
    h->declares = h->generation != told.generation;
    h->generation = told.generation;
    if (s->rec.leases)
      take_leases (h, a, s);
  }
}

static void
take_granted (const struct cluster_output *o)
{
  for (struct fake_host *h = hosts; h < hosts + HOSTS; h++)
    for (unsigned i = 0; h->leases_op == o->op && i < o->granted_count; i++)
      spans_set (&h->has, o->granted[i].offset, part_end (&o->granted[i]), 1);
}

static void
take_output (const struct cluster_output *o)
{
  if (o->kind != CLUSTER_OUTPUT_REPLY)
    return;
  assert (o->op != 0 && o->op <= op);
  for (unsigned i = 0; i < DISKS; i++)
    if (disks[i].op == o->op)
      disks[i].op = 0;
  if (o->reply == CLUSTER_REPLY_DISK)
    take_disk_reply (o->disk);
  else if (o->reply == CLUSTER_REPLY_GRANT || o->reply == CLUSTER_REPLY_SESSION)
    take_session_reply (o->op, o->array, o->session);
  else if (o->reply == CLUSTER_REPLY_LEASES)
    take_granted (o);
  else if (o->reply == CLUSTER_REPLY_PROBLEM)
    assert (o->problem && o->problem->kind != CLUSTER_OK &&
            o->problem->detail[0]);
}

static void
pump (void)
{
  struct cluster_step *s;

  cluster_check (engine);
  while ((s = cluster_next_step (engine)) != NULL) {
    for (size_t i = 0; i < s->records_count; i++) {
      keep (s->records[i]);
      s->records[i] = NULL;
    }
    for (size_t i = 0; i < s->outputs_count; i++)
      take_output (&s->outputs[i]);
    cluster_step_free (s);
  }
}

static void
start_engine (void)
{
  char why[512] = "";

  cluster_free (engine);
  engine = cluster_new ();
  assert (engine);
  for (unsigned i = 0; i < stored; i++) {
    read_again (&store[i]);
    if (cluster_load (engine, store[i].record, why, sizeof why) == -1) {
      fprintf (stderr, "a record that can't be loaded: %s\n", why);
      abort ();
    }
  }
  if (cluster_start (engine, input (), why, sizeof why) == -1) {
    fprintf (stderr, "weftd can't be started again: %s\n", why);
    abort ();
  }
  pump ();
  for (unsigned i = 0; i < HOSTS; i++)
    hosts[i].op = 0;
  for (unsigned i = 0; i < DISKS; i++)
    disks[i].op = 0;
}

/* ---- What everybody says ---- */

/* Less than `first`, or, for few bytes, one of the `later` ones that follow.  Inputs in
 * the corpus therefore do the same as before these were added.
 */
static unsigned
one_of (struct fuzz *f, unsigned first, unsigned later)
{
  unsigned how = (unsigned) fuzz_number (f, 1);

  return how < 240 ? how % first : first + (how - 240) % later;
}

/* Any number that the API lets through, most often a small one. */
static uint64_t
any_number (struct fuzz *f, uint64_t max)
{
  unsigned how = (unsigned) fuzz_number (f, 1);
  uint64_t v = how < 128   ? how
               : how < 192 ? max - how % 4
               : how < 224 ? UINT64_C (1) << how % 60
                           : fuzz_number (f, 8);

  return v > max ? max : v;
}

static void
any_text (struct fuzz *f, char *text, size_t size)
{
  snprintf (text, size, "%c%u", 'a' + (char) fuzz_below (f, 4),
            fuzz_below (f, 3));
}

static void
any_uuid (struct fuzz *f, uint8_t uuid[16])
{
  unsigned which = fuzz_below (f, DISKS + 4);

  memset (uuid, 0, 16);
  if (which < DISKS)
    memcpy (uuid, disks[which].hb.uuid, 16);
  else if (which == DISKS)
    memcpy (uuid, cluster_identity (engine)->uuid, 16);
  else if (which == DISKS + 1 && cluster_array_find (engine, "a"))
    memcpy (uuid, cluster_array_find (engine, "a")->rec.uuid, 16);
  else if (which == DISKS + 2)
    uuid[0] = 99;
}

static void
any_ranges (struct fuzz *f, struct bad_list *list)
{
  uint64_t at = 0;

  memset (list, 0, sizeof *list);
  list->sequence = any_number (f, SEQUENCE_MAX);
  for (unsigned n = fuzz_below (f, 5); list->count < n;) {
    struct bad_range *r = &list->range[list->count++];

    r->first = at +
               any_number (f, MEMBER_DATA_BYTES_MAX / BAD_BLOCK_BYTES - at);
    r->blocks = 1 + fuzz_below (f, 200);
    r->reason = BAD_REBUILD + fuzz_below (f, 3);
    if (r->first > MEMBER_DATA_BYTES_MAX / BAD_BLOCK_BYTES - 1000) {
      list->count--;
      break;
    }
    at = r->first + r->blocks;
  }
}

/* One field is not what it is. */
static void
lie_of_disk (struct fuzz *f, struct cluster_disk_heartbeat *hb)
{
  switch (one_of (f, 30, 1)) {
  case 0:
    any_uuid (f, hb->uuid);
    break;
  case 1:
    any_text (f, hb->instance, sizeof hb->instance);
    break;
  case 2:
    snprintf (hb->node, sizeof hb->node, "n%u", fuzz_below (f, 4));
    break;
  case 3:
    hb->report = any_number (f, INT64_MAX);
    break;
  case 4:
    hb->same = true;
    hb->report = fuzz_below (f, 4);
    break;
  case 5:
    hb->dirty_extents = any_number (f, INT64_MAX);
    hb->disk_stuck_ms = any_number (f, INT64_MAX);
    break;
  case 6:
    hb->sequence = any_number (f, SEQUENCE_MAX);
    break;
  case 7:
    hb->round = any_number (f, EPOCH_MAX);
    break;
  case 8:
    any_text (f, hb->cache, sizeof hb->cache);
    break;
  case 9:
    hb->size = any_number (f, INT64_MAX);
    break;
  case 10:
    hb->data_bytes = any_number (f, MEMBER_DATA_BYTES_MAX);
    break;
  case 11:
    any_uuid (f, hb->cluster);
    break;
  case 12:
    any_uuid (f, hb->array);
    break;
  case 13:
    hb->position = fuzz_below (f, ARRAY_MEMBERS_MAX);
    break;
  case 14:
    hb->min_epoch = any_number (f, EPOCH_MAX);
    break;
  case 15:
    hb->generation = any_number (f, GENERATION_MAX);
    break;
  case 16:
    hb->states_epoch = any_number (f, EPOCH_MAX);
    break;
  case 17:
    hb->layout = fuzz_below (f, LAYOUT_KINDS);
    break;
  case 18:
    hb->n = 1 + fuzz_below (f, GROUP_MEMBERS_MAX);
    break;
  case 19:
    hb->groups = 1 + fuzz_below (f, 4);
    break;
  case 20:
    hb->unit = UNIT_BYTES_MIN + any_number (f, UNIT_BYTES_MAX - UNIT_BYTES_MIN);
    break;
  case 21:
    hb->member_bytes = any_number (f, MEMBER_DATA_BYTES_MAX);
    break;
  case 22:
    hb->states[fuzz_below (f, 8)] = (uint8_t) fuzz_below (f, MEMBER_STATES);
    break;
  case 23:
    hb->join.phase = fuzz_below (f, CLUSTER_JOIN_SYNCED + 1);
    break;
  case 24:
    hb->join.epoch = any_number (f, EPOCH_MAX);
    break;
  case 25:
    hb->join.todo_bytes = any_number (f, INT64_MAX);
    hb->join.total_bytes = any_number (f, INT64_MAX);
    break;
  case 26:
    hb->state = hb->state == DISK_FAILED ? DISK_SERVING : DISK_FAILED;
    break;
  case 27:
    hb->state = hb->state == DISK_STARTING ? DISK_SERVING : DISK_STARTING;
    break;
  case 28:
    any_ranges (f, &hb->bad);
    break;
  case 29:
    hb->has_load = true;
    hb->load.cpu = (double) any_number (f, INT64_MAX) * 1e280;
    hb->load.disk_reads = any_number (f, INT64_MAX);
    break;
  case 30:
    hb->over = any_number (f, INT64_MAX);
    break;
  }
  /* server/routes-disk.c: parse_place, parse_report */
  hb->has_place &= hb->n * hb->groups <= ARRAY_MEMBERS_MAX &&
                   hb->position < hb->n * hb->groups;
}

static void
disk_speaks (struct fuzz *f, unsigned i, unsigned lies, bool keeps)
{
  static struct cluster_disk_heartbeat words, *hb = &words;

  disks[i].op = op + 1;
  if (lies == 0) {
    cluster_disk_heartbeat (engine, input (), &disks[i].hb);
    pump ();
    return;
  }
  *hb = disks[i].hb;
  while (lies-- > 0)
    lie_of_disk (f, hb);
  if (keeps) /* it says so from now on */
    disks[i].hb = *hb,
    memcpy (disks[i].hb.uuid, &(uint8_t[16]) { (uint8_t) (i + 1) }, 16);
  cluster_disk_heartbeat (engine, input (), hb);
  pump ();
}

static void
host_speaks (struct fuzz *f, unsigned i, unsigned lies)
{
  struct fake_host *h = &hosts[i];
  static struct cluster_session_heartbeat words, *hb = &words;

  memset (hb, 0, sizeof *hb);
  strcpy (hb->instance, h->instance);
  hb->epoch = h->epoch;
  hb->prepared = h->prepared;
  hb->round = h->round;
  hb->fences = h->fences;
  hb->order = h->order;
  for (; lies > 0; lies--)
    switch (one_of (f, 9, 4)) {
    case 0:
      any_text (f, hb->instance, sizeof hb->instance);
      break;
    case 1:
      hb->epoch = any_number (f, EPOCH_MAX);
      break;
    case 2:
      hb->prepared = any_number (f, EPOCH_MAX);
      break;
    case 3:
      hb->round = any_number (f, EPOCH_MAX);
      break;
    case 4:
      hb->fences = any_number (f, EPOCH_MAX);
      break;
    case 5:
      hb->has_uri = true;
      strcpy (hb->uri, "nbd://there");
      break;
    case 6:
      hb->same_stats = true;
      break;
    case 7:
      hb->draining = true;
      break;
    case 8:
      hb->has_stats = true;
      hb->stats.reads = any_number (f, INT64_MAX);
      hb->stats.read_ns = any_number (f, INT64_MAX);
      hb->stats.read.count[fuzz_below (f, LATENCY_BUCKETS + 1)] = any_number (
        f, INT64_MAX);
      hb->stats.member[fuzz_below (f, 6)].suspect = true;
      hb->stats.member[0].service_ns = any_number (f, INT64_MAX);
      break;
    case 9:
      hb->order = any_number (f, INT64_MAX);
      break;
    case 10:
      hb->round_entered = any_number (f, EPOCH_MAX);
      break;
    case 11:
      hb->equal = true;
      break;
    case 12:
      hb->older = true;
      break;
    }
  h->round++;
  h->op = op + 1;
  cluster_session_heartbeat (engine, input (), h->id, hb);
  pump ();
}

static void
tick (unsigned ms)
{
  now_ms += ms;
  cluster_tick (engine, input ());
  pump ();
}

/* It sends these words about its leases, each with a number of its own. */
static void
say_leases (struct fake_host *h, struct cluster_lease_message *w)
{
  strcpy (w->instance, h->instance);
  if (w->given_count > 0 || w->declare || w->recovered)
    w->number = h->number = (h->generation << 32) | (uint32_t) (h->number + 1);
  for (unsigned i = 0; i < w->given_count; i++)
    spans_set (&h->has, w->given[i].offset, part_end (&w->given[i]), 0);
  if (w->declare)
    h->declares = false;
  h->back_count = 0;
  h->leases_op = op + 1;
  cluster_session_leases (engine, input (), h->id, w);
  pump ();
}

/* Everything that it has, to be freed. */
static unsigned
all_it_has (const struct fake_host *h, struct cluster_part **list)
{
  *list = malloc ((h->has.count + 1) * sizeof **list);
  assert (*list);
  for (unsigned i = 0; i < h->has.count; i++) {
    const struct span *x = &h->has.span[i];

    (*list)[i] = (struct cluster_part) { x->start, x->end - x->start };
  }
  return h->has.count;
}

/* It obeys weftd's orders about its leases. */
static void
host_obeys (struct fake_host *h)
{
  const struct cluster_session *s = cluster_session_find (engine, h->id);
  struct cluster_lease_message w = { .asks = 0 };

  if (h->stubborn || s == NULL || !s->rec.leases)
    return;
  if (h->declares) {
    w.declare = true;
    w.declared_count = all_it_has (h, &w.declared);
  }
  else if (h->order || h->back_count > 0) {
    w.recovered = h->order;
    h->order = 0;
    w.given = h->back;
    w.given_count = h->back_count;
  }
  else
    return;
  say_leases (h, &w);
  free (w.declared);
}

/* Each disk speaks again when its poll was answered. */
static void
live (struct fuzz *f, unsigned rounds)
{
  for (unsigned r = 0; r < rounds && rounds_left > 0; r++, rounds_left--) {
    for (unsigned i = 0; i < DISKS; i++)
      if (!disks[i].silent && disks[i].op == 0)
        disk_speaks (f, i, 0, false);
    for (unsigned i = 0; i < HOSTS; i++)
      if (hosts[i].id && !hosts[i].silent) {
        host_speaks (f, i, 0);
        host_obeys (&hosts[i]);
      }
    tick (BEAT_MS);
  }
}

/* ---- Actions ---- */

/* Most often some of the first sixteen units. */
static struct cluster_part
any_part (struct fuzz *f)
{
  unsigned how = (unsigned) fuzz_number (f, 1);

  if (how < 240)
    return (struct cluster_part) { how % 16 * KiB (64),
                                   (1 + how / 16) * KiB (64) };
  return (struct cluster_part) { any_number (f, INT64_MAX / 2),
                                 1 + any_number (f, INT64_MAX / 2 - 1) };
}

static unsigned
any_parts (struct fuzz *f, struct cluster_part **list)
{
  unsigned count = fuzz_below (f, 5);

  *list = malloc (PARTS_MAX * sizeof **list);
  assert (*list);
  for (unsigned i = 0; i < count; i++)
    (*list)[i] = any_part (f);
  return count;
}

/* A sharing host's words about its leases.  If the input names no ranges to give or to
 * declare, it gives the requested ranges, or declares its own.
 */
static void
host_leases (struct fuzz *f, unsigned i)
{
  struct fake_host *h = &hosts[i];
  struct cluster_lease_message w = { .asks = 0 };
  unsigned what = (unsigned) fuzz_number (f, 1);

  if (what & 1) {
    w.given_count = any_parts (f, &w.given);
    if (w.given_count == 0) {
      memcpy (w.given, h->back, sizeof h->back);
      w.given_count = h->back_count;
    }
  }
  w.declare = what & 2;
  if (w.declare) {
    w.declared_count = any_parts (f, &w.declared);
    if (w.declared_count == 0) {
      free (w.declared);
      w.declared_count = all_it_has (h, &w.declared);
    }
  }
  if (what & 4)
    w.recovered = h->order;
  w.asks = what >> 3 & 3;
  for (unsigned n = 0; n < w.asks; n++) {
    w.ask[n].must = any_part (f);
    w.ask[n].wish = fuzz_below (f, 2) ? any_part (f) : w.ask[n].must;
  }
  if (what & 32)
    w.ended = hosts[fuzz_below (f, HOSTS)].id;
  if (what & 64) {
    h->generation = any_number (f, INT32_MAX);
    h->number = any_number (f, UINT32_MAX);
    w.recovered = any_number (f, INT64_MAX);
  }
  if (what & 128)
    w.wait_ms = any_number (f, 60000);
  say_leases (h, &w);
  free (w.given);
  free (w.declared);
}

/* Alone; or beside others, a part or by leases. */
static void
host_attaches (struct fuzz *f, unsigned i, bool shared)
{
  const struct cluster_array *a = cluster_array_find (engine, "a");
  struct fake_host *h = &hosts[i];
  struct cluster_attach at = { .pid = i + 1, .writable = true };
  unsigned how = (unsigned) fuzz_number (f, 1);

  snprintf (h->instance, sizeof h->instance, "h%u-%u", i, how % 3);
  strcpy (at.instance, h->instance);
  snprintf (at.node, sizeof at.node, "n%u", i);
  at.writable = !(how & 4);
  at.service = how & 8;
  at.takeover = how & 16;
  at.exports = how & 128;
  if (how & 32)
    at.ended = hosts[fuzz_below (f, HOSTS)].id;
  if (how & 64)
    any_text (f, at.instance, sizeof at.instance);
  if (at.service)
    at.writable = true;
  if (shared) { /* server/routes-session.c: parse_attach, refuse_part */
    at.writable = true;
    at.service = false;
    unsigned more = (unsigned) fuzz_number (f, 1);

    at.by_admin = more & 8;
    at.leases = more & 1;
    h->stubborn = more & 2;
    if (more & 4)
      strcpy (at.node, "n0");
    if (!at.leases)
      at.part = any_part (f);
    else if (a)
      at.part.length = a->layout.size;
  }
  h->op = op + 1;
  h->epoch = h->prepared = h->id = h->number = h->order = h->back_count = 0;
  h->silent = false;
  spans_free (&h->has);
  cluster_attach (engine, input (), "a", &at);
}

static void
make_array (struct fuzz *f)
{
  struct cluster_create create = { .name = "a", .groups = 1, .unit = KiB (64) };
  unsigned how = (unsigned) fuzz_number (f, 1);

  create.layout = how % LAYOUT_KINDS;
  create.members = 1 + (how >> 4) % DISKS;
  create.dup = fuzz_number (f, 1) & 1;
  for (unsigned i = 0; i < create.members; i++)
    memcpy (create.disk[i], disks[i].hb.uuid, 16);
  cluster_array_create (engine, input (), &create);
}

static void
administrate (struct fuzz *f)
{
  unsigned member = fuzz_below (f, DISKS);
  char node[4];

  snprintf (node, sizeof node, "n%u", fuzz_below (f, 4));
  switch (one_of (f, 20, 2)) {
  case 0:
    cluster_array_delete (engine, input (), "a");
    break;
  case 1:
    cluster_disk_forget (engine, input (), disks[member].hb.uuid);
    cluster_disk_rekey (engine, input (), disks[member].hb.uuid);
    break;
  case 2:
    cluster_disk_move (engine, input (), disks[member].hb.uuid, node);
    break;
  case 3:
    cluster_node_maintain (engine, input (), node, true, true);
    break;
  case 4:
    cluster_node_maintain (engine, input (), node, false, false);
    break;
  case 5:
    cluster_node_drain (engine, input (), node, true);
    break;
  case 6:
    cluster_node_drain (engine, input (), node, false);
    break;
  case 7:
    cluster_node_fence (engine, input (), node, true, "administrator kim");
    break;
  case 8:
    cluster_node_fence (engine, input (), node, false, "administrator kim");
    break;
  case 9:
    cluster_node_remove (engine, input (), node);
    break;
  case 10:
    cluster_node_shut_out (engine, input (), node, "administrator kim");
    break;
  case 11:
    cluster_member_replace (engine, input (), "a", member,
                            disks[fuzz_below (f, DISKS)].hb.uuid, false);
    break;
  case 12:
    cluster_member_cancel (engine, input (), "a", member);
    break;
  case 13:
    cluster_member_join (engine, input (), "a", member);
    break;
  case 14:
    cluster_spare_add (engine, input (), "a", disks[member].hb.uuid);
    break;
  case 15:
    cluster_spare_drop (engine, input (), "a", disks[member].hb.uuid);
    break;
  case 16:
    cluster_array_tune (
      engine, input (), "a",
      &(struct cluster_array_tune) {
        .has_spare_after = true, .spare_after_ms = fuzz_below (f, 3) * 1000 });
    break;
  case 17: {
    struct cluster_service s = { .nodes = 2, .node = { "n0", "n1" } };

    cluster_service_set (engine, input (), "a", &s);
    break;
  }
  case 18:
    cluster_service_move (engine, input (), "a", node);
    cluster_service_heard (engine, input (), "a", node,
                           hosts[member % HOSTS].id, member & 1);
    break;
  case 19: {
    struct cluster_import import = { .name = "a" };
    struct cluster_preflight flight;

    any_uuid (f, import.array);
    if (member < DISKS)
      import.without[member] = true;
    import.accept_loss = member & 1;
    cluster_preflight_import (engine, input (), &import, &flight);
    cluster_array_import (engine, input (), &import);
    break;
  }
  case 20:
  case 21: {
    struct cluster_allow allow = { .writable = member & 1,
                                   .failover = member & 2 };

    strcpy (allow.node, node);
    if (member & 4)
      cluster_allow_drop (engine, input (), "a", node, "administrator kim");
    else
      cluster_allow_set (engine, input (), "a", &allow, "administrator kim");
    break;
  }
  }
}

/* Makes every view from the reports. */
static void
look (void)
{
  const struct cluster_array *a;
  struct cluster_bad *bad;
  uint64_t exposed, unreachable, lost;
  struct cluster_job *jobs;
  static struct cluster_lease_map map;
  char text[4096];
  size_t count;

  cluster_verdict (engine, text, sizeof text);
  jobs = cluster_jobs (engine, &count);
  free (jobs);
  TAILQ_FOREACH (a, cluster_arrays (engine), link) {
    cluster_array_exposure (a, &exposed, &unreachable, &lost);
    cluster_array_survives (a, text, sizeof text);
    cluster_array_waits_for (engine, a, text, sizeof text);
    bad = NULL;
    cluster_array_bad (a, &bad);
    free (bad);
    cluster_array_bad_bytes (a);
    cluster_lease_map (engine, a, &map);
  }
}

static void
act (struct fuzz *f)
{
  unsigned what = one_of (f, 16, 3), who = fuzz_below (f, DISKS);
  struct fake_host *h = &hosts[who % HOSTS];

  switch (what) {
  case 0:
    live (f, 1 + fuzz_below (f, 8));
    return;
  case 1:
    disk_speaks (f, who, 1 + fuzz_below (f, 3), false);
    return;
  case 2:
    disk_speaks (f, who, 1, true);
    return;
  case 3:
    disks[who].silent = !disks[who].silent;
    return;
  case 4:
    snprintf (disks[who].hb.instance, 16, "d%u-%u", who, ++disks[who].starts);
    disks[who].op = 0;
    return;
  case 5:
    make_array (f);
    break;
  case 6:
    host_attaches (f, who % HOSTS, false);
    break;
  case 7:
    host_speaks (f, who % HOSTS, 1 + fuzz_below (f, 2));
    return;
  case 8:
    h->op = op + 1;
    cluster_session_lost (engine, input (), h->id, fuzz_below (f, DISKS + 1),
                          any_number (f, EPOCH_MAX), fuzz_below (f, 2),
                          any_number (f, EPOCH_MAX), "it is gone");
    break;
  case 9:
    cluster_session_detach (engine, input (), h->id);
    h->id = 0;
    break;
  case 10:
    cluster_session_evict (engine, input (), h->id, "administrator kim");
    break;
  case 11:
    administrate (f);
    break;
  case 12:
    tick (fuzz_below (f, 256) * 64);
    return;
  case 13:
    start_engine ();
    return;
  case 14:
    look ();
    return;
  case 15:
    live (f, (MEMBER_TTL_MS + HEARTBEAT_MS) / BEAT_MS);
    return;
  case 16:
    host_attaches (f, who % HOSTS, true);
    break;
  case 17:
    host_leases (f, who % HOSTS);
    return;
  case 18:
    h->silent = !h->silent;
    return;
  }
  pump ();
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  struct fuzz f = { data, size };

  fuzz_json_begin ();
  now_ms = 1000;
  op = 0;
  seed = 1;
  rounds_left = ROUNDS_MAX;
  memset (hosts, 0, sizeof hosts);
  for (unsigned i = 0; i < DISKS; i++) {
    struct cluster_disk_heartbeat *hb = &disks[i].hb;

    disks[i] = (struct fake_disk) { .silent = false };
    hb->uuid[0] = (uint8_t) (i + 1);
    snprintf (hb->instance, sizeof hb->instance, "d%u-0", i);
    snprintf (hb->node, sizeof hb->node, "n%u", i / 2);
    snprintf (hb->uri, sizeof hb->uri, "nbd://n%u:%u", i / 2, 10810 + i);
    snprintf (hb->path, sizeof hb->path, "/dev/d%u", i);
    strcpy (hb->cache, "boot 8:1 4");
    hb->data_bytes = GiB (1);
    hb->size = GiB (1) + HEADER_BYTES;
    hb->sequence = 2;
    hb->wait_ms = REST_MS;
  }
  start_engine ();
  for (unsigned i = 0; i < ACTIONS_MAX && f.left > 0; i++)
    act (&f);
  look ();
  start_engine ();
  while (stored > 0)
    free (store[--stored].record);
  for (unsigned i = 0; i < HOSTS; i++)
    spans_free (&hosts[i].has);
  cluster_free (engine);
  engine = NULL;
  fuzz_json_end ();
  return 0;
}

void
fuzz_seeds (void (*give) (const void *data, size_t size))
{
  static const uint8_t actions[] = {
    0,  0, 0,                          /* all disks register */
    5,  0, 0x30, 0,                    /* raid-x of four */
    15, 0,                             /* it gets ready */
    6,  0, 0,                          /* attached */
    15, 0, 7,    0, 0,  8, 5, 9,       /* figures */
    8,  0, 1,    0,                    /* member 1 is lost */
    15, 0, 15,   0,                    /* and comes back */
    2,  1, 28,   3, 1,                 /* with bad ranges */
    3,  2, 12,   0, 90,                /* disk 2 falls silent */
    14, 0, 15,   0, 1,  3, 0, 14, 130, /* a min_epoch of its own */
    13, 0, 15,   0, 9,  0,
  };
  static const uint8_t service[] = {
    0,  0, 1,  5, 0,  0x34, 1,     /* raid-1 of four */
    15, 0, 11, 0, 0,  17,          /* n0, n1 serve */
    6,  0, 8,  6, 1,  8,           /* both stand by */
    15, 0, 15, 0, 11, 0,    1, 18, /* it moves */
    15, 0, 11, 0, 0,  7,           /* n0 is fenced */
    15, 0, 11, 0, 2,  5,           /* n2 drains */
    15, 0, 14, 0,
  };

#define LIVE(rounds) 0, 0, rounds
#define ARRAY LIVE (1), 5, 0, 0x30, 0, 15, 0 /* raid-x of four, ready */
#define BY_LEASES(host) 240, host, 0, 9, LIVE (3)
#define GIVES(host, part) 241, host, 1, 1, part
#define ASKS(host, part) 241, host, 8, part, 0
#define WAITS(host, part) 241, host, 0x88, part, 0, 128
  /* clang-format off */

  /* Four units are n0's, and are asked back for two of them; weftd starts again, and all
   * declare what they have.
   */
  static const uint8_t revoke[] = {
    ARRAY, BY_LEASES (0), BY_LEASES (1), ASKS (0, 0x30), WAITS (1, 0x11),
    LIVE (3), 14, 0, 13, 0, LIVE (7), 14, 0, 241, 0, 1, 1, 0,
    WAITS (1, 0x00), WAITS (0, 0x21), LIVE (3), 9, 1, LIVE (3), 9, 0,
  };
  /* n1 dies, and what it had is recovered; then n0 is evicted. */
  static const uint8_t dead[] = {
    ARRAY, BY_LEASES (0), BY_LEASES (1), BY_LEASES (2), WAITS (1, 0x30),
    LIVE (1), 242, 1, WAITS (0, 0x11), LIVE (7), 14, 0, 15, 0, 15, 0,
    LIVE (7), 14, 0, ASKS (0, 0x32), 10, 0, LIVE (7), ASKS (2, 0x32), 14, 0,
  };
  /* Two processes of n0, who say nothing by themselves: one ends, the other knows. */
  static const uint8_t ended[] = {
    ARRAY, 240, 0, 0, 3, LIVE (7), 241, 0, 4, 240, 1, 0, 7, LIVE (7),
    ASKS (0, 0x30), LIVE (1), 242, 0, 13, 0, LIVE (2), 241, 1, 2, 0,
    241, 1, 0xa8, 0x11, 0, 0, 128, LIVE (7), 241, 1, 4, 14, 0,
    241, 1, 0x42, 4, 0x11, 0x22, 0x33, 0xff, 5, 5, LIVE (2),
  };
  /* Each asks for what the others have, for two ranges at once, and for more than that;
   * then for what is none; and declares what is another's.
   */
  static const uint8_t all_wait[] = {
    ARRAY, BY_LEASES (0), BY_LEASES (1), BY_LEASES (2), GIVES (0, 0xe0),
    ASKS (0, 0x10), ASKS (1, 0x12), ASKS (2, 0x14),
    241, 0, 0x90, 0x12, 0, 0x14, 1, 0x32, 128,
    241, 1, 0x90, 0x14, 0, 0x10, 1, 0x30, 128,
    241, 2, 0x90, 0x10, 0, 0x12, 0, 128, LIVE (1), 14, 0,
    LIVE (7), 14, 0, WAITS (2, 0x10), WAITS (2, 0x10), LIVE (3),
    241, 0, 8, 0x10, 1, 0x12, 241, 0, 8, 250, 1, 1, 0,
    13, 0, LIVE (1), WAITS (0, 0x10), 241, 1, 2, 2, 0x11, 0x10, LIVE (7), 14, 0,
  };
  /* n1 and n2 say nothing by themselves, and each has what the other asks for. */
  static const uint8_t crossed[] = {
    ARRAY, BY_LEASES (0), 240, 1, 0, 11, LIVE (7), 240, 2, 0, 11, LIVE (7),
    GIVES (0, 0xe0), ASKS (1, 0x10), ASKS (2, 0x12), WAITS (1, 0x32),
    WAITS (2, 0x30), LIVE (0), 14, 0, 12, 0, 60, 14, 0, 8, 1, 1, 0,
    WAITS (2, 0x36), LIVE (7), 9, 2, 242, 1, 15, 0, 15, 0, 14, 0,
  };
  /* n0 and n1 have a part each, n2 wants one that meets theirs, and reads; member 1 is
   * lost; n1 is not allowed any more.
   */
  static const uint8_t parts[] = {
    ARRAY, 240, 0, 0, 0, 0x30, LIVE (7), 240, 1, 1, 0, 0x34, LIVE (7),
    240, 2, 2, 8, 0x32, 6, 2, 6, LIVE (7), 8, 0, 1, 0, 15, 0,
    11, 4, 1, 240, 14, 0, 9, 0, 13, 0, LIVE (2),
  };

  /* clang-format on */

  for (size_t n = 2; n <= sizeof actions; n += 9)
    give (actions, n);
  give (actions, sizeof actions);
  give (service, sizeof service);
  give (revoke, sizeof revoke);
  give (dead, sizeof dead);
  give (ended, sizeof ended);
  give (all_wait, sizeof all_wait);
  give (crossed, sizeof crossed);
  give (parts, sizeof parts);
}
