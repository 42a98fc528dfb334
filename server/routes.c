/* routes.c: see routes.h.  A route's two functions stand together: what it
 * reads from the body, and what the loop does with it.
 */

#include <config.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "routes-internal.h"
#include "views.h"

/* ---- Arrays. ---- */

static void
parse_disks (struct fields *f, struct cluster_create *create)
{
  const json_t *list;
  size_t count;

  if (!fields_has (f, "disks")) {
    fields_fail (f, "disks", "field disks is missing: give the UUIDs of the "
                 "disks, in the order of their positions");
    return;
  }
  f->seen[f->seen_count++] = "disks";
  list = json_object_get (f->object, "disks");
  count = json_array_size (list);
  if (!json_is_array (list) || count == 0 || count > ARRAY_MEMBERS_MAX) {
    fields_fail (f, "disks", "field disks must be a list of 1 to %d UUIDs",
                 ARRAY_MEMBERS_MAX);
    return;
  }
  create->members = (unsigned) count;
  for (size_t i = 0; i < count; i++) {
    const char *text = json_string_value (json_array_get (list, i));

    if (text == NULL || !fields_parse_uuid (text, create->disk[i]))
      fields_fail (f, "disks", "element %zu of field disks must be a UUID in "
                   "lower case", i);
  }
}

static void
parse_create (struct fields *f, struct request *r)
{
  struct cluster_create *create = calloc (1, sizeof *create);
  int layout = LAYOUT_RAIDX, dup = DUP_ASYNC_CLIENT;
  uint64_t groups = 1;

  if (create == NULL)
    abort ();
  r->create = create;
  create->unit = UNIT_BYTES_DEFAULT;
  fields_name (f, "name", create->name, sizeof create->name);
  fields_word (f, "layout", layout_parse,
               "raid-x, raid-10, chained, rotated, raid-1, raid-0", &layout);
  if (fields_has (f, "unit"))
    fields_u64 (f, "unit", UNIT_BYTES_MIN, UNIT_BYTES_MAX, &create->unit);
  if (fields_has (f, "groups"))
    fields_u64 (f, "groups", 1, ARRAY_GROUPS_MAX, &groups);
  if (fields_has (f, "dup"))
    fields_word (f, "dup", array_dup_parse, "async-client, sync-client", &dup);
  if (fields_has (f, "dry_run"))
    fields_bool (f, "dry_run", &r->dry_run);
  parse_disks (f, create);
  fields_end (f);
  create->layout = (enum layout_kind) layout;
  create->dup = (enum array_dup) dup;
  create->groups = (unsigned) groups;
}

static void
handle_create (struct loop *l, struct request *r)
{
  struct cluster *c = loop_cluster (l);
  struct cluster_array *plan;
  struct cluster_problem p;
  struct cluster_input in;
  json_t *body;
  int status = 200;

  if (!r->dry_run) {
    loop_input (l, r, &in);
    cluster_array_create (c, &in, r->create);
    return;
  }
  plan = calloc (1, sizeof *plan);
  if (plan == NULL)
    abort ();
  if (cluster_array_plan (c, r->create, plan, &p) == -1)
    body = view_problem (&p, &status);
  else {
    body = view_array (c, plan, loop_wall_ms (l));
    json_object_set_new (body, "waits_for", json_null ());
    json_object_set_new (body, "dry_run", json_true ());
  }
  loop_answer (l, r, status, body);
  free (plan);
}

static void
handle_arrays (struct loop *l, struct request *r)
{
  loop_answer (l, r, 200, view_arrays (loop_cluster (l), loop_wall_ms (l)));
}

static void
handle_array (struct loop *l, struct request *r)
{
  struct cluster *c = loop_cluster (l);
  const struct cluster_array *a = cluster_array_find (c, r->name);
  char why[200];

  if (a) {
    loop_answer (l, r, 200, view_array (c, a, loop_wall_ms (l)));
    return;
  }
  snprintf (why, sizeof why,
            "there is no array %s: GET /api/v1/arrays lists them", r->name);
  loop_answer (l, r, 404, view_error (404, NULL, "unknown-array", why));
}

static void
handle_array_delete (struct loop *l, struct request *r)
{
  struct cluster_input in;

  loop_input (l, r, &in);
  cluster_array_delete (loop_cluster (l), &in, r->name);
}

/* ---- Sessions. ---- */

static int
mode_parse (const char *word)
{
  return strcmp (word, "ro") == 0 ? 0 : strcmp (word, "rw") == 0 ? 1 : -1;
}

static void
parse_attach (struct fields *f, struct request *r)
{
  struct cluster_attach *a = &r->attach;
  int writable = 0;

  fields_text (f, "instance", a->instance, sizeof a->instance);
  if (!f->failed && a->instance[0] == '\0')
    fields_fail (f, "instance", "field instance must not be empty");
  fields_name (f, "node", a->node, sizeof a->node);
  fields_u64 (f, "pid", 0, INT64_MAX, &a->pid);
  fields_word (f, "mode", mode_parse, "rw, ro", &writable);
  a->writable = writable == 1;
  if (fields_has (f, "uri"))
    fields_uri (f, "uri", a->uri, sizeof a->uri);
  if (fields_has (f, "takeover"))
    fields_bool (f, "takeover", &a->takeover);
}

static void
handle_attach (struct loop *l, struct request *r)
{
  struct cluster_input in;

  loop_input (l, r, &in);
  cluster_attach (loop_cluster (l), &in, r->name, &r->attach);
}

/* How the members look from the array process. */
static void
parse_stats_members (struct fields *stats, struct array_stats *s)
{
  const json_t *list = json_object_get (stats->object, "members");
  uint64_t service_us = 0;
  struct fields g;

  if (!json_is_array (list) || json_array_size (list) > ARRAY_MEMBERS_MAX) {
    fields_fail (stats, "members", "members must be a list of at most %d",
                 ARRAY_MEMBERS_MAX);
    return;
  }
  for (size_t i = 0; i < json_array_size (list); i++) {
    fields_begin (&g, json_array_get (list, i));
    fields_u64 (&g, "service_us", 0, INT64_MAX / 1000, &service_us);
    fields_bool (&g, "suspect", &s->member[i].suspect);
    fields_end (&g);
    if (g.failed) {
      fields_fail (stats, "members", "members[%zu]: %.200s", i, g.why);
      return;
    }
    s->member[i].service_ns = service_us * 1000;
  }
}

static void
parse_stats (struct fields *f, struct array_stats *s)
{
  struct fields g;
  uint64_t waiting = 0, in_flight = 0;
  struct {
    const char *name;
    uint64_t *value;
  } counters[] = {
    { "reads", &s->reads },
    { "writes", &s->writes },
    { "flushes", &s->flushes },
    { "zeroes", &s->zeroes },
    { "trims", &s->trims },
    { "read_bytes", &s->read_bytes },
    { "write_bytes", &s->write_bytes },
    { "read_ns", &s->read_ns },
    { "write_ns", &s->write_ns },
    { "flush_ns", &s->flush_ns },
    { "image_bytes", &s->image_bytes },
    { "image_bytes_max", &s->image_bytes_max },
    { "image_oldest_ns", &s->image_oldest_ns },
    { "images_sent", &s->images_sent },
    { "images_replaced", &s->images_replaced },
    { "batches", &s->batches },
    { "requests_waiting", &waiting },
    { "ios_in_flight", &in_flight },
  };

  fields_begin (&g, json_object_get (f->object, "stats"));
  if (g.failed) {
    fields_fail (f, "stats", "field stats must be an object");
    return;
  }
  for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++)
    if (fields_has (&g, counters[i].name))
      fields_u64 (&g, counters[i].name, 0, INT64_MAX, counters[i].value);
  if (fields_has (&g, "members"))
    parse_stats_members (&g, s);
  if (g.failed)
    fields_fail (f, g.field, "in stats: %.200s", g.why);
  s->requests_waiting = waiting < UINT32_MAX ? (unsigned) waiting : UINT32_MAX;
  s->ios_in_flight
    = in_flight < UINT32_MAX ? (unsigned) in_flight : UINT32_MAX;
}

static void
parse_session_heartbeat (struct fields *f, struct request *r)
{
  struct cluster_session_heartbeat *hb = &r->session_heartbeat;

  fields_text (f, "instance", hb->instance, sizeof hb->instance);
  fields_u64 (f, "epoch", 0, EPOCH_MAX, &hb->epoch);
  if (fields_has (f, "prepared"))
    fields_u64 (f, "prepared", 0, EPOCH_MAX, &hb->prepared);
  if (fields_has (f, "uri")) {
    fields_uri (f, "uri", hb->uri, sizeof hb->uri);
    hb->has_uri = true;
  }
  if (fields_has (f, "stats")) {
    parse_stats (f, &hb->stats);
    hb->has_stats = true;
  }
  if (fields_has (f, "draining"))
    fields_bool (f, "draining", &hb->draining);
  if (fields_has (f, "wait_ms"))
    fields_u64 (f, "wait_ms", 0, 60000, &hb->wait_ms);
}

static void
handle_session_heartbeat (struct loop *l, struct request *r)
{
  struct cluster_input in;

  loop_input (l, r, &in);
  cluster_session_heartbeat (loop_cluster (l), &in, r->id,
                             &r->session_heartbeat);
}

static void
parse_lost (struct fields *f, struct request *r)
{
  uint64_t member = 0;

  fields_u64 (f, "member", 0, ARRAY_MEMBERS_MAX - 1, &member);
  r->member = (unsigned) member;
  strcpy (r->reason, "it does not say why");
  if (fields_has (f, "reason"))
    fields_prose (f, "reason", r->reason, sizeof r->reason);
}

static void
handle_lost (struct loop *l, struct request *r)
{
  struct cluster_input in;

  loop_input (l, r, &in);
  cluster_session_lost (loop_cluster (l), &in, r->id, r->member, r->reason);
}

static void
handle_sessions (struct loop *l, struct request *r)
{
  loop_answer (l, r, 200, view_sessions (loop_cluster (l)));
}

static void
handle_detach (struct loop *l, struct request *r)
{
  struct cluster_input in;

  loop_input (l, r, &in);
  cluster_session_detach (loop_cluster (l), &in, r->id);
}

/* ---- Everything. ---- */

static void
handle_nodes (struct loop *l, struct request *r)
{
  loop_answer (l, r, 200, view_nodes (loop_cluster (l)));
}

static void
handle_status (struct loop *l, struct request *r)
{
  r->event_id = loop_last_event (l);
  loop_answer (l, r, 200, view_status (loop_cluster (l), loop_wall_ms (l)));
}

const struct route route_snapshot = { .handle = handle_status };

#define V1 "/api/v1"
#define MEMBER V1 "/arrays/{name}/members/{member}"

const struct route routes[] = {
  { "GET", V1 "/status", .handle = handle_status },
  { "GET", V1 "/nodes", .handle = handle_nodes },
  { "GET", V1 "/disks", .handle = handle_disks },
  { "GET", V1 "/disks/{uuid}", .handle = handle_disk },
  { "DELETE", V1 "/disks/{uuid}", .handle = handle_disk_forget },
  { "POST", V1 "/disks/{uuid}/heartbeat", .has_body = true,
    .parse = parse_disk_heartbeat, .handle = handle_disk_heartbeat },
  { "GET", V1 "/arrays", .handle = handle_arrays },
  { "POST", V1 "/arrays", .has_body = true, .makes = true,
    .parse = parse_create, .handle = handle_create },
  { "GET", V1 "/arrays/{name}", .handle = handle_array },
  { "PATCH", V1 "/arrays/{name}", .has_body = true, .parse = parse_array_tune,
    .handle = handle_array_tune },
  { "DELETE", V1 "/arrays/{name}", .handle = handle_array_delete },
  { "PATCH", MEMBER, .has_body = true, .parse = parse_member_tune,
    .handle = handle_member_tune },
  { "POST", MEMBER "/replace", .has_body = true, .parse = parse_disk_name,
    .handle = handle_replace },
  { "POST", MEMBER "/cancel", .handle = handle_cancel },
  { "POST", MEMBER "/join", .handle = handle_join },
  { "POST", V1 "/arrays/{name}/spares", .has_body = true,
    .parse = parse_disk_name, .handle = handle_spare_add },
  { "DELETE", V1 "/arrays/{name}/spares/{uuid}", .handle = handle_spare_drop },
  { "GET", V1 "/rebuilds", .handle = handle_rebuilds },
  { "GET", V1 "/imports", .handle = handle_imports },
  { "POST", V1 "/imports", .has_body = true, .makes = true,
    .parse = parse_import, .handle = handle_import },
  { "POST", V1 "/arrays/{name}/sessions", .has_body = true, .makes = true,
    .parse = parse_attach, .handle = handle_attach },
  { "GET", V1 "/sessions", .handle = handle_sessions },
  { "DELETE", V1 "/sessions/{id}", .handle = handle_detach },
  { "POST", V1 "/sessions/{id}/heartbeat", .has_body = true,
    .parse = parse_session_heartbeat, .handle = handle_session_heartbeat },
  { "POST", V1 "/sessions/{id}/lost", .has_body = true, .parse = parse_lost,
    .handle = handle_lost },
  { "GET", V1 "/events", .kind = ROUTE_EVENTS },
  { "GET", V1 "/openapi.json", .kind = ROUTE_OPENAPI },
};
const size_t routes_count = sizeof routes / sizeof routes[0];

/* ---- Finding one. ---- */

#define PARTS_MAX 2
#define PART_BYTES 80

/* Does the path have the pattern's shape?  Its variable parts are copied. */
static bool
shape (const char *pattern, const char *path, char part[PARTS_MAX][PART_BYTES])
{
  unsigned count = 0;
  size_t n;

  while (*pattern) {
    if (*pattern != '{') {
      if (*pattern++ != *path++)
        return false;
      continue;
    }
    n = strcspn (path, "/");
    if (n == 0 || n >= PART_BYTES)
      return false;
    assert (count < PARTS_MAX);
    memcpy (part[count], path, n);
    part[count++][n] = '\0';
    path += n;
    pattern = strchr (pattern, '}') + 1;
  }
  return *path == '\0';
}

static bool
parse_position (const char *text, unsigned *member)
{
  size_t n = strlen (text);

  if (n > 3 || strspn (text, "0123456789") != n || (n > 1 && text[0] == '0'))
    return false;
  *member = (unsigned) atoi (text);
  return *member < ARRAY_MEMBERS_MAX;
}

/* Take what stands in the path for `{what}`; false: why. */
static bool
take_part (const char *what, const char *part, struct request *r, char *why,
           size_t why_size)
{
  uint8_t id[8];

  if (strncmp (what, "{uuid}", 6) == 0) {
    if (fields_parse_uuid (part, r->uuid))
      return true;
    snprintf (why, why_size, "the path must name a disk by its UUID in lower "
              "case");
  }
  else if (strncmp (what, "{id}", 4) == 0) {
    if (fields_parse_hex (part, id, sizeof id)) {
      for (unsigned i = 0; i < 8; i++)
        r->id = r->id << 8 | id[i];
      return true;
    }
    snprintf (why, why_size, "the path must name a session by its 16 "
              "lower-case hex digits");
  }
  else if (strncmp (what, "{member}", 8) == 0) {
    if (parse_position (part, &r->member))
      return true;
    snprintf (why, why_size, "the path must name a member by its position, 0 "
              "to %d", ARRAY_MEMBERS_MAX - 1);
  }
  else {
    if (fields_is_name (part)) {
      strcpy (r->name, part);
      return true;
    }
    snprintf (why, why_size, "the path must name an array: at most %d "
              "lower-case letters, digits and '-'", NAME_BYTES_MAX);
  }
  return false;
}

static bool
take_parts (const struct route *route, char part[PARTS_MAX][PART_BYTES],
            struct request *r, char *why, size_t why_size)
{
  const char *what = route->pattern;

  request_init (r, route);
  for (unsigned i = 0; (what = strchr (what, '{')) != NULL; i++, what++)
    if (!take_part (what, part[i], r, why, why_size)) {
      request_destroy (r);
      return false;
    }
  return true;
}

enum route_match
routes_find (const char *method, const char *path, struct request *r,
             char allow[64], char *why, size_t why_size)
{
  char part[PARTS_MAX][PART_BYTES];
  bool head = strcmp (method, "HEAD") == 0;

  allow[0] = '\0';
  for (size_t i = 0; i < routes_count; i++) {
    if (!shape (routes[i].pattern, path, part))
      continue;
    if (strcmp (routes[i].method, head ? "GET" : method) == 0)
      return take_parts (&routes[i], part, r, why, why_size) ? ROUTE_MATCH
                                                             : ROUTE_BAD_NAME;
    assert (strlen (allow) + 16 < 64);
    if (allow[0])
      strcat (allow, ", ");
    strcat (allow, routes[i].method);
  }
  return allow[0] ? ROUTE_NO_METHOD : ROUTE_NO_PATH;
}
