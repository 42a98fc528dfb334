/* test-cluster-volume.c: volumes of a pool: whose each segment is, messages that are asked
 * again, orders, and what is refused.
 *
 * The test keeps the segments of each volume as a process does: granted, and not given
 * back.  After each message none of these is another volume's (V1), and weftd has all of
 * them, so they come back with the next opening.
 *
 * WEFT_SEED replays the random part.
 */

#include <config.h>

#include <inttypes.h>

#include "cluster/cluster-preflight.h"
#include "test-cluster-rig.h"
#include "test-random.h"

#define SEGMENTS 600
#define VOLUMES 3

/* A volume as the process has it. */
static struct held {
  const char *name;
  uint8_t uuid[16];
  bool open;
  bool has[SEGMENTS];
} held[VOLUMES];

static const struct cluster_output *last; /* the last good answer */
static struct cluster_run got[VOLUMES * VOLUME_RUNS_MAX];
static unsigned gots, got_of[VOLUMES * VOLUME_RUNS_MAX];
static enum cluster_reply_kind kind;
static uint64_t asked_number; /* of the message that is answered */

static struct held *
held_of (const uint8_t uuid[16])
{
  for (unsigned i = 0; i < VOLUMES; i++)
    if (memcmp (held[i].uuid, uuid, 16) == 0)
      return &held[i];
  return NULL;
}

/* Note what the answer grants. */
static void
look (const struct cluster_output *o)
{
  const struct cluster_volume *v = NULL;
  struct cluster_run *runs;
  unsigned count;

  last = o;
  kind = o->reply;
  gots = 0;
  if (o->reply == CLUSTER_REPLY_OPENED) {
    memcpy (held_of (o->volume->rec.uuid)->uuid, o->volume->rec.uuid, 16);
    runs = cluster_volume_runs (o->array, o->volume, &count);
    for (unsigned i = 0; i < count; i++) {
      got_of[gots] = (unsigned) (held_of (o->volume->rec.uuid) - held);
      got[gots++] = runs[i];
    }
    free (runs);
  }
  else if (o->reply == CLUSTER_REPLY_VOLUMES)
    while ((v = cluster_volume_granted (o->session, asked_number, v)))
      for (unsigned i = 0; i < v->rec.granted; i++) {
        got_of[gots] = (unsigned) (held_of (v->rec.uuid) - held);
        got[gots++] = v->rec.grant[i];
      }
}

static unsigned
count_of (const struct held *h)
{
  unsigned count = 0;

  for (unsigned s = 0; s < SEGMENTS; s++)
    count += h->has[s];
  return count;
}

/* V1: weftd has each segment of the process as that volume's. */
static void
check (void)
{
  const struct cluster_pool *p = array ()->pool;

  assert (p->geometry.segments <= SEGMENTS);
  for (unsigned i = 0; i < VOLUMES; i++) {
    const struct cluster_volume *v = cluster_volume_find (array (),
                                                          held[i].name);

    for (unsigned s = 0; s < SEGMENTS; s++) {
      if (!held[i].has[s])
        continue;
      assert (v && s >= p->first && p->owner[s] == v->rec.root + 1);
      for (unsigned k = 0; k < i; k++)
        assert (!held[k].has[s]);
    }
  }
}

static void
take (void)
{
  for (unsigned i = 0; i < gots; i++)
    for (unsigned s = got[i].first; s < got[i].first + got[i].count; s++) {
      for (unsigned k = 0; k < VOLUMES; k++)
        assert (!held[k].has[s]);
      held[got_of[i]].has[s] = true;
    }
}

static void
begin (void)
{
  static const char *const names[VOLUMES] = { "v0", "v1", "v2" };

  rig_init ();
  rig.pool = true;
  make_array ();
  rig.look = look;
  memset (held, 0, sizeof held);
  for (unsigned i = 0; i < VOLUMES; i++)
    held[i].name = names[i];
  attach (true);
}

static void
create (struct held *h, uint64_t size)
{
  ASK (cluster_volume_create (engine, in, "a", h->name, size));
  /* weftd may have died when it had stored it */
  assert (rig.code == NULL ||
          (weftd.killed && strcmp (rig.code, "exists") == 0));
  memcpy (h->uuid, cluster_volume_find (array (), h->name)->rec.uuid, 16);
}

/* At an opening weftd names all segments that the process had, and perhaps some that it was
 * granted by an answer that was lost.
 */
static void
open_volume (struct held *h)
{
  bool had[SEGMENTS];

  do {
    ASK (cluster_volume_open (engine, in, rig.session, rig.instance, h->name));
    if (rig.code && strcmp (rig.code, "starting") == 0)
      live_on (8);
  } while (rig.code && strcmp (rig.code, "starting") == 0);
  FINE ();
  assert (kind == CLUSTER_REPLY_OPENED);
  memcpy (had, h->has, sizeof had);
  memset (h->has, 0, sizeof h->has);
  take ();
  for (unsigned s = 0; s < SEGMENTS; s++)
    assert (!had[s] || h->has[s]);
  h->open = true;
  check ();
}

/* ---- Messages. ---- */

static struct cluster_volume_report entry[VOLUMES];
static struct cluster_run given[VOLUMES][8];
static struct cluster_order_done order_done;
static struct cluster_volumes_message sent;

static struct cluster_volumes_message *
message (void)
{
  memset (entry, 0, sizeof entry);
  sent = (struct cluster_volumes_message) { .number = rig.volumes + 1,
                                            .volume = entry,
                                            .done = &order_done };
  snprintf (sent.instance, sizeof sent.instance, "%s", rig.instance);
  return &sent;
}

static struct cluster_volume_report *
add (const struct held *h, uint32_t want)
{
  struct cluster_volume_report *e = &entry[sent.volumes];

  memcpy (e->uuid, h->uuid, 16);
  e->give = given[sent.volumes++];
  e->want = want;
  return e;
}

static void
give (struct cluster_volume_report *e, struct held *h, uint32_t first,
      uint32_t count)
{
  e->give[e->give_count++] = (struct cluster_run) { first, count };
  memset (&h->has[first], 0, count * sizeof h->has[0]);
}

/* Send it until it is answered. */
static void
say (void)
{
  asked_number = sent.number;
  do {
    ASK (cluster_session_volumes (engine, in, rig.session, &sent));
    if (rig.code && strcmp (rig.code, "starting") == 0)
      live_on (8);
  } while (rig.code && strcmp (rig.code, "starting") == 0);
  FINE ();
  assert (kind == CLUSTER_REPLY_VOLUMES);
  rig.volumes = sent.number;
  take ();
  check ();
}

static void
want (struct held *h, uint32_t segments)
{
  message ();
  add (h, segments);
  say ();
}

/* Its root is durable, and the pool has its header. */
static void
made (struct held *h, uint64_t size)
{
  struct cluster_volume_report *e;

  message ()->formatted = true;
  e = add (h, 0);
  e->says = true;
  e->said = (struct cluster_volume_said) { .made = true, .size = size };
  say ();
}

static void
order_is_done (uint64_t number, const char *error)
{
  message ()->dones = 1;
  order_done.number = number;
  snprintf (order_done.error, sizeof order_done.error, "%s", error);
  say ();
}

static struct cluster_volume *
volume (const char *name)
{
  return cluster_volume_find (array (), name);
}

/* The host dies; another process of it attaches. */
static void
host_dies (void)
{
  static unsigned starts;

  rig.attached = false;
  rig.beat_op = 0;
  live_on (SESSION_TTL_MS / CLUSTER_TICK_MS + 8);
  snprintf (rig.instance, sizeof rig.instance, "h%u", ++starts);
  for (unsigned i = 0; i < VOLUMES; i++)
    held[i].open = false;
  attach (true);
}

/* ---- Grants. ---- */

static void
scenario_grants (void)
{
  struct cluster_volume_report *e;
  unsigned before;

  begin ();
  create (&held[0], MiB (64));
  create (&held[1], MiB (64));
  open_volume (&held[0]);
  open_volume (&held[1]);
  assert (count_of (&held[0]) == VOLUME_WINDOW_MIN);
  made (&held[0], MiB (64));
  assert (array ()->rec.pool == CLUSTER_POOL_READY);
  want (&held[0], 32);
  assert (count_of (&held[0]) == VOLUME_WINDOW_MIN + 32);
  message ();
  e = add (&held[0], 8);
  for (unsigned s = 0, n = 0; n < 4; s++)
    if (held[0].has[s]) {
      give (e, &held[0], s, 1);
      n++;
      s++;
    }
  add (&held[1], 16);
  before = count_of (&held[0]);
  say ();
  assert (count_of (&held[0]) == before + 8);
  assert (count_of (&held[1]) == VOLUME_WINDOW_MIN + 16);
  host_dies ();
  open_volume (&held[0]);
  open_volume (&held[1]);
  assert (count_of (&held[0]) == before + 8);
  assert (rig.volumes == 0);
  want (&held[1], 4);
}

/* An answer is lost, and the message is sent again: it gets the same answer, also from a
 * weftd that was started again; and nothing is carried out twice.
 */
static void
test_again (void)
{
  struct cluster_run first[8];
  struct cluster_volume_report *e;
  unsigned runs;

  for (unsigned again = 0; again < 3; again++) {
    begin ();
    create (&held[0], MiB (64));
    create (&held[1], MiB (64));
    open_volume (&held[0]);
    open_volume (&held[1]);
    message ();
    e = add (&held[0], 20);
    e->near = 400;
    give (e, &held[0], array ()->pool->first, 2);
    add (&held[1], 24);
    asked_number = sent.number;
    /* the answer to nobody is lost */
    CALL (++weftd.op, cluster_session_volumes (engine, in, rig.session, &sent));
    runs = volume ("v0")->rec.granted;
    memcpy (first, volume ("v0")->rec.grant, sizeof first);
    assert (runs == 1 && first[0].first == 400 && first[0].count == 20);
    if (again > 0) {
      restart ();
      live_on (8);
    }
    if (again > 1) /* it says at first that it knows of less */
      assert (array ()->rec.pool == CLUSTER_POOL_BLANK);
    say ();
    assert (volume ("v0")->segments == VOLUME_WINDOW_MIN + 18);
    assert (memcmp (first, volume ("v0")->rec.grant, runs * sizeof *first) ==
            0);
    assert (gots == 2);
    assert (count_of (&held[0]) == VOLUME_WINDOW_MIN - 2 + 20);
    assert (count_of (&held[1]) == VOLUME_WINDOW_MIN + 24);
    /* an old one is refused */
    message ()->number = rig.volumes - 1;
    REFUSED ("number",
             cluster_session_volumes (engine, in, rig.session, &sent));
    message ()->number = 0;
    REFUSED ("number",
             cluster_session_volumes (engine, in, rig.session, &sent));
  }
}

/* Any message, answer lost or not, weftd killed or not, host dead or not. */
static void
test_walk (void)
{
  for (unsigned round = 0; round < 12; round++) {
    begin ();
    weftd.random ^= test_random (UINT32_MAX);
    for (unsigned i = 0; i < VOLUMES; i++) {
      create (&held[i], MiB (64));
      open_volume (&held[i]);
    }
    for (unsigned step = 0; step < 120; step++) {
      unsigned what = (unsigned) (rnd () % 24);

      if (what == 0)
        host_dies ();
      else if (what == 1) {
        restart ();
        live_on (8);
      }
      for (unsigned i = 0; i < VOLUMES; i++)
        if (!held[i].open)
          open_volume (&held[i]);
      message ();
      for (unsigned i = 0; i < VOLUMES; i++) {
        struct cluster_volume_report *e;

        if (rnd () % 3 == 0)
          continue;
        e = add (&held[i], (uint32_t) (rnd () % 80));
        e->log = (uint32_t) (rnd () % 8);
        e->near = (uint32_t) (rnd () % (SEGMENTS + 50));
        for (unsigned n = rnd () % 6, s; n > 0; n--) {
          s = (unsigned) (rnd () % SEGMENTS);
          if (held[i].has[s])
            give (e, &held[i], s, 1);
        }
      }
      asked_number = sent.number;
      if (rnd () % 4 == 0) {
        CALL (++weftd.op,
              cluster_session_volumes (engine, in, rig.session, &sent));
        if (rnd () % 2 == 0) {
          restart ();
          live_on (8);
        }
        if (rnd () % 4 == 0) {
          host_dies (); /* before it has heard the answer */
          continue;
        }
      }
      say ();
    }
  }
}

/* ---- A full pool. ---- */

static void
test_full (void)
{
  const struct cluster_pool *p;
  struct cluster_volume_report *e;

  begin ();
  p = array ()->pool;
  create (&held[0], MiB (64));
  create (&held[1], MiB (64));
  create (&held[2], MiB (64));
  open_volume (&held[0]);
  open_volume (&held[1]);
  assert (verdict () == CLUSTER_INFO);
  while (p->free * 5 > p->geometry.segments - p->first)
    want (&held[0], 16);
  assert (verdict () == CLUSTER_WARNING && says ("Pool a is 8"));
  while (p->free > 20)
    want (&held[0], 8);
  assert (verdict () == CLUSTER_ERROR && says ("Pool a is 9"));
  want (&held[0], 1000);
  assert (p->free == POOL_LOG_SEGMENTS_MIN);
  want (&held[1], 1);
  assert (gots == 0);
  message ();
  e = add (&held[1], 3);
  e->log = 1; /* of it one is for its log, and there is room for that */
  say ();
  assert (gots == 1 && p->free == POOL_LOG_SEGMENTS_MIN - 1);
  open_volume (&held[2]);
  assert (count_of (&held[2]) == 0);
  message ();
  e = add (&held[1], 1);
  e->says = true;
  e->said.waiting = 2;
  say ();
  live_on (12);
  assert (says ("Writes to volume a/v1 have waited for space for 3 s."));
  message ();
  e = add (&held[1], 1);
  e->says = true;
  give (e, &held[0], p->first, 0); /* nonsense: no segment */
  REFUSED ("run", cluster_session_volumes (engine, in, rig.session, &sent));
  message ();
  e = add (&held[0], 0);
  give (e, &held[0], p->first, 16);
  e = add (&held[1], 8);
  e->says = true;
  say ();
  assert (count_of (&held[1]) > VOLUME_WINDOW_MIN + 1);
  assert (!says ("have waited for space"));
}

/* Little is left: one volume does not get all of it. */
static void
test_shares (void)
{
  begin ();
  create (&held[0], MiB (64));
  open_volume (&held[0]);
  want (&held[0], 1000);
  assert (gots == 1 &&
          got[0].count ==
            (array ()->pool->geometry.segments - array ()->pool->first -
             VOLUME_WINDOW_MIN - POOL_LOG_SEGMENTS_MIN) /
              4);
}

/* ---- Orders. ---- */

static void
scenario_orders (void)
{
  uint64_t order;

  begin ();
  create (&held[0], MiB (64));
  create (&held[1], MiB (64));
  /* No process has opened it: it is a record alone. */
  DONE (cluster_volume_resize (engine, in, "a", "v1", MiB (80)));
  assert (volume ("v1")->rec.size == MiB (80));
  ASK (cluster_volume_delete (engine, in, "a", "v1"));
  assert (rig.code == NULL || strcmp (rig.code, "unknown-volume") == 0);
  assert (volume ("v1") == NULL);
  open_volume (&held[0]);
  made (&held[0], MiB (64));
  /* Answered when it is carried out. */
  rig.answered = false;
  CALL (rig.asked = ++weftd.op,
        cluster_volume_resize (engine, in, "a", "v0", MiB (100)));
  if (volume ("v0")->order.number) {
    assert (!rig.answered && volume ("v0")->rec.size == MiB (64));
    order_done.number = volume ("v0")->order.number;
    message ()->dones = 1;
    order_done.error[0] = '\0';
    say ();
    assert (weftd.killed || volume ("v0")->rec.size == MiB (100));
  }
  rig.asked = 0;
  /* Deleting: the state is stored, and ordered again. */
  CALL (++weftd.op, cluster_volume_delete (engine, in, "a", "v0"));
  if (volume ("v0")->rec.state !=
      CLUSTER_VOLUME_DELETING) /* weftd died before */
    CALL (++weftd.op, cluster_volume_delete (engine, in, "a", "v0"));
  order = volume ("v0")->order.number;
  assert (order && volume ("v0")->rec.state == CLUSTER_VOLUME_DELETING);
  live_on (ORDER_MS / CLUSTER_TICK_MS + 2);
  host_dies ();
  assert (volume ("v0")->order.number > order);
  memset (held[0].has, 0, sizeof held[0].has);
  order_is_done (volume ("v0")->order.number, "");
  assert (volume ("v0") == NULL);
  assert (array ()->pool->free ==
          array ()->pool->geometry.segments - array ()->pool->first);
}

static void
test_orders (void)
{
  uint64_t order;

  begin ();
  create (&held[0], MiB (64));
  open_volume (&held[0]);
  made (&held[0], MiB (64));
  /* The process refuses. */
  for (int what = 0; what < 2; what++) {
    rig.answered = false;
    if (what == 0)
      CALL (rig.asked = ++weftd.op,
            cluster_volume_resize (engine, in, "a", "v0", MiB (100)));
    else
      CALL (rig.asked = ++weftd.op,
            cluster_volume_delete (engine, in, "a", "v0"));
    order = rig.asked;
    assert (!rig.answered);
    rig.asked = 0;
    order_is_done (volume ("v0")->order.number, "2 clients are connected");
    assert (volume ("v0")->order.number == 0 && order);
    assert (volume ("v0")->rec.size == MiB (64));
    assert (volume ("v0")->rec.state ==
            (what == 0 ? CLUSTER_VOLUME_MADE : CLUSTER_VOLUME_TOLD));
  }
  /* Nobody answers in time; the order stays, and is not given twice. */
  rig.answered = false;
  CALL (rig.asked = ++weftd.op,
        cluster_volume_resize (engine, in, "a", "v0", MiB (100)));
  live_on (ORDER_MS / CLUSTER_TICK_MS - 1);
  assert (!rig.answered);
  live_on (2);
  assert (rig.answered && strcmp (rig.code, "no-answer") == 0);
  REFUSED ("busy", cluster_volume_resize (engine, in, "a", "v0", MiB (101)));
  REFUSED ("busy", cluster_volume_delete (engine, in, "a", "v0"));
  order_is_done (volume ("v0")->order.number, "");
  assert (volume ("v0")->rec.size == MiB (100));
  /* The process ends meanwhile. */
  rig.answered = false;
  CALL (rig.asked = ++weftd.op,
        cluster_volume_resize (engine, in, "a", "v0", MiB (120)));
  detach ();
  assert (rig.answered && strcmp (rig.code, "no-holder") == 0);
  REFUSED ("no-holder",
           cluster_volume_resize (engine, in, "a", "v0", MiB (120)));
  /* Without a process it is gone for people at once. */
  DONE (cluster_volume_delete (engine, in, "a", "v0"));
  assert (kind == CLUSTER_REPLY_VOLUME &&
          volume ("v0")->rec.state == CLUSTER_VOLUME_DELETING);
  REFUSED ("deleting",
           cluster_volume_resize (engine, in, "a", "v0", MiB (120)));
  attach (true);
  REFUSED ("deleting",
           cluster_volume_open (engine, in, rig.session, rig.instance, "v0"));
  memset (held[0].has, 0, sizeof held[0].has);
  order_is_done (volume ("v0")->order.number, "");
  assert (volume ("v0") == NULL);
}

/* A heartbeat's poll is answered at once when there is an order. */
static void
test_told (void)
{
  struct cluster_session_heartbeat hb = { .wait_ms = 2000 };
  uint64_t op;

  begin ();
  create (&held[0], MiB (64));
  open_volume (&held[0]);
  made (&held[0], MiB (64));
  live_on (4);
  hb.epoch = rig.epoch;
  hb.volumes = rig.volumes;
  snprintf (hb.instance, sizeof hb.instance, "%s", rig.instance);
  CALL (op = rig.beat_op = ++weftd.op,
        cluster_session_heartbeat (engine, in, rig.session, &hb));
  assert (rig.beat_op == op);
  CALL (++weftd.op, cluster_volume_resize (engine, in, "a", "v0", MiB (100)));
  assert (rig.beat_op == 0);
  /* The next one is held: it brings nothing new. */
  CALL (op = rig.beat_op = ++weftd.op,
        cluster_session_heartbeat (engine, in, rig.session, &hb));
  assert (rig.beat_op == op);
}

/* ---- An old database. ---- */

static void
test_old_database (void)
{
  static struct weftd before;

  for (int how = 0; how < 3; how++) {
    begin ();
    create (&held[0], MiB (64));
    open_volume (&held[0]);
    made (&held[0], MiB (64));
    live_on (8);
    before = weftd;
    want (&held[0], 20);
    want (&held[0], 20);
    memcpy (weftd.store, before.store, sizeof weftd.store);
    weftd.stored = before.stored;
    restart ();
    if (how == 0)
      live_on (8); /* a heartbeat tells it */
    else {
      /* the next message does */
      rig.attached = how == 2;
      live_on (8);
      message ();
      add (&held[0], 16);
      ASK (cluster_session_volumes (engine, in, rig.session, &sent));
      assert (strcmp (rig.code, "scanning") == 0);
      rig.attached = true;
    }
    assert (array ()->rec.pool == CLUSTER_POOL_UNSCANNED);
    assert (says ("may be older than pool a"));
    ASK (cluster_volume_open (engine, in, rig.session, rig.instance, "v0"));
    assert (strcmp (rig.code, "scanning") == 0);
    REFUSED ("scanning",
             cluster_volume_create (engine, in, "a", "v1", MiB (64)));
    REFUSED ("scanning", cluster_volume_delete (engine, in, "a", "v0"));
  }
}

/* ---- A scan. ---- */

#define FOUND_MAX 32
static struct cluster_found_volume found[FOUND_MAX];
static struct cluster_run found_run[FOUND_MAX][SEGMENTS];
static struct cluster_scan_message scan;

/* The process finds this volume, with at most `most` of its segments. */
static struct cluster_found_volume *
find (const struct held *h, unsigned root, uint64_t size, unsigned most)
{
  struct cluster_found_volume *w = &found[scan.volumes];

  memset (w, 0, sizeof *w);
  w->root = root;
  w->run = found_run[scan.volumes++];
  memcpy (w->found.uuid, h->uuid, 16);
  snprintf (w->found.name, sizeof w->found.name, "%s", h->name);
  w->found.size = size;
  for (unsigned s = 0; s < SEGMENTS; s++)
    if (h->has[s] && most-- > 0)
      w->run[w->runs++] = (struct cluster_run) { s, 1 };
  return w;
}

static struct cluster_scan_message *
begin_scan (void)
{
  scan = (struct cluster_scan_message) { .begin = true,
                                         .end = true,
                                         .volume = found };
  snprintf (scan.instance, sizeof scan.instance, "%s", rig.instance);
  return &scan;
}

#define SCAN() cluster_session_scan (engine, in, rig.session, &scan)

static void
scanned (void)
{
  do {
    ASK (SCAN ());
    if (rig.code && strcmp (rig.code, "starting") == 0)
      live_on (8);
  } while (rig.code && strcmp (rig.code, "starting") == 0);
  FINE ();
  assert (kind == CLUSTER_REPLY_SCANNED);
}

/* weftd is restored from a backup of this store, and the host attaches again. */
static void
restore (const struct weftd *backup)
{
  memcpy (weftd.store, backup->store, sizeof weftd.store);
  weftd.stored = backup->stored;
  for (size_t i = 0; i < weftd.stored; i++)
    if (weftd.store[i].kind == CLUSTER_RECORD_IDENTITY)
      weftd.store[i].identity.restore = true;
  rig.attached = false;
  rig.beat_op = 0;
  restart ();
  UNTIL (!array ()->rec.restoring);
  snprintf (rig.instance, sizeof rig.instance, "again");
  attach (true);
}

static struct weftd backup;

/* After the backup v0 gets more segments, v1 is deleted, and v2 gets the place of a new one
 * that goes.
 */
static void
begin_restored (void)
{
  uint64_t order;

  begin ();
  create (&held[0], MiB (64));
  ASK (cluster_volume_create (engine, in, "a", "new", MiB (8)));
  assert (volume ("new")->rec.root == 1);
  create (&held[1], MiB (64));
  for (unsigned i = 0; i < 2; i++) {
    open_volume (&held[i]);
    made (&held[i], MiB (64));
  }
  live_on (8);
  backup = weftd;
  want (&held[0], 40);
  CALL (++weftd.op, cluster_volume_delete (engine, in, "a", "v1"));
  order = volume ("v1")->order.number;
  memset (held[1].has, 0, sizeof held[1].has);
  order_is_done (order, "");
  ASK (cluster_volume_delete (engine, in, "a", "new"));
  assert (volume ("new") == NULL);
  create (&held[2], MiB (32));
  open_volume (&held[2]);
  made (&held[2], MiB (32));
  assert (volume ("v2")->rec.root == volume ("v0")->rec.root + 1);
  want (&held[2], 30);
  restore (&backup);
  assert (array ()->rec.pool == CLUSTER_POOL_UNSCANNED);
}

static void
scenario_scan (void)
{
  unsigned free;

  begin_restored ();
  ASK (cluster_volume_open (engine, in, rig.session, rig.instance, "v0"));
  assert (strcmp (rig.code, "scanning") == 0 ||
          strcmp (rig.code, "starting") == 0);
  begin_scan ();
  find (&held[0], 0, MiB (64), SEGMENTS);
  find (&held[2], 1, MiB (32), SEGMENTS)->found.kept = 3;
  scanned ();
  assert (array ()->rec.pool == CLUSTER_POOL_READY);
  check (); /* nothing that is used is anybody else's */
  assert (volume ("v1") == NULL && volume ("v2")->rec.root == 1);
  assert (volume ("v2")->rec.size == MiB (32));
  assert (volume ("v2")->segments == count_of (&held[2]) + 3);
  /* The new one is back, at another place. */
  assert (volume ("new")->rec.state == CLUSTER_VOLUME_NEW);
  assert (volume ("new")->rec.root > 1);
  free = array ()->pool->free;
  scanned (); /* once more: it is over */
  assert (array ()->pool->free == free);
  open_volume (&held[0]);
  open_volume (&held[2]);
  want (&held[0], 16);
}

static void
test_scan (void)
{
  struct cluster_found_volume *w;

  /* In pieces, and begun again. */
  begin_restored ();
  begin_scan ()->end = false;
  find (&held[0], 0, MiB (64), 10);
  scanned ();
  restart ();
  live_on (8);
  begin_scan ()->begin = false;
  find (&held[0], 0, MiB (64), SEGMENTS);
  ASK (SCAN ());
  assert (strcmp (rig.code, "scan") == 0);
  scan.begin = true;
  scan.end = false;
  scanned ();
  begin_scan ()->begin = false;
  find (&held[2], 1, MiB (32), SEGMENTS);
  scanned ();
  check ();
  assert (volume ("v0")->segments == count_of (&held[0]));

  /* Nonsense. */
  begin_restored ();
  begin_scan ();
  w = find (&held[0], array ()->pool->geometry.roots, MiB (64), 1);
  REFUSED ("root", SCAN ());
  w->root = 0;
  w->found.size = 3;
  REFUSED ("size", SCAN ());
  w->found.size = MiB (64);
  w->run[0].first = 0;
  REFUSED ("run", SCAN ());
  memset (w->found.uuid, 0, 16);
  w->run[0].first = array ()->pool->first;
  REFUSED ("size", SCAN ());

  /* Two volumes name one segment, and are not opened; nothing is granted while one of them
   * is there.
   */
  begin_scan ();
  find (&held[0], 0, MiB (64), SEGMENTS);
  w = find (&held[2], 1, MiB (32), SEGMENTS);
  assert (found[0].run[0].first < w->run[0].first);
  memmove (&w->run[1], &w->run[0], w->runs++ * sizeof w->run[0]);
  w->run[0] = found[0].run[0];
  scanned ();
  assert (volume ("v0")->rec.state == CLUSTER_VOLUME_BROKEN);
  assert (volume ("v2")->rec.state == CLUSTER_VOLUME_BROKEN);
  assert (verdict () == CLUSTER_ERROR && says ("name segment"));
  REFUSED ("broken",
           cluster_volume_open (engine, in, rig.session, rig.instance, "v0"));
  REFUSED ("broken", cluster_volume_resize (engine, in, "a", "v0", MiB (80)));
  rig.volumes = 0;
  memset (held[0].has, 0, sizeof held[0].has);
  memset (held[2].has, 0, sizeof held[2].has);
  create (&held[1], MiB (8));
  open_volume (&held[1]);
  assert (count_of (&held[1]) == 0);
  want (&held[1], 8);
  assert (gots == 0);
  for (unsigned i = 0; i < 3; i += 2) {
    CALL (++weftd.op, cluster_volume_delete (engine, in, "a", held[i].name));
    order_is_done (volume (held[i].name)->order.number, i ? "" : "not now");
    if (i == 0) {
      assert (volume ("v0")->rec.state == CLUSTER_VOLUME_BROKEN);
      CALL (++weftd.op, cluster_volume_delete (engine, in, "a", "v0"));
      order_is_done (volume ("v0")->order.number, "");
    }
  }
  want (&held[1], 8);
  assert (gots == 1);

  /* The rest of one of them comes in a message of its own. */
  begin_restored ();
  begin_scan ()->end = false;
  find (&held[0], 0, MiB (64), SEGMENTS);
  w = find (&held[2], 1, MiB (32), SEGMENTS);
  memmove (&w->run[1], &w->run[0], w->runs++ * sizeof w->run[0]);
  w->run[0] = found[0].run[0];
  scanned ();
  begin_scan ()->begin = false;
  find (&held[2], 1, MiB (32), 1);
  find (&held[0], 0, MiB (64), 1);
  scanned ();
  assert (volume ("v0")->rec.state == CLUSTER_VOLUME_BROKEN);
  assert (volume ("v2")->rec.state == CLUSTER_VOLUME_BROKEN);

  /* A root that can't be read is the volume that the database has there. */
  begin_restored ();
  begin_scan ();
  w = find (&held[0], 0, 0, SEGMENTS);
  memset (w->found.uuid, 0, 16);
  w->found.name[0] = '\0';
  snprintf (w->found.why, sizeof w->found.why, "both slots are torn");
  w = find (&held[2], 3, 0, 0);
  memset (w->found.uuid, 0, 16);
  w->found.name[0] = '\0';
  snprintf (w->found.why, sizeof w->found.why, "both slots are torn");
  scanned ();
  assert (volume ("v0")->rec.state == CLUSTER_VOLUME_BROKEN);
  assert (volume ("broken-3")->rec.state == CLUSTER_VOLUME_BROKEN);
  assert (says ("Volume a/v0 can't be read (both slots are torn)"));
}

/* weftd's database is lost, and nobody knows that the array is a pool. */
static void
begin_imported (void)
{
  struct cluster_import import = { .name = "a" };

  begin ();
  create (&held[0], MiB (64));
  open_volume (&held[0]);
  made (&held[0], MiB (64));
  live_on (8);
  memcpy (import.array, array ()->rec.uuid, 16);
  rig.attached = false;
  rig.beat_op = 0;
  lose_database ();
  live_on (40);
  ASK (cluster_array_import (engine, in, &import));
  FINE ();
  assert (array ()->rec.pool == CLUSTER_POOL_UNKNOWN);
  snprintf (rig.instance, sizeof rig.instance, "again");
  attach (true);
  REFUSED ("not-pool",
           cluster_volume_open (engine, in, rig.session, rig.instance, "v0"));
}

static void
test_import (void)
{
  begin_imported ();
  begin_scan ()->segment_bytes = 1000;
  REFUSED ("pool", SCAN ());
  scan.segment_bytes = MiB (1);
  find (&held[0], 0, MiB (64), SEGMENTS)->found.kept = 2;
  scanned ();
  assert (array ()->rec.pool == CLUSTER_POOL_READY);
  assert (volume ("v0")->segments == count_of (&held[0]) + 2);
  open_volume (&held[0]);
  rig.volumes = 0;
  want (&held[0], 4);

  begin_imported ();
  begin_scan (); /* it has no header */
  scanned ();
  assert (array ()->rec.pool == CLUSTER_POOL_NONE);
  REFUSED ("not-pool", SCAN ());
}

/* ---- A scan that makes no sense as a whole. ---- */

/* The database may be an old one: the host has left a number out. */
static void
unscanned (void)
{
  message ()->number += 5;
  do {
    ASK (cluster_session_volumes (engine, in, rig.session, &sent));
    if (strcmp (rig.code, "starting") == 0)
      live_on (8);
  } while (strcmp (rig.code, "starting") == 0);
  assert (strcmp (rig.code, "scanning") == 0);
  assert (array ()->rec.pool == CLUSTER_POOL_UNSCANNED);
}

/* At this root a volume is found that says this of itself, with so many segments. */
static struct cluster_found_volume *
claim (unsigned root, uint8_t uuid, const char *name, uint32_t segments)
{
  struct cluster_found_volume *w = &found[scan.volumes];

  memset (w, 0, sizeof *w);
  w->root = root;
  w->run = found_run[scan.volumes++];
  memset (w->found.uuid, uuid, 16);
  snprintf (w->found.name, sizeof w->found.name, "%s", name);
  w->found.size = MiB (8);
  if (uuid == 0)
    snprintf (w->found.why, sizeof w->found.why, "both slots are torn");
  if (segments > 0)
    w->run[w->runs++] = (struct cluster_run) { array ()->pool->first + 8 * root,
                                               segments };
  return w;
}

/* Names, roots and UUIDs are of one volume each, in all of weftd; and it starts with what it
 * has stored.
 */
static void
all_of_their_own (void)
{
  const struct cluster_array *a, *b;
  const struct cluster_volume *v, *w;

  for (int again = 0; again < 2; again++) {
    TAILQ_FOREACH (a, &engine->arrays, link)
      TAILQ_FOREACH (v, &a->pool->volumes, link) {
        assert (v->rec.root < a->pool->geometry.roots);
        TAILQ_FOREACH (b, &engine->arrays, link)
          TAILQ_FOREACH (w, &b->pool->volumes, link) {
            if (v == w)
              continue;
            assert (!cluster_uuid_equal (v->rec.uuid, w->rec.uuid));
            assert (a != b || (v->rec.root != w->rec.root &&
                               strcmp (v->rec.name, w->rec.name) != 0));
          }
      }
    restart ();
    live_on (8);
  }
}

/* Another array has a volume of that UUID: it stays there. */
static void
test_scan_elsewhere (void)
{
  const struct cluster_volume *v;
  uint8_t uuid[16];

  begin ();
  make_array_of ("q", LAYOUT_RAID1, MEMBERS, 2);
  DONE (cluster_volume_create (engine, in, "q", "victim", MiB (1)));
  v = cluster_volume_find (cluster_array_find (engine, "q"), "victim");
  memcpy (uuid, v->rec.uuid, 16);
  unscanned ();
  begin_scan ();
  memcpy (claim (0, 1, "thief", 2)->found.uuid, uuid, 16);
  claim (1, 2, "honest", 2);
  scanned ();
  assert (volume ("thief")->rec.state == CLUSTER_VOLUME_BROKEN);
  assert (strstr (volume ("thief")->rec.reason, "q/victim"));
  assert (volume ("honest")->rec.state == CLUSTER_VOLUME_MADE);
  all_of_their_own ();
  v = cluster_volume_find (cluster_array_find (engine, "q"), "victim");
  assert (v && cluster_uuid_equal (v->rec.uuid, uuid));
}

static void
test_scan_twins (void)
{
  begin ();
  unscanned ();
  begin_scan ();
  claim (0, 1, "x", 2);
  claim (1, 2, "y", 2);
  claim (3, 1, "z", 2);
  scanned ();
  assert (volume ("x")->rec.state == CLUSTER_VOLUME_BROKEN);
  assert (volume ("z")->rec.state == CLUSTER_VOLUME_BROKEN);
  assert (strstr (volume ("x")->rec.reason, "root 3"));
  assert (strstr (volume ("z")->rec.reason, "root 0"));
  assert (volume ("y")->rec.state == CLUSTER_VOLUME_MADE);
  all_of_their_own ();
}

/* Each root has a volume, and the database a new one. */
static void
test_scan_crowd (void)
{
  char name[16];

  begin ();
  create (&held[0], MiB (1));
  create (&held[1], MiB (1));
  open_volume (&held[1]);
  unscanned ();
  begin_scan ();
  assert (array ()->pool->geometry.roots <= FOUND_MAX);
  for (unsigned i = 0; i < array ()->pool->geometry.roots; i++) {
    snprintf (name, sizeof name, "w%u", i);
    claim (i, (uint8_t) (i + 1), name, 2);
  }
  scanned ();
  assert (volume ("v0") == NULL && volume ("v1") == NULL);
  assert (strstr (rig.log, "Volume a/v0, which no process has made, is gone"));
  all_of_their_own ();
}

static void
test_scan_names (void)
{
  begin ();
  DONE (cluster_volume_create (engine, in, "a", "x", MiB (1)));
  DONE (cluster_volume_create (engine, in, "a", "found-3", MiB (1)));
  unscanned ();
  begin_scan ();
  claim (0, 1, "found-2", 2);
  claim (1, 2, "x", 2);
  claim (2, 3, "x", 2);
  claim (3, 4, "x", 2);
  claim (4, 5, "broken-5", 2);
  claim (5, 0, "", 0);
  scanned ();
  assert (volume ("found-2")->rec.root == 0);
  assert (volume ("x")->rec.root == 1);
  assert (volume ("found-2-2")->rec.root == 2);
  assert (volume ("found-3-2")->rec.root == 3);
  assert (volume ("found-3")->rec.state == CLUSTER_VOLUME_NEW);
  assert (volume ("broken-5")->rec.root == 4);
  assert (volume ("broken-5-2")->rec.root == 5);
  assert (strstr (rig.log, "that of root 2 is called found-2-2"));
  all_of_their_own ();
}

/* Anything: no scan ends weftd, now or when it starts again. */
static void
test_scan_walk (void)
{
  static const char *const names[] = {
    "x", "y", "v0", "found-1", "broken-2", ""
  };

  for (unsigned round = 0; round < 60; round++) {
    begin ();
    weftd.random ^= test_random (UINT32_MAX);
    make_array_of ("q", LAYOUT_RAID1, MEMBERS, 2);
    DONE (cluster_volume_create (engine, in, "q", "victim", MiB (1)));
    for (unsigned i = 0; i < 4; i++)
      ASK (cluster_volume_create (engine, in, "a", names[rnd () % 5], MiB (1)));
    for (unsigned again = 0; again < 3; again++) {
      unscanned ();
      begin_scan ();
      for (unsigned root = 0; root < array ()->pool->geometry.roots; root++)
        if (rnd () % 8 < 1 + round % 8) {
          struct cluster_found_volume *w = claim (
            root, (uint8_t) (1 + rnd () % 20), names[rnd () % 5],
            (uint32_t) (rnd () % 10));

          w->found.kept = (uint32_t) (rnd () % 4);
          if (rnd () % 4 == 0) {
            memset (w->found.uuid, 0, 16);
            snprintf (w->found.name, sizeof w->found.name, "%s",
                      names[rnd () % 6]);
            snprintf (w->found.why, sizeof w->found.why, "torn");
            w->found.size = rnd () % 1000;
          }
          else if (rnd () % 8 == 0)
            memcpy (
              w->found.uuid,
              cluster_volume_find (cluster_array_find (engine, "q"), "victim")
                ->rec.uuid,
              16);
        }
      scanned ();
      all_of_their_own ();
    }
  }
}

/* A message names a segment for each root once at most, and takes no doubt back. */
static void
test_scan_message (void)
{
  struct cluster_found_volume *w;
  uint32_t first;

  begin ();
  first = array ()->pool->first;
  unscanned ();
  begin_scan ();
  w = claim (0, 1, "x", 0);
  w->runs = 2;
  w->run[0] = (struct cluster_run) { first + 4, 4 };
  for (uint32_t at = first; at < first + 8; at++) {
    w->run[1] = (struct cluster_run) { at, 1 };
    REFUSED ("run", SCAN ());
  }
  w->run[1].first = first + 8;
  claim (0, 1, "x", 1);
  REFUSED ("twice", SCAN ());
  assert (array ()->pool->scan == NULL);

  /* In two messages, of which each comes twice. */
  for (unsigned i = 0; i < 4; i++) {
    begin_scan ()->end = false;
    scan.begin = i == 0;
    w = claim (0, 1, "x", 2);
    if (i < 2)
      snprintf (w->found.why, sizeof w->found.why, "its log is torn");
    else
      w->run[0].first += 2;
    scanned ();
  }
  begin_scan ()->begin = false;
  scanned ();
  assert (volume ("x")->segments == 4);
  assert (volume ("x")->rec.state == CLUSTER_VOLUME_BROKEN);
  assert (strcmp (volume ("x")->rec.reason, "its log is torn") == 0);
}

/* ---- Calls that wait. ---- */

/* Several wait for one order, and the process ends; then the pool goes. */
static void
test_waiters (void)
{
  for (int what = 0; what < 2; what++) {
    begin ();
    create (&held[0], MiB (64));
    open_volume (&held[0]);
    made (&held[0], MiB (64));
    for (int i = 0; i < 3; i++)
      if (what == 0)
        CALL (++weftd.op, cluster_volume_delete (engine, in, "a", "v0"));
      else {
        CALL (++weftd.op,
              cluster_volume_resize (engine, in, "a", "v0", MiB (80)));
        break;
      }
    assert (engine->waiting[WAIT_ORDER] == (what == 0 ? 3 : 1));
    detach ();
    assert (engine->waiting[WAIT_ORDER] == 0);
    DONE (cluster_array_delete (engine, in, "a"));
    live_on (ORDER_MS / CLUSTER_TICK_MS + 2);
  }
}

/* All calls that wait for an array are answered when the array goes. */
static void
test_wait_and_array_goes (void)
{
  static const bool of_array[WAIT_KINDS] = {
    [WAIT_SESSION] = true, [WAIT_ATTACH] = true,  [WAIT_HOLDER] = true,
    [WAIT_MEMBERS] = true, [WAIT_SERVICE] = true, [WAIT_LOST] = true,
    [WAIT_LEASES] = true,  [WAIT_ORDER] = true,
  };

  for (enum waiting_kind k = 0; k < WAIT_KINDS; k++) {
    struct cluster_array *a;
    struct waiting *w;

    /* These need a session of the array, which ends with it. */
    if (!of_array[k] || k == WAIT_SESSION || k == WAIT_LEASES)
      continue;
    begin ();
    detach ();
    a = array ();
    live_on (4);
    w = cluster_wait (engine, k, ++weftd.op, SERVICE_WAIT_MS);
    w->array = a;
    if (k == WAIT_ATTACH)
      w->grant = alloc_zeroed (sizeof *w->grant);
    else if (k != WAIT_LOST && k != WAIT_ORDER) {
      w->challenge = alloc_zeroed (sizeof *w->challenge);
      snprintf (w->challenge->attach.node, sizeof w->challenge->attach.node,
                "host");
    }
    rig.answered = false;
    DONE (cluster_array_delete (engine, in, "a"));
    assert (engine->waiting[k] == 0);
    live_on (ORDER_MS / CLUSTER_TICK_MS + 2);
  }
}

/* The process takes an order's number once, so orders are told by their numbers. */
static void
test_orders_ascend (void)
{
  const struct cluster_volume **list;
  unsigned count;

  begin ();
  for (unsigned i = 0; i < VOLUMES; i++) {
    create (&held[i], MiB (64));
    open_volume (&held[i]);
    made (&held[i], MiB (64));
  }
  for (unsigned i = VOLUMES; i-- > 0;)
    CALL (++weftd.op,
          cluster_volume_resize (engine, in, "a", held[i].name, MiB (80)));
  list = cluster_volume_orders (array (), &count);
  assert (count == VOLUMES);
  for (unsigned i = 0; i < VOLUMES; i++) {
    assert (strcmp (list[i]->rec.name, held[VOLUMES - 1 - i].name) == 0);
    assert (i == 0 || list[i - 1]->order.number < list[i]->order.number);
  }
  free (list);
}

/* ---- What is refused. ---- */

static void
test_refused (void)
{
  struct cluster_create create_small = { .pool = true };
  struct cluster_preflight f;
  struct cluster_service service = { .nodes = 1, .node = { "n1" } };
  struct cluster_volume_report *e;
  struct cluster_attach at = { .node = "host",
                               .pid = 9,
                               .by_admin = true,
                               .writable = true,
                               .instance = "other" };

  /* A pool is attached in one way. */
  begin ();
  detach ();
  REFUSED ("pool", cluster_attach (engine, in, "a", &at));
  assert (strstr (rig.detail, "does not know pools"));
  at.pools = true;
  at.writable = false;
  REFUSED ("pool", cluster_attach (engine, in, "a", &at));
  assert (strstr (rig.detail, "mode rw"));
  at.writable = at.leases = true;
  REFUSED ("pool", cluster_attach (engine, in, "a", &at));
  at.leases = false;
  at.part = (struct cluster_part) { 0, MiB (1) };
  REFUSED ("pool", cluster_attach (engine, in, "a", &at));
  at.part.length = 0;
  at.service = true;
  REFUSED ("pool", cluster_attach (engine, in, "a", &at));
  REFUSED ("pool", cluster_service_set (engine, in, "a", &service));
  attach (true);

  /* Sizes and names. */
  REFUSED ("unknown-array",
           cluster_volume_create (engine, in, "b", "v0", MiB (64)));
  REFUSED ("size", cluster_volume_create (engine, in, "a", "v0", 0));
  REFUSED ("size", cluster_volume_create (engine, in, "a", "v0", 1000));
  REFUSED ("size", cluster_volume_create (engine, in, "a", "v0",
                                          VOLUME_BYTES_MAX + 512));
  assert (strstr (rig.detail, "64 TiB is the most"));
  REFUSED ("size", cluster_volume_create (engine, in, "a", "v0", GiB (2)));
  assert (strstr (rig.detail, "could never be filled"));
  FLY (cluster_preflight_volume_create (engine, in, "a", "v0", GiB (2), &f));
  assert (!f.allowed && strcmp (f.confirm, "a/v0") == 0);
  FLY (cluster_preflight_volume_create (engine, in, "a", "v0", MiB (400), &f));
  assert (f.allowed && f.lines_count == 0);
  create (&held[0], MiB (400));
  REFUSED ("exists", cluster_volume_create (engine, in, "a", "v0", MiB (64)));
  FLY (cluster_preflight_volume_create (engine, in, "a", "v1", MiB (400), &f));
  assert (f.allowed && f.lines_count == 1);
  REFUSED ("unknown-volume",
           cluster_volume_resize (engine, in, "a", "v1", MiB (500)));
  REFUSED ("unknown-volume", cluster_volume_delete (engine, in, "a", "v1"));
  REFUSED ("unknown-volume",
           cluster_volume_open (engine, in, rig.session, rig.instance, "v1"));
  REFUSED ("size", cluster_volume_resize (engine, in, "a", "v0", MiB (399)));
  assert (strstr (rig.detail, "cannot shrink"));
  REFUSED ("size", cluster_volume_resize (engine, in, "a", "v0", GiB (2)));
  FLY (cluster_preflight_volume_resize (engine, in, "a", "v0", MiB (1), &f));
  assert (!f.allowed);
  FLY (cluster_preflight_volume_resize (engine, in, "a", "v0", MiB (401), &f));
  assert (f.allowed);

  /* Another process; clients. */
  REFUSED ("other-instance",
           cluster_volume_open (engine, in, rig.session, "who", "v0"));
  open_volume (&held[0]);
  message ();
  e = add (&held[0], 0);
  e->says = true;
  e->said = (struct cluster_volume_said) { .made = true,
                                           .size = MiB (400),
                                           .clients = 2 };
  say ();
  REFUSED ("in-use", cluster_volume_delete (engine, in, "a", "v0"));
  assert (strstr (rig.detail, "2 connected clients"));
  FLY (cluster_preflight_volume_delete (engine, in, "a", "v0", &f));
  assert (!f.allowed && f.lost_bytes == VOLUME_WINDOW_MIN * MiB (1));
  FLY (cluster_preflight_delete (engine, in, "a", &f));
  assert (!f.allowed && strstr (f.line[1], "its 1 volumes are lost"));

  /* Nonsense in a message changes nothing. */
  message ();
  e = add (&held[0], 0);
  add (&held[0], 1);
  REFUSED ("twice", cluster_session_volumes (engine, in, rig.session, &sent));
  message ();
  e = add (&held[0], 0);
  e->give[e->give_count++] = (struct cluster_run) { 0, 1 };
  REFUSED ("run", cluster_session_volumes (engine, in, rig.session, &sent));
  e->give[0] = (struct cluster_run) { array ()->pool->geometry.segments, 1 };
  REFUSED ("run", cluster_session_volumes (engine, in, rig.session, &sent));
  e->give[0] = (struct cluster_run) { array ()->pool->first, UINT32_MAX };
  REFUSED ("run", cluster_session_volumes (engine, in, rig.session, &sent));
  message ();
  e = add (&held[0], 0);
  e->says = true;
  e->said = (struct cluster_volume_said) { .made = true, .size = 7 };
  REFUSED ("size", cluster_session_volumes (engine, in, rig.session, &sent));
  /* Another volume's segments stay where they are; an unknown volume is passed over. */
  create (&held[1], MiB (64));
  open_volume (&held[1]);
  message ();
  e = add (&held[0], 0);
  e->give[e->give_count++] = (struct cluster_run) { array ()->pool->first,
                                                    2 * VOLUME_WINDOW_MIN };
  memset (held[0].has, 0, sizeof held[0].has);
  memset (entry[1].uuid, 0x77, 16);
  sent.volumes = 2;
  entry[1].want = 4;
  say ();
  assert (volume ("v0")->segments == 0);
  assert (volume ("v1")->segments == VOLUME_WINDOW_MIN);

  /* The pool goes with all of its records. */
  detach ();
  DONE (cluster_array_delete (engine, in, "a"));
  for (size_t i = 0; i < weftd.stored; i++)
    assert (weftd.store[i].kind != CLUSTER_RECORD_VOLUME &&
            weftd.store[i].kind != CLUSTER_RECORD_SPACE);

  /* A plain array has no volumes, and a process that knows pools attaches it as such. */
  begin_writing ();
  REFUSED ("not-pool", cluster_volume_create (engine, in, "a", "v0", MiB (64)));
  REFUSED ("not-pool",
           cluster_volume_open (engine, in, rig.session, rig.instance, "v0"));
  message ();
  REFUSED ("not-pool",
           cluster_session_volumes (engine, in, rig.session, &sent));
  detach ();
  rig.pool = true;
  attach (true);

  /* It is too small, or its segments make no sense. */
  rig_init ();
  live_on (4);
  create_small = create_of ("a", LAYOUT_RAIDX, 0, MEMBERS);
  create_small.pool = true;
  create_small.segment_bytes = MiB (64);
  REFUSED ("pool", cluster_array_create (engine, in, &create_small));
  create_small.segment_bytes = 1000;
  REFUSED ("pool", cluster_array_create (engine, in, &create_small));
}

/* As many as there are roots. */
static void
test_many (void)
{
  char name[16];

  begin ();
  for (unsigned i = 0; i < array ()->pool->geometry.roots; i++) {
    snprintf (name, sizeof name, "w%u", i);
    DONE (cluster_volume_create (engine, in, "a", name, MiB (1)));
  }
  REFUSED ("too-many",
           cluster_volume_create (engine, in, "a", "more", MiB (1)));
  DONE (cluster_volume_delete (engine, in, "a", "w3"));
  DONE (cluster_volume_create (engine, in, "a", "more", MiB (1)));
  assert (volume ("more")->rec.root == 3);
}

int
main (void)
{
  test_random_start ();
  test_kills ("grants", scenario_grants);
  test_kills ("orders", scenario_orders);
  test_kills ("scan", scenario_scan);
  test_again ();
  test_walk ();
  test_full ();
  test_shares ();
  test_orders ();
  test_told ();
  test_old_database ();
  test_scan ();
  test_scan_elsewhere ();
  test_scan_twins ();
  test_scan_crowd ();
  test_scan_names ();
  test_scan_walk ();
  test_scan_message ();
  test_import ();
  test_waiters ();
  test_wait_and_array_goes ();
  test_orders_ascend ();
  test_refused ();
  test_many ();
  assert (last);
  return 0;
}
