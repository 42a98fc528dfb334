/* cluster-key.c: the keys by which tokens are made.
 *
 * A token is for one process of a member, not only for an epoch: it is made
 * with the key of the process that serves the disk.  So a token that was made
 * before a member was started again opens nothing afterwards, whatever its
 * epoch.  While the writer does not know that a member was started again
 * (cluster_process_reborn), tokens are still made for the former process: its
 * unflushed writes may be lost, and no session may read the older data that is
 * there now.  The writer's own tokens are made so, too, even if weftd has not
 * heard it for long: it must learn of the new process by an epoch, which says
 * which writes may be lost.
 *
 * The process that the writer knows is in the disk's record, so a start of
 * weftd changes nothing.
 */

#include <config.h>

#include <string.h>

#include "cluster-trust.h"
#include "format/token.h"

/* For whom tokens for the member are made; writable: those of the writer. */
static const char *
process (const struct cluster *c, const struct cluster_array *a,
         unsigned member, bool writable)
{
  const struct cluster_disk *d = a->disk[member];
  bool in_sync = a->rec.member[member].state == MEMBER_IN_SYNC;

  return !cluster_disk_heard (d) || d->old_copy ||
             cluster_process_reborn (c, a, member) ||
             (writable && in_sync && cluster_process_unmet (d))
           ? d->rec.instance
           : d->instance;
}

void
cluster_disk_key (const struct cluster_disk *d, uint8_t key[KEY_BYTES])
{
  token_key (d->rec.key, d->instance, key);
}

void
cluster_member_key (const struct cluster *c, const struct cluster_array *a,
                    unsigned member, bool writable, uint8_t key[KEY_BYTES])
{
  token_key (a->disk[member]->rec.key, process (c, a, member, writable), key);
}

/* t: all but the array, the member and the epoch. */
static void
mint (const struct cluster *c, const struct cluster_array *a, unsigned member,
      struct token *t, char text[TOKEN_BYTES_MAX + 1])
{
  uint8_t key[KEY_BYTES];

  cluster_member_key (c, a, member, t->writable, key);
  t->epoch = a->rec.epoch;
  memcpy (t->array, a->rec.uuid, 16);
  memcpy (t->member, a->disk[member]->rec.uuid, 16);
  token_mint (t, key, text);
}

void
cluster_member_token (const struct cluster *c, const struct cluster_array *a,
                      unsigned member, const struct cluster_session *s,
                      char text[TOKEN_BYTES_MAX + 1])
{
  struct token t = { .session = s->rec.id, .writable = s->rec.writable };

  if (!s->rec.by_admin) {
    cluster_object_text_copy (t.node, sizeof t.node, s->rec.node);
    cluster_object_text_copy (t.process, sizeof t.process, a->rec.name);
  }
  mint (c, a, member, &t, text);
}

void
cluster_source_token (const struct cluster *c, const struct cluster_array *a,
                      unsigned member, unsigned joining, uint64_t session,
                      char text[TOKEN_BYTES_MAX + 1])
{
  const struct cluster_disk *d = a->disk[joining];
  struct token t = { .session = session, .joins = true, .place = joining };

  if (d->proven) {
    cluster_object_text_copy (t.node, sizeof t.node, d->rec.node);
    format_uuid (d->rec.uuid, t.process);
  }
  mint (c, a, member, &t, text);
}

void
cluster_key_minted (const struct cluster *c, struct cluster_array *a)
{
  for (unsigned m = 0; m < a->layout.members; m++)
    cluster_object_text_copy (a->disk[m]->minted, sizeof a->disk[m]->minted,
                              process (c, a, m, false));
}

bool
cluster_key_too_low (const struct cluster *c, const struct cluster_array *a)
{
  for (unsigned m = 0; m < a->layout.members; m++)
    if (a->rec.member[m].state == MEMBER_IN_SYNC &&
        (a->disk[m]->min_epoch > a->rec.epoch ||
         strcmp (a->disk[m]->minted, process (c, a, m, false)) != 0))
      return true;
  return false;
}
