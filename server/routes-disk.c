/* routes-disk.c: what is asked about disks: see routes.h. */

#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "replies.h"
#include "routes-internal.h"
#include "views.h"

static void
parse_load (struct fields *f, struct cluster_load *load)
{
  struct fields g;
  struct {
    const char *name;
    uint64_t *value;
  } counters[] = {
    { "mem_free", &load->mem_free },
    { "disk_read_bytes", &load->disk_read_bytes },
    { "disk_write_bytes", &load->disk_write_bytes },
    { "disk_reads", &load->disk_reads },
    { "disk_writes", &load->disk_writes },
    { "flushes", &load->flushes },
    { "net_rx_bytes", &load->net_rx_bytes },
    { "net_tx_bytes", &load->net_tx_bytes },
  };

  fields_begin (&g, json_object_get (f->object, "load"));
  if (g.failed) {
    fields_fail (f, "load", "field load must be an object");
    return;
  }
  if (fields_has (&g, "cpu"))
    fields_real (&g, "cpu", &load->cpu);
  if (fields_has (&g, "loadavg"))
    fields_real (&g, "loadavg", &load->loadavg);
  for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++)
    if (fields_has (&g, counters[i].name))
      fields_u64 (&g, counters[i].name, 0, INT64_MAX, counters[i].value);
  if (g.failed)
    fields_fail (f, g.field, "in load: %.200s", g.why);
}

static int
disk_state_parse (const char *word)
{
  return strcmp (word, "serving") == 0    ? 0
         : strcmp (word, "failed") == 0   ? 1
         : strcmp (word, "starting") == 0 ? 2
                                          : -1;
}

/* What its superblock says of its array.  Where that makes no sense as a whole,
 * nothing can be made of it: the disk has no place that could be imported.
 */
static void
parse_place (struct fields *f, struct cluster_disk_heartbeat *hb)
{
  uint64_t position = 0, n = 1, groups = 1;
  int layout = 0, dup = 0;
  unsigned count = 0;

  fields_uuid (f, "array", hb->array);
  fields_u64 (f, "position", 0, ARRAY_MEMBERS_MAX - 1, &position);
  hb->position = (unsigned) position;
  if (!fields_has (f, "layout"))
    return;
  fields_word (f, "layout", layout_parse, "the layouts", &layout);
  fields_word (f, "dup", array_dup_parse, "async-client, sync-client", &dup);
  fields_u64 (f, "n", 1, GROUP_MEMBERS_MAX, &n);
  fields_u64 (f, "groups", 1, ARRAY_GROUPS_MAX, &groups);
  fields_u64 (f, "unit", UNIT_BYTES_MIN, UNIT_BYTES_MAX, &hb->unit);
  fields_u64 (f, "member_bytes", 0, MEMBER_DATA_BYTES_MAX, &hb->member_bytes);
  fields_words (f, "states", member_state_parse, "in-sync, out, joining, spare",
                ARRAY_MEMBERS_MAX, hb->states, &count);
  hb->layout = (enum layout_kind) layout;
  hb->dup = (enum array_dup) dup;
  hb->n = (unsigned) n;
  hb->groups = (unsigned) groups;
  hb->has_place = count == n * groups && position < count;
}

static int
phase_parse (const char *word)
{
  return strcmp (word, "waiting") == 0     ? CLUSTER_JOIN_WAITING
         : strcmp (word, "gathering") == 0 ? CLUSTER_JOIN_GATHERING
         : strcmp (word, "copying") == 0   ? CLUSTER_JOIN_COPYING
         : strcmp (word, "synced") == 0    ? CLUSTER_JOIN_SYNCED
                                           : -1;
}

static void
parse_join (struct fields *f, struct cluster_join *j)
{
  struct fields g;
  int phase = CLUSTER_JOIN_NONE;
  struct {
    const char *name;
    uint64_t *value;
  } counters[] = {
    { "todo_bytes", &j->todo_bytes },
    { "total_bytes", &j->total_bytes },
    { "copied_bytes", &j->copied_bytes },
    { "unreadable_bytes", &j->unreadable_bytes },
    { "rate", &j->rate },
  };

  fields_begin (&g, json_object_get (f->object, "join"));
  if (g.failed) {
    fields_fail (f, "join", "field join must be an object");
    return;
  }
  if (fields_has (&g, "epoch"))
    fields_u64 (&g, "epoch", 0, EPOCH_MAX, &j->epoch);
  if (fields_has (&g, "phase"))
    fields_word (&g, "phase", phase_parse,
                 "waiting, gathering, copying, synced", &phase);
  j->phase = (enum cluster_join_phase) phase;
  for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++)
    if (fields_has (&g, counters[i].name))
      fields_u64 (&g, counters[i].name, 0, INT64_MAX, counters[i].value);
  if (fields_has (&g, "waits"))
    fields_prose (&g, "waits", j->waits, sizeof j->waits);
  if (g.failed)
    fields_fail (f, g.field, "in join: %.200s", g.why);
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
  for (size_t i = 0; i < 3; i++) {
    const json_t *n = json_array_get (range, i);

    if (!json_is_integer (n) || json_integer_value (n) < 0)
      return false;
    v[i] = (uint64_t) json_integer_value (n);
  }
  for (unsigned i = 0; i < list->count; i++)
    blocks += list->range[i].blocks;
  if (v[0] > MEMBER_DATA_BYTES_MAX / BAD_BLOCK_BYTES || v[1] == 0 ||
      v[1] > 2 * BAD_RANGES_MAX - blocks || v[2] > BAD_SCRUB ||
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

  fields_begin (&g, json_object_get (f->object, "bad"));
  if (g.failed) {
    fields_fail (f, "bad", "field bad must be an object");
    return;
  }
  if (fields_has (&g, "sequence"))
    fields_u64 (&g, "sequence", 0, INT64_MAX, &list->sequence);
  ranges = json_object_get (g.object, "ranges");
  if (fields_has (&g, "ranges") && !json_is_array (ranges))
    fields_fail (&g, "ranges", "field ranges must be a list");
  json_array_foreach (ranges, i, range)
    if (!g.failed && !take_range (range, list))
      fields_fail (&g, "ranges",
                   "element %zu of field ranges must be [first "
                   "block, blocks, reason], and behind the one before",
                   i);
  if (g.failed)
    fields_fail (f, g.field, "in bad: %.200s", g.why);
}

void
parse_patience (struct fields *f, struct request *r, uint64_t *wait_ms)
{
  bool news = true;

  if (fields_has (f, "wait_ms"))
    fields_u64 (f, "wait_ms", 0, 60000, wait_ms);
  if (fields_has (f, "news"))
    fields_bool (f, "news", &news);
  r->no_news = !news;
  r->patient = !news && *wait_ms > 0;
}

static void
parse_report (struct fields *f, struct cluster_disk_heartbeat *hb)
{
  int state = 0;

  fields_uri (f, "uri", hb->uri, sizeof hb->uri);
  fields_text (f, "path", hb->path, sizeof hb->path);
  if (fields_has (f, "cache"))
    fields_text (f, "cache", hb->cache, sizeof hb->cache);
  fields_u64 (f, "size", 0, INT64_MAX, &hb->size);
  fields_u64 (f, "data_bytes", 0, INT64_MAX, &hb->data_bytes);
  if (fields_has (f, "cluster"))
    fields_uuid (f, "cluster", hb->cluster);
  if (fields_has (f, "array"))
    parse_place (f, hb);
  if (fields_has (f, "join"))
    parse_join (f, &hb->join);
  if (fields_has (f, "bad"))
    parse_bad (f, &hb->bad);
  fields_u64 (f, "min_epoch", 0, EPOCH_MAX, &hb->min_epoch);
  fields_u64 (f, "generation", 0, INT64_MAX, &hb->generation);
  if (fields_has (f, "states_epoch"))
    fields_u64 (f, "states_epoch", 0, EPOCH_MAX, &hb->states_epoch);
  fields_word (f, "state", disk_state_parse, "serving, failed, starting",
               &state);
  hb->failed = state == 1;
  hb->starting = state == 2;
  if (fields_has (f, "reason"))
    fields_prose (f, "reason", hb->reason, sizeof hb->reason);
}

/* A heartbeat may hold more than this weftd knows: members and weftd need not
 * be of the same version.  So there is no fields_end.
 */
static void
parse_disk_heartbeat (struct fields *f, struct request *r)
{
  struct cluster_disk_heartbeat *hb = r->input;

  memcpy (hb->uuid, r->uuid, 16);
  fields_text (f, "instance", hb->instance, sizeof hb->instance);
  if (!f->failed && hb->instance[0] == '\0')
    fields_fail (f, "instance", "field instance must not be empty");
  fields_name (f, "node", hb->node, sizeof hb->node);
  strcpy (r->node, hb->node);
  parse_patience (f, r, &hb->wait_ms);
  hb->same = r->no_news && fields_has (f, "report");
  if (fields_has (f, "report"))
    fields_u64 (f, "report", 1, INT64_MAX, &hb->report);
  if (fields_has (f, "dirty_extents"))
    fields_u64 (f, "dirty_extents", 0, INT64_MAX, &hb->dirty_extents);
  if (fields_has (f, "load")) {
    parse_load (f, &hb->load);
    hb->has_load = true;
  }
  if (!hb->same || fields_has (f, "sequence"))
    fields_u64 (f, "sequence", 0, INT64_MAX, &hb->sequence);
  if (fields_has (f, "round"))
    fields_u64 (f, "round", 0, EPOCH_MAX, &hb->round);
  if (!hb->same)
    parse_report (f, hb);
}

static void
handle_disk_heartbeat (struct loop *l, struct request *r)
{
  struct cluster_disk_heartbeat *hb = r->input;
  struct cluster_input in;

  loop_input (l, r, &in);
  hb->proven = r->caller.via == VIA_CERTIFICATE;
  cluster_disk_heartbeat (loop_cluster (l), &in, hb);
}

/* Its key is for itself alone. */
static json_t *
reply_heartbeat (struct loop *l, struct request *r,
                 const struct cluster_output *o, struct store_txn *t,
                 int *status)
{
  return reply_disk (loop_cluster (l), o->disk, r->no_news);
}

static void
handle_disks (struct loop *l, struct request *r)
{
  loop_answer (l, r, 200, view_disks (loop_cluster (l)));
}

static void
handle_disk (struct loop *l, struct request *r)
{
  struct cluster *c = loop_cluster (l);
  const struct cluster_disk *d = cluster_disk_find (c, r->uuid);

  if (d)
    loop_answer (l, r, 200, view_disk (c, d));
  else
    loop_answer (l, r, 404,
                 view_error (404, NULL, "unknown-disk",
                             "there is no disk of this UUID: GET /api/v1/disks "
                             "lists them"));
}

static void
handle_disk_forget (struct loop *l, struct request *r)
{
  struct cluster_input in;

  loop_input (l, r, &in);
  cluster_disk_forget (loop_cluster (l), &in, r->uuid);
}

const struct route routes_disk[] = {
  { "GET", V1 "/disks", .query = QUERY_PAGE, .list = "disks", .key = "uuid",
    .handle = handle_disks },
  { "GET", V1 "/disks/{uuid}", .configuration = etag_disk,
    .handle = handle_disk },
  { "DELETE", V1 "/disks/{uuid}", .query = QUERY_DRY_RUN,
    .configuration = etag_disk, .handle = handle_disk_forget,
    .preflight = preflight_forget },
  { "POST", V1 "/disks/{uuid}/heartbeat", .who = WHO_NODE, .has_body = true,
    .input = sizeof (struct cluster_disk_heartbeat),
    .parse = parse_disk_heartbeat, .handle = handle_disk_heartbeat,
    .reply = reply_heartbeat },
  { NULL },
};
