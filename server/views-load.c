/* views-load.c: the load of disks, arrays and sessions (views.h). */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fields.h"
#include "text.h"
#include "views.h"

json_t *
view_disk_load (const struct cluster_disk *d)
{
  const struct cluster_load_rates *r = &d->rates;

  return fields_object ((const struct field_value[]) {
    { "cpu", text_rate (d->load.cpu) },
    { "loadavg", text_rate (d->load.loadavg) },
    { "mem_free", text_number (d->load.mem_free) },
    { "disk_read_bytes", text_rate (r->disk_read_bytes) },
    { "disk_write_bytes", text_rate (r->disk_write_bytes) },
    { "disk_reads", text_rate (r->disk_reads) },
    { "disk_writes", text_rate (r->disk_writes) },
    { "flushes", text_rate (r->flushes) },
    { "net_rx_bytes", text_rate (r->net_rx_bytes) },
    { "net_tx_bytes", text_rate (r->net_tx_bytes) },
    { "dirty_extents", text_number (d->dirty_extents) },
    { NULL } });
}

json_t *
view_session_load (const struct cluster_session *s)
{
  const struct cluster_session_rates *r = &s->load.rates;
  const struct array_stats *t = &s->load.stats;

  return fields_object ((const struct field_value[]) {
    { "reads", text_rate (r->reads) },
    { "writes", text_rate (r->writes) },
    { "flushes", text_rate (r->flushes) },
    { "read_bytes", text_rate (r->read_bytes) },
    { "write_bytes", text_rate (r->write_bytes) },
    { "read_us", text_rate (r->read_us) },
    { "write_us", text_rate (r->write_us) },
    { "flush_us", text_rate (r->flush_us) },
    { "image_bytes", text_number (t->image_bytes) },
    { "image_bytes_max", text_number (t->image_bytes_max) },
    { "image_oldest_ms", text_number (t->image_oldest_ns / 1000000) },
    { "requests_waiting", json_integer (t->requests_waiting) },
    { "ios_in_flight", json_integer (t->ios_in_flight) },
    { NULL } });
}

static json_t *
array_load (const struct cluster *c, const struct cluster_array *a)
{
  struct cluster_session_rates sum = { 0 };
  uint64_t image_bytes = 0, oldest_ns = 0;
  const struct cluster_session *s;

  TAILQ_FOREACH (s, cluster_sessions (c), link) {
    if (s->rec.ended || !s->alive ||
        memcmp (s->rec.array, a->rec.uuid, 16) != 0)
      continue;
    sum.reads += s->load.rates.reads;
    sum.writes += s->load.rates.writes;
    sum.flushes += s->load.rates.flushes;
    sum.read_bytes += s->load.rates.read_bytes;
    sum.write_bytes += s->load.rates.write_bytes;
    image_bytes += s->load.stats.image_bytes;
    if (s->load.stats.image_oldest_ns > oldest_ns)
      oldest_ns = s->load.stats.image_oldest_ns;
  }
  return fields_object ((const struct field_value[]) {
    { "reads", text_rate (sum.reads) },
    { "writes", text_rate (sum.writes) },
    { "flushes", text_rate (sum.flushes) },
    { "read_bytes", text_rate (sum.read_bytes) },
    { "write_bytes", text_rate (sum.write_bytes) },
    { "image_bytes", text_number (image_bytes) },
    { "image_oldest_ms", text_number (oldest_ns / 1000000) },
    { NULL } });
}

json_t *
view_load (const struct cluster *c, uint64_t wall_ms)
{
  json_t *disks = json_object (), *arrays = json_object (),
         *sessions = json_object ();
  const struct cluster_disk *d;
  const struct cluster_array *a;
  const struct cluster_session *s;
  char key[37];

  TAILQ_FOREACH (d, cluster_disks (c), link) {
    format_uuid (d->rec.uuid, key);
    if (d->alive && d->load_ms)
      json_object_set_new (disks, key, view_disk_load (d));
  }
  TAILQ_FOREACH (a, cluster_arrays (c), link)
    json_object_set_new (arrays, a->rec.name, array_load (c, a));
  TAILQ_FOREACH (s, cluster_sessions (c), link) {
    if (s->rec.ended || !s->alive || !s->load.ms)
      continue;
    snprintf (key, sizeof key, "%016" PRIx64, s->rec.id);
    json_object_set_new (sessions, key, view_session_load (s));
  }
  return fields_object (
    (const struct field_value[]) { { "rebuilds", view_rebuilds (c) },
                                   { "at", text_time (wall_ms) },
                                   { "disks", disks },
                                   { "arrays", arrays },
                                   { "sessions", sessions },
                                   { NULL } });
}
