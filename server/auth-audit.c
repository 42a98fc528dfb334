/* auth-audit.c: the audit trail: who did what, from where, and what came of it.
 * Each line is stored together with what was done; secrets are never in it.
 */

#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth-internal.h"
#include "loop.h"
#include "refusals.h"
#include "routes.h"
#include "common/refuse.h"
#include "text.h"

#define ACTION_BYTES 96
#define WORK_MAX 20 /* of each kind, of a node in ten minutes */

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
  ring_add (&a->audit, id, object, NULL, NULL);
  a->audit_last = id;
  return 0;
}

static bool
is_attach (const struct request *r)
{
  return strstr (r->route->pattern, "{name}/sessions") != NULL;
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

/* Who tries again and again must not push out what others did: not by what is
 * refused, nor a node by its work.
 */
static bool
is_flood (const struct request *r, int status)
{
  const struct caller *caller = &r->caller;
  char action[ACTION_BYTES], whose[128];

  print_action (r, action);
  snprintf (whose, sizeof whose, "audit %s %s", caller->address, caller->name);
  return !refusals_few (action, whose, status < 400 ? WORK_MAX : 1);
}

bool
auth_audits_refusal (const struct request *r)
{
  return belongs (r) && !is_flood (r, 403);
}

/* What it was about. */
static json_t *
subject_of (const struct request *r)
{
  const char *pattern = r->route->pattern;
  char text[NAME_BYTES_MAX + 64];

  if (strstr (pattern, "{member}")) {
    snprintf (text, sizeof text, "%s/%u", r->name, r->member);
    return json_string (text);
  }
  if (r->subject[0])
    return json_string (r->subject);
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

void
auth_audit (struct auth *a, struct store_txn *t, const struct request *r,
            int status, uint64_t wall_ms)
{
  const struct caller *caller = &r->caller;
  char action[ACTION_BYTES];
  bool may_flood;
  json_t *line;

  if (!belongs (r))
    return;
  may_flood = is_attach (r) || caller->role == ROLE_NODE ||
              (status >= 400 && caller->role != ROLE_ADMIN);
  /* Of what was refused beforehand, auth_audits_refusal was asked. */
  if (may_flood && !r->refused.status && is_flood (r, status))
    return;
  print_action (r, action);
  line = json_pack ("{so so ss ss ss so si}", "at", text_time (wall_ms), "who",
                    text_or_null (caller->name), "via",
                    auth_via_word (caller->via), "address", caller->address,
                    "action", action, "subject", subject_of (r), "status",
                    status);
  ring_add (&a->audit, ++a->audit_last, line, "audit", t);
}

json_t *
auth_audit_view (const struct auth *a, uint64_t cursor, unsigned limit)
{
  return ring_view (&a->audit, "audit", cursor > 0 ? cursor : UINT64_MAX, limit,
                    NULL, NULL);
}
