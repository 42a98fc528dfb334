/* metrics.c: see metrics.h.  The samples of one name must stand together, so
 * what has them is listed first: its labels, and where its figures are.
 */

#include <config.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "format/format.h"
#include "metrics.h"
#include "quota.h"

/* ---- Lists, and what is written for each of a list. ---- */

struct things {
  struct thing {
    char labels[300];
    const void *object;
  } *list;
  size_t count;
};

static void add (struct things *to, const void *object, const char *labels, ...)
  __attribute__ ((format (printf, 3, 4)));

static void
add (struct things *to, const void *object, const char *labels, ...)
{
  struct thing *thing;
  va_list ap;

  to->list = alloc_list (to->list, to->count + 1, sizeof *to->list);
  thing = &to->list[to->count++];
  thing->object = object;
  va_start (ap, labels);
  vsnprintf (thing->labels, sizeof thing->labels, labels, ap);
  va_end (ap);
}

static void
family (FILE *f, const char *name, const char *type, const char *help)
{
  fprintf (f, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* 1 for the word of the state that it is in. */
static void
state (FILE *f, const char *name, const char *labels, const char *const words[],
       unsigned count, const char *word)
{
  for (unsigned i = 0; i < count; i++)
    fprintf (f, "%s{%s%sstate=\"%s\"} %d\n", name, labels, labels[0] ? "," : "",
             words[i], strcmp (words[i], word) == 0);
}

/* A counter or gauge that is a number in the object: a uint64_t, an unsigned or a
 * bool.
 */
struct number {
  const char *name, *type, *help;
  size_t offset, size;
};

#define AT(type, member)                                                       \
  offsetof (struct type, member), sizeof (((struct type *) NULL)->member)

/* The table ends with a number without a name. */
static void
numbers (FILE *f, const struct number *n, const struct things *things)
{
  for (; n->name; n++) {
    family (f, n->name, n->type, n->help);
    for (size_t i = 0; i < things->count; i++) {
      const void *at = (const char *) things->list[i].object + n->offset;
      uint64_t value = n->size == sizeof (uint64_t)   ? *(const uint64_t *) at
                       : n->size == sizeof (unsigned) ? *(const unsigned *) at
                                                      : *(const bool *) at;

      fprintf (f, "%s{%s} %" PRIu64 "\n", n->name, things->list[i].labels,
               value);
    }
  }
}

static double
seconds (uint64_t ns)
{
  return (double) ns / 1e9;
}

/* The same of histograms: each number is a struct latency. */
static void
histograms (FILE *f, const struct number *n, const struct things *things)
{
  for (; n->name; n++) {
    family (f, n->name, "histogram", n->help);
    for (size_t i = 0; i < things->count; i++) {
      const struct thing *thing = &things->list[i];
      const struct latency *l = (const void *) ((const char *) thing->object +
                                                n->offset);
      uint64_t count = 0;

      for (unsigned b = 0; b < LATENCY_BUCKETS; b++) {
        count += l->count[b];
        fprintf (f, "%s_bucket{%s,le=\"%.9g\"} %" PRIu64 "\n", n->name,
                 thing->labels,
                 (double) ((uint64_t) LATENCY_FIRST_US << b) / 1e6, count);
      }
      count += l->count[LATENCY_BUCKETS];
      fprintf (f,
               "%s_bucket{%s,le=\"+Inf\"} %" PRIu64 "\n"
               "%s_sum{%s} %.9g\n%s_count{%s} %" PRIu64 "\n",
               n->name, thing->labels, count, n->name, thing->labels,
               seconds (l->sum_ns), n->name, thing->labels, count);
    }
  }
}

/* ---- The cluster. ---- */

static void
cluster_metrics (FILE *f, const struct cluster *c)
{
  static const char *const words[] = { "ok", "warning", "error" };
  const struct cluster_identity *i = cluster_identity (c);
  char verdict[4096], uuid[37];

  format_uuid (i->uuid, uuid);
  family (f, "weft_build_info", "gauge", "The version of weftd.");
  fprintf (f, "weft_build_info{version=\"%s\"} 1\n", PACKAGE_VERSION);
  family (f, "weft_cluster_info", "gauge", "The UUID of the cluster.");
  fprintf (f, "weft_cluster_info{cluster=\"%s\"} 1\n", uuid);
  family (f, "weft_cluster_generation", "gauge",
          "How often weftd was started on its database.");
  fprintf (f, "weft_cluster_generation %" PRIu64 "\n", i->generation);
  family (f, "weft_cluster_verdict", "gauge",
          "The verdict about everything: 1 for the state that it is in.");
  state (f, "weft_cluster_verdict", "", words, 3,
         words[cluster_verdict (c, verdict, sizeof verdict)]);
  family (f, "weft_cluster_read_only", "gauge",
          "1: weftd takes no changes, because its database is an old one.");
  fprintf (f, "weft_cluster_read_only %d\n", cluster_read_only (c) != NULL);
}

/* ---- Arrays. ---- */

struct exposure {
  uint64_t exposed, unreachable, lost, bad, together;
};

static void
array_metrics (FILE *f, const struct cluster *c)
{
  static const char *const words[] = { "creating", "ready", "degraded",
                                       "rebuilding", "failed" };
  static const struct number array_numbers[] = {
    { "weft_array_epoch", "gauge", "The array's committed epoch.",
      AT (cluster_array, rec.epoch) },
    { "weft_array_size_bytes", "gauge", "What clients can store.",
      AT (cluster_array, layout.size) },
    { NULL },
  };
  static const struct number exposure_numbers[] = {
    { "weft_array_exposed_bytes", "gauge",
      "Bytes with fewer copies than the layout makes, not yet copied.",
      AT (exposure, exposed) },
    { "weft_array_unreachable_bytes", "gauge",
      "Bytes of which no copy answers now.", AT (exposure, unreachable) },
    { "weft_array_lost_bytes", "gauge",
      "Bytes of which no copy is left, even if all silent members return.",
      AT (exposure, lost) },
    { "weft_array_one_host_bytes", "gauge",
      "Bytes that have all of their copies on one host, and are lost with it.",
      AT (exposure, together) },
    { "weft_bad_bytes", "gauge",
      "Bytes in the members' lists of bad ranges, each byte of the array once: "
      "no good copy was found.",
      AT (exposure, bad) },
    { NULL },
  };
  struct things arrays = { 0 }, exposures = { 0 };
  const struct cluster_array *a;
  const struct cluster_session *s;

  family (f, "weft_array_info", "gauge", "How the array is laid out.");
  TAILQ_FOREACH (a, cluster_arrays (c), link) {
    struct exposure *e = alloc_zeroed (sizeof *e);

    fprintf (f, "weft_array_info{array=\"%s\",layout=\"%s\",dup=\"%s\"} 1\n",
             a->rec.name, layout_name (a->rec.layout),
             array_dup_name (a->rec.dup));
    add (&arrays, a, "array=\"%s\"", a->rec.name);
    cluster_array_exposure (a, &e->exposed, &e->unreachable, &e->lost);
    e->bad = cluster_array_bad_bytes (a);
    cluster_array_hosts_survived (a, &e->together);
    add (&exposures, e, "array=\"%s\"", a->rec.name);
  }
  family (f, "weft_array_state", "gauge",
          "The array's state: 1 for the one that it is in.");
  for (size_t i = 0; i < arrays.count; i++)
    state (f, "weft_array_state", arrays.list[i].labels, words, 5,
           cluster_array_state (arrays.list[i].object));
  numbers (f, array_numbers, &arrays);
  numbers (f, exposure_numbers, &exposures);
  family (f, "weft_array_sessions", "gauge",
          "Array processes that have the array attached.");
  TAILQ_FOREACH (a, cluster_arrays (c), link) {
    unsigned count[2] = { 0 };

    TAILQ_FOREACH (s, cluster_sessions (c), link)
      if (!s->rec.ended && memcmp (s->rec.array, a->rec.uuid, 16) == 0)
        count[s->rec.writable]++;
    for (unsigned w = 0; w < 2; w++)
      fprintf (f, "weft_array_sessions{array=\"%s\",mode=\"%s\"} %u\n",
               a->rec.name, w ? "rw" : "ro", count[w]);
  }
  for (size_t i = 0; i < exposures.count; i++)
    free ((void *) exposures.list[i].object);
  free (exposures.list);
  free (arrays.list);
}

/* Of arrays that are shared by leases. */
static void
lease_metrics (FILE *f, const struct cluster *c)
{
  static const struct number lease_numbers[] = {
    { "weft_array_leases", "gauge", "Ranges that sessions have leases of.",
      AT (cluster_lease_map, leases) },
    { "weft_array_lease_bytes", "gauge", "Bytes that sessions have leases of.",
      AT (cluster_lease_map, held_bytes) },
    { "weft_array_lease_asks_waiting", "gauge",
      "Asks for leases that wait for others.",
      AT (cluster_lease_map, waiting) },
    { "weft_array_lease_conflicts_total", "counter",
      "Asks for leases that met others' leases.",
      AT (cluster_lease_map, conflicts) },
    { "weft_array_lease_revokes_total", "counter",
      "Leases that were asked back.", AT (cluster_lease_map, revokes) },
    { "weft_array_lease_orphan_bytes", "gauge",
      "Bytes of sessions that have ended, which nobody gets before they are "
      "recovered.",
      AT (cluster_lease_map, orphan_bytes) },
    { "weft_array_lease_undeclared_sessions", "gauge",
      "Sessions that have not said yet what they have: nothing is granted "
      "meanwhile.",
      AT (cluster_lease_map, undeclared) },
    { NULL },
  };
  struct things maps = { 0 };
  const struct cluster_array *a;

  TAILQ_FOREACH (a, cluster_arrays (c), link) {
    struct cluster_lease_map *map = alloc_zeroed (sizeof *map);

    if (cluster_lease_map (c, a, map))
      add (&maps, map, "array=\"%s\"", a->rec.name);
    else
      free (map);
  }
  numbers (f, lease_numbers, &maps);
  for (size_t i = 0; i < maps.count; i++)
    free ((void *) maps.list[i].object);
  free (maps.list);
}

/* ---- Pools. ---- */

static void
pool_metrics (FILE *f, const struct cluster *c)
{
  const struct cluster_array *a;
  const struct cluster_volume *v;

  family (
    f, "weft_pool_bytes", "gauge",
    "Bytes of a pool: data and log of its volumes, what they have in "
    "spare, what they were granted and have not told the use of, and what "
    "is free.");
  TAILQ_FOREACH (a, cluster_arrays (c), link) {
    struct cluster_pool_figures p;
    uint64_t told;

    if (a->pool == NULL)
      continue;
    cluster_pool_figures (a, &p);
    told = p.mapped + p.log + p.spare;
    const struct {
      const char *state;
      uint64_t bytes;
    } states[] = { { "data", p.mapped },
                   { "log", p.log },
                   { "spare", p.spare },
                   { "untold", p.granted > told ? p.granted - told : 0 },
                   { "free", p.free } };
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++)
      fprintf (f, "weft_pool_bytes{array=\"%s\",state=\"%s\"} %" PRIu64 "\n",
               a->rec.name, states[i].state, states[i].bytes);
  }
  family (
    f, "weft_volume_bytes", "gauge",
    "Bytes of a volume: its size, and what of the pool was granted to it.");
  TAILQ_FOREACH (a, cluster_arrays (c), link)
    if (a->pool)
      TAILQ_FOREACH (v, &a->pool->volumes, link) {
        fprintf (f,
                 "weft_volume_bytes{array=\"%s\",volume=\"%s\",state=\"size\"} "
                 "%" PRIu64 "\n",
                 a->rec.name, v->rec.name, v->rec.size);
        fprintf (f,
                 "weft_volume_bytes{array=\"%s\",volume=\"%s\","
                 "state=\"granted\"} %" PRIu64 "\n",
                 a->rec.name, v->rec.name, v->segments * a->rec.segment_bytes);
      }
}

/* ---- Members. ---- */

/* Has it said what it does? */
static bool
counts (const struct cluster_session *s)
{
  return !s->rec.ended && s->alive && s->load.ms != 0;
}

/* The time of a request to each member, and to its peers. */
static void
latency_metrics (FILE *f, const struct cluster *c)
{
  static const char *const names[][2] = {
    { "weft_member_latency_seconds",
      "Time of a request to the member, as measured by the writer that finds "
      "it the slowest." },
    { "weft_member_peers_latency_seconds",
      "Median time of a request to the other in-sync members, as measured by "
      "the same writer; 0: not known." },
  };
  const struct cluster_array *a;
  uint64_t us[2];

  for (unsigned i = 0; i < 2; i++) {
    family (f, names[i][0], "gauge", names[i][1]);
    TAILQ_FOREACH (a, cluster_arrays (c), link)
      for (unsigned m = 0; m < a->layout.members; m++)
        if (cluster_member_latency (a, m, &us[0], &us[1]))
          fprintf (f, "%s{array=\"%s\",member=\"%u\"} %.6f\n", names[i][0],
                   a->rec.name, m, us[i] / 1e6);
  }
}

static void
member_metrics (FILE *f, const struct cluster *c)
{
  static const char *const words[] = { "in-sync", "out", "joining" };
  static const struct number suspect[] = {
    { "weft_member_suspect", "gauge",
      "1: a writer finds it far slower than its peers, and reads from those "
      "instead.",
      0, sizeof (bool) },
    { NULL },
  };
  static const struct number join_numbers[] = {
    { "weft_rebuild_remaining_bytes", "gauge",
      "Bytes that the joining member has not copied yet.",
      AT (cluster_join, todo_bytes) },
    { "weft_rebuild_size_bytes", "gauge",
      "Bytes that were to copy when the rebuild began.",
      AT (cluster_join, total_bytes) },
    { "weft_rebuild_copied_bytes_total", "counter",
      "Bytes read from peers since the rebuild began.",
      AT (cluster_join, copied_bytes) },
    { "weft_rebuild_unreadable_bytes", "gauge",
      "Bytes that no source could read.", AT (cluster_join, unreadable_bytes) },
    { NULL },
  };
  static const struct number paused[] = {
    { "weft_rebuild_paused", "gauge", "1: an administrator paused it.",
      AT (cluster_member, paused) },
    { NULL },
  };
  struct things members = { 0 }, infos = { 0 }, suspects = { 0 };
  struct things joins = { 0 }, joining = { 0 };
  const struct cluster_array *a;

  TAILQ_FOREACH (a, cluster_arrays (c), link) {
    for (unsigned m = 0; m < a->layout.members; m++) {
      const struct cluster_member *member = &a->rec.member[m];
      const struct cluster_session *s = NULL;
      const struct cluster_disk *d = a->disk[m];
      const bool *slow = NULL; /* NULL: nobody can say */
      char uuid[FORMAT_UUID_TEXT_BYTES], labels[128];

      format_uuid (member->disk, uuid);
      snprintf (labels, sizeof labels, "array=\"%s\",member=\"%u\"",
                a->rec.name, m);
      add (&members, member, "%s", labels);
      add (&infos, d, "%s,disk=\"%s\",node=\"%s\"", labels, uuid, d->rec.node);
      while ((s = cluster_writer_next (a, s)))
        if (counts (s) && !(slow && *slow))
          slow = &s->load.stats.member[m].suspect;
      if (slow)
        add (&suspects, slow, "%s", labels);
      if (member->state == MEMBER_JOINING) {
        add (&joins, &d->join, "%s", labels);
        add (&joining, member, "%s", labels);
      }
    }
  }
  family (f, "weft_member_state", "gauge",
          "The member's state: 1 for the one that it is in.");
  for (size_t i = 0; i < members.count; i++) {
    const struct cluster_member *member = members.list[i].object;

    state (f, "weft_member_state", members.list[i].labels, words, 3,
           member_state_name (member->state));
  }
  family (f, "weft_member_info", "gauge", "Where the member is.");
  for (size_t i = 0; i < infos.count; i++)
    fprintf (f, "weft_member_info{%s} 1\n", infos.list[i].labels);
  numbers (f, suspect, &suspects);
  latency_metrics (f, c);
  numbers (f, join_numbers, &joins);
  numbers (f, paused, &joining);
  free (members.list);
  free (infos.list);
  free (suspects.list);
  free (joins.list);
  free (joining.list);
}

/* ---- Disks and nodes. ---- */

/* The disk that speaks for its node: the first that said anything of it. */
static bool
speaks_for_node (const struct cluster *c, const struct cluster_disk *d)
{
  const struct cluster_disk *other;

  TAILQ_FOREACH (other, cluster_disks (c), link)
    if (other->load_ms != 0 && other->alive &&
        strcmp (other->rec.node, d->rec.node) == 0)
      return other == d;
  return false;
}

static void
disk_metrics (FILE *f, const struct cluster *c)
{
  static const struct number disk_numbers[] = {
    { "weft_disk_size_bytes", "gauge", "The whole disk.",
      AT (cluster_disk, rec.size) },
    { "weft_disk_dirty_extents", "gauge",
      "Extents of which copies may differ until they are cleared.",
      AT (cluster_disk, dirty_extents) },
    { NULL },
  };
  static const struct number room_numbers[] = {
    { "weft_disk_room_size_bytes", "gauge",
      "Size of the file system below a disk that is a file.",
      AT (cluster_disk, room.size) },
    { "weft_disk_room_free_bytes", "gauge", "Free bytes there.",
      AT (cluster_disk, room.free) },
    { "weft_disk_room_wanted_bytes", "gauge",
      "Bytes that the sparse file may still allocate there.",
      AT (cluster_disk, room.wanted) },
    { NULL },
  };
  static const struct number load_numbers[] = {
    { "weft_disk_reads_total", "counter", "Reads of the disk.",
      AT (cluster_load, disk_reads) },
    { "weft_disk_writes_total", "counter", "Writes to the disk.",
      AT (cluster_load, disk_writes) },
    { "weft_disk_read_bytes_total", "counter", "Bytes read from the disk.",
      AT (cluster_load, disk_read_bytes) },
    { "weft_disk_written_bytes_total", "counter", "Bytes written to the disk.",
      AT (cluster_load, disk_write_bytes) },
    { "weft_disk_flushes_total", "counter", "Flushes of the disk.",
      AT (cluster_load, flushes) },
    { NULL },
  };
  static const struct number node_numbers[] = {
    { "weft_node_memory_free_bytes", "gauge", "Memory that is free.",
      AT (cluster_load, mem_free) },
    { "weft_node_network_receive_bytes_total", "counter",
      "Bytes that the node has received.", AT (cluster_load, net_rx_bytes) },
    { "weft_node_network_transmit_bytes_total", "counter",
      "Bytes that the node has sent.", AT (cluster_load, net_tx_bytes) },
    { NULL },
  };
  struct things disks = { 0 }, loads = { 0 }, nodes = { 0 }, rooms = { 0 };
  const struct cluster_disk *d;

  family (f, "weft_disk_up", "gauge",
          "1: its member process speaks to weftd, and has not failed.");
  TAILQ_FOREACH (d, cluster_disks (c), link) {
    char uuid[FORMAT_UUID_TEXT_BYTES], labels[160];

    format_uuid (d->rec.uuid, uuid);
    snprintf (labels, sizeof labels, "disk=\"%s\",node=\"%s\"", uuid,
              d->rec.node);
    fprintf (f, "weft_disk_up{%s} %d\n", labels,
             d->alive && !cluster_disk_failed (d));
    add (&disks, d, "%s", labels);
    if (d->alive && d->room.size > 0)
      add (&rooms, d, "%s", labels);
    if (d->load_ms != 0)
      add (&loads, &d->load, "%s", labels);
    if (speaks_for_node (c, d))
      add (&nodes, &d->load, "node=\"%s\"", d->rec.node);
  }
  numbers (f, disk_numbers, &disks);
  numbers (f, room_numbers, &rooms);
  numbers (f, load_numbers, &loads);
  numbers (f, node_numbers, &nodes);
  family (f, "weft_node_cpu_ratio", "gauge", "Share of CPU time in use.");
  for (size_t i = 0; i < nodes.count; i++) {
    const struct cluster_load *load = nodes.list[i].object;

    fprintf (f, "weft_node_cpu_ratio{%s} %.4g\n", nodes.list[i].labels,
             load->cpu);
  }
  free (disks.list);
  free (rooms.list);
  free (loads.list);
  free (nodes.list);
}

/* ---- Sessions. ---- */

#define SESSION_LABELS "array=\"%s\",node=\"%s\",session=\"%016" PRIx64 "\""

static void
session_metrics (FILE *f, const struct cluster *c)
{
#define STAT(member) AT (array_stats, member)
  static const struct number counters[] = {
    { "weft_session_reads_total", "counter", "Reads done.", STAT (reads) },
    { "weft_session_writes_total", "counter", "Writes done.", STAT (writes) },
    { "weft_session_flushes_total", "counter", "Flushes done.",
      STAT (flushes) },
    { "weft_session_zeroes_total", "counter", "Requests to zero done.",
      STAT (zeroes) },
    { "weft_session_trims_total", "counter", "Requests to trim done.",
      STAT (trims) },
    { "weft_session_read_bytes_total", "counter", "Bytes read.",
      STAT (read_bytes) },
    { "weft_session_written_bytes_total", "counter", "Bytes written.",
      STAT (write_bytes) },
    { "weft_session_image_pending_bytes", "gauge",
      "Images in memory, not yet on their member.", STAT (image_bytes) },
    { "weft_session_image_limit_bytes", "gauge",
      "How many there may be before writes wait.", STAT (image_bytes_max) },
    { "weft_session_image_sent_bytes_total", "counter",
      "Images sent to their member.", STAT (images_sent) },
    { "weft_session_image_replaced_bytes_total", "counter",
      "Images overwritten before they were sent.", STAT (images_replaced) },
    { NULL },
  };
  static const struct number now[] = {
    { "weft_session_requests_waiting", "gauge",
      "Requests of clients that wait.", STAT (requests_waiting) },
    { "weft_session_requests_in_flight", "gauge",
      "Requests to members that are not answered.", STAT (ios_in_flight) },
    { NULL },
  };
  static const struct number latencies[] = {
    { "weft_session_read_duration_seconds", "histogram", "How long reads took.",
      STAT (read) },
    { "weft_session_write_duration_seconds", "histogram",
      "How long writes took.", STAT (write) },
    { "weft_session_flush_duration_seconds", "histogram",
      "How long flushes took.", STAT (flush) },
    { NULL },
  };
  static const struct number member_latencies[] = {
    { "weft_member_request_duration_seconds", "histogram",
      "How long the member took to answer requests of a writer.", 0, 0 },
    { NULL },
  };
#undef STAT
  struct things sessions = { 0 }, members = { 0 };
  const struct cluster_session *s;
  const struct cluster_array *a;

  TAILQ_FOREACH (s, cluster_sessions (c), link)
    if (counts (s))
      add (&sessions, &s->load.stats, SESSION_LABELS, s->rec.array_name,
           s->rec.node, s->rec.id);
  /* As the writers see them; all readers' would be very many. */
  TAILQ_FOREACH (a, cluster_arrays (c), link) {
    s = NULL;
    while ((s = cluster_writer_next (a, s)))
      for (unsigned m = 0; counts (s) && m < a->layout.members; m++)
        add (&members, &s->load.stats.member[m].service,
             SESSION_LABELS ",member=\"%u\"", s->rec.array_name, s->rec.node,
             s->rec.id, m);
  }
  numbers (f, counters, &sessions);
  family (f, "weft_session_image_oldest_seconds", "gauge",
          "Age of the oldest image in memory.");
  for (size_t i = 0; i < sessions.count; i++) {
    const struct array_stats *stats = sessions.list[i].object;

    fprintf (f, "weft_session_image_oldest_seconds{%s} %.9g\n",
             sessions.list[i].labels, seconds (stats->image_oldest_ns));
  }
  numbers (f, now, &sessions);
  histograms (f, latencies, &sessions);
  histograms (f, member_latencies, &members);
  free (sessions.list);
  free (members.list);
}

char *
metrics_text (const struct cluster *c)
{
  char *text;
  size_t size;
  FILE *f = open_memstream (&text, &size);

  if (f == NULL)
    abort ();
  cluster_metrics (f, c);
  array_metrics (f, c);
  lease_metrics (f, c);
  pool_metrics (f, c);
  member_metrics (f, c);
  disk_metrics (f, c);
  session_metrics (f, c);
  family (f, "weft_revocations_unconfirmed", "gauge",
          "1: weftd's database may be an old one, and passwords and tokens are "
          "refused until weftctl revocations confirm.");
  fprintf (f, "weft_revocations_unconfirmed %d\n",
           (int) cluster_revoked_doubted (c));
  family (f, "weft_refused_requests_total", "counter",
          "Requests that were refused as their caller had too many at once, or "
          "attached too often.");
  fprintf (f, "weft_refused_requests_total %" PRIu64 "\n", quota_refused ());
  if (fclose (f) != 0)
    abort ();
  return text;
}
