/* volumes-words.h: messages about volumes, to weftd and from it (docs/API), as JSON. */

#ifndef WEFT_VOLUMES_WORDS_H
#define WEFT_VOLUMES_WORDS_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/bounds.h"
#include "format/pool.h"
#include "host/holder.h"

/* A volume, as weftd describes it. */
struct volumes_words_volume {
  char name[NAME_BYTES_MAX + 1];
  uint8_t uuid[16];
  uint32_t root;
  uint64_t size;
  bool new;
};

/* Parse parts of answers of weftd.  False: the answer is not usable. */
bool volumes_words_volume (const json_t *json, const struct pool_header *pool,
                           struct volumes_words_volume *v);
/* From malloc, in any case. */
bool volumes_words_runs (const json_t *json, struct volume_run **runs,
                         unsigned *count);
bool volumes_words_order (const json_t *json, const struct pool_header *pool,
                          struct holder_order *o);
/* The array has array_bytes.  NULL, or a sentence: why the answer is not usable. */
const char *volumes_words_pool (const json_t *json, uint64_t array_bytes,
                                struct pool_header *pool, bool *formatted);

/* A message to weftd. */
json_t *volumes_words (const char *instance, const struct holder_message *m);

#endif /* WEFT_VOLUMES_WORDS_H */
