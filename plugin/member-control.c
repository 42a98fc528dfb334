/* member-control.c: a member's conversation with weftd, and the header writes
 * that no request waits for.
 *
 * Two threads.  `talk` tells weftd over and over what is durable here, and gets
 * back what weftd wants.  weftd holds its answer while that is the same (a long
 * poll), so a change gets here at once, and its confirmation goes back at once.
 * `care` makes the change durable.  It is a thread of its own so that a disk that
 * hangs does not keep the member from talking, and a weftd that hangs does not keep
 * an epoch from being made durable.
 */

#include <config.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/admin.h"
#include "array/array.h"
#include "member-role.h"
#include "process.h"
#include "puller.h"
#include "revoked.h"
#include "role.h"

/* How often intent bits that were cleared are written out as clear. */
#define LAZY_MS 5000
/* After a change, how long to wait for it to be durable before the next
 * heartbeat.
 */
#define SETTLE_MS 500
/* Between heartbeats that weftd answers at once for no reason seen here. */
#define PACE_MS 250
#define REPLY_TIMEOUT_MS 10000

static struct {
  char instance[PROCESS_INSTANCE_BYTES]; /* two that serve one disk differ */
  char cache[DISK_CACHE_BYTES];
  struct load_meter meter;
  struct superblock told; /* to weftd, last */
  json_t *taken;          /* the report that weftd has taken in; NULL: none */
  uint64_t reports;       /* the number of the last one */
  uint64_t requests;      /* of clients, as of the last heartbeat */
  enum member_join_phase told_phase;
  uint64_t told_over;
  struct admin *admin; /* of the talk thread */
  pthread_t talk, care;
  bool talking, caring;
  char last_said[1024];
} control;

/* Log it, unless it is the same as last time: a weftd that is down is mentioned
 * once.
 */
static void
say (const char *text)
{
  if (strcmp (text, control.last_said) == 0)
    return;
  snprintf (control.last_said, sizeof control.last_said, "%s", text);
  if (*text)
    nbdkit_error ("%s: %s", server.disk->path, text);
}

/* ---- The heartbeat ---- */

static json_t *
uuid_or_null (const uint8_t uuid[16])
{
  char text[FORMAT_UUID_TEXT_BYTES];

  if (format_uuid_zero (uuid))
    return json_null ();
  format_uuid (uuid, text);
  return json_string (text);
}

/* The fields for a weftd that has lost its database. */
static int
add_place (json_t *json, const struct superblock *sb)
{
  json_t *place = json_pack (
    "{s:s, s:I, s:I, s:I, s:I, s:s, s:[]}", "layout", layout_name (sb->layout),
    "n", (json_int_t) sb->n, "groups", (json_int_t) sb->groups, "unit",
    (json_int_t) sb->unit, "member_bytes", (json_int_t) sb->member_bytes, "dup",
    array_dup_name (sb->dup), "states");
  json_t *states = json_object_get (place, "states");
  int r = place ? 0 : -1;

  for (unsigned i = 0; r == 0 && i < sb->n * sb->groups; i++)
    r = json_array_append_new (states,
                               json_string (member_state_name (sb->states[i])));
  if (r == 0)
    r = json_object_update (json, place);
  json_decref (place);
  return r;
}

/* All of the list of bad ranges; with the lock held. */
static json_t *
bad_ranges (void)
{
  const struct bad_list *list = member_bad (server.member);
  json_t *ranges = json_array ();

  for (unsigned i = 0; i < list->count; i++)
    json_array_append_new (
      ranges, json_pack ("[I, I, I]", (json_int_t) list->range[i].first,
                         (json_int_t) list->range[i].blocks,
                         (json_int_t) list->range[i].reason));
  return json_pack ("{s:I, s:o}", "sequence", (json_int_t) list->sequence,
                    "ranges", ranges);
}

/* How far joining is, or null; with the lock held. */
static json_t *
join_progress (uint64_t data_bytes)
{
  enum member_join_phase phase = member_join_phase (server.member);
  struct member_join_progress p;
  struct puller_progress done;
  uint64_t todo, total;

  control.told_phase = phase;
  if (phase == MEMBER_JOIN_NONE)
    return json_null ();
  member_join_progress (server.member, &p);
  puller_progress (&done);
  todo = (p.todo + p.unstable) * EXTENT_BYTES;
  total = p.total * EXTENT_BYTES;
  return json_pack (
    "{s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:s?}", "epoch",
    (json_int_t) member_join_epoch (server.member), "phase",
    member_join_phase_name (phase), "todo_bytes",
    (json_int_t) (todo < data_bytes ? todo : data_bytes), "total_bytes",
    (json_int_t) (total < data_bytes ? total : data_bytes), "copied_bytes",
    (json_int_t) done.pull.copied_bytes, "unreadable_bytes",
    (json_int_t) done.pull.unreadable_bytes, "rate",
    (json_int_t) done.pull.rate, "waits", done.waits[0] ? done.waits : NULL);
}

/* The room of a disk that is a file, or null. */
static json_t *
room_json (void)
{
  struct disk_room room;

  if (!disk_room (server.disk, &room))
    return json_null ();
  return json_pack ("{s:I, s:I, s:I}", "free", (json_int_t) room.free, "size",
                    (json_int_t) room.size, "wanted", (json_int_t) room.wanted);
}

static void
forget_taken (void)
{
  json_decref (control.taken);
  control.taken = NULL;
}

static uint64_t
requests (void)
{
  const struct load_counters *c = &server.counters;

  return c->reads + c->writes + c->flushes;
}

/* While weftd has the last report, there is no news, and it is only named. */
static json_t *
heartbeat (unsigned wait_ms)
{
  struct superblock sb;
  const char *reason, *shortage, *gone;
  uint64_t dirty, over;
  json_t *json, *join, *bad, *figures;
  bool news;

  pthread_mutex_lock (&server.lock);
  control.told = sb = *member_confirmed (server.member);
  join = join_progress (sb.data_bytes);
  bad = bad_ranges ();
  gone = server.gone;
  reason = member_reason (server.member); /* good without the lock, too */
  shortage = member_short (server.member);
  dirty = member_dirty_extents (server.member);
  control.told_over = over = member_over_done (server.member);
  pthread_mutex_unlock (&server.lock);

  control.requests = requests ();
  /* Before nbdkit has bound its socket, which may fail yet, the state is
   * "starting". add_place's fields change only with the epoch of the states.
   */
  json = json_pack (
    "{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:s, s:s?, s:b, s:s?, "
    "s:o, s:o, s:o, s:o, s:o, s:I}",
    "instance", control.instance, "node", params.node, "uri", params.uri,
    "path", server.disk->path, "cache", control.cache, "size",
    (json_int_t) server.disk->size, "data_bytes", (json_int_t) sb.data_bytes,
    "min_epoch", (json_int_t) sb.min_epoch, "states_epoch",
    (json_int_t) sb.states_epoch, "generation", (json_int_t) sb.generation,
    "state",
    reason          ? "failed"
    : control.admin ? "serving"
                    : "starting",
    "reason", gone ? gone : reason, "gone", gone != NULL, "short", shortage,
    "join", join, "bad", bad, "cluster", uuid_or_null (sb.cluster), "array",
    uuid_or_null (sb.array), "position",
    format_uuid_zero (sb.array) ? json_null () : json_integer (sb.position),
    "over", (json_int_t) over);
  news = !json_equal (json, control.taken);
  if (news) {
    forget_taken ();
    control.taken = json_copy (json);
    control.reports++;
    if (json && !format_uuid_zero (sb.array) && add_place (json, &sb) == -1)
      goto fail;
  }
  else {
    json_decref (json);
    json = json_pack ("{s:s, s:s}", "instance", control.instance, "node",
                      params.node);
  }
  figures = json_pack (
    "{s:b, s:I, s:I, s:I, s:i, s:I, s:I, s:o, s:o}", "news", (int) news,
    "report", (json_int_t) control.reports, "sequence",
    (json_int_t) sb.sequence, "round", (json_int_t) sb.round, "wait_ms",
    (int) wait_ms, "dirty_extents", (json_int_t) dirty, "disk_stuck_ms",
    (json_int_t) member_pulse_stuck_ms (), "room", room_json (), "load",
    load_json (&control.meter, &server.counters));
  if (json_object_update_new (json, figures) == -1)
    goto fail;
  return json;

fail:
  json_decref (json);
  return NULL;
}

/* ---- Speaking to weftd ---- */

/* A weftd that takes no changes refuses heartbeats, but still says which
 * sessions are over.
 */
static void
shut (const json_t *reply)
{
  struct member_over over[OVER_TOLD_MAX];
  unsigned count = member_answer_over (reply, over);

  if (count == 0)
    return;
  pthread_mutex_lock (&server.lock);
  member_shut (server.member, over, count);
  pthread_cond_broadcast (&server.changed);
  pthread_mutex_unlock (&server.lock);
}

/* Hand the engine what weftd wants.  False: it does not have it. */
static bool
obey (json_t *reply)
{
  struct member_desire d = { .assigned = false };
  struct puller_order *order = NULL;
  uint8_t key[KEY_BYTES];
  const char *field = member_answer_read (reply, &control.told, &d, key,
                                          &order);
  char why[512] = "";
  bool obeyed;
  int err = 0;

  if (field) {
    snprintf (why, sizeof why,
              "weftd's answer to a heartbeat has no good "
              "field `%s`; are weftd and this plugin of the same version?",
              field);
    say (why);
    puller_order_free (order);
    return false;
  }
  /* Before nbdkit's fork no thread may begin to copy; the order comes again. */
  if (control.admin == NULL) {
    puller_order_free (order);
    order = NULL;
  }
  pthread_mutex_lock (&server.lock);
  obeyed = member_desire (server.member, &d, why, sizeof why);
  if (obeyed) {
    if (!json_is_true (json_object_get (reply, "assignment")))
      member_set_key (server.member, key);
    err = puller_obey (order);
  }
  else
    puller_order_free (order);
  pthread_cond_broadcast (&server.changed);
  pthread_mutex_unlock (&server.lock);
  if (err)
    snprintf (why, sizeof why,
              "rebuild: no thread to copy with: %s; it is "
              "tried again",
              strerror (err));
  say (why);
  return obeyed;
}

/* One heartbeat.  Returns the HTTP status, or -1.  Unless weftd has taken it in, the
 * next one says all, and so the answer to it, with the key.
 */
static int
call (struct admin *admin, unsigned wait_ms)
{
  char path[100], uuid[FORMAT_UUID_TEXT_BYTES];
  json_t *body = heartbeat (wait_ms), *reply;
  uint64_t asked_ms = clock_ms ();
  int status;

  if (body == NULL) {
    forget_taken ();
    say ("out of memory for a heartbeat");
    return -1;
  }
  format_uuid (server.disk->sb.disk, uuid);
  snprintf (path, sizeof path, "/api/v1/disks/%s/heartbeat", uuid);
  status = admin_call (admin, "POST", path, body, &reply,
                       wait_ms + REPLY_TIMEOUT_MS);
  shut (reply);
  revoked_heard (admin); /* before the first answer has the doors opened */
  if (status == 200 && obey (reply)) {
    member_heard (server.member, asked_ms);
    server.gone_told = json_is_true (json_object_get (control.taken, "gone"));
  }
  else
    forget_taken ();
  json_decref (reply);
  json_decref (body);
  return status;
}

/* The same; where weftd asks for all (it was started again, or a late call came
 * between), a second call says that at once.
 */
static int
beat (struct admin *admin, unsigned wait_ms)
{
  int status = call (admin, wait_ms);

  if (status == 409 && strcmp (admin_code (admin), "say-all") == 0)
    status = call (admin, wait_ms);
  return status;
}

static struct admin *
new_admin (void)
{
  struct admin *admin = admin_new (params.admin, params.tls, NULL);

  if (admin == NULL)
    nbdkit_error ("admin=%s is not a URL of weftd's; give one such as "
                  "admin=http://127.0.0.1:7380",
                  params.admin);
  return admin;
}

int
member_control_register (void)
{
  struct admin *admin;
  int status, r = 0;
  bool may_be_imported;

  disk_cache (server.disk, control.cache);
  if (process_draw_instance (control.instance) == -1) {
    nbdkit_error ("the kernel gives no random bytes: %m");
    return -1;
  }
  admin = new_admin ();
  if (admin == NULL)
    return -1;
  status = beat (admin, 0);
  /* If weftd does not know our array, an administrator may import it, as long
   * as we ask.
   */
  may_be_imported = status == 409 &&
                    !format_uuid_zero (server.disk->sb.array) &&
                    (strcmp (admin_code (admin), "foreign-cluster") == 0 ||
                     strcmp (admin_code (admin), "unknown-array") == 0);
  /* With 429 too much of this node is under way just now. */
  if (status >= 400 && status < 500 && status != 429 && !may_be_imported) {
    nbdkit_error ("%s: %s", server.disk->path, admin_error (admin));
    r = -1;
  }
  else if (status != 200)
    say (admin_error (admin));
  admin_free (admin); /* a connection does not outlive a fork */
  return r;
}

/* ---- Threads ---- */

/* Wait until all that weftd wants is durable, but not for long.  Returns
 * whether there was anything to wait for.
 */
static bool
wait_settled (void)
{
  uint64_t end = clock_ms () + SETTLE_MS;
  bool waited = false;

  while (!server.stopping && !member_settled (server.member) &&
         !member_failed (server.member) && clock_ms () < end) {
    waited = true;
    server_wait (SETTLE_MS);
  }
  return waited;
}

/* For how long weftd may hold its answer.  While we are joining it may not:
 * progress is reported every PACE_MS, and a new phase at once.  It may not
 * while the disk is silent.  After a lost or invalid answer, the next one must
 * come at once: weftd may wait for a confirmation of it.
 */
static unsigned
patience (void)
{
  enum member_join_phase phase = member_join_phase (server.member);
  bool joins = phase != MEMBER_JOIN_NONE && phase != MEMBER_JOIN_SYNCED &&
               member_join_epoch (server.member) != 0;

  if (!member_settled (server.member) || joins || control.taken == NULL ||
      member_pulse_stuck_ms () >= DOUBTFUL_MS / 2 || server.gone)
    return 0;
  return requests () == control.requests ? REST_MS : HEARTBEAT_MS;
}

static void
wait_pace (uint64_t began)
{
  uint64_t now;

  while (!server.stopping && (now = clock_ms ()) < began + PACE_MS &&
         member_join_phase (server.member) == control.told_phase &&
         member_over_done (server.member) == control.told_over &&
         superblock_same (&control.told, member_confirmed (server.member)))
    server_wait (began + PACE_MS - now);
}

static void *
talk (void *opaque)
{
  pthread_setname_np (pthread_self (), "weft-heartbeat");
  pthread_mutex_lock (&server.lock);
  while (!server.stopping) {
    unsigned wait_ms = patience ();
    uint64_t began = clock_ms ();
    int status;

    pthread_mutex_unlock (&server.lock);
    status = beat (control.admin, wait_ms);
    pthread_mutex_lock (&server.lock);
    if (server.stopping)
      break;
    if (status != 200) {
      say (admin_error (control.admin));
      server_wait (HEARTBEAT_MS);
    }
    else if (!wait_settled ())
      wait_pace (began);
  }
  pthread_mutex_unlock (&server.lock);
  return NULL;
}

static void *
care (void *opaque)
{
  uint64_t lazy_at = clock_ms () + LAZY_MS;

  pthread_setname_np (pthread_self (), "weft-care");
  pthread_mutex_lock (&server.lock);
  while (!server.stopping) {
    uint64_t now = clock_ms (), wait_ms = 1000;

    if (server_act (now >= lazy_at) || server_room (&wait_ms))
      continue;
    if (now >= lazy_at)
      lazy_at = now + LAZY_MS;
    server_wait (wait_ms);
  }
  pthread_mutex_unlock (&server.lock);
  return NULL;
}

int
member_control_start (void)
{
  sigset_t all, old;
  int err;

  control.admin = new_admin ();
  if (control.admin == NULL)
    return -1;
  /* Signals are for nbdkit's own threads. */
  sigfillset (&all);
  pthread_sigmask (SIG_SETMASK, &all, &old);
  err = pthread_create (&control.care, NULL, care, NULL);
  control.caring = err == 0;
  if (err == 0) {
    err = pthread_create (&control.talk, NULL, talk, NULL);
    control.talking = err == 0;
  }
  pthread_sigmask (SIG_SETMASK, &old, NULL);
  if (err) {
    nbdkit_error ("no thread for the conversation with weftd: %s",
                  strerror (err));
    member_control_stop ();
    return -1;
  }
  return 0;
}

void
member_control_stop (void)
{
  pthread_mutex_lock (&server.lock);
  server.stopping = true;
  pthread_cond_broadcast (&server.changed);
  pthread_mutex_unlock (&server.lock);
  if (control.admin)
    admin_cancel (control.admin);
  if (control.talking)
    pthread_join (control.talk, NULL);
  if (control.caring)
    pthread_join (control.care, NULL);
  control.talking = control.caring = false;
  admin_free (control.admin);
  control.admin = NULL;
  forget_taken ();
}
