/* test-cluster-rig.c: weftd's part, and everybody's life. */

#include <config.h>

#include <inttypes.h>

#include "test-cluster-rig.h"

struct rig rig;
static unsigned kill_next; /* the step at which the next rig kills weftd */

const uint8_t *
disk_uuid (unsigned disk)
{
  return rig.disk[disk].uuid;
}

/* ---- weftd's part. ---- */

static void
disk_hears (struct fake_disk *d, const struct cluster_disk *what)
{
  const struct cluster_array *a = what->array;
  uint64_t wanted = cluster_disk_min_epoch_wanted (what);
  struct cluster_join_order order;
  struct cluster_disk_told told;

  cluster_disk_told (engine, what, d->said.same, &told);
  d->taken = true;
  if (!told.same)
    memcpy (d->key, told.key, sizeof d->key);
  if (told.over_count && !d->holds)
    d->over = told.over[told.over_count - 1].number;
  memcpy (d->cluster, cluster_identity (engine)->uuid, 16);
  assert (cluster_identity (engine)->generation >= d->generation);
  d->generation = cluster_identity (engine)->generation;
  if (!cluster_uuid_is_zero (what->rec.release)) {
    if (cluster_uuid_equal (what->rec.release, d->array)) {
      memset (d->array, 0, 16);
      d->states_epoch = 0;
      memset (&d->join, 0, sizeof d->join);
      d->sequence++;
    }
    return; /* an assignment comes with it only when it is gone */
  }
  if (a == NULL)
    return;
  if (cluster_uuid_is_zero (d->array)) {
    memcpy (d->array, a->rec.uuid, 16);
    d->position = what->position;
    d->layout = a->layout;
    d->full = a->rec.member[d->position].state != MEMBER_IN_SYNC;
    d->sequence++;
  }
  assert (cluster_uuid_equal (d->array, a->rec.uuid));
  if (a->rec.epoch > d->states_epoch) {
    d->states_epoch = a->rec.epoch;
    for (unsigned m = 0; m < a->layout.members; m++)
      d->states[m] = (uint8_t) a->rec.member[m].state;
    d->sequence++;
  }
  if (wanted > d->min_epoch && !d->failed && !d->hangs) {
    d->min_epoch = wanted;
    d->sequence++;
    if (d->join.phase != CLUSTER_JOIN_NONE)
      d->join.phase = CLUSTER_JOIN_WAITING;
    d->join.epoch = 0;
  }
  if (d->states[d->position] != MEMBER_JOINING) {
    memset (&d->join, 0, sizeof d->join);
    if (d->states[d->position] == MEMBER_IN_SYNC)
      d->full = false;
    return;
  }
  if (d->join.phase == CLUSTER_JOIN_NONE)
    d->join.phase = CLUSTER_JOIN_WAITING;
  if (cluster_join_order (engine, a, d->position, &order)) {
    d->orders++;
    d->order = order;
    if (order.epoch != d->join.epoch) {
      d->join.epoch = order.epoch;
      d->join.phase = CLUSTER_JOIN_COPYING;
      d->left = d->full ? 8 : 2;
    }
  }
}

static void
hear (const struct cluster_output *o)
{
  if (o->op == rig.asked) {
    rig.asked = 0;
    rig.answered = true;
    rig.code = o->problem ? o->problem->code : NULL;
    rig.granted = o->reply == CLUSTER_REPLY_GRANT ? o->session->rec.id : 0;
    snprintf (rig.detail, sizeof rig.detail, "%s",
              o->problem ? o->problem->detail : "");
    assert (o->problem == NULL || o->problem->detail[0]);
    if (rig.look && o->problem == NULL)
      rig.look (o);
    return;
  }
  for (unsigned i = 0; i < DISKS; i++)
    if (o->op == rig.disk[i].op) {
      rig.disk[i].op = 0;
      rig.disk[i].refused = o->problem ? o->problem->code : NULL;
      if (o->problem && o->problem->over_count)
        rig.disk[i].over = o->problem->over[o->problem->over_count - 1].number;
      if (o->reply == CLUSTER_REPLY_DISK)
        disk_hears (&rig.disk[i], o->disk);
      return;
    }
  if (o->op != rig.attach_op && o->op != rig.beat_op)
    return;
  if (o->op == rig.beat_op)
    rig.beat_op = 0;
  else
    rig.attach_op = 0;
  if (o->reply == CLUSTER_REPLY_GRANT) {
    rig.attached = true;
    rig.session = o->session->rec.id;
    rig.volumes = o->session->rec.volumes;
  }
  if (o->reply == CLUSTER_REPLY_PROBLEM || rig.lags)
    return;
  rig.epoch = o->array->rec.epoch;
  rig.prepared = o->array->rec.change.sessions ? o->array->rec.change.epoch : 0;
}

static void
start (void)
{
  struct cluster_step *s;

  for (unsigned i = 0; i < DISKS; i++)
    rig.disk[i].op = 0;
  start_engine ();
  while ((s = cluster_next_step (engine)) != NULL) {
    for (size_t i = 0; i < s->records_count; i++)
      store_put (s->records[i]);
    cluster_step_free (s);
  }
}

void
restart (void)
{
  rig.attach_op = rig.beat_op = rig.asked = 0;
  weftd.now_ms += 100;
  start ();
}

static void
note (const char *text)
{
  size_t used = strlen (rig.log);

  snprintf (rig.log + used, sizeof rig.log - used, "%s\n", text);
}

void
pump (void)
{
  struct cluster_step *s;
  bool killed = false;

  cluster_check (engine);
  while ((s = cluster_next_step (engine)) != NULL) {
    if (!killed) {
      for (size_t i = 0; i < s->records_count; i++)
        store_put (s->records[i]);
      if (s->records_count && ++rig.steps == weftd.kill_at && !rig.spared)
        killed = true;
    }
    for (size_t i = 0; !killed && i < s->outputs_count; i++)
      if (s->outputs[i].kind == CLUSTER_OUTPUT_REPLY)
        hear (&s->outputs[i]);
      else if (s->outputs[i].kind == CLUSTER_OUTPUT_CHANGED &&
               s->outputs[i].object == CLUSTER_ARRAY)
        rig.array_events++;
      else if (s->outputs[i].kind == CLUSTER_OUTPUT_LOG) {
        rig.warnings += s->outputs[i].severity == CLUSTER_WARNING;
        rig.errors += s->outputs[i].severity == CLUSTER_ERROR;
        if (s->outputs[i].severity >= CLUSTER_WARNING)
          note (s->outputs[i].text);
      }
    cluster_step_free (s);
  }
  if (killed) {
    weftd.killed = true;
    restart ();
  }
}

void
lose_database (void)
{
  weftd.stored = 0;
  weftd.random += 77;
  rig.steps = 0;
  rig.spared = false;
  start ();
}

/* ---- Everybody's life. ---- */

static bool
said_again (const struct cluster_disk_heartbeat *a,
            const struct cluster_disk_heartbeat *b)
{
  return strcmp (a->instance, b->instance) == 0 &&
         memcmp (a->array, b->array, 16) == 0 && a->min_epoch == b->min_epoch &&
         a->states_epoch == b->states_epoch && a->generation == b->generation &&
         a->state == b->state && a->over == b->over &&
         memcmp (&a->join, &b->join, sizeof a->join) == 0;
}

static void
disk_beat (struct fake_disk *d)
{
  struct cluster_disk_heartbeat hb = { .uri = "nbd://127.0.0.1:1",
                                       .size = d->data_bytes + MiB (1),
                                       .data_bytes = d->data_bytes,
                                       .position = d->position,
                                       .min_epoch = d->min_epoch,
                                       .generation = d->generation,
                                       .states_epoch = d->states_epoch,
                                       .sequence = d->sequence,
                                       .round = d->lie ? d->lie : d->round,
                                       .over = d->over,
                                       .state = d->gone     ? DISK_REMOVED
                                                : d->failed ? DISK_FAILED
                                                            : DISK_SERVING,
                                       .wait_ms = 500,
                                       .join = d->join,
                                       .proven = rig.proven,
                                       .has_place = !cluster_uuid_is_zero (
                                         d->array) };

  if (!d->silent)
    d->silent_since_ms = weftd.now_ms;
  hb.disk_stuck_ms = weftd.now_ms - d->silent_since_ms;
  if (hb.has_place) {
    hb.layout = d->layout.kind;
    hb.n = d->layout.n;
    hb.groups = d->layout.groups;
    hb.unit = d->layout.unit;
    hb.member_bytes = d->layout.member_bytes;
  }
  memcpy (hb.uuid, d->uuid, 16);
  memcpy (hb.cluster, d->cluster, 16);
  memcpy (hb.array, d->array, 16);
  memcpy (hb.states, d->states, sizeof hb.states);
  snprintf (hb.instance, sizeof hb.instance, "%s", d->instance);
  snprintf (hb.cache, sizeof hb.cache, "%s", d->cache ? d->cache : "");
  if (d->node)
    snprintf (hb.node, sizeof hb.node, "%s", d->node);
  else
    snprintf (hb.node, sizeof hb.node, "n%u", d->uuid[0]);
  snprintf (hb.path, sizeof hb.path, "/dev/d%s", d->instance);
  if (rig.brief) {
    hb.report = d->said.report;
    hb.same = d->taken;
    if (!d->taken || !said_again (&hb, &d->said)) {
      hb.same = false;
      hb.report++;
    }
    d->said = hb;
    d->taken = false;
  }
  CALL (d->op = ++weftd.op, cluster_disk_heartbeat (engine, in, &hb));
}

static void
host_beat (void)
{
  struct cluster_session_heartbeat hb = { .epoch = rig.epoch,
                                          .prepared = rig.prepared,
                                          .round = rig.round,
                                          .round_entered = rig.round_entered,
                                          .volumes = rig.volumes,
                                          .wait_ms = 0,
                                          .older = rig.older,
                                          .has_stats = rig.busy || rig.slow };

  snprintf (hb.instance, sizeof hb.instance, "%s", rig.instance);
  hb.stats.reads = rig.reads += 100;
  hb.stats.read_ns = rig.reads * 1000000;
  for (unsigned m = 0; m < DISKS; m++) {
    hb.stats.member[m].suspect = rig.slow & 1u << m;
    hb.stats.member[m].service_ns = rig.slow & 1u << m ? 2000000000 : 400000;
  }
  CALL (rig.beat_op = ++weftd.op,
        cluster_session_heartbeat (engine, in, rig.session, &hb));
}

const struct cluster_over *
over (uint64_t session)
{
  const struct cluster_array_record *r = &array ()->rec;

  for (unsigned i = 0; i < r->over_count; i++)
    if (r->over[i].session == session)
      return &r->over[i];
  return NULL;
}

/* Do the members that it copies from take its tokens? */
static bool
may_copy (const struct fake_disk *d)
{
  const struct cluster_array *a = array ();

  return a == NULL || !cluster_uuid_equal (d->array, a->rec.uuid) ||
         over (cluster_shut_source (a, d->position)) == NULL;
}

void
live (void)
{
  weftd.now_ms += CLUSTER_TICK_MS;
  for (unsigned i = 0; i < DISKS; i++) {
    struct fake_disk *d = &rig.disk[i];

    if (d->dead)
      continue;
    if (d->join.phase == CLUSTER_JOIN_COPYING && !d->stuck &&
        !d->order.paused && may_copy (d) && d->left-- == 0) {
      d->join.phase = CLUSTER_JOIN_SYNCED;
      d->round = rig.attached ? rig.round : d->order.round;
      d->full = false;
      d->left = 0;
    }
    if (d->op == 0)
      disk_beat (d);
  }
  if (rig.attached)
    host_beat ();
  CALL (0, cluster_tick (engine, in));
}

bool
on (unsigned m, unsigned disk)
{
  return memcmp (array ()->disk[m]->rec.uuid, rig.disk[disk].uuid, 16) == 0;
}

void
rig_init (void)
{
  weftd_init (1);
  weftd.kill_at = kill_next;
  memset (&rig, 0, sizeof rig);
  snprintf (rig.instance, sizeof rig.instance, "h");
  for (unsigned i = 0; i < DISKS; i++) {
    memset (rig.disk[i].uuid, (int) i + 1, 16);
    snprintf (rig.disk[i].instance, 16, "%u", i);
    rig.disk[i].data_bytes = MiB (255) + (i >= MEMBERS ? MiB (i) : 0);
  }
  start ();
}

void
make_array_of (const char *name, enum layout_kind layout, unsigned first,
               unsigned members)
{
  struct cluster_create create = create_of (name, layout, first, members);

  create.pool = rig.pool;
  live_on (4);
  do {
    ASK (cluster_array_create (engine, in, &create));
    live_on (4);
  } while (cluster_array_find (engine, name) == NULL);
  UNTIL (cluster_array_find (engine, name)->rec.ready);
}

void
make_array (void)
{
  make_array_of ("a", LAYOUT_RAIDX, 0, MEMBERS);
}

void
begin_array (void)
{
  rig_init ();
  make_array ();
}

void
begin_array_of (enum layout_kind layout, unsigned members)
{
  rig_init ();
  make_array_of ("a", layout, 0, members);
}

static struct cluster_attach
host_words (bool writable)
{
  struct cluster_attach at = { .node = "host",
                               .pid = 7,
                               .writable = writable,
                               .by_admin = true,
                               .pools = rig.pool };

  snprintf (at.instance, sizeof at.instance, "%s", rig.instance);
  return at;
}

void
attach_refused (const char *why)
{
  struct cluster_attach at = host_words (true);

  ASK (cluster_attach (engine, in, "a", &at));
  assert (rig.code && strcmp (rig.code, why) == 0);
}

void
attach (bool writable)
{
  struct cluster_attach at = host_words (writable);
  unsigned n = 0;

  while (!rig.attached) {
    assert (++n < 4000);
    if (rig.attach_op == 0)
      CALL (rig.attach_op = ++weftd.op, cluster_attach (engine, in, "a", &at));
    live ();
  }
}

unsigned
attach_without_first (void)
{
  unsigned last = 1;

  begin_array_of (LAYOUT_RAID10, 4);
  rig.disk[0].dead = true;
  attach (true);
  assert (state (0) == MEMBER_OUT);
  while (cluster_copies_can_leave_out (array (), last))
    last++;
  return last;
}

void
detach (void)
{
  rig.attached = false;
  rig.beat_op = 0;
  CALL (++weftd.op, cluster_session_detach (engine, in, rig.session));
}

void
report (unsigned m)
{
  CALL (++weftd.op, cluster_session_lost (engine, in, rig.session, m, rig.round,
                                          false, 0, "it is gone"));
}

void
lose (unsigned m)
{
  while (state (m) != MEMBER_OUT) {
    report (m);
    if (state (m) != MEMBER_OUT)
      live ();
  }
}

void
die (unsigned m)
{
  rig.disk[m].dead = true;
  lose (m);
}

void
copy_on (unsigned m)
{
  rig.disk[m].stuck = true;
  lose (m);
  UNTIL (rig.disk[m].join.phase == CLUSTER_JOIN_COPYING);
}

void
spare_after (uint64_t ms)
{
  struct cluster_array_tune tune = { .has_spare_after = true,
                                     .spare_after_ms = ms };

  DONE (cluster_array_tune (engine, in, "a", &tune));
}

void
pause_copying (unsigned m, bool paused)
{
  struct cluster_member_tune tune = { .has_paused = true, .paused = paused };

  DONE (cluster_member_tune (engine, in, "a", m, &tune));
}

void
stop (unsigned disk)
{
  rig.disk[disk].dead = true;
  UNTIL (!known (disk)->alive);
}

void
stop_members (void)
{
  for (unsigned m = 0; m < MEMBERS; m++)
    rig.disk[m].dead = true;
  live_on (60);
}

void
start_again (unsigned disk)
{
  static unsigned starts;
  struct fake_disk *d = &rig.disk[disk];

  snprintf (d->instance, sizeof d->instance, "%u-%u", disk, ++starts);
  d->dead = false;
  d->op = 0;
}

struct fake_disk
yesterday_of (unsigned disk)
{
  struct fake_disk yesterday;

  live_on (60);
  yesterday = rig.disk[disk];
  rig.disk[disk].sequence += 5;
  live_on (60);
  return yesterday;
}

void
put (unsigned disk, const struct fake_disk *what)
{
  rig.disk[disk] = *what;
  start_again (disk);
}

void
rebuilt_in_full (unsigned m)
{
  UNTIL (state (m) == MEMBER_JOINING);
  assert (rig.disk[m].full);
  UNTIL (state (m) == MEMBER_IN_SYNC);
}

void
begin_writing (void)
{
  begin_writing_to (LAYOUT_RAIDX, MEMBERS);
}

void
begin_writing_to (enum layout_kind layout, unsigned members)
{
  begin_array_of (layout, members);
  attach (true);
}

struct fake_disk *
begin_copying (enum layout_kind layout, unsigned members)
{
  begin_writing_to (layout, members);
  copy_on (1);
  return &rig.disk[1];
}

void
test_kills (const char *name, void (*scenario) (void))
{
  kill_next = 0;
  do {
    scenario ();
    kill_next++;
  } while (kill_next == 1 || weftd.killed);
  assert (kill_next > 11);
  printf ("%s: killed at each of %u steps\n", name, kill_next - 2);
  kill_next = 0;
}
