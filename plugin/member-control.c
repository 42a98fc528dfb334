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

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "common/clock.h"
#include "common/admin.h"
#include "array/array.h"
#include "member-role.h"
#include "puller.h"
#include "role.h"

/* How often intent bits that were cleared are written out as clear. */
#define LAZY_MS 5000
/* After a change, how long to wait for it to be durable before weftd is told
 * that it is not so yet.
 */
#define SETTLE_MS 500
/* Between heartbeats that weftd answers at once for no reason seen here. */
#define PACE_MS 250
#define REPLY_TIMEOUT_MS 10000

static struct {
  char instance[33]; /* of this process: two that serve one disk differ */
  char cache[DISK_CACHE_BYTES];
  struct load_meter meter;
  struct superblock told; /* to weftd, last */
  json_t *taken;          /* the report that weftd has taken in; NULL: none */
  uint64_t reports;       /* the number of the last one */
  uint64_t requests;      /* of clients, as of the last heartbeat */
  enum member_join_phase told_phase;
  struct admin *admin; /* of the talk thread */
  pthread_t talk, care;
  bool talking, caring;
  char last_said[1024];
} control;

/* Say it, unless it was what was said last: a weftd that is down is mentioned
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

/* What weftd needs to know if it has lost its database. */
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

static void
forget_taken (void)
{
  json_decref (control.taken);
  control.taken = NULL;
}

/* All but what is no news, and what add_place adds: that changes with the epoch
 * of the states alone.  Before nbdkit has bound its socket, which may fail yet, we are starting.
 */
static json_t *
report (const struct superblock *sb, const char *reason, json_t *join,
        json_t *bad)
{
  return json_pack (
    "{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:s, s:s?, s:o, s:o, "
    "s:o, s:o, s:o}",
    "instance", control.instance, "node", params.node, "uri", params.uri,
    "path", server.disk->path, "cache", control.cache, "size",
    (json_int_t) server.disk->size, "data_bytes", (json_int_t) sb->data_bytes,
    "min_epoch", (json_int_t) sb->min_epoch, "states_epoch",
    (json_int_t) sb->states_epoch, "generation", (json_int_t) sb->generation,
    "state",
    reason          ? "failed"
    : control.admin ? "serving"
                    : "starting",
    "reason", reason, "join", join, "bad", bad, "cluster",
    uuid_or_null (sb->cluster), "array", uuid_or_null (sb->array), "position",
    format_uuid_zero (sb->array) ? json_null () : json_integer (sb->position));
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
  const char *reason;
  uint64_t dirty;
  json_t *json, *join, *bad;
  bool news;

  pthread_mutex_lock (&server.lock);
  control.told = sb = *member_confirmed (server.member);
  join = join_progress (sb.data_bytes);
  bad = bad_ranges ();
  reason = member_reason (server.member); /* stays as it is, once it is */
  dirty = member_dirty_extents (server.member);
  pthread_mutex_unlock (&server.lock);

  control.requests = requests ();
  json = report (&sb, reason, join, bad);
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
  if (json_object_set_new (json, "news", json_boolean (news)) == -1 ||
      json_object_set_new (json, "report",
                           json_integer ((json_int_t) control.reports)) == -1 ||
      json_object_set_new (json, "sequence",
                           json_integer ((json_int_t) sb.sequence)) == -1 ||
      json_object_set_new (json, "round",
                           json_integer ((json_int_t) sb.round)) == -1 ||
      json_object_set_new (json, "wait_ms", json_integer (wait_ms)) == -1 ||
      json_object_set_new (json, "dirty_extents",
                           json_integer ((json_int_t) dirty)) == -1 ||
      json_object_set_new (json, "load",
                           load_json (&control.meter, &server.counters)) == -1)
    goto fail;
  return json;

fail:
  json_decref (json);
  return NULL;
}

/* ---- The answer ---- */

static int
get_uuid (json_t *from, const char *name, uint8_t uuid[16])
{
  const char *text = json_string_value (json_object_get (from, name));

  return text ? format_uuid_parse (text, uuid) : -1;
}

/* A whole number from 0 to max. */
static int
get_number (json_t *from, const char *name, uint64_t max, uint64_t *v)
{
  json_t *n = json_object_get (from, name);

  if (!json_is_integer (n) || json_integer_value (n) < 0 ||
      (uint64_t) json_integer_value (n) > max)
    return -1;
  *v = json_integer_value (n);
  return 0;
}

static int
get_key (json_t *from, uint8_t key[KEY_BYTES])
{
  const char *text = json_string_value (json_object_get (from, "key"));
  unsigned v;

  if (text == NULL || strlen (text) != 2 * KEY_BYTES ||
      strspn (text, "0123456789abcdef") != 2 * KEY_BYTES)
    return -1;
  for (unsigned i = 0; i < KEY_BYTES; i++) {
    sscanf (text + 2 * i, "%2x", &v);
    key[i] = v;
  }
  return 0;
}

/* Returns NULL, or the name of the field that is missing or makes no sense. */
static const char *
parse_assignment (json_t *json, struct member_desire *d)
{
  json_t *states = json_object_get (json, "states");
  const char *layout = json_string_value (json_object_get (json, "layout"));
  const char *dup;
  uint64_t position, n, groups, unit;
  int kind = layout ? layout_parse (layout) : -1;

  if (get_uuid (json, "array", d->array) == -1 || format_uuid_zero (d->array))
    return "assignment.array";
  if (kind == -1)
    return "assignment.layout";
  if (get_number (json, "n", GROUP_MEMBERS_MAX, &n) == -1 || n == 0)
    return "assignment.n";
  if (get_number (json, "groups", ARRAY_GROUPS_MAX, &groups) == -1 ||
      groups == 0 || n * groups > ARRAY_MEMBERS_MAX)
    return "assignment.groups";
  if (get_number (json, "position", n * groups - 1, &position) == -1)
    return "assignment.position";
  if (get_number (json, "unit", UNIT_BYTES_MAX, &unit) == -1)
    return "assignment.unit";
  if (get_number (json, "epoch", EPOCH_MAX, &d->epoch) == -1)
    return "assignment.epoch";
  if (!json_is_array (states) || json_array_size (states) != n * groups)
    return "assignment.states";
  for (unsigned i = 0; i < n * groups; i++) {
    const char *name = json_string_value (json_array_get (states, i));
    int state = name ? member_state_parse (name) : -1;

    if (state == -1)
      return "assignment.states";
    d->states[i] = state;
  }
  /* Of an older weftd's these two say nothing. */
  if (json_object_get (json, "member_bytes") &&
      get_number (json, "member_bytes", MEMBER_DATA_BYTES_MAX,
                  &d->member_bytes) == -1)
    return "assignment.member_bytes";
  dup = json_string_value (json_object_get (json, "dup"));
  if (dup && array_dup_parse (dup) != -1)
    d->dup = array_dup_parse (dup);
  d->assigned = true;
  d->layout = kind;
  d->position = position;
  d->n = n;
  d->groups = groups;
  d->unit = unit;
  return NULL;
}

/* One source of a join order; those that make no sense are an error. */
static int
parse_source (json_t *json, struct puller_order *o)
{
  const char *uri = json_string_value (json_object_get (json, "uri"));
  json_t *tokens = json_object_get (json, "tokens");
  const char *data = json_string_value (json_object_get (tokens, "data"));
  const char *intents = json_string_value (json_object_get (tokens, "intents"));
  uint64_t m;

  if (get_number (json, "member", o->order.layout.members - 1, &m) == -1 ||
      o->source[m].uri || uri == NULL || strstr (uri, "://") == NULL ||
      data == NULL || intents == NULL)
    return -1;
  o->order.source[m] = true;
  o->source[m].data = strdup (data);
  o->source[m].intents = strdup (intents);
  o->source[m].uri = strdup (uri);
  return o->source[m].data && o->source[m].intents && o->source[m].uri ? 0 : -1;
}

/* The order, if there is one.  Returns NULL, or the name of the field that is
 * missing or makes no sense.
 */
static const char *
parse_join (json_t *json, struct member_desire *d, struct puller_order **order)
{
  json_t *sources = json_object_get (json, "sources"), *source;
  struct puller_order *o;
  char why[256];
  size_t i;

  if (json == NULL || json_is_null (json))
    return NULL;
  if (!d->assigned || d->member_bytes == 0)
    return "assignment.member_bytes";
  *order = o = puller_order_new ();
  if (o == NULL ||
      layout_init (&o->order.layout, d->layout, d->n, d->groups, d->unit,
                   d->member_bytes, why, sizeof why) == -1)
    return "assignment.member_bytes";
  o->order.member = d->position;
  o->order.paused = json_is_true (json_object_get (json, "paused"));
  if (get_number (json, "epoch", EPOCH_MAX, &o->order.epoch) == -1)
    return "join.epoch";
  if (get_number (json, "rate", INT64_MAX, &o->order.rate) == -1)
    return "join.rate";
  if (json_object_get (json, "round") &&
      get_number (json, "round", EPOCH_MAX, &d->join_round) == -1)
    return "join.round";
  if (!json_is_array (sources))
    return "join.sources";
  json_array_foreach (sources, i, source)
    if (parse_source (source, o) == -1)
      return "join.sources";
  d->join_epoch = o->order.epoch;
  return NULL;
}

static const char *
parse_reply (json_t *reply, struct member_desire *d, uint8_t key[KEY_BYTES])
{
  json_t *assignment = json_object_get (reply, "assignment");
  json_t *release = json_object_get (reply, "release");

  if (get_number (reply, "generation", INT64_MAX, &d->generation) == -1)
    return "generation";
  if (get_uuid (reply, "cluster", d->cluster) == -1)
    return "cluster";
  if (get_number (reply, "min_epoch", EPOCH_MAX, &d->min_epoch) == -1)
    return "min_epoch";
  if (release && !json_is_null (release) &&
      get_uuid (reply, "release", d->release) == -1)
    return "release";
  if (assignment == NULL)
    return "assignment";
  if (json_is_true (assignment) && !format_uuid_zero (control.told.array)) {
    member_desire_place (d, &control.told);
    return NULL;
  }
  if (get_key (reply, key) == -1)
    return "key";
  return json_is_null (assignment) ? NULL : parse_assignment (assignment, d);
}

/* Hand the engine what weftd wants.  False: it does not have it. */
static bool
obey (json_t *reply)
{
  struct member_desire d = { .assigned = false };
  struct puller_order *order = NULL;
  uint8_t key[KEY_BYTES];
  const char *field = parse_reply (reply, &d, key);
  char why[512] = "";
  bool obeyed;
  int err = 0;

  if (field == NULL)
    field = parse_join (json_object_get (reply, "join"), &d, &order);
  if (field) {
    snprintf (why, sizeof why,
              "weftd's answer to a heartbeat has no good "
              "field `%s`; are weftd and this plugin of the same version?",
              field);
    say (why);
    puller_order_free (order);
    return false;
  }
  if (control.admin == NULL) { /* threads do not outlive the fork */
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

static bool
has_code (const json_t *reply, const char *code)
{
  const char *is = json_string_value (json_object_get (reply, "code"));

  return is && strcmp (is, code) == 0;
}

/* Does weftd not know the array that we have a place in?  Then it may be told
 * to import it, as long as we ask.
 */
static bool
may_be_imported (const json_t *reply)
{
  return !format_uuid_zero (server.disk->sb.array) &&
         (has_code (reply, "foreign-cluster") ||
          has_code (reply, "unknown-array"));
}

/* One heartbeat.  Returns the HTTP status, or -1.  Unless weftd has taken it in, the
 * next one says all, and so the answer to it, with the key.
 */
static int
call (struct admin *admin, unsigned wait_ms, json_t **reply)
{
  char path[100], uuid[FORMAT_UUID_TEXT_BYTES];
  json_t *body = heartbeat (wait_ms);
  int status;

  *reply = NULL;
  if (body == NULL) {
    forget_taken ();
    say ("out of memory for a heartbeat");
    return -1;
  }
  format_uuid (server.disk->sb.disk, uuid);
  snprintf (path, sizeof path, "/api/v1/disks/%s/heartbeat", uuid);
  status = admin_call (admin, "POST", path, body, reply,
                       wait_ms + REPLY_TIMEOUT_MS);
  if (status != 200 || !obey (*reply))
    forget_taken ();
  json_decref (body);
  return status;
}

/* The same; where weftd asks for all (it was started again, or a late call came
 * between), that at once.
 */
static int
beat (struct admin *admin, unsigned wait_ms, bool *unknown)
{
  json_t *reply;
  int status = call (admin, wait_ms, &reply);

  if (status == 409 && has_code (reply, "say-all")) {
    json_decref (reply);
    status = call (admin, wait_ms, &reply);
  }
  *unknown = status == 409 && may_be_imported (reply);
  json_decref (reply);
  return status;
}

static int
make_instance (void)
{
  uint8_t random[16];

  if (getrandom (random, sizeof random, 0) != sizeof random) {
    nbdkit_error ("the kernel gives no random bytes: %m");
    return -1;
  }
  for (unsigned i = 0; i < sizeof random; i++)
    sprintf (control.instance + 2 * i, "%02x", random[i]);
  return 0;
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
  bool unknown;

  disk_cache (server.disk, control.cache);
  if (make_instance () == -1 || (admin = new_admin ()) == NULL)
    return -1;
  status = beat (admin, 0, &unknown);
  if (status >= 400 && status < 500 && !unknown) {
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

/* How far we are is told every PACE_MS while we are joining, and a new phase
 * at once: so weftd must not hold its answer.
 */
static bool
joins (void)
{
  enum member_join_phase phase = member_join_phase (server.member);

  return phase != MEMBER_JOIN_NONE && phase != MEMBER_JOIN_SYNCED &&
         member_join_epoch (server.member) != 0;
}

/* For how long weftd is to hold its answer.  After one that was lost, or no good, it
 * is asked for at once: weftd may wait for what it told.
 */
static unsigned
patience (void)
{
  if (!member_settled (server.member) || joins () || control.taken == NULL)
    return 0;
  return requests () == control.requests ? REST_MS : HEARTBEAT_MS;
}

static void
wait_pace (uint64_t began)
{
  uint64_t now;

  while (!server.stopping && (now = clock_ms ()) < began + PACE_MS &&
         member_join_phase (server.member) == control.told_phase &&
         superblock_same (&control.told, member_confirmed (server.member)))
    server_wait (began + PACE_MS - now);
}

static void *
talk (void *opaque)
{
  pthread_mutex_lock (&server.lock);
  while (!server.stopping) {
    unsigned wait_ms = patience ();
    uint64_t began = clock_ms ();
    bool unknown;
    int status;

    pthread_mutex_unlock (&server.lock);
    status = beat (control.admin, wait_ms, &unknown);
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

  pthread_mutex_lock (&server.lock);
  while (!server.stopping) {
    uint64_t now = clock_ms ();

    if (server_act (now >= lazy_at))
      continue;
    if (now >= lazy_at)
      lazy_at = now + LAZY_MS;
    server_wait (1000);
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
  /* Signals are nbdkit's. */
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
