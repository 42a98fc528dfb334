/* auth-audit.c: the audit trail: who did what, from where, and what came of it.
 * Each line is stored together with what was done; secrets are never in it.
 *
 * What administrators did and were refused has a line each.  Whoever else does or
 * tries something again and again must not push that out, nor fill the disk: so what
 * nodes and viewers do and what others were refused have rings of their own, and there
 * a line sums up.  Of one caller's tries of one kind in ten minutes the first ones have
 * lines, and the last of these counts the rest (`times`, `last_at`).  Callers whom
 * nobody knows are told by addresses, of IPv6 by their network; the line has the address
 * of the first try.  When very many callers try, one line counts the tries of one kind by
 * all further ones (`address` null).
 *
 * A count is stored with what was done; that of refusals within a minute.
 */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "addresses.h"
#include "auth-internal.h"
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
  unsigned times, stored; /* and what it counts */
  uint64_t last_ms;       /* wall clock */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct count counts[COUNTS_MAX]; /* in this order */

/* ---- Lines from the store. ---- */

/* What nodes and viewers do and what others were refused is counted. */
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

/* Who logs out without a login has done nothing. */
static bool
ends_nothing (const struct request *r, int status)
{
  return status < 400 && r->caller.via != VIA_LOGIN &&
         strcmp (r->route->pattern, "/api/v1/logout") == 0;
}

/* Heartbeats and the like are a node's work, not somebody's decision. */
static bool
belongs (const struct request *r)
{
  const struct route *route = r->route;

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

/* Bring a line up to what was counted, and, with t, into the store. */
static void
settle (struct auth *a, struct count *c, struct store_txn *t)
{
  json_t *line = NULL;
  char key[STORE_KEY_BYTES];

  if (c->id == 0 || c->times == c->stored)
    return;
  for (int i = 0; i < AUDIT_RINGS && line == NULL; i++)
    line = ring_line (&a->audit[i], c->id);
  if (line) {
    json_object_set_new (line, "times", text_number (c->times));
    json_object_set_new (line, "last_at", text_time (c->last_ms));
  }
  if (line && t) {
    snprintf (key, sizeof key, STORE_NUMBER, c->id);
    store_txn_put (t, "audit", key, json_incref (line));
  }
  if (t)
    c->stored = c->times;
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
  if (status < 400) /* what was done is never forgotten, nor how often */
    settle (a, c, t);
  pthread_mutex_unlock (&lock);
  return new;
}

/* All of them; t NULL: for who looks. */
void
audit_tick (struct auth *a, struct store_txn *t)
{
  pthread_mutex_lock (&lock);
  for (struct count *c = counts; c < counts + COUNTS_MAX; c++)
    settle (a, c, t);
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

/* What it was about. */
static json_t *
subject_of (const struct request *r)
{
  const char *pattern = r->route->pattern;
  char text[4 * NAME_BYTES_MAX + 32];

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
  /* What was refused beforehand was counted then. */
  if (counted && !r->refused.status && !count (a, t, r, status, wall_ms))
    return;
  a->audit_last++;
  if (counted) {
    take_line (r->counted, a->audit_last);
    further = r->counted >= FURTHER;
  }
  print_action (r, action);
  line = json_pack ("{so so ss so ss so si}", "at", text_time (wall_ms), "who",
                    text_or_null (further ? "" : caller->name), "via",
                    auth_via_word (caller->via), "address",
                    text_or_null (further ? "" : caller->address), "action",
                    action, "subject", further ? json_null () : subject_of (r),
                    "status", status);
  if (counted) {
    json_object_set_new (line, "times", json_integer (1));
    json_object_set_new (line, "last_at", text_time (wall_ms));
  }
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
  json_array_foreach (json_object_get (view, "audit"), i, line)
    if (json_object_get (line, "times") == NULL) {
      json_object_set_new (line, "times", json_integer (1));
      json_object_set (line, "last_at", json_object_get (line, "at"));
    }
  return view;
}
