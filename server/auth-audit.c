/* auth-audit.c: the audit trail: each change, its author, the address, and the
 * result.  Each line is stored together with its change; secrets are never in
 * it.
 *
 * Each change and refusal of an administrator has a line.  Repeated requests of
 * other callers must not push those lines out, nor fill the disk.  So changes
 * of nodes and viewers, and refusals of all others, have rings of their own,
 * and there a line sums up: for one caller's tries of one kind in ten minutes
 * the first ones have lines, and the last of these counts the rest (`times`,
 * `last_at`). Unknown callers are distinguished by address, for IPv6 by
 * network; the line has the address of the first try.  When very many callers
 * try, one line counts the tries of one kind by all further ones (`address`
 * null).
 *
 * A count of changes is stored with the change; a count of refusals within a
 * minute.
 */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "addresses.h"
#include "auth-internal.h"
#include "fields.h"
#include "loop.h"
#include "routes.h"
#include "common/refuse.h"
#include "text.h"

#define ACTION_BYTES 96
#define WORK_LINES 20 /* of each kind, of a caller in ten minutes */
#define PERIOD_S 600

/* How many counts there may be: of what callers that nobody knows are refused, of what
 * others are refused, of what nodes and viewers do, and of all further callers together.
 */
#define STRANGERS_MAX 256
#define KNOWN_MAX 512
#define WORK_MAX 512
#define FURTHER_MAX 256
#define COUNTS_MAX (STRANGERS_MAX + KNOWN_MAX + WORK_MAX + FURTHER_MAX)
#define FURTHER (counts + COUNTS_MAX - FURTHER_MAX)
#define COUNT_KEY_BYTES 256

struct count {
  char key[COUNT_KEY_BYTES]; /* "": free */
  uint64_t since_s;
  unsigned lines;         /* that were written in this period; */
  uint64_t id;            /* the last of them, 0: it is on its way, */
  unsigned times, stored; /* and its count */
  uint64_t last_ms;       /* wall clock */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct count counts[COUNTS_MAX]; /* in this order */

/* ---- Lines from the store. ---- */

/* Requests of nodes and viewers, and refusals of others, are counted. */
static enum audit_ring
ring_of (const json_t *line)
{
  if (json_object_get (line, "times") == NULL)
    return AUDIT_CHANGES;
  return json_integer_value (json_object_get (line, "status")) < 400
           ? AUDIT_WORK
           : AUDIT_REFUSED;
}

int
audit_load (struct auth *a, const char *key, const char *json, char *why,
            size_t why_size)
{
  json_t *object = json_loads (json, JSON_REJECT_DUPLICATES, NULL);
  char *end;
  uint64_t id = strtoull (key, &end, 10);

  if (!json_is_object (object) || *end || id <= a->audit_last) {
    json_decref (object);
    return refuse (why, why_size, "it is no line of the audit trail");
  }
  ring_add (&a->audit[ring_of (object)], id, object, NULL, NULL);
  a->audit_last = id;
  return 0;
}

/* ---- What belongs in it, and how. ---- */

static bool
is_attach (const struct request *r)
{
  return strstr (r->route->pattern, "{name}/sessions") != NULL;
}

/* Is it a logout without a login?  It changes nothing. */
static bool
ends_nothing (const struct request *r, int status)
{
  return status < 400 && r->caller.via != VIA_LOGIN &&
         strcmp (r->route->pattern, "/api/v1/logout") == 0;
}

/* Heartbeats and the like are a node's work, not somebody's decision, but for an answer
 * by which the node can read more than before.
 */
static bool
belongs (const struct request *r)
{
  const struct route *route = r->route;

  if (r->grants)
    return true;
  if (route->method == NULL || strcmp (route->method, "GET") == 0 ||
      route->asks || r->query.dry_run)
    return false;
  return route->who != WHO_NODE || is_attach (r) ||
         strcmp (route->method, "DELETE") == 0 ||
         strstr (route->pattern, "/certificate") != NULL;
}

static void
print_action (const struct request *r, char text[ACTION_BYTES])
{
  const char *path = r->route->pattern;

  if (strncmp (path, "/api/v1", 7) == 0)
    path += 7;
  snprintf (text, ACTION_BYTES, "%s %s", r->route->method, path);
}

/* Is it one of many that may come? */
static bool
is_counted (const struct request *r, int status)
{
  enum auth_role role = r->caller.role;

  return is_attach (r) || role == ROLE_NODE || role == ROLE_VIEWER ||
         (status >= 400 && role != ROLE_ADMIN);
}

/* ---- Counting; with the lock held. ---- */

/* Of this key, or a free one for it; NULL: there is no room between these. */
static struct count *
find (struct count *from, struct count *to, const char *key, uint64_t now_s)
{
  struct count *c, *free = NULL;

  for (c = from; c < to; c++) {
    bool over = now_s - c->since_s >= PERIOD_S && c->stored == c->times;

    if (c->key[0] && !over && strcmp (c->key, key) == 0)
      return c;
    if (free == NULL && (c->key[0] == '\0' || over))
      free = c;
  }
  if (free) {
    memset (free, 0, sizeof *free);
    snprintf (free->key, sizeof free->key, "%s", key);
    free->since_s = now_s;
  }
  return free;
}

/* Its own, or, where there are too many, one with all further callers. */
static struct count *
count_of (const struct request *r, int status)
{
  const struct caller *caller = &r->caller;
  bool stranger = caller->via == VIA_NONE;
  struct count *from = counts, *to = from + STRANGERS_MAX, *c;
  uint64_t now_s = clock_boot_ms () / 1000;
  char action[ACTION_BYTES], key[COUNT_KEY_BYTES];
  char origin[ADDRESSES_ORIGIN_BYTES];

  if (status < 400) {
    from = counts + STRANGERS_MAX + KNOWN_MAX;
    to = from + WORK_MAX;
  }
  else if (!stranger) {
    from = to;
    to = from + KNOWN_MAX;
  }
  print_action (r, action);
  addresses_origin (caller->address, origin);
  snprintf (key, sizeof key, "%d %s %s %d", (int) caller->via,
            stranger ? origin : caller->name, action, status);
  c = find (from, to, key, now_s);
  if (c)
    return c;
  snprintf (key, sizeof key, "%d %s %d", (int) caller->via, action, status);
  c = find (FURTHER, counts + COUNTS_MAX, key, now_s);
  /* There are not so many kinds that come by so many: any line may count these. */
  return c ? c : FURTHER;
}

static json_t *
find_line (struct auth *a, uint64_t id)
{
  json_t *line = NULL;

  for (int i = 0; i < AUDIT_RINGS && line == NULL; i++)
    line = ring_line (&a->audit[i], id);
  return line;
}

static void
put_line (struct store_txn *t, uint64_t id, json_t *line)
{
  char key[STORE_KEY_BYTES];

  snprintf (key, sizeof key, STORE_NUMBER, id);
  store_txn_put (t, "audit", key, json_incref (line));
}

/* Bring a line up to what was counted, and, with t, into the store. */
static void
settle (struct auth *a, struct count *c, struct store_txn *t)
{
  json_t *line;

  if (c->id == 0 || c->times == c->stored)
    return;
  line = find_line (a, c->id);
  if (line) {
    json_object_set_new (line, "times", text_number (c->times));
    json_object_set_new (line, "last_at", text_time (c->last_ms));
  }
  if (line && t)
    put_line (t, c->id, line);
  if (t)
    c->stored = c->times;
}

/* ---- The audit log.  A line that counts says itself which count is `exported`. ---- */

static bool
is_exported (const json_t *line)
{
  return json_integer_value (json_object_get (line, "times")) ==
         json_integer_value (json_object_get (line, "exported"));
}

/* The line must be stored after this. */
static void export (struct auth *a, struct store_txn *t, uint64_t id,
                    json_t *line)
{
  json_t *times = json_object_get (line, "times");

  audit_log_add (a->log, t, id, line);
  if (times && audit_log_wanted (a->log))
    json_object_set_new (line, "exported", json_copy (times));
}

/* Counting lines go there once in a minute: others must not fill a disk by
 * them.
 */
static void
export_count (struct auth *a, struct count *c, struct store_txn *t)
{
  json_t *line = c->id ? find_line (a, c->id) : NULL;

  if (line == NULL || is_exported (line) || !audit_log_wanted (a->log))
    return;
  export (a, t, c->id, line);
  put_line (t, c->id, line);
}

struct audit_log *
auth_audit_log (const struct auth *a)
{
  return a->log;
}

/* The next line in all rings, of which `at` were passed: its ring; NULL: there is none. */
static const struct ring *
next_line (const struct auth *a, size_t at[AUDIT_RINGS], size_t *where)
{
  int oldest = -1;
  uint64_t id = UINT64_MAX;

  for (int i = 0; i < AUDIT_RINGS; i++) {
    const struct ring *r = &a->audit[i];
    size_t here = (r->first + at[i]) % RING_MAX;

    if (at[i] < r->count && r->lines[here].id < id) {
      oldest = i;
      id = r->lines[here].id;
      *where = here;
    }
  }
  if (oldest == -1)
    return NULL;
  at[oldest]++;
  return &a->audit[oldest];
}

void
auth_audit_start (struct auth *a, struct store_txn *t)
{
  uint64_t through = audit_log_through (a->log);
  size_t at[AUDIT_RINGS] = { 0 }, where;
  const struct ring *r;

  if (!audit_log_wanted (a->log))
    return;
  while ((r = next_line (a, at, &where)) != NULL) {
    uint64_t id = r->lines[where].id;
    json_t *line = r->lines[where].json;

    if (id <= through && is_exported (line))
      continue;
    export (a, t, id, line);
    put_line (t, id, line);
  }
}

/* Count it; returns whether it needs a line of its own. */
static bool
count (struct auth *a, struct store_txn *t, struct request *r, int status,
       uint64_t wall_ms)
{
  unsigned lines = status < 400 ? WORK_LINES : 1;
  struct count *c;
  bool new;

  pthread_mutex_lock (&lock);
  r->counted = c = count_of (r, status);
  new = c->lines < lines;
  if (new) {
    c->lines++;
    c->id = 0;
    c->times = c->stored = 0;
  }
  c->times++;
  c->last_ms = wall_ms;
  if (status < 400) /* a change is never forgotten, nor its count */
    settle (a, c, t);
  pthread_mutex_unlock (&lock);
  return new;
}

/* All of them; t NULL: for a reader. */
void
audit_tick (struct auth *a, struct store_txn *t)
{
  pthread_mutex_lock (&lock);
  for (struct count *c = counts; c < counts + COUNTS_MAX; c++) {
    settle (a, c, t);
    if (t)
      export_count (a, c, t);
  }
  pthread_mutex_unlock (&lock);
}

bool
auth_audits_refusal (struct request *r, int status, uint64_t wall_ms)
{
  if (!belongs (r))
    return false;
  return !is_counted (r, status) || count (NULL, NULL, r, status, wall_ms);
}

/* ---- Lines. ---- */

/* Its subject. */
static json_t *
subject_of (const struct request *r)
{
  const char *pattern = r->route->pattern;
  char text[sizeof r->subject + NAME_BYTES_MAX + 32];

  if (strstr (pattern, "{member}")) {
    snprintf (text, sizeof text, "%s/%u%s%s", r->name, r->member,
              r->subject[0] ? ", " : "", r->subject);
    return json_string (text);
  }
  if (r->subject[0])
    return json_string (r->subject);
  if (strstr (pattern, "{node}")) {
    snprintf (text, sizeof text, "%s for %s", r->name, r->node);
    return json_string (text);
  }
  if (strstr (pattern, "{name}"))
    return json_string (r->name);
  if (strstr (pattern, "{uuid}") && r->name[0]) {
    format_uuid (r->uuid, text);
    strcat (strcat (text, " to "), r->name);
    return json_string (text);
  }
  if (strstr (pattern, "{uuid}"))
    return text_uuid (r->uuid);
  if (strstr (pattern, "{id}"))
    return text_session (r->id);
  return json_null ();
}

/* The line `id` is to count what comes; it says itself that there was one. */
static void
take_line (struct count *c, uint64_t id)
{
  pthread_mutex_lock (&lock);
  c->id = id;
  c->stored = 1;
  pthread_mutex_unlock (&lock);
}

void
auth_audit (struct auth *a, struct store_txn *t, struct request *r, int status,
            uint64_t wall_ms)
{
  const struct caller *caller = &r->caller;
  bool counted, further = false;
  char action[ACTION_BYTES];
  json_t *line;

  if (!belongs (r) || ends_nothing (r, status))
    return;
  counted = is_counted (r, status);
  /* An earlier refusal was counted then. */
  if (counted && !r->refused.status && !count (a, t, r, status, wall_ms))
    return;
  a->audit_last++;
  if (counted) {
    take_line (r->counted, a->audit_last);
    further = r->counted >= FURTHER;
  }
  print_action (r, action);
  line = fields_object ((const struct field_value[]) {
    { "at", text_time (wall_ms) },
    { "who", text_or_null (further ? "" : caller->name) },
    { "via", text_string (auth_via_word (caller->via)) },
    { "address", text_or_null (further ? "" : caller->address) },
    { "action", text_string (action) },
    { "subject", further ? json_null () : subject_of (r) },
    { "status", json_integer (status) },
    { NULL } });
  if (!further && caller->process[0])
    json_object_set_new (line, "process", json_string (caller->process));
  if (counted) {
    json_object_set_new (line, "times", json_integer (1));
    json_object_set_new (line, "last_at", text_time (wall_ms));
  }
  export (a, t, a->audit_last, line);
  ring_add (&a->audit[ring_of (line)], a->audit_last, line, "audit", t);
}

json_t *
auth_audit_view (struct auth *a, uint64_t cursor, unsigned limit)
{
  json_t *view, *line;
  size_t i;

  audit_tick (a, NULL);
  view = ring_view (a->audit, AUDIT_RINGS, "audit",
                    cursor > 0 ? cursor : UINT64_MAX, limit, NULL, NULL);
  json_array_foreach (json_object_get (view, "audit"), i, line) {
    json_object_del (line, "exported");
    if (json_object_get (line, "times") == NULL) {
      json_object_set_new (line, "times", json_integer (1));
      json_object_set (line, "last_at", json_object_get (line, "at"));
    }
  }
  return view;
}
