/* views.c: see views.h. */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "allow.h"
#include "fields.h"
#include "text.h"
#include "views.h"

/* ---- Disks. ---- */

static const char *
array_name (const struct cluster *c, const uint8_t uuid[16])
{
  const struct cluster_array *a;

  TAILQ_FOREACH (a, cluster_arrays (c), link)
    if (memcmp (a->rec.uuid, uuid, 16) == 0)
      return a->rec.name;
  return NULL;
}

json_t *
view_disk (const struct cluster *c, const struct cluster_disk *d)
{
  const struct cluster_disk_record *r = &d->rec;

  return fields_object ((const struct field_value[]) {
    { "uuid", text_uuid (r->uuid) },
    { "node", text_string (r->node) },
    { "moves_to", text_or_null (r->moves_to) },
    { "path", text_string (r->path) },
    { "uri", text_string (r->uri) },
    { "size", text_number (r->size) },
    { "data_bytes", text_number (r->data_bytes) },
    { "state", text_string (cluster_disk_failed (d) ? "failed"
                            : d->alive              ? "serving"
                                                    : "silent") },
    { "alive", json_boolean (d->alive) },
    { "reason", text_or_null (d->reason) },
    { "short", text_or_null (cluster_room_short (d)) },
    { "array", d->array ? json_string (d->array->rec.name) : json_null () },
    { "position", d->array ? json_integer (d->position) : json_null () },
    { "spare_of", text_or_null (array_name (c, r->spare_of)) },
    { "releasing", text_uuid_or_null (r->release) },
    { "last_heard_ms", text_number (cluster_disk_silent_ms (c, d)) },
    { "min_epoch", text_number (d->min_epoch) },
    { "sequence", text_number (d->sequence) },
    { "dirty_extents", text_number (d->dirty_extents) },
    { "rekeys", json_boolean (cluster_disk_rekeys (d)) },
    { "load", view_disk_load (d) },
    { NULL } });
}

/* ---- Sessions. ---- */

static json_t *
session_part (const struct cluster_session_record *r)
{
  if (r->part.length == 0 || r->leases)
    return json_null ();
  return json_pack ("{so so}", "offset", text_number (r->part.offset), "length",
                    text_number (r->part.length));
}

json_t *
view_session (const struct cluster *c, const struct cluster_session *s)
{
  const struct cluster_session_record *r = &s->rec;

  return fields_object ((const struct field_value[]) {
    { "id", text_session (r->id) },
    { "session", text_session (r->id) },
    { "array", text_string (r->array_name) },
    { "node", text_string (r->node) },
    { "pid", text_number (r->pid) },
    { "mode", text_string (r->service       ? "service"
                           : r->part.length ? "shared"
                           : r->writable    ? "rw"
                                            : "ro") },
    { "part", session_part (r) },
    { "leases", json_boolean (r->leases) },
    { "uri", text_or_null (r->uri) },
    { "alive", json_boolean (s->alive) },
    { "draining", json_boolean (s->draining) },
    { "last_heard_ms", text_number (cluster_session_silent_ms (c, s)) },
    { "epoch", text_number (s->epoch) },
    { "since", text_time (r->since_wall_ms) },
    { "load", view_session_load (s) },
    { NULL } });
}

/* ---- Arrays. ---- */

static json_t *
view_member (const struct cluster *c, const struct cluster_array *a, unsigned m)
{
  const struct cluster_member *member = &a->rec.member[m];
  const struct cluster_disk *d = a->disk[m];
  const char *reason = member->reason[0] ? member->reason : d->reason;
  char line[600], why[1024];
  const struct cluster_session *s = NULL;
  uint64_t service_ns = 0, us, peers_us;
  bool seen = false, suspect = false;
  bool slow = cluster_member_slow (a, m, &us, &peers_us);

  while ((s = cluster_writer_next (a, s)))
    if (s->alive && s->load.ms != 0) {
      seen = true;
      suspect = suspect || s->load.stats.member[m].suspect;
      if (s->load.stats.member[m].service_ns > service_ns)
        service_ns = s->load.stats.member[m].service_ns;
    }
  if (cluster_member_line (c, a, m, line, sizeof line)) {
    snprintf (why, sizeof why, "%s%s%s", reason, reason[0] ? ". " : "", line);
    reason = why;
  }

  return fields_object ((const struct field_value[]) {
    { "position", json_integer (m) },
    { "disk", text_uuid (member->disk) },
    { "next_disk", text_uuid_or_null (member->next_disk) },
    { "node", text_string (d->rec.node) },
    { "path", text_string (d->rec.path) },
    { "uri", text_string (d->rec.uri) },
    { "state", text_string (member_state_name (member->state)) },
    { "reason", text_or_null (reason) },
    { "since", text_time (member->since_wall_ms) },
    { "alive", json_boolean (d->alive) },
    { "failed", json_boolean (cluster_disk_failed (d)) },
    { "held", json_boolean (member->held) },
    { "paused", json_boolean (member->paused) },
    { "spare_at", text_time (cluster_member_spare_wall_ms (c, a, m)) },
    { "rebuild", view_rebuild (c, a, m) },
    { "suspect", json_boolean (suspect) },
    { "service_us", seen ? text_number (service_ns / 1000) : json_null () },
    { "peers_us", slow ? text_number (peers_us) : json_null () },
    { "data_bytes", text_number (d->rec.data_bytes) },
    { "load", view_disk_load (d) },
    { NULL } });
}

json_t *
view_spares (const struct cluster *c, const struct cluster_array *a)
{
  json_t *list = json_array ();
  const struct cluster_disk *d;

  /* A plan has no UUID. */
  if (format_uuid_zero (a->rec.uuid))
    return list;
  TAILQ_FOREACH (d, cluster_disks (c), link)
    if (memcmp (d->rec.spare_of, a->rec.uuid, 16) == 0)
      json_array_append_new (list, text_uuid (d->rec.uuid));
  return list;
}

/* The durability that clients of the service can rely on, in a sentence. */
static void
promise (const struct cluster_array *a, const struct cluster_session *s,
         char *text, size_t size)
{
  if (a->layout.copies == 1)
    snprintf (text, size,
              "there is one copy of everything: the loss of any host that has "
              "a member loses data");
  else if (cluster_array_hosts_survived (a, NULL) == 0)
    snprintf (text, size,
              "some data has all of its copies on one host: the loss of that "
              "host loses data");
  else if (a->rec.dup == DUP_SYNC_CLIENT)
    snprintf (text, size,
              "acknowledged writes survive the loss of any one host");
  else if (a->rec.unequal)
    snprintf (
      text, size,
      "the last serving node is gone, and copies are being resynchronized: if "
      "a member is lost before that is done, unflushed writes of clients may "
      "be lost, and a FLUSH of each of these clients fails");
  else if (s && cluster_service_beside (a, s->rec.node))
    snprintf (text, size,
              "node %s has a member of the array: if it is lost, unflushed "
              "writes of clients may be lost, and a FLUSH of each of these "
              "clients fails; serve the array from a node without members",
              s->rec.node);
  else
    snprintf (text, size,
              "acknowledged writes survive the loss of the serving host; "
              "flushed writes survive the loss of any one host");
}

json_t *
view_fenced (const struct cluster *c)
{
  json_t *list = json_array ();
  const struct cluster_node *n;

  TAILQ_FOREACH (n, cluster_nodes (c), link)
    if (cluster_node_fenced_below (n))
      json_array_append_new (
        list, json_pack ("{ss so}", "node", n->rec.name, "below",
                         text_number (cluster_node_fenced_below (n))));
  return list;
}

json_t *
view_service (const struct cluster *c, const struct cluster_array *a)
{
  const struct cluster_session *s = cluster_array_writer (a);
  json_t *nodes = json_array ();
  char text[400], unreached[700] = "";

  if (s && !s->rec.service)
    s = NULL;
  for (unsigned i = 0; i < a->rec.service_nodes; i++)
    json_array_append_new (
      nodes,
      json_pack ("{ss sb sb}", "node", a->rec.service_node[i], "stands_by",
                 cluster_service_stands_by (c, a, i), "has_member",
                 cluster_service_beside (a, a->rec.service_node[i])));
  promise (a, s, text, sizeof text);
  cluster_reach_words (c, a, unreached, sizeof unreached);
  return fields_object ((const struct field_value[]) {
    { "array", text_string (a->rec.name) },
    { "uuid", text_uuid (a->rec.uuid) },
    { "epoch", text_number (a->rec.epoch) },
    { "lapse", text_number (a->rec.lapse) },
    { "nodes", nodes },
    { "serving", s ? fields_object ((const struct field_value[]) {
                       { "session", text_session (s->rec.id) },
                       { "node", text_string (s->rec.node) },
                       { "pid", text_number (s->rec.pid) },
                       { "uri", text_or_null (s->rec.uri) },
                       { "alive", json_boolean (s->alive) },
                       { "draining", json_boolean (s->draining) },
                       { "since", text_time (s->rec.since_wall_ms) },
                       { NULL } })
                   : json_null () },
    { "unreached", text_or_null (unreached) },
    { "promise", text_string (text) },
    { "fences", text_number (cluster_fence_number (c)) },
    { "fenced", view_fenced (c) },
    { NULL } });
}

json_t *
view_capacity (const struct layout_capacity *c)
{
  return fields_object (
    (const struct field_value[]) { { "total", text_number (c->total) },
                                   { "usable", text_number (c->usable) },
                                   { "images", text_number (c->images) },
                                   { "wasted", text_number (c->wasted) },
                                   { NULL } });
}

static json_t *
array_capacity (const struct cluster_array *a)
{
  uint64_t bytes[ARRAY_MEMBERS_MAX];
  struct layout_capacity c;

  /* A member that an import did not find has a disk of unknown size. */
  for (unsigned m = 0; m < a->layout.members; m++)
    bytes[m] = a->disk[m]->rec.data_bytes > a->rec.member_bytes
                 ? a->disk[m]->rec.data_bytes
                 : a->rec.member_bytes;
  layout_capacity (&a->layout, bytes, &c);
  return view_capacity (&c);
}

json_t *
view_bad_ranges (const struct cluster_array *a, size_t max)
{
  struct cluster_bad *list;
  size_t count = cluster_array_bad (a, &list);
  json_t *ranges = json_array ();

  for (size_t i = 0; i < count && i < max; i++) {
    const struct cluster_bad *b = &list[i];
    json_t *members = json_array ();

    for (unsigned m = 0; m < b->members; m++)
      json_array_append_new (members, json_integer (b->member[m]));
    json_array_append_new (
      ranges, fields_object ((const struct field_value[]) {
                { "offset", text_number (b->offset) },
                { "length", text_number (b->length) },
                { "reason", text_string (bad_reason_name (b->reason)) },
                { "members", members },
                { "copy_left", json_boolean (b->copy_left) },
                { "copy_out", json_boolean (b->copy_out) },
                { NULL } }));
  }
  free (list);
  return ranges;
}

json_t *
view_array (const struct cluster *c, const struct cluster_array *a)
{
  const struct cluster_array_record *r = &a->rec;
  const struct cluster_session *s;
  json_t *members = json_array (), *sessions = json_array ();
  json_t *writer = json_null ();
  char survives[1000], waits[1600];
  uint64_t exposed, unreachable, lost;

  for (unsigned m = 0; m < a->layout.members; m++)
    json_array_append_new (members, view_member (c, a, m));
  TAILQ_FOREACH (s, cluster_sessions (c), link) {
    if (s->rec.ended || memcmp (s->rec.array, r->uuid, 16) != 0)
      continue;
    json_array_append_new (sessions, view_session (c, s));
    if (s->rec.writable && s->rec.part.length == 0)
      writer = view_session (c, s);
  }
  cluster_array_exposure (a, &exposed, &unreachable, &lost);
  cluster_array_survives (a, survives, sizeof survives);
  return fields_object ((const struct field_value[]) {
    { "name", text_string (r->name) },
    { "uuid", text_uuid_or_null (r->uuid) },
    { "state", text_string (cluster_array_state (a)) },
    { "layout", text_string (layout_name (r->layout)) },
    { "dup", text_string (array_dup_name (r->dup)) },
    { "n", json_integer (r->n) },
    { "groups", json_integer (r->groups) },
    { "unit", text_number (r->unit) },
    { "size", text_number (a->layout.size) },
    { "member_bytes", text_number (r->member_bytes) },
    { "capacity", array_capacity (a) },
    { "survives", text_string (survives) },
    { "hosts_survived", json_integer (cluster_array_hosts_survived (a, NULL)) },
    { "epoch", text_number (r->epoch) },
    { "members", members },
    { "spares", view_spares (c, a) },
    { "spare_after_s", text_number (r->spare_after_ms / 1000) },
    { "slow_out_s", text_number (r->slow_out_ms / 1000) },
    { "session", writer },
    { "sessions", sessions },
    { "exposed_bytes", text_number (exposed) },
    { "unreachable_bytes", text_number (unreachable) },
    { "lost_bytes", text_number (lost) },
    { "waits_for", cluster_array_waits_for (c, a, waits, sizeof waits) ||
                       cluster_lease_waits (c, a, waits, sizeof waits)
                     ? text_string (waits)
                     : json_null () },
    { "bad_ranges", view_bad_ranges (a, BAD_RANGES_SHOWN) },
    { "bad_bytes", text_number (cluster_array_bad_bytes (a)) },
    { "service", r->service_nodes ? view_service (c, a) : json_null () },
    { "allow", allow_json (&r->allow) },
    { "pool", view_pool (a) },
    { NULL } });
}

json_t *
view_disks (const struct cluster *c)
{
  json_t *list = json_array ();
  const struct cluster_disk *d;

  TAILQ_FOREACH (d, cluster_disks (c), link)
    json_array_append_new (list, view_disk (c, d));
  return list;
}

json_t *
view_arrays (const struct cluster *c)
{
  json_t *list = json_array ();
  const struct cluster_array *a;

  TAILQ_FOREACH (a, cluster_arrays (c), link)
    json_array_append_new (list, view_array (c, a));
  return list;
}

json_t *
view_sessions (const struct cluster *c)
{
  json_t *list = json_array ();
  const struct cluster_session *s;

  TAILQ_FOREACH (s, cluster_sessions (c), link)
    if (!s->rec.ended)
      json_array_append_new (list, view_session (c, s));
  return list;
}

json_t *
view_status (const struct cluster *c, struct auth *auth, uint64_t wall_ms)
{
  static const char *const health[] = { "ok", "warning", "error" };
  char verdict[4096];
  enum cluster_severity severity = cluster_verdict (c, verdict, sizeof verdict);
  const struct cluster_identity *i = cluster_identity (c);
  char host[NAME_BYTES_MAX + 1] = "";

  gethostname (host, sizeof host - 1);
  host[strcspn (host, ".")] = '\0';
  return fields_object ((const struct field_value[]) {
    { "verdict", text_string (verdict) },
    { "health", text_string (health[severity]) },
    { "generation", text_number (i->generation) },
    { "cluster", text_uuid (i->uuid) },
    { "version", text_string (PACKAGE_VERSION) },
    { "host", text_string (host) },
    { "at", text_time (wall_ms) },
    { "read_only", json_boolean (cluster_read_only (c) != NULL) },
    { "nodes", view_nodes (c, auth) },
    { "disks", view_disks (c) },
    { "arrays", view_arrays (c) },
    { "sessions", view_sessions (c) },
    { NULL } });
}

/* ---- Problems. ---- */

static const char *
status_title (int status)
{
  static const struct {
    int status;
    const char *title;
  } titles[] = {
    { 400, "Bad Request" },
    { 401, "Unauthorized" },
    { 403, "Forbidden" },
    { 404, "Not Found" },
    { 405, "Method Not Allowed" },
    { 409, "Conflict" },
    { 410, "Gone" },
    { 412, "Precondition Failed" },
    { 413, "Content Too Large" },
    { 415, "Unsupported Media Type" },
    { 422, "Unprocessable Content" },
    { 429, "Too Many Requests" },
    { 503, "Service Unavailable" },
  };

  for (size_t i = 0; i < sizeof titles / sizeof titles[0]; i++)
    if (titles[i].status == status)
      return titles[i].title;
  return "Error";
}

json_t *
view_error (int status, const char *field, const char *code, const char *detail)
{
  json_t *p = fields_object ((const struct field_value[]) {
    { "type", text_string ("about:blank") },
    { "title", text_string (status_title (status)) },
    { "status", json_integer (status) },
    { "detail", text_string (detail) },
    { NULL } });

  if (field && field[0])
    json_object_set_new (p, "field", text_string (field));
  if (code)
    json_object_set_new (p, "code", json_string (code));
  return p;
}

json_t *
view_over (const struct cluster_over over[], unsigned count)
{
  json_t *list = json_array ();

  for (unsigned i = 0; i < count; i++)
    json_array_append_new (list,
                           json_pack ("[ooo]", text_number (over[i].number),
                                      text_session (over[i].session),
                                      text_number (over[i].epoch)));
  return list;
}

json_t *
view_unconfirmed (const struct cluster *c)
{
  const struct cluster_array *a;
  json_t *list = json_array ();
  char text[CLUSTER_PATH_BYTES + 200];

  TAILQ_FOREACH (a, cluster_arrays (c), link)
    for (unsigned m = 0; m < a->layout.members; m++)
      if (cluster_shut_unconfirmed (a, m)) {
        snprintf (text, sizeof text, "member %u of array %s (%s of node %s)", m,
                  a->rec.name, a->disk[m]->rec.path, a->disk[m]->rec.node);
        json_array_append_new (list, text_string (text));
      }
  return list;
}

json_t *
view_problem (const struct cluster_problem *p, int *status)
{
  static const int statuses[] = {
    [CLUSTER_OK] = 200,          [CLUSTER_INVALID] = 422,
    [CLUSTER_NOT_FOUND] = 404,   [CLUSTER_FORBIDDEN] = 403,
    [CLUSTER_CONFLICT] = 409,    [CLUSTER_GONE] = 410,
    [CLUSTER_UNAVAILABLE] = 503,
  };
  json_t *j;

  *status = statuses[p->kind];
  j = view_error (*status, p->field, p->code, p->detail);
  if (p->holder_node[0])
    json_object_set_new (
      j, "holder",
      fields_object ((const struct field_value[]) {
        { "session", p->holder ? text_session (p->holder) : json_null () },
        { "node", text_string (p->holder_node) },
        { "pid", text_number (p->holder_pid) },
        { "last_heard_ms", text_number (p->holder_silent_ms) },
        { "process", text_or_null (p->holder_process) },
        { NULL } }));
  if (p->over_count)
    json_object_set_new (j, "over", view_over (p->over, p->over_count));
  if (p->retry)
    json_object_set_new (j, "retry_after_ms", text_number (p->retry_after_ms));
  return j;
}
