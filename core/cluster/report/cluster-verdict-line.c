/* cluster-verdict-line.c: a member that sessions have lost: is it the disk, the member's
 * process, or the line to it?
 *
 * weftd hears the member's process and the pulse of its disk (docs/PROTOCOL.md "Disks that
 * hang"), each session has a connection to it of its own, and a session that has lost the
 * member reports that again and again.  So the fault is where those that reach the member and
 * those that do not reach it part.  All of this is in memory alone: it is for people.
 */

#include <config.h>

#include <stdio.h>
#include <string.h>

#include "cluster-report.h"
#include "cluster-verdict.h"

/* An in-sync member is reported again each HEARTBEAT_MS while it is lost. */
#define LACK_FRESH_MS 5000

/* Nodes, as far as there is room to name them. */
struct nodes {
  unsigned count;
  const char *first, *second;
};

static void
add (struct nodes *nodes, const char *node)
{
  if ((nodes->count > 0 && strcmp (nodes->first, node) == 0) ||
      (nodes->count > 1 && strcmp (nodes->second, node) == 0))
    return;
  if (nodes->count == 0)
    nodes->first = node;
  else if (nodes->count == 1)
    nodes->second = node;
  nodes->count++;
}

static const char *
words (const struct nodes *nodes, char *text, size_t size)
{
  if (nodes->count == 1)
    snprintf (text, size, "node %.63s", nodes->first);
  else if (nodes->count == 2)
    snprintf (text, size, "nodes %.63s and %.63s", nodes->first, nodes->second);
  else
    snprintf (text, size, "nodes %.63s, %.63s and %u more", nodes->first,
              nodes->second, nodes->count - 2);
  return text;
}

/* The nodes that do not reach the member, and those that do.  For a member that
 * is out: at the time when it went out, because no node has tried since.
 */
static void
sort (const struct cluster *c, const struct cluster_array *a, unsigned member,
      struct nodes *lack, struct nodes *reach)
{
  const struct cluster_member *r = &a->rec.member[member];
  bool out = r->state == MEMBER_OUT;
  const struct cluster_session *s;

  TAILQ_FOREACH (s, &a->sessions, array_link) {
    uint64_t said = s->path[member].unreached_live_ms;

    if (said && (out || c->live_ms < said + LACK_FRESH_MS))
      add (lack, s->rec.node);
    else if (out ? s->path[member].reached
                 : cluster_process_reached (a, s, member))
      add (reach, s->rec.node);
  }
}

/* Advice where weftd hears the member. */
static void
say_line (const char *node, const struct nodes *lack, bool others, char *text,
          size_t size)
{
  if (lack->count > 1 && !others)
    snprintf (text, size,
              "check the network of node %s, and the member's port there",
              node);
  else if (strcmp (lack->first, node) == 0)
    snprintf (text, size, "check the member's port and the firewall on node %s",
              node);
  else
    snprintf (text, size, "check the connection between node%s %s and node %s",
              lack->count > 1 ? "s" : "",
              lack->count > 1 ? "that do not reach it" : lack->first, node);
}

bool
cluster_member_line (const struct cluster *c, const struct cluster_array *a,
                     unsigned member, char *text, size_t size)
{
  const struct cluster_disk *d = a->disk[member];
  bool out = a->rec.member[member].state == MEMBER_OUT;
  const char *not = out ? "did not reach it" : "can't reach it";
  struct nodes lack = { 0 }, reach = { 0 };
  char missing[200], found[200] = "", see[300];

  sort (c, a, member, &lack, &reach);
  if (lack.count == 0 || cluster_disk_failed (d) || d->old_copy ||
      cluster_copies_disk_hangs (d) ||
      (d->alive && (!cluster_disk_heard (d) || (out && !d->spoke))))
    return false;
  words (&lack, missing, sizeof missing);
  if (reach.count > 0)
    words (&reach, found, sizeof found);
  say_line (d->rec.node, &lack, reach.count > 0, see, sizeof see);
  if (!d->alive && (out || reach.count == 0))
    snprintf (text, size, "Nobody reaches it, neither weftd nor %s.", missing);
  else if (!d->alive)
    snprintf (text, size,
              "weftd and %s can't reach it, and %s can: check the network of "
              "node %s.",
              missing, found, d->rec.node);
  else if (cluster_copies_disk_doubtful (d))
    snprintf (text, size,
              "Its disk has answered nothing for %u s: check the disk first.",
              (unsigned) (d->disk_stuck_ms / 1000));
  else if (reach.count > 0)
    snprintf (text, size, "Its disk answers; %s %s, and %s and weftd %s: %s.",
              missing, not, found, out ? "did" : "can", see);
  else
    snprintf (text, size,
              "Its disk answers; %s %s, and only weftd hears it: %s.", missing,
              not, see);
  return true;
}
