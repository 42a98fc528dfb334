/* cluster-key.c: with which keys tokens are made.
 *
 * A token is for one process of a member, not only for an epoch: it is made with
 * the key of the process that serves the disk.  So a token that was given out
 * before a member was started again opens nothing afterwards, whatever its epoch.
 * While the writer does not know that a member was started again
 * (cluster_life_reborn), tokens are still made for the former process: what that
 * had not flushed may be gone, and nobody is to read the older data that is there
 * now.  The writer's own are, also where weftd has not heard of it for long: it is
 * to learn of the new process by an epoch, which says what may be gone.
 *
 * The process that the writer knows is in the disk's record, so a start of weftd
 * changes nothing.
 */

#include <config.h>

#include <string.h>

#include "cluster-internal.h"
#include "format/token.h"

/* For whom tokens for the member are made; writable: those of the writer. */
static const char *
process (const struct cluster *c, const struct cluster_array *a,
         unsigned member, bool writable)
{
  const struct cluster_disk *d = a->disk[member];
  bool in_sync = a->rec.member[member].state == MEMBER_IN_SYNC;

  return !d->heard || d->old_copy || cluster_life_reborn (c, a, member) ||
             (writable && in_sync && cluster_life_unmet (d))
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

void
cluster_member_token (const struct cluster *c, const struct cluster_array *a,
                      unsigned member, uint64_t session, bool writable,
                      char text[TOKEN_BYTES_MAX + 1])
{
  struct token t = { .session = session,
                     .writable = writable,
                     .epoch = a->rec.epoch };
  uint8_t key[KEY_BYTES];

  cluster_member_key (c, a, member, writable, key);
  memcpy (t.array, a->rec.uuid, 16);
  memcpy (t.member, a->disk[member]->rec.uuid, 16);
  token_mint (&t, key, text);
}

void
cluster_key_minted (const struct cluster *c, struct cluster_array *a)
{
  for (unsigned m = 0; m < a->layout.members; m++)
    cluster_text_copy (a->disk[m]->minted, sizeof a->disk[m]->minted,
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
