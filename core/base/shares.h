/* shares.h: bounds the shares of holders in a limited resource: places for
 * connections, or memory for requests.
 *
 * There are five bounds: of all holders together; of one name, which is a
 * node's or an address; of all readers together, so that writers find the rest;
 * of one name's readers; and of one session.  No lock, no allocation: a holder
 * owns its share.
 */

#ifndef WEFT_SHARES_H
#define WEFT_SHARES_H

#include <stdbool.h>
#include <stdint.h>

#include <bsd/sys/queue.h>

#include "base/bounds.h"

struct share {
  LIST_ENTRY (share) link;
  char name[NAME_BYTES_MAX + 1]; /* "": only the bound of all counts */
  uint64_t session;              /* 0: it belongs to no session */
  bool reads;                    /* it may not write */
  uint64_t amount;
};

enum shares_bound {
  SHARES_FIT,
  SHARES_ALL,
  SHARES_NAME,
  SHARES_READERS,
  SHARES_READER,
  SHARES_SESSION,
};

struct shares {
  LIST_HEAD (, share) list;
  uint64_t max[SHARES_SESSION + 1]; /* by shares_bound; the first is not used */
};

/* Does this share count towards a bound that `s`, another one, has reached? */
bool shares_count (enum shares_bound bound, const struct share *share,
                   const struct share *s);

/* The first bound that is exceeded when `s`, which is not in the list, has its amount;
 * SHARES_FIT: none is.
 */
enum shares_bound shares_check (const struct shares *shares,
                                const struct share *s);

static inline void
shares_add (struct shares *shares, struct share *s)
{
  LIST_INSERT_HEAD (&shares->list, s, link);
}

static inline void
shares_remove (struct share *s)
{
  LIST_REMOVE (s, link);
}

#endif /* WEFT_SHARES_H */
