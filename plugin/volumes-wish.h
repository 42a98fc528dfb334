/* volumes-wish.h: functions for engine_call, which work on a volume of the block
 * (volumes-block.h).  Each gets a wish, which names the volume's slot.
 */

#ifndef WEFT_VOLUMES_WISH_H
#define WEFT_VOLUMES_WISH_H

#include <stdbool.h>
#include <stdint.h>

#include "host/holder.h"
#include "volumes-block.h"

#define VOLUMES_WISH_GIVES 64

struct volumes_wish {
  const struct volume_config *config;
  const struct volume_run *runs;
  unsigned count;
  bool delete;
  uint64_t size;
  /* Out: */
  struct volumes_slot *slot;
  enum volume_state state;
  const char *why;
  struct holder_facts facts;
  struct volume_run gives[VOLUMES_WISH_GIVES];
  unsigned gives_count;
  bool idle;
  int error;
  struct array_client *client;
  /* In a scan, at most uses_max of the runs that the volume uses, from uses_after on: */
  struct volume_run *uses;
  unsigned uses_max, uses_count;
  uint32_t uses_after;
  uint64_t kept, losses;
};

/* Add a volume by `config`, with `runs`, and open it; or `delete` it unopened. */
void volumes_wish_add (struct block *b, void *wish, uint64_t now_ns);
/* Its state, why, idle, and the size of its durable root. */
void volumes_wish_look (struct block *b, void *wish, uint64_t now_ns);
/* Facts for the holder, and segments that it gives back. */
void volumes_wish_facts (struct block *b, void *wish, uint64_t now_ns);
void volumes_wish_client (struct block *b, void *wish, uint64_t now_ns);
void volumes_wish_granted (struct block *b, void *wish, uint64_t now_ns);
/* To `size`; error: an errno. */
void volumes_wish_resize (struct block *b, void *wish, uint64_t now_ns);
void volumes_wish_delete (struct block *b, void *wish, uint64_t now_ns);
void volumes_wish_close (struct block *b, void *wish, uint64_t now_ns);
/* The next runs that it uses, and the segments that must be kept for its log. */
void volumes_wish_uses (struct block *b, void *wish, uint64_t now_ns);
/* How often members have lost their caches. */
void volumes_wish_losses (struct block *b, void *wish, uint64_t now_ns);
/* It is idle, and has no client. */
void volumes_wish_drop (struct block *b, void *wish, uint64_t now_ns);

#endif /* WEFT_VOLUMES_WISH_H */
