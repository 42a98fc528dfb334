/* cluster-words.c: how UUIDs, bytes and disks are written for people. */

#include <config.h>

#include <stdio.h>

#include "cluster-ground.h"

void
cluster_words_uuid (const uint8_t uuid[16], char text[CLUSTER_UUID_TEXT_BYTES])
{
  format_uuid (uuid, text);
}

const char *
cluster_words_bytes (uint64_t bytes, char *text, size_t size)
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
cluster_words_disk (const struct cluster_disk *d, char *text, size_t size)
{
  if (cluster_disk_is_name (d))
    snprintf (text, size, "a disk that is not known yet");
  else
    snprintf (text, size, "disk %.200s of node %s", d->rec.path, d->rec.node);
  return text;
}

void
cluster_words_disk_unknown (const uint8_t uuid[16], struct cluster_problem *p)
{
  char text[CLUSTER_UUID_TEXT_BYTES];

  cluster_words_uuid (uuid, text);
  cluster_step_problem_set (
    p, CLUSTER_INVALID, "unknown-disk",
    "there is no disk %s: start its member process, or see "
    "GET /api/v1/disks for those that there are",
    text);
}

const char *
cluster_word_owed (enum cluster_word word)
{
  static const char *const words[CLUSTER_WORDS] = {
    [WORD_PLACE] = "taken its place in the array",
    [WORD_FENCED] = "confirmed that it refuses requests of former epochs",
    [WORD_SHUT] = "confirmed that it refuses a session that has ended",
    [WORD_PREPARED] = "prepared itself for a change of members",
    [WORD_EPOCH] = "taken in the array's epoch",
    [WORD_ARRIVED] = "said that what it wrote has reached all copies",
    [WORD_DECLARED] = "said which leases it has",
    [WORD_GIVEN] = "given back a lease that another host needs",
    [WORD_ORDER] = "taken the order to recover what an ended session had",
    [WORD_FENCES] = "confirmed that it refuses clients which were shut out",
    [WORD_LEFT] = "left off serving",
  };

  return words[word];
}
