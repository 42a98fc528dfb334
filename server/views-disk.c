/* views-disk.c: a disk, as the API has it. */

#include <config.h>

#include <string.h>

#include "text.h"
#include "views.h"

json_t *
view_disk_load (const struct cluster_disk *d)
{
  const struct cluster_load_rates *r = &d->rates;

  return json_pack (
    "{so so so so so so so so so so so}", "cpu", text_rate (d->load.cpu),
    "loadavg", text_rate (d->load.loadavg), "mem_free",
    text_number (d->load.mem_free), "disk_read_bytes",
    text_rate (r->disk_read_bytes), "disk_write_bytes",
    text_rate (r->disk_write_bytes), "disk_reads", text_rate (r->disk_reads),
    "disk_writes", text_rate (r->disk_writes), "flushes",
    text_rate (r->flushes), "net_rx_bytes", text_rate (r->net_rx_bytes),
    "net_tx_bytes", text_rate (r->net_tx_bytes), "dirty_extents",
    text_number (d->dirty_extents));
}

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

  return json_pack (
    "{so ss so so so so so ss sb so so so ss? so so so so so so}", "uuid",
    text_uuid (r->uuid), "node", r->node, "moves_to",
    text_or_null (r->moves_to), "path", text_string (r->path), "uri",
    text_string (r->uri), "size", text_number (r->size), "data_bytes",
    text_number (r->data_bytes), "state",
    d->failed  ? "failed"
    : d->alive ? "serving"
               : "silent",
    "alive", d->alive, "reason", text_or_null (d->reason), "array",
    d->array ? json_string (d->array->rec.name) : json_null (), "position",
    d->array ? json_integer (d->position) : json_null (), "spare_of",
    array_name (c, r->spare_of), "releasing", text_uuid_or_null (r->release),
    "last_heard_ms", text_number (cluster_disk_silent_ms (c, d)), "min_epoch",
    text_number (d->min_epoch), "sequence", text_number (d->sequence),
    "dirty_extents", text_number (d->dirty_extents), "load",
    view_disk_load (d));
}
