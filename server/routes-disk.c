/* routes-disk.c: routes of disks: see routes.h. */

#include <config.h>

#include <string.h>

#include <openssl/x509v3.h>

#include "addresses.h"
#include "common/uri.h"
#include "replies.h"
#include "routes-internal.h"

#define AT(member) FIELD_AT (cluster_load, member), .optional = true
static const struct field load_fields[] = {
  { "cpu", FIELD_REAL, AT (cpu) },
  { "loadavg", FIELD_REAL, AT (loadavg) },
  { "mem_free", FIELD_NUMBER, AT (mem_free) },
  { "disk_read_bytes", FIELD_NUMBER, AT (disk_read_bytes) },
  { "disk_write_bytes", FIELD_NUMBER, AT (disk_write_bytes) },
  { "disk_reads", FIELD_NUMBER, AT (disk_reads) },
  { "disk_writes", FIELD_NUMBER, AT (disk_writes) },
  { "flushes", FIELD_NUMBER, AT (flushes) },
  { "net_rx_bytes", FIELD_NUMBER, AT (net_rx_bytes) },
  { "net_tx_bytes", FIELD_NUMBER, AT (net_tx_bytes) },
  { NULL },
};
#undef AT

static int
phase_parse (const char *word)
{
  return strcmp (word, "waiting") == 0     ? CLUSTER_JOIN_WAITING
         : strcmp (word, "gathering") == 0 ? CLUSTER_JOIN_GATHERING
         : strcmp (word, "copying") == 0   ? CLUSTER_JOIN_COPYING
         : strcmp (word, "synced") == 0    ? CLUSTER_JOIN_SYNCED
                                           : -1;
}

#define AT(member) FIELD_AT (cluster_join, member), .optional = true
static const struct field join_fields[] = {
  { "epoch", FIELD_NUMBER, AT (epoch), .max = EPOCH_MAX },
  { "phase", FIELD_WORD, AT (phase), .parse = phase_parse,
    .words = "waiting, gathering, copying, synced" },
  { "todo_bytes", FIELD_NUMBER, AT (todo_bytes) },
  { "total_bytes", FIELD_NUMBER, AT (total_bytes) },
  { "copied_bytes", FIELD_NUMBER, AT (copied_bytes) },
  { "unreadable_bytes", FIELD_NUMBER, AT (unreadable_bytes) },
  { "rate", FIELD_NUMBER, AT (rate) },
  { "waits", FIELD_PROSE, AT (waits) },
  { NULL },
};
#undef AT

/* The object in the field `name`, which has the fields of the table. */
static void
parse_inner (struct fields *f, const char *name, const struct field *table,
             void *to)
{
  struct fields inner;

  if (fields_enter (f, name, &inner)) {
    fields_take (&inner, table, to);
    fields_leave (f, name, &inner);
  }
}

static int
disk_state_parse (const char *word)
{
  return strcmp (word, "serving") == 0    ? DISK_SERVING
         : strcmp (word, "failed") == 0   ? DISK_FAILED
         : strcmp (word, "starting") == 0 ? DISK_STARTING
                                          : -1;
}

#define AT(member) FIELD_AT (cluster_disk_heartbeat, member)
static const struct field place_fields[] = {
  { "layout", FIELD_WORD, AT (layout), .parse = layout_parse,
    .words = LAYOUT_NAMES },
  { "dup", FIELD_WORD, AT (dup), .parse = array_dup_parse,
    .words = "async-client, sync-client" },
  { "n", FIELD_NUMBER, AT (n), .min = 1, .max = GROUP_MEMBERS_MAX },
  { "groups", FIELD_NUMBER, AT (groups), .min = 1, .max = ARRAY_GROUPS_MAX },
  { "unit", FIELD_NUMBER, AT (unit), .min = UNIT_BYTES_MIN,
    .max = UNIT_BYTES_MAX },
  { "member_bytes", FIELD_NUMBER, AT (member_bytes),
    .max = MEMBER_DATA_BYTES_MAX },
  { NULL },
};

static const struct field disk_fields[] = {
  { "path", FIELD_TEXT, AT (path) },
  { "cache", FIELD_TEXT, AT (cache), .optional = true },
  { "size", FIELD_NUMBER, AT (size), .min = 1 },
  { "data_bytes", FIELD_NUMBER, AT (data_bytes), .max = MEMBER_DATA_BYTES_MAX },
  { "cluster", FIELD_UUID, AT (cluster), .optional = true },
  { NULL },
};

static const struct field room_fields[] = {
  { "free", FIELD_NUMBER, FIELD_AT (cluster_room, free) },
  { "size", FIELD_NUMBER, FIELD_AT (cluster_room, size) },
  { "wanted", FIELD_NUMBER, FIELD_AT (cluster_room, wanted) },
  { NULL },
};

static const struct field epoch_fields[] = {
  { "min_epoch", FIELD_NUMBER, AT (min_epoch), .max = EPOCH_MAX },
  { "generation", FIELD_NUMBER, AT (generation), .max = GENERATION_MAX },
  { "states_epoch", FIELD_NUMBER, AT (states_epoch), .optional = true,
    .max = EPOCH_MAX },
  { "over", FIELD_NUMBER, AT (over), .optional = true },
  { NULL },
};
#undef AT

/* The superblock's description of the array.  If that makes no sense as a
 * whole, it is dropped: the disk has no place that could be imported.
 */
static void
parse_place (struct fields *f, struct cluster_disk_heartbeat *hb)
{
  uint64_t position = 0;
  unsigned count = 0;

  fields_uuid (f, "array", hb->array);
  fields_u64 (f, "position", 0, ARRAY_MEMBERS_MAX - 1, &position);
  hb->position = (unsigned) position;
  if (!fields_has (f, "layout"))
    return;
  fields_take (f, place_fields, hb);
  fields_words (f, "states", member_state_parse, "in-sync, out, joining, spare",
                ARRAY_MEMBERS_MAX, hb->states, &count);
  hb->has_place = count == hb->n * hb->groups && position < count;
}

/* A range: [first block, blocks, reason], behind those that the list has. */
static bool
take_range (const json_t *range, struct bad_list *list)
{
  const struct bad_range *last = list->count ? &list->range[list->count - 1]
                                             : NULL;
  uint64_t v[3], blocks = 0;

  if (json_array_size (range) != 3 || list->count == BAD_RANGES_MAX)
    return false;
  for (size_t i = 0; i < 3; i++)
    if (!fields_whole (json_array_get (range, i), &v[i]))
      return false;
  for (unsigned i = 0; i < list->count; i++)
    blocks += list->range[i].blocks;
  if (v[0] > MEMBER_DATA_BYTES_MAX / BAD_BLOCK_BYTES || v[1] == 0 ||
      v[1] > 2 * BAD_RANGES_MAX - blocks || v[2] > BAD_WRITE ||
      bad_reason_name ((unsigned) v[2]) == NULL ||
      (last && v[0] < last->first + last->blocks))
    return false;
  list->range[list->count++] = (struct bad_range) { v[0], (uint32_t) v[1],
                                                    (uint32_t) v[2] };
  return true;
}

static void
parse_bad (struct fields *f, struct bad_list *list)
{
  const json_t *ranges, *range;
  struct fields g;
  size_t i;

  if (!fields_enter (f, "bad", &g))
    return;
  if (fields_has (&g, "sequence"))
    fields_u64 (&g, "sequence", 0, SEQUENCE_MAX, &list->sequence);
  ranges = json_object_get (g.object, "ranges");
  if (fields_has (&g, "ranges") && !json_is_array (ranges))
    fields_fail (&g, "ranges", "field ranges must be a list");
  json_array_foreach (ranges, i, range)
    if (!g.failed && !take_range (range, list))
      fields_fail (&g, "ranges",
                   "element %zu of field ranges must be [first block, blocks, "
                   "reason], and behind the one before",
                   i);
  fields_leave (f, "bad", &g);
}

void
route_disk_parse_instance (struct fields *f,
                           char instance[CLUSTER_INSTANCE_BYTES])
{
  fields_text (f, "instance", instance, CLUSTER_INSTANCE_BYTES);
  if (!f->failed && instance[0] == '\0')
    fields_fail (f, "instance", "field instance must not be empty");
}

void
route_disk_parse_patience (struct fields *f, struct request *r,
                           uint64_t *wait_ms)
{
  bool news = true;

  if (fields_has (f, "wait_ms"))
    fields_u64 (f, "wait_ms", 0, 60000, wait_ms);
  if (fields_has (f, "news"))
    fields_bool (f, "news", &news);
  r->no_news = !news;
  r->patient = !news && *wait_ms > 0;
}

/* Is it one of the addresses that the certificate is for? */
static bool
certifies (X509 *certificate, const char *host)
{
  return X509_check_ip_asc (certificate, host, 0) == 1 ||
         X509_check_host (certificate, host, 0,
                          X509_CHECK_FLAG_NEVER_CHECK_SUBJECT, NULL) == 1;
}

void
route_disk_parse_own_uri (struct fields *f, const struct request *r, bool local,
                          char *uri, size_t size)
{
  struct uri parts;

  fields_uri (f, "uri", uri, size);
  if (f->failed || r->certificate == NULL)
    return;
  if (uri_parse (uri, &parts) == -1)
    fields_fail (f, "uri", "field uri has no host that can be made out");
  else if (local && (parts.socket[0] || addresses_is_loopback (parts.host)))
    return;
  else if (strpbrk (uri,
                    "?#@")) /* a query could change the verification of TLS */
    fields_fail (f, "uri",
                 "field uri may have a host and a port, and neither a user nor "
                 "a query");
  else if (!parts.tls || parts.socket[0])
    fields_fail (f, "uri",
                 "field uri must begin with nbds://: other hosts reach a node "
                 "that has a certificate by TLS alone");
  else if (!certifies (r->certificate, parts.host))
    fields_fail (f, "uri",
                 "field uri names host %.200s, and the certificate of node "
                 "%s is not for that: start the process with a uri= of an "
                 "address of its own, or enroll the node with that address",
                 parts.host, r->caller.name);
}

static void
parse_report (struct fields *f, const struct request *r,
              struct cluster_disk_heartbeat *hb)
{
  int state = DISK_SERVING;
  bool removed = false;

  fields_take (f, disk_fields, hb);
  route_disk_parse_own_uri (f, r, false, hb->uri, sizeof hb->uri);
  if (fields_has (f, "array"))
    parse_place (f, hb);
  if (fields_has (f, "join"))
    parse_inner (f, "join", join_fields, &hb->join);
  if (fields_has (f, "bad"))
    parse_bad (f, &hb->bad);
  fields_take (f, epoch_fields, hb);
  fields_word (f, "state", disk_state_parse, "serving, failed, starting",
               &state);
  if (fields_has (f, "gone"))
    fields_bool (f, "gone", &removed);
  hb->state = state == DISK_FAILED && removed ? DISK_REMOVED : state;
  if (fields_has (f, "reason"))
    fields_prose (f, "reason", hb->reason, sizeof hb->reason);
  if (fields_has (f, "short"))
    fields_prose (f, "short", hb->shortage, sizeof hb->shortage);
}

/* A heartbeat may hold more than this weftd knows: members and weftd need not
 * be of the same version.  So there is no fields_end.
 */
static void
parse_disk_heartbeat (struct fields *f, struct request *r)
{
  struct cluster_disk_heartbeat *hb = r->input;

  memcpy (hb->uuid, r->uuid, 16);
  route_disk_parse_instance (f, hb->instance);
  fields_name (f, "node", hb->node, sizeof hb->node);
  strcpy (r->node, hb->node);
  route_disk_parse_patience (f, r, &hb->wait_ms);
  hb->same = r->no_news && fields_has (f, "report");
  if (fields_has (f, "report"))
    fields_u64 (f, "report", 1, INT64_MAX, &hb->report);
  if (fields_has (f, "dirty_extents"))
    fields_u64 (f, "dirty_extents", 0, INT64_MAX, &hb->dirty_extents);
  if (fields_has (f, "disk_stuck_ms"))
    fields_u64 (f, "disk_stuck_ms", 0, INT64_MAX, &hb->disk_stuck_ms);
  if (fields_has (f, "load")) {
    parse_inner (f, "load", load_fields, &hb->load);
    hb->has_load = true;
  }
  if (fields_has (f, "room"))
    parse_inner (f, "room", room_fields, &hb->room);
  if (!hb->same || fields_has (f, "sequence"))
    fields_u64 (f, "sequence", 0, SEQUENCE_MAX, &hb->sequence);
  if (fields_has (f, "round"))
    fields_u64 (f, "round", 0, EPOCH_MAX, &hb->round);
  if (!hb->same)
    parse_report (f, r, hb);
}

static void
handle_disk_heartbeat (struct loop *l, struct request *r)
{
  struct cluster_disk_heartbeat *hb = r->input;

  hb->proven = r->caller.via == VIA_CERTIFICATE;
  cluster_disk_heartbeat (loop_cluster (l), loop_input (l, r), hb);
}

/* Its key is for itself alone. */
static json_t *
reply_heartbeat (struct loop *l, struct request *r,
                 const struct cluster_output *o, struct store_txn *t,
                 int *status)
{
  r->grants = cluster_join_granted (loop_cluster (l), o->disk->rec.uuid,
                                    r->subject, sizeof r->subject);
  return reply_disk (loop_cluster (l), o->disk, r->no_news);
}

static void
handle_disk (struct loop *l, struct request *r)
{
  struct cluster *c = loop_cluster (l);
  const struct cluster_disk *d = cluster_disk_find (c, r->uuid);

  if (d)
    loop_answer (l, r, 200, view_disk (c, d));
  else
    loop_refuse (l, r, 404, NULL, "unknown-disk",
                 "there is no disk of this UUID: GET /api/v1/disks lists them");
}

ROUTE_CALL (handle_disk_forget, cluster_disk_forget, r->uuid)
ROUTE_PREFLIGHT (preflight_forget, cluster_preflight_forget, r->uuid)
ROUTE_CALL (handle_disk_rekey, cluster_disk_rekey, r->uuid)

const struct route routes_disk[] = {
  { "GET", V1 "/disks", .query = QUERY_PAGE, .list = "disks", .key = "uuid",
    .show = view_disks },
  { "GET", V1 "/disks/{uuid}", .configuration = etag_disk,
    .handle = handle_disk },
  { "DELETE", V1 "/disks/{uuid}", .configuration = etag_disk,
    .handle = handle_disk_forget, .preflight = preflight_forget },
  { "POST", V1 "/disks/{uuid}/key", .handle = handle_disk_rekey },
  { "POST", V1 "/disks/{uuid}/heartbeat", .who = WHO_NODE, .process = "disk",
    .input = sizeof (struct cluster_disk_heartbeat),
    .parse = parse_disk_heartbeat, .handle = handle_disk_heartbeat,
    .reply = reply_heartbeat },
  { NULL },
};
