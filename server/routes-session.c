/* routes-session.c: array processes that attach, and what they say of
 * themselves: see routes.h.
 */

#include <config.h>

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "quota.h"
#include "replies.h"
#include "routes-internal.h"

enum mode { MODE_RO, MODE_RW, MODE_SHARED, MODE_SERVICE };

static int
mode_parse (const char *word)
{
  return strcmp (word, "ro") == 0        ? MODE_RO
         : strcmp (word, "rw") == 0      ? MODE_RW
         : strcmp (word, "shared") == 0  ? MODE_SHARED
         : strcmp (word, "service") == 0 ? MODE_SERVICE
                                         : -1;
}

struct attach_input {
  struct cluster_attach attach;
  bool shared, part; /* mode shared; there is a part (else it is by leases), */
  bool to_end;       /* without a length: up to the array's end */
  bool pinned;       /* it knows that a part is a pinned lease */
};

static void
parse_part (struct fields *f, struct attach_input *q)
{
  struct cluster_part *part = &q->attach.part;
  struct fields g;

  if (!fields_enter (f, "part", &g))
    return;
  fields_u64 (&g, "offset", 0, INT64_MAX, &part->offset);
  q->part = true;
  q->to_end = !fields_has (&g, "length");
  if (!q->to_end)
    fields_u64 (&g, "length", 1, INT64_MAX, &part->length);
  fields_leave (f, "part", &g);
}

static void
parse_attach (struct fields *f, struct request *r)
{
  struct attach_input *q = r->input;
  struct cluster_attach *a = &q->attach;
  uint64_t ended = 0; /* as its bytes come, from the first digits on */
  int mode = MODE_RO;

  route_disk_parse_instance (f, a->instance);
  fields_name (f, "node", a->node, sizeof a->node);
  strcpy (r->node, a->node);
  fields_u64 (f, "pid", 0, INT64_MAX, &a->pid);
  fields_word (f, "mode", mode_parse, "rw, ro, shared, service", &mode);
  a->writable = mode != MODE_RO;
  a->service = mode == MODE_SERVICE;
  q->shared = mode == MODE_SHARED;
  if (fields_has (f, "part"))
    parse_part (f, q);
  if (fields_has (f, "pinned"))
    fields_bool (f, "pinned", &q->pinned);
  a->leases = q->shared && !q->part;
  if (fields_has (f, "takeover"))
    fields_bool (f, "takeover", &a->takeover);
  if (fields_has (f, "exports"))
    fields_bool (f, "exports", &a->exports);
  if (fields_has (f, "pools"))
    fields_bool (f, "pools", &a->pools);
  if (fields_has (f, "scans"))
    fields_bool (f, "scans", &a->scans);
  if (fields_has (f, "uri"))
    route_disk_parse_own_uri (f, r, !a->exports && !a->service, a->uri,
                              sizeof a->uri);
  if (fields_has (f, "ended"))
    fields_hex (f, "ended", (uint8_t *) &ended, sizeof ended);
  a->ended = be64toh (ended);
  if (a->takeover)
    snprintf (r->subject, sizeof r->subject, "%s, takeover", r->name);
}

/* Is it the session that the process has already, or the one that it replaces, as
 * each byte of an array has one writer, but where leases say which?
 */
static bool
makes_room (const struct cluster_session *s, const struct cluster_array *array,
            const struct cluster_attach *attach)
{
  if (array == NULL || memcmp (s->rec.array, array->rec.uuid, 16) != 0 ||
      s->rec.writable != attach->writable)
    return false;
  return strcmp (s->rec.instance, attach->instance) == 0 ||
         (attach->writable && !(s->rec.leases && attach->leases) &&
          cluster_parts_meet (&s->rec.part, &attach->part));
}

/* Sessions that this node would have beside the one that is asked for. */
static unsigned
sessions_of (const struct cluster *c, const char *name,
             const struct cluster_attach *attach)
{
  const struct cluster_array *array = cluster_array_find (c, name);
  const struct cluster_session *s;
  unsigned count = 0;

  TAILQ_FOREACH (s, cluster_sessions (c), link)
    count += !s->rec.ended && strcmp (s->rec.node, attach->node) == 0 &&
             !makes_room (s, array, attach);
  return count;
}

/* Does the mode allow the requested part?  The engine knows where the array
 * ends and decides about the array; all of it may be written by leases.
 */
static bool
refuse_part (struct loop *l, struct request *r)
{
  struct attach_input *q = r->input;
  struct cluster_part *part = &q->attach.part;
  const struct cluster_array *a = cluster_array_find (loop_cluster (l),
                                                      r->name);

  if (q->part && !q->shared)
    loop_refuse (l, r, 422, "part", "part",
                 "field part belongs to mode shared: in the other modes, a "
                 "session writes all of the array or only reads");
  else if (q->part && !q->pinned)
    loop_refuse (l, r, 422, "pinned", "pinned",
                 "the process on node %s is of an older Weft, which does not "
                 "know that a part is a pinned lease: upgrade it, then attach "
                 "array %s again",
                 q->attach.node, r->name);
  else if (q->to_end && a && part->offset >= a->layout.size)
    loop_refuse (l, r, 422, "part.offset", "part",
                 "the part begins where array %s, of %" PRIu64
                 " bytes, is over: give a lower offset",
                 r->name, a->layout.size);
  else {
    if (a && (q->to_end || q->attach.leases))
      part->length = a->layout.size - part->offset;
    return false;
  }
  return true;
}

/* One node must not fill the places of all, nor the log with its coming and going. */
static void
handle_attach (struct loop *l, struct request *r)
{
  struct attach_input *q = r->input;
  struct cluster_attach *attach = &q->attach;
  const struct cluster_input *in = loop_input (l, r);

  attach->by_admin = r->caller.role == ROLE_ADMIN;
  if (refuse_part (l, r))
    return;
  if (sessions_of (loop_cluster (l), r->name, attach) >= QUOTA_SESSIONS)
    loop_refuse (
      l, r, 409, NULL, "too-many",
      "node %s has %d sessions already: end one that nobody needs "
      "(weftctl session evict); those of readers that are gone end by "
      "themselves, those of writers when their array is attached again",
      attach->node, QUOTA_SESSIONS);
  else if (r->caller.role == ROLE_NODE &&
           !quota_attach (attach->node, in->now_ms)) {
    snprintf (r->headers, sizeof r->headers, "Retry-After: %d\r\n",
              QUOTA_ATTACH_MS / 1000);
    loop_refuse (l, r, 429, NULL, "too-many-requests",
                 "node %s has attached again and again: its processes may do "
                 "so once a second",
                 attach->node);
  }
  else
    cluster_attach (loop_cluster (l), in, r->name, attach);
}

static json_t *
reply_attach (struct loop *l, struct request *r, const struct cluster_output *o,
              struct store_txn *t, int *status)
{
  if (r->caller.role == ROLE_NODE)
    quota_attached (r->node, loop_input (l, r)->now_ms);
  return reply_grant (loop_cluster (l), o->array, o->session);
}

/* {"sum_us": N, "counts": [N, ...]}; missing counts at the end are 0. */
static void
parse_latency (struct fields *f, const char *name, struct latency *l)
{
  const json_t *list;
  uint64_t sum_us = 0;
  struct fields g;
  size_t count;

  if (!fields_has (f, name))
    return;
  fields_begin (&g, json_object_get (f->object, name));
  if (fields_has (&g, "sum_us"))
    fields_u64 (&g, "sum_us", 0, INT64_MAX / 1000, &sum_us);
  l->sum_ns = sum_us * 1000;
  list = json_object_get (g.object, "counts");
  count = json_array_size (list);
  if (fields_has (&g, "counts") &&
      (!json_is_array (list) || count > LATENCY_BUCKETS + 1))
    fields_fail (&g, "counts", "field counts must be a list of at most %d",
                 LATENCY_BUCKETS + 1);
  for (size_t i = 0; !g.failed && i < count; i++)
    if (!fields_whole (json_array_get (list, i), &l->count[i]))
      fields_fail (&g, "counts", "field counts must have whole numbers");
  if (g.failed)
    fields_fail (f, g.field[0] ? g.field : name, "%s: %.200s", name, g.why);
}

/* How the members look from the array process.  It need not be of the same
 * version, so there is no fields_end.
 */
static void
parse_stats_members (struct fields *stats, struct array_stats *s)
{
  const json_t *list = json_object_get (stats->object, "members");
  uint64_t service_us = 0, refused_ms = 0;
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
    refused_ms = 0;
    if (fields_has (&g, "refused_ms"))
      fields_u64 (&g, "refused_ms", 0, INT64_MAX / 1000000, &refused_ms);
    parse_latency (&g, "latency", &s->member[i].service);
    if (g.failed) {
      fields_fail (stats, "members", "members[%zu]: %.200s", i, g.why);
      return;
    }
    s->member[i].service_ns = service_us * 1000;
    s->member[i].refused_ns = refused_ms * 1000000;
  }
}

#define AT(member) FIELD_AT (array_stats, member), .optional = true
static const struct field stats_fields[] = {
  { "reads", FIELD_NUMBER, AT (reads) },
  { "writes", FIELD_NUMBER, AT (writes) },
  { "flushes", FIELD_NUMBER, AT (flushes) },
  { "zeroes", FIELD_NUMBER, AT (zeroes) },
  { "trims", FIELD_NUMBER, AT (trims) },
  { "read_bytes", FIELD_NUMBER, AT (read_bytes) },
  { "write_bytes", FIELD_NUMBER, AT (write_bytes) },
  { "read_ns", FIELD_NUMBER, AT (read_ns) },
  { "write_ns", FIELD_NUMBER, AT (write_ns) },
  { "flush_ns", FIELD_NUMBER, AT (flush_ns) },
  { "image_bytes", FIELD_NUMBER, AT (image_bytes) },
  { "image_bytes_max", FIELD_NUMBER, AT (image_bytes_max) },
  { "image_oldest_ns", FIELD_NUMBER, AT (image_oldest_ns) },
  { "memory_wait_ns", FIELD_NUMBER, AT (memory_wait_ns) },
  { "images_sent", FIELD_NUMBER, AT (images_sent) },
  { "images_replaced", FIELD_NUMBER, AT (images_replaced) },
  { "batches", FIELD_NUMBER, AT (batches) },
  { NULL },
};
#undef AT

static void
parse_stats (struct fields *f, struct array_stats *s)
{
  uint64_t waiting = 0, in_flight = 0;
  struct fields g;

  if (!fields_enter (f, "stats", &g))
    return;
  fields_take (&g, stats_fields, s);
  if (fields_has (&g, "requests_waiting"))
    fields_u64 (&g, "requests_waiting", 0, INT64_MAX, &waiting);
  if (fields_has (&g, "ios_in_flight"))
    fields_u64 (&g, "ios_in_flight", 0, INT64_MAX, &in_flight);
  parse_latency (&g, "read_latency", &s->read);
  parse_latency (&g, "write_latency", &s->write);
  parse_latency (&g, "flush_latency", &s->flush);
  if (fields_has (&g, "members"))
    parse_stats_members (&g, s);
  fields_leave (f, "stats", &g);
  s->requests_waiting = waiting < UINT32_MAX ? (unsigned) waiting : UINT32_MAX;
  s->ios_in_flight = in_flight < UINT32_MAX ? (unsigned) in_flight : UINT32_MAX;
}

#define AT(member) FIELD_AT (cluster_session_heartbeat, member)
static const struct field heartbeat_fields[] = {
  { "instance", FIELD_TEXT, AT (instance) },
  { "epoch", FIELD_NUMBER, AT (epoch), .max = EPOCH_MAX },
  { "arrived", FIELD_NUMBER, AT (arrived), .optional = true, .max = EPOCH_MAX },
  { "prepared", FIELD_NUMBER, AT (prepared), .optional = true,
    .max = EPOCH_MAX },
  { "process", FIELD_TEXT, AT (process), .optional = true },
  { "round", FIELD_NUMBER, AT (round), .optional = true, .max = EPOCH_MAX },
  { "round_entered", FIELD_NUMBER, AT (round_entered), .optional = true,
    .max = EPOCH_MAX },
  { "older", FIELD_BOOL, AT (older), .optional = true },
  { "equal", FIELD_BOOL, AT (equal), .optional = true },
  { "fences", FIELD_NUMBER, AT (fences), .optional = true, .max = EPOCH_MAX },
  { "order", FIELD_NUMBER, AT (order), .optional = true },
  { "volumes", FIELD_NUMBER, AT (volumes), .optional = true },
  { NULL },
};
#undef AT

static void
parse_session_heartbeat (struct fields *f, struct request *r)
{
  struct cluster_session_heartbeat *hb = r->input;

  fields_take (f, heartbeat_fields, hb);
  hb->has_uri = fields_has (f, "uri");
  if (hb->has_uri)
    route_disk_parse_own_uri (f, r, true, hb->uri, sizeof hb->uri);
  hb->same_stats = json_is_true (json_object_get (f->object, "stats"));
  hb->has_stats = !hb->same_stats && fields_has (f, "stats");
  if (hb->has_stats)
    parse_stats (f, &hb->stats);
  if (fields_has (f, "draining"))
    fields_bool (f, "draining", &hb->draining);
  route_disk_parse_patience (f, r, &hb->wait_ms);
}

ROUTE_CALL (handle_session_heartbeat, cluster_session_heartbeat, r->id,
            r->input)

static json_t *
reply_heartbeat (struct loop *l, struct request *r,
                 const struct cluster_output *o, struct store_txn *t,
                 int *status)
{
  const struct cluster_session_heartbeat *hb = r->input;

  return reply_session (loop_cluster (l), o->array, o->session, hb->epoch,
                        r->no_news);
}

struct lost_input {
  unsigned member;
  uint64_t round;
  bool answers;
  uint64_t waited_ms;
  char reason[CLUSTER_REASON_BYTES];
};

static void
parse_lost (struct fields *f, struct request *r)
{
  struct lost_input *q = r->input;
  uint64_t member = 0;

  fields_u64 (f, "member", 0, ARRAY_MEMBERS_MAX - 1, &member);
  q->member = (unsigned) member;
  if (fields_has (f, "round"))
    fields_u64 (f, "round", 0, EPOCH_MAX, &q->round);
  if (fields_has (f, "answers"))
    fields_bool (f, "answers", &q->answers);
  if (fields_has (f, "waited_ms"))
    fields_u64 (f, "waited_ms", 0, EPOCH_MAX, &q->waited_ms);
  strcpy (q->reason, "it does not say why");
  if (fields_has (f, "reason"))
    fields_prose (f, "reason", q->reason, sizeof q->reason);
}

static void
handle_lost (struct loop *l, struct request *r)
{
  const struct lost_input *q = r->input;

  cluster_session_lost (loop_cluster (l), loop_input (l, r), r->id, q->member,
                        q->round, q->answers, q->waited_ms, q->reason);
}

/* The process that detaches sends its instance; any other caller evicts the
 * session.
 */
static void
handle_detach (struct loop *l, struct request *r)
{
  struct cluster *c = loop_cluster (l);
  const struct cluster_session *s = cluster_session_find (c, r->id);
  const struct cluster_input *in = loop_input (l, r);
  char by[AUTH_CALLER_BYTES];

  /* Only the process itself knows that all is flushed. */
  if (s && strcmp (s->rec.instance, r->query.instance) == 0) {
    cluster_session_detach (c, in, r->id);
    return;
  }
  auth_caller_words (&r->caller, by);
  cluster_session_evict (c, in, r->id, by);
}

ROUTE_PREFLIGHT (preflight_evict, cluster_preflight_evict, r->id)

const struct route routes_session[] = {
  { "POST", V1 "/arrays/{name}/sessions", .who = WHO_NODE, .process = "array",
    .makes = true, .input = sizeof (struct attach_input), .parse = parse_attach,
    .handle = handle_attach, .reply = reply_attach },
  { "GET", V1 "/sessions", .query = QUERY_PAGE, .list = "sessions", .key = "id",
    .show = view_sessions },
  { "DELETE", V1 "/sessions/{id}", .who = WHO_NODE, .process = "array",
    .query = QUERY_INSTANCE, .handle = handle_detach,
    .preflight = preflight_evict },
  { "POST", V1 "/sessions/{id}/heartbeat", .who = WHO_NODE, .process = "array",
    .input = sizeof (struct cluster_session_heartbeat),
    .parse = parse_session_heartbeat, .handle = handle_session_heartbeat,
    .reply = reply_heartbeat },
  { "POST", V1 "/sessions/{id}/lost", .who = WHO_NODE, .process = "array",
    .input = sizeof (struct lost_input), .parse = parse_lost,
    .handle = handle_lost },
  { NULL },
};
