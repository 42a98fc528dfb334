/* cluster-waits.c: the reasons for which an array waits, in words. */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cluster-epoch.h"

/* The conditions for giving a member back to the writer that has lost it. */
static bool
name_lost (const struct cluster *c, const struct cluster_array *a, char *text,
           size_t size)
{
  const struct cluster_session *writer = NULL;
  char words[320];

  while ((writer = cluster_writer_next (a, writer)))
    for (unsigned m = 0; m < a->layout.members; m++)
      if (writer->path[m].lost && c->live_ms < writer->path[m].retry_live_ms) {
        snprintf (
          text, size,
          "node %s to reach member %u (%s): it is tried again in %" PRIu64 " s",
          writer->rec.node, m,
          cluster_words_disk (a->disk[m], words, sizeof words),
          (writer->path[m].retry_live_ms - c->live_ms + 999) / 1000);
        return true;
      }
  return false;
}

/* "member 1 (disk /dev/sdb of node n1), member 3 (...) and 4 more" */
static void
name_members (const struct cluster_array *a, const bool which[], char *text,
              size_t size)
{
  char words[320];
  unsigned said = 0, more = 0;
  size_t used = 0;

  text[0] = '\0';
  for (unsigned m = 0; m < a->layout.members; m++) {
    if (!which[m])
      continue;
    if (said == 3 || used + 340 > size) {
      more++;
      continue;
    }
    used += (size_t) snprintf (
      text + used, size - used, "%smember %u (%s)", said ? ", " : "", m,
      cluster_words_disk (a->disk[m], words, sizeof words));
    said++;
  }
  if (more)
    snprintf (text + used, size - used, " and %u more", more);
}

/* "node n1 (process 7) and 2 more" */
static bool
name_sessions (const struct cluster *c, const struct cluster_array *a,
               char *text, size_t size)
{
  const struct cluster_session *s, *first = NULL;
  unsigned more = 0;

  TAILQ_FOREACH (s, &a->sessions, array_link) {
    if (!cluster_change_waits_for_session (a, s))
      continue;
    if (first)
      more++;
    else
      first = s;
  }
  if (first == NULL)
    return false;
  snprintf (text, size, "node %s (process %" PRIu64 ")", first->rec.node,
            first->rec.pid);
  if (more)
    snprintf (text + strlen (text), size - strlen (text), " and %u more", more);
  return true;
}

/* The reason to wait of the first joining member that waits. */
static bool
name_join (const struct cluster_array *a, char *text, size_t size)
{
  char words[320];

  for (unsigned m = 0; m < a->layout.members; m++)
    if (a->rec.member[m].state == MEMBER_JOINING && a->disk[m]->join.waits[0]) {
      snprintf (text, size, "member %u (%s) to be rebuilt, which waits for %s",
                m, cluster_words_disk (a->disk[m], words, sizeof words),
                a->disk[m]->join.waits);
      return true;
    }
  return false;
}

bool
cluster_array_waits_for (const struct cluster *c, const struct cluster_array *a,
                         char *text, size_t size)
{
  bool which[ARRAY_MEMBERS_MAX];
  char names[1200];
  bool any = false;

  if (a->rec.restoring) {
    snprintf (text, size, "the end of its restore from the backup: %s",
              a->waits[0] ? a->waits : "its members have not spoken yet");
    return true;
  }
  for (unsigned m = 0; m < a->layout.members; m++) {
    which[m] = a->rec.change.epoch ? cluster_change_waits_for (a, m)
               : !a->rec.ready     ? !a->disk[m]->took_place
                                   : a->rec.member[m].state == MEMBER_IN_SYNC &&
                                   cluster_copies_disk_away (a->disk[m]);
    any |= which[m];
  }
  name_members (a, which, names, sizeof names);
  if (!any && a->rec.change.epoch == 0)
    return name_lost (c, a, text, size) || name_join (a, text, size);
  if (!any && !name_sessions (c, a, names, sizeof names))
    return false;
  if (a->rec.change.epoch)
    snprintf (text, size, "%s to %s epoch %" PRIu64 ", since %" PRIu64 " s",
              names, any ? "confirm" : "prepare", a->rec.change.epoch,
              (c->live_ms - a->begun_live_ms) / 1000);
  else if (!a->rec.ready)
    snprintf (text, size, "%s to take its place", names);
  else
    snprintf (text, size, "%s to come back", names);
  return true;
}
