/* cluster-verdict-place.c: the verdict's sentences about the hosts of an
 * array's disks: where one host's loss costs more than necessary, and which
 * member should move.
 */

#include <config.h>

#include "cluster-report.h"
#include "cluster-verdict.h"

/* Copies that are on one host, and what would mend that. */
static void
say_placement (struct verdict *v, const struct cluster *c,
               const struct cluster_array *a)
{
  char bytes[32], uuid[CLUSTER_UUID_TEXT_BYTES], words[320];
  const struct cluster_disk *to;
  unsigned member, hosts;
  uint64_t together;

  if (v->wanted != CLUSTER_WARNING || a->layout.copies == 1)
    return;
  hosts = cluster_array_hosts_survived (a, &together);
  if (hosts + 1 == a->layout.copies)
    return;
  to = cluster_place_mends (c, a, &member);
  if (to == NULL && together == 0)
    return; /* it is as good as it can be */
  cluster_words_bytes (together, bytes, sizeof bytes);
  if (together == 0)
    verdict_text_say (
      v, CLUSTER_WARNING,
      "Array %s survives the loss of any %u host%s, and could survive more: "
      "some copies are on the same host.",
      a->rec.name, hosts, hosts == 1 ? "" : "s");
  else if (cluster_place_one_host (c, a))
    verdict_text_say (
      v, CLUSTER_WARNING,
      "Array %s is lost with host %s, which has all of its disks: that will "
      "do to try it; enroll other hosts before you rely on it.",
      a->rec.name, a->disk[0]->rec.node);
  else
    verdict_text_say (
      v, CLUSTER_WARNING,
      "%s of array %s have all of their copies on one host, and are lost "
      "with it.",
      bytes, a->rec.name);
  if (to) {
    cluster_words_uuid (to->rec.uuid, uuid);
    verdict_text_say (v, CLUSTER_WARNING,
                      "weftctl array replace %s %u %s moves member %u to %s.",
                      a->rec.name, member, uuid, member,
                      cluster_words_disk (to, words, sizeof words));
  }
  else if (!cluster_place_one_host (c, a))
    verdict_text_say (
      v, CLUSTER_WARNING,
      "No free disk of another host would mend array %s: add one.",
      a->rec.name);
}

/* A member that is to move, and what for it waits. */
static void
say_moves (struct verdict *v, const struct cluster *c,
           const struct cluster_array *a)
{
  const struct cluster_disk *to;
  char words[320], text[768];
  bool passes;

  for (unsigned m = 0; m < a->layout.members; m++) {
    to = cluster_disk_find (c, a->rec.member[m].next_disk);
    if (to == NULL)
      continue;
    cluster_words_disk (to, words, sizeof words);
    if (cluster_drain_hinders (c, a, m, text, sizeof text, &passes))
      verdict_text_say (
        v, passes ? CLUSTER_INFO : CLUSTER_WARNING,
        "Member %u of array %s should move to %s, and waits for %s.", m,
        a->rec.name, words, text);
    else if (cluster_place_fits (c, a, to))
      verdict_text_say (v, CLUSTER_INFO, "Member %u of array %s moves to %s.",
                        m, a->rec.name, words);
    else
      verdict_text_say (v, CLUSTER_WARNING,
                        "Member %u of array %s should move to %s, which can't "
                        "take it now: check that disk, or choose another.",
                        m, a->rec.name, words);
  }
}

void
verdict_place (struct verdict *v, const struct cluster *c,
               const struct cluster_array *a)
{
  if (!a->rec.ready)
    return;
  say_placement (v, c, a);
  say_moves (v, c, a);
}
