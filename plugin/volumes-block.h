/* volumes-block.h: the block (block.h) of a pool: volumes (core/volume/volume.h), and the
 * block of their array below.
 *
 * A client is of a volume (volumes_block_client), and its requests are in bytes of the volume;
 * or of the array, as those of a resync (client_open of block.h).
 *
 * All functions are called with the engine's lock held, as those of block.h
 * (engine_call).
 */

#ifndef WEFT_VOLUMES_BLOCK_H
#define WEFT_VOLUMES_BLOCK_H

#include "block.h"
#include "volume/volume.h"

/* A volume of the block, while it is open. */
struct volumes_slot;

/* `news` is called, with the engine's lock, when a volume's state, or what it wants, has
 * changed: it must not block.  NULL: out of memory; `below` stays the caller's.
 */
struct block *volumes_block_new (struct block *below, struct array *array,
                                 void (*news) (void *opaque), void *opaque);

/* A volume, before volume_open.  config->array is set here.  NULL: out of memory. */
struct volumes_slot *volumes_block_add (struct block *b,
                                        const struct volume_config *config);
/* It has no clients, and is not VOLUME_OPEN; and volume_idle. */
void volumes_block_drop (struct block *b, struct volumes_slot *s);

/* The volume's engine, for inputs: the block takes its outputs then. */
struct volume *volumes_block_volume (struct block *b, struct volumes_slot *s);

/* As of array_losses. */
uint64_t volumes_block_losses (const struct block *b);

/* A client of the volume; closed by client_close of block.h. */
struct array_client *volumes_block_client (struct block *b,
                                           struct volumes_slot *s);

#endif /* WEFT_VOLUMES_BLOCK_H */
