/* member-source.c: the member engine: reads by other members that join.
 *
 * A joining member rebuilds the data of its own place in the array.  So its
 * token, which names that place, opens only the data that has a copy there, by
 * the layout: it opens neither the rest of the data, nor the holes of the rest,
 * nor the intent map of the rest.
 *
 * weftd tells members when a joining is over (member_shut). A member that does
 * not hear weftd would never learn of that, so after SOURCE_TTL_MS it gives
 * joining members nothing until it hears weftd again.
 */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "member-internal.h"

/* A token may be used only by the node to which weftd has given it. */
static enum member_verdict
check_node (const struct token *t, const struct member_client *client,
            struct member_refusal *r)
{
  const char *node = client ? client->node : NULL;

  if (t->node[0] == '\0' || (node && strcmp (node, t->node) == 0))
    return MEMBER_GO;
  return member_refuse (
    r, EACCES, "the token is for node %s alone, and the client shows %s%s",
    t->node, node ? "the certificate of node " : "no certificate",
    node ? node : "");
}

/* The process of a disk rebuilds that disk; the process of an array has that array's
 * sessions.
 */
static enum member_verdict
check_process (const struct token *t, const struct member_client *client,
               struct member_refusal *r)
{
  const char *kind = t->joins ? "disk:" : "array:";
  const char *process = client ? client->process : "";
  const size_t n = strlen (kind);

  if (process[0] == '\0' ||
      (strncmp (process, kind, n) == 0 &&
       (t->process[0] == '\0' || strcmp (process + n, t->process) == 0)))
    return MEMBER_GO;
  return member_refuse (
    r, EACCES,
    "the token is for %s%s%s, and the client shows the certificate of %s",
    t->joins ? "the rebuild of a disk" : "a session of an array",
    t->process[0] ? ": " : "", t->process, process);
}

enum member_verdict
member_source_open (const struct member *m, const struct token *t,
                    const struct member_client *client,
                    struct member_pass *pass, struct member_refusal *refusal)
{
  const struct superblock *sb = &m->confirmed;
  bool partner[ARRAY_MEMBERS_MAX];
  char why[256];

  if (check_node (t, client, refusal) != MEMBER_GO ||
      check_process (t, client, refusal) != MEMBER_GO)
    return MEMBER_REFUSE;
  if (!t->joins)
    return MEMBER_GO;
  if (layout_init (&pass->layout, sb->layout, sb->n, sb->groups, sb->unit,
                   sb->member_bytes, why, sizeof why) == -1)
    return member_refuse (refusal, EACCES, "the token is for a rebuild: %s",
                          why);
  layout_partners (&pass->layout, sb->position, partner);
  if (t->writable || !partner[t->place])
    return member_refuse (
      refusal, EACCES,
      "the token is for the rebuild of member %u, which has no "
      "copy of anything here",
      t->place);
  pass->joins = true;
  pass->place = t->place;
  pass->own = sb->position;
  return MEMBER_GO;
}

enum member_verdict
member_source_check (const struct member *m, const struct member_pass *pass,
                     const struct member_request *r,
                     struct member_refusal *refusal)
{
  uint64_t at = r->offset, left = r->length, some;

  if (r->now_ms > atomic_load (&m->heard_ms) + SOURCE_TTL_MS)
    return member_refuse (
      refusal, ESHUTDOWN,
      "this member has not heard weftd for %d s, and gives nothing "
      "for a rebuild before it does",
      SOURCE_TTL_MS / 1000);
  for (; left > 0; at += some, left -= some) {
    some = left;
    if (!member_pass_reads (pass, at, &some))
      return member_refuse (
        refusal, EPERM,
        "the token is for the rebuild of member %u, which has no "
        "copy of what lies at %" PRIu64 " here",
        pass->place, at);
  }
  return MEMBER_GO;
}

bool
member_pass_joins (const struct member_pass *pass)
{
  return pass->joins;
}

bool
member_pass_reads (const struct member_pass *pass, uint64_t offset,
                   uint64_t *length)
{
  return !pass->joins ||
         layout_shares (&pass->layout, pass->own, offset, pass->place, length);
}

/* Does anything in this extent have a copy at the joining member's place? */
static bool
shares_extent (const struct member_pass *pass, uint64_t extent)
{
  uint64_t at = extent * EXTENT_BYTES, end = at + EXTENT_BYTES, some;

  for (; at < end; at += some) {
    some = end - at;
    if (member_pass_reads (pass, at, &some))
      return true;
  }
  return false;
}

void
member_pass_mask (const struct member_pass *pass, uint64_t offset, size_t bytes,
                  uint8_t *map)
{
  for (size_t i = 0; pass->joins && i < bytes; i++)
    for (unsigned bit = 0; bit < 8; bit++)
      if (map[i] >> bit & 1 && !shares_extent (pass, (offset + i) * 8 + bit))
        map[i] &= ~(1u << bit);
}

void
member_heard (struct member *m, uint64_t asked_ms)
{
  atomic_store (&m->heard_ms, asked_ms);
}
