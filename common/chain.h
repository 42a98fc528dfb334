/* chain.h: lines of JSON, each with the hash of the one before, so that nobody changes,
 * removes or moves one without a trace.
 *
 *   {"number":7, ..., "previous":"HASH of line 6","hash":"HASH"}
 *
 * HASH is SHA-256, in hex, over the line as it is without its field `hash`.  Line 1 has 64
 * zeros for `previous`.
 */

#ifndef WEFT_CHAIN_H
#define WEFT_CHAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#define CHAIN_HASH_BYTES 65 /* as text */
#define CHAIN_BEGIN                                                            \
  "0000000000000000000000000000000000000000000000000000000000000000"

struct chain_link {
  uint64_t number;
  char previous[CHAIN_HASH_BYTES], hash[CHAIN_HASH_BYTES];
};

/* Make a line, without its end, of the fields of `json`; link has number and previous, and
 * gets the hash.  malloc'ed; NULL: no memory.
 */
char *chain_line (const json_t *json, struct chain_link *link);
/* Read a line of `bytes` bytes, without its end.  -1: this is no such line, or its hash
 * is of another text; a sentence in why.
 */
int chain_read (const char *line, size_t bytes, struct chain_link *link,
                char *why, size_t why_size);

/* Lines that are read one after the other. */
struct chain {
  struct chain_link first, last;    /* number 0: there was none yet */
  char (*hashes)[CHAIN_HASH_BYTES]; /* of first.number and those after it */
  size_t room;
};

/* Take the next one.  -1: it does not follow, or as chain_read.  The same lines once more,
 * as syslog may have them, are no fault.
 */
int chain_take (struct chain *c, const char *line, size_t bytes, char *why,
                size_t why_size);
/* The hash of this line; NULL: it was not among them. */
const char *chain_hash (const struct chain *c, uint64_t number);
void chain_clear (struct chain *c);

#endif /* WEFT_CHAIN_H */
