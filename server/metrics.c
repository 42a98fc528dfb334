/* metrics.c: see metrics.h.  The samples of one name must stand together, so
 * each function goes through all that has them.
 */

#include <config.h>

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "metrics.h"
#include "text.h"

static void
family (FILE *f, const char *name, const char *type, const char *help)
{
  fprintf (f, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void
state (FILE *f, const char *name, const char *labels, const char *const words[],
       unsigned count, const char *word)
{
  for (unsigned i = 0; i < count; i++)
    fprintf (f, "%s{%s%sstate=\"%s\"} %d\n", name, labels, labels[0] ? "," : "",
             words[i], strcmp (words[i], word) == 0);
}

static double
seconds (uint64_t ns)
{
  return (double) ns / 1e9;
}

/* A counter or gauge that is a 64-bit number in a struct. */
struct number {
  const char *name, *type, *help;
  size_t offset;
};

static uint64_t
number_of (const void *object, const struct number *n)
{
  uint64_t value;

  memcpy (&value, (const char *) object + n->offset, sizeof value);
  return value;
}

/* Has it said what it does? */
static bool
counts (const struct cluster_session *s)
{
  return !s->rec.ended && s->alive && s->stats_ms != 0;
}

/* ---- The cluster. ---- */

static void
cluster_metrics (FILE *f, const struct cluster *c)
{
  static const char *const words[] = { "ok", "warning", "error" };
  const struct cluster_identity *i = cluster_identity (c);
  char verdict[4096], uuid[37];

  text_uuid_print (i->uuid, uuid);
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

static void
array_state_metrics (FILE *f, const struct cluster *c)
{
  static const char *const words[] = { "creating", "ready", "degraded",
                                       "rebuilding", "failed" };
  const struct cluster_array *a;
  char labels[96];

  family (f, "weft_array_info", "gauge", "How the array is laid out.");
  TAILQ_FOREACH (a, cluster_arrays (c), link)
    fprintf (f, "weft_array_info{array=\"%s\",layout=\"%s\",dup=\"%s\"} 1\n",
             a->rec.name, layout_name (a->rec.layout),
             array_dup_name (a->rec.dup));
  family (f, "weft_array_state", "gauge",
          "The array's state: 1 for the one that it is in.");
  TAILQ_FOREACH (a, cluster_arrays (c), link) {
    snprintf (labels, sizeof labels, "array=\"%s\"", a->rec.name);
    state (f, "weft_array_state", labels, words, 5, cluster_array_state (a));
  }
  family (f, "weft_array_epoch", "gauge", "The array's committed epoch.");
  TAILQ_FOREACH (a, cluster_arrays (c), link)
    fprintf (f, "weft_array_epoch{array=\"%s\"} %" PRIu64 "\n", a->rec.name,
             a->rec.epoch);
  family (f, "weft_array_size_bytes", "gauge", "What clients can store.");
  TAILQ_FOREACH (a, cluster_arrays (c), link)
    fprintf (f, "weft_array_size_bytes{array=\"%s\"} %" PRIu64 "\n",
             a->rec.name, a->layout.size);
}

static void
bad_metrics (FILE *f, const struct cluster *c)
{
  const struct cluster_array *a;

  family (f, "weft_bad_bytes", "gauge",
          "Bytes in the members' lists of bad ranges, each byte of the array "
          "once: no good copy was found.");
  TAILQ_FOREACH (a, cluster_arrays (c), link)
    fprintf (f, "weft_bad_bytes{array=\"%s\"} %" PRIu64 "\n", a->rec.name,
             cluster_array_bad_bytes (a));
}

static void
array_exposure_metrics (FILE *f, const struct cluster *c)
{
  static const char *const names[][2] = {
    { "weft_array_exposed_bytes",
      "Bytes with fewer copies than the layout makes, not yet copied." },
    { "weft_array_unreachable_bytes", "Bytes of which no copy answers now." },
    { "weft_array_lost_bytes",
      "Bytes of which no copy is left, even if all silent members return." },
  };
  const struct cluster_array *a;
  uint64_t bytes[3];

  for (unsigned i = 0; i < 3; i++) {
    family (f, names[i][0], "gauge", names[i][1]);
    TAILQ_FOREACH (a, cluster_arrays (c), link) {
      cluster_array_exposure (a, &bytes[0], &bytes[1], &bytes[2]);
      fprintf (f, "%s{array=\"%s\"} %" PRIu64 "\n", names[i][0], a->rec.name,
               bytes[i]);
    }
  }
}

static void
array_session_metrics (FILE *f, const struct cluster *c)
{
  const struct cluster_array *a;
  const struct cluster_session *s;

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
}

/* ---- Members. ---- */

static void
member_metrics (FILE *f, const struct cluster *c)
{
  static const char *const words[] = { "in-sync", "out", "joining" };
  const struct cluster_array *a;
  const struct cluster_session *writer;
  char labels[128], uuid[37];

  family (f, "weft_member_state", "gauge",
          "The member's state: 1 for the one that it is in.");
  TAILQ_FOREACH (a, cluster_arrays (c), link)
    for (unsigned m = 0; m < a->layout.members; m++) {
      snprintf (labels, sizeof labels, "array=\"%s\",member=\"%u\"",
                a->rec.name, m);
      state (f, "weft_member_state", labels, words, 3,
             member_state_name (a->rec.member[m].state));
    }
  family (f, "weft_member_info", "gauge", "Where the member is.");
  TAILQ_FOREACH (a, cluster_arrays (c), link)
    for (unsigned m = 0; m < a->layout.members; m++) {
      text_uuid_print (a->rec.member[m].disk, uuid);
      fprintf (f,
               "weft_member_info{array=\"%s\",member=\"%u\",disk=\"%s\","
               "node=\"%s\"} 1\n",
               a->rec.name, m, uuid, a->disk[m]->rec.node);
    }
  family (f, "weft_member_suspect", "gauge",
          "1: the writer finds it far slower than its peers, and reads around "
          "it.");
  TAILQ_FOREACH (a, cluster_arrays (c), link) {
    writer = cluster_array_writer (c, a);
    if (writer == NULL || !counts (writer))
      continue;
    for (unsigned m = 0; m < a->layout.members; m++)
      fprintf (f, "weft_member_suspect{array=\"%s\",member=\"%u\"} %d\n",
               a->rec.name, m, writer->stats.member[m].suspect);
  }
}

static void
rebuild_metrics (FILE *f, const struct cluster *c)
{
  static const struct number numbers[] = {
    { "weft_rebuild_remaining_bytes", "gauge",
      "What the joining member has still to copy.",
      offsetof (struct cluster_join, todo_bytes) },
    { "weft_rebuild_size_bytes", "gauge",
      "What there was to copy when the rebuild began.",
      offsetof (struct cluster_join, total_bytes) },
    { "weft_rebuild_copied_bytes_total", "counter",
      "What was read from peers since the rebuild began.",
      offsetof (struct cluster_join, copied_bytes) },
    { "weft_rebuild_unreadable_bytes", "gauge", "What no source could give.",
      offsetof (struct cluster_join, unreadable_bytes) },
  };
  const struct cluster_array *a;

  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    family (f, numbers[i].name, numbers[i].type, numbers[i].help);
    TAILQ_FOREACH (a, cluster_arrays (c), link)
      for (unsigned m = 0; m < a->layout.members; m++)
        if (a->rec.member[m].state == MEMBER_JOINING)
          fprintf (f, "%s{array=\"%s\",member=\"%u\"} %" PRIu64 "\n",
                   numbers[i].name, a->rec.name, m,
                   number_of (&a->disk[m]->join, &numbers[i]));
  }
  family (f, "weft_rebuild_paused", "gauge", "1: an administrator paused it.");
  TAILQ_FOREACH (a, cluster_arrays (c), link)
    for (unsigned m = 0; m < a->layout.members; m++)
      if (a->rec.member[m].state == MEMBER_JOINING)
        fprintf (f, "weft_rebuild_paused{array=\"%s\",member=\"%u\"} %d\n",
                 a->rec.name, m, a->rec.member[m].paused);
}

/* ---- Disks and nodes. ---- */

static void
disk_labels (const struct cluster_disk *d, char labels[160])
{
  char uuid[37];

  text_uuid_print (d->rec.uuid, uuid);
  snprintf (labels, 160, "disk=\"%s\",node=\"%s\"", uuid, d->rec.node);
}

static void
disk_state_metrics (FILE *f, const struct cluster *c)
{
  const struct cluster_disk *d;
  char labels[160];

  family (f, "weft_disk_up", "gauge",
          "1: its member process speaks to weftd, and has not failed.");
  TAILQ_FOREACH (d, cluster_disks (c), link) {
    disk_labels (d, labels);
    fprintf (f, "weft_disk_up{%s} %d\n", labels, d->alive && !d->failed);
  }
  family (f, "weft_disk_size_bytes", "gauge", "The whole disk.");
  TAILQ_FOREACH (d, cluster_disks (c), link) {
    disk_labels (d, labels);
    fprintf (f, "weft_disk_size_bytes{%s} %" PRIu64 "\n", labels, d->rec.size);
  }
  family (f, "weft_disk_dirty_extents", "gauge",
          "Extents of which copies may differ until they are cleared.");
  TAILQ_FOREACH (d, cluster_disks (c), link) {
    disk_labels (d, labels);
    fprintf (f, "weft_disk_dirty_extents{%s} %" PRIu64 "\n", labels,
             d->dirty_extents);
  }
}

static void
disk_load_metrics (FILE *f, const struct cluster *c)
{
  static const struct number numbers[] = {
    { "weft_disk_reads_total", "counter", "Reads of the disk.",
      offsetof (struct cluster_load, disk_reads) },
    { "weft_disk_writes_total", "counter", "Writes to the disk.",
      offsetof (struct cluster_load, disk_writes) },
    { "weft_disk_read_bytes_total", "counter", "Bytes read from the disk.",
      offsetof (struct cluster_load, disk_read_bytes) },
    { "weft_disk_written_bytes_total", "counter", "Bytes written to the disk.",
      offsetof (struct cluster_load, disk_write_bytes) },
    { "weft_disk_flushes_total", "counter", "Flushes of the disk.",
      offsetof (struct cluster_load, flushes) },
  };
  const struct cluster_disk *d;
  char labels[160];

  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    family (f, numbers[i].name, numbers[i].type, numbers[i].help);
    TAILQ_FOREACH (d, cluster_disks (c), link) {
      if (d->load_ms == 0)
        continue;
      disk_labels (d, labels);
      fprintf (f, "%s{%s} %" PRIu64 "\n", numbers[i].name, labels,
               number_of (&d->load, &numbers[i]));
    }
  }
}

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
node_metrics (FILE *f, const struct cluster *c)
{
  static const struct number numbers[] = {
    { "weft_node_memory_free_bytes", "gauge", "Memory that is free.",
      offsetof (struct cluster_load, mem_free) },
    { "weft_node_network_receive_bytes_total", "counter",
      "Bytes that the node has received.",
      offsetof (struct cluster_load, net_rx_bytes) },
    { "weft_node_network_transmit_bytes_total", "counter",
      "Bytes that the node has sent.",
      offsetof (struct cluster_load, net_tx_bytes) },
  };
  const struct cluster_disk *d;

  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    family (f, numbers[i].name, numbers[i].type, numbers[i].help);
    TAILQ_FOREACH (d, cluster_disks (c), link)
      if (speaks_for_node (c, d))
        fprintf (f, "%s{node=\"%s\"} %" PRIu64 "\n", numbers[i].name,
                 d->rec.node, number_of (&d->load, &numbers[i]));
  }
  family (f, "weft_node_cpu_ratio", "gauge", "Share of CPU time in use.");
  TAILQ_FOREACH (d, cluster_disks (c), link)
    if (speaks_for_node (c, d))
      fprintf (f, "weft_node_cpu_ratio{node=\"%s\"} %.4g\n", d->rec.node,
               d->load.cpu);
}

/* ---- Sessions. ---- */

static void
session_labels (const struct cluster_session *s, char labels[240])
{
  snprintf (labels, 240, "array=\"%s\",node=\"%s\",session=\"%016" PRIx64 "\"",
            s->rec.array_name, s->rec.node, s->rec.id);
}

static void
session_metrics (FILE *f, const struct cluster *c)
{
#define STAT(member) offsetof (struct array_stats, member)
  static const struct number numbers[] = {
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
  };
#undef STAT
  const struct cluster_session *s;
  char labels[240];

  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    family (f, numbers[i].name, numbers[i].type, numbers[i].help);
    TAILQ_FOREACH (s, cluster_sessions (c), link) {
      if (!counts (s))
        continue;
      session_labels (s, labels);
      fprintf (f, "%s{%s} %" PRIu64 "\n", numbers[i].name, labels,
               number_of (&s->stats, &numbers[i]));
    }
  }
}

static void
session_now_metrics (FILE *f, const struct cluster *c)
{
  const struct cluster_session *s;
  char labels[240];

  family (f, "weft_session_image_oldest_seconds", "gauge",
          "Age of the oldest image in memory.");
  TAILQ_FOREACH (s, cluster_sessions (c), link)
    if (counts (s)) {
      session_labels (s, labels);
      fprintf (f, "weft_session_image_oldest_seconds{%s} %.9g\n", labels,
               seconds (s->stats.image_oldest_ns));
    }
  family (f, "weft_session_requests_waiting", "gauge",
          "Requests of clients that wait.");
  TAILQ_FOREACH (s, cluster_sessions (c), link)
    if (counts (s)) {
      session_labels (s, labels);
      fprintf (f, "weft_session_requests_waiting{%s} %u\n", labels,
               s->stats.requests_waiting);
    }
  family (f, "weft_session_requests_in_flight", "gauge",
          "Requests to members that are not answered.");
  TAILQ_FOREACH (s, cluster_sessions (c), link)
    if (counts (s)) {
      session_labels (s, labels);
      fprintf (f, "weft_session_requests_in_flight{%s} %u\n", labels,
               s->stats.ios_in_flight);
    }
}

/* ---- Latencies. ---- */

static void
histogram (FILE *f, const char *name, const char *labels,
           const struct latency *l)
{
  uint64_t count = 0;

  for (unsigned i = 0; i < LATENCY_BUCKETS; i++) {
    count += l->count[i];
    fprintf (f, "%s_bucket{%s,le=\"%.9g\"} %" PRIu64 "\n", name, labels,
             (double) ((uint64_t) LATENCY_FIRST_US << i) / 1e6, count);
  }
  count += l->count[LATENCY_BUCKETS];
  fprintf (f, "%s_bucket{%s,le=\"+Inf\"} %" PRIu64 "\n", name, labels, count);
  fprintf (f, "%s_sum{%s} %.9g\n", name, labels, seconds (l->sum_ns));
  fprintf (f, "%s_count{%s} %" PRIu64 "\n", name, labels, count);
}

static void
session_latencies (FILE *f, const struct cluster *c)
{
  static const struct {
    const char *name, *help;
    size_t offset;
  } kinds[] = {
    { "weft_session_read_duration_seconds", "How long reads took.",
      offsetof (struct array_stats, read) },
    { "weft_session_write_duration_seconds", "How long writes took.",
      offsetof (struct array_stats, write) },
    { "weft_session_flush_duration_seconds", "How long flushes took.",
      offsetof (struct array_stats, flush) },
  };
  const struct cluster_session *s;
  char labels[240];

  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    family (f, kinds[i].name, "histogram", kinds[i].help);
    TAILQ_FOREACH (s, cluster_sessions (c), link) {
      if (!counts (s))
        continue;
      session_labels (s, labels);
      histogram (
        f, kinds[i].name, labels,
        (const struct latency *) ((const char *) &s->stats + kinds[i].offset));
    }
  }
}

/* As the writer sees them; all readers' would be very many. */
static void
member_latencies (FILE *f, const struct cluster *c)
{
  static const char name[] = "weft_member_request_duration_seconds";
  const struct cluster_array *a;
  const struct cluster_session *s;
  char labels[300], session[240];

  family (f, name, "histogram",
          "How long the member took to answer requests of the writer.");
  TAILQ_FOREACH (a, cluster_arrays (c), link) {
    s = cluster_array_writer (c, a);
    if (s == NULL || !counts (s))
      continue;
    session_labels (s, session);
    for (unsigned m = 0; m < a->layout.members; m++) {
      snprintf (labels, sizeof labels, "%s,member=\"%u\"", session, m);
      histogram (f, name, labels, &s->stats.member[m].service);
    }
  }
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
  array_state_metrics (f, c);
  array_exposure_metrics (f, c);
  bad_metrics (f, c);
  array_session_metrics (f, c);
  member_metrics (f, c);
  rebuild_metrics (f, c);
  disk_state_metrics (f, c);
  disk_load_metrics (f, c);
  node_metrics (f, c);
  session_metrics (f, c);
  session_now_metrics (f, c);
  session_latencies (f, c);
  member_latencies (f, c);
  if (fclose (f) != 0)
    abort ();
  return text;
}
