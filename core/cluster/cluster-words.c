/* cluster-words.c: how UUIDs, bytes and disks are written for people. */

#include <config.h>

#include <stdio.h>

#include "cluster-internal.h"

void
cluster_uuid_text (const uint8_t uuid[16], char text[CLUSTER_UUID_TEXT_BYTES])
{
  format_uuid (uuid, text);
}

const char *
cluster_bytes_words (uint64_t bytes, char *text, size_t size)
{
  static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
  double value = (double) bytes;
  unsigned u = 0;

  while (value >= 1024 && u < 4) {
    value /= 1024;
    u++;
  }
  snprintf (text, size, u == 0 ? "%.0f %s" : "%.4g %s", value, units[u]);
  return text;
}

const char *
cluster_disk_words (const struct cluster_disk *d, char *text, size_t size)
{
  if (cluster_disk_is_name (d))
    snprintf (text, size, "a disk that is not known yet");
  else
    snprintf (text, size, "disk %.200s of node %s", d->rec.path, d->rec.node);
  return text;
}

void
cluster_disk_unknown (const uint8_t uuid[16], struct cluster_problem *p)
{
  char text[CLUSTER_UUID_TEXT_BYTES];

  cluster_uuid_text (uuid, text);
  cluster_problem_set (p, CLUSTER_INVALID, "unknown-disk",
                       "there is no disk %s: start its member process, or see "
                       "GET /api/v1/disks for those that there are",
                       text);
}
