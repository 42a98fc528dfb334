/* volumes-messages.h: messages about volumes, to weftd and from it (docs/API), as JSON. */

#ifndef WEFT_VOLUMES_MESSAGES_H
#define WEFT_VOLUMES_MESSAGES_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/bounds.h"
#include "format/pool.h"
#include "host/holder.h"

/* A volume, as weftd describes it. */
struct volumes_messages_volume {
  char name[NAME_BYTES_MAX + 1];
  uint8_t uuid[16];
  uint32_t root;
  uint64_t size;
  bool new;
};

/* Parse parts of answers of weftd.  False: the answer is not usable. */
bool volumes_messages_volume (const json_t *json,
                              const struct pool_header *pool,
                              struct volumes_messages_volume *v);
/* From malloc, in any case. */
bool volumes_messages_runs (const json_t *json, struct volume_run **runs,
                            unsigned *count);
bool volumes_messages_order (const json_t *json, const struct pool_header *pool,
                             struct holder_order *o);
/* The array's UUID.  NULL, or a sentence as below. */
const char *volumes_messages_uuid (const json_t *json, uint8_t uuid[16]);
/* The array has array_bytes.  NULL, or a sentence: why the answer is not usable. */
const char *volumes_messages_pool (const json_t *json, uint64_t array_bytes,
                                   struct pool_header *pool, bool *formatted);

/* ---- A scan ---- */

/* A volume that a scan has found. */
struct volumes_messages_found {
  unsigned root;
  const uint8_t *uuid; /* NULL: not known */
  const char *name;    /* the same */
  uint64_t size, kept;
  const char *why; /* it cannot be read; NULL: it can */
};

enum volumes_messages_scan_flags {
  VOLUMES_MESSAGES_BEGIN = 1,
  VOLUMES_MESSAGES_END = 2
};

/* A message of a scan; segment_bytes 0, found NULL: none. */
json_t *volumes_messages_scan (const char *instance, unsigned flags,
                               uint64_t segment_bytes,
                               const struct volumes_messages_found *found,
                               const struct volume_run *runs, unsigned count);

enum volumes_messages_next {
  VOLUMES_MESSAGES_NEXT,
  VOLUMES_MESSAGES_AGAIN, /* send the same message once more */
  VOLUMES_MESSAGES_ANEW,  /* begin the scan again */
  VOLUMES_MESSAGES_REFUSED,
};
/* weftd's answer to it; status -1: there was none.  *over: it needs no scan any more. */
enum volumes_messages_next volumes_messages_scanned (int status,
                                                     const char *code,
                                                     const json_t *reply,
                                                     bool *over);

/* ---- Messages ---- */

/* A message to weftd. */
json_t *volumes_messages (const char *instance, const struct holder_message *m);

#endif /* WEFT_VOLUMES_MESSAGES_H */
