/* fenced.h: whether a client is accepted, by the number of the newest fence at its start.
 *
 * The number is the client's own claim, so it must never admit a client that has to stay
 * out.  A node that is fenced now is fenced, whatever its clients claim.  A client can't
 * know a fence that weftd has not made: a number above the newest one from weftd is
 * refused.  An honest client may be ahead of the server's last answer from weftd, so the
 * client is asked once more.
 */

#ifndef WEFT_FENCED_H
#define WEFT_FENCED_H

#include <stdint.h>

enum fenced {
  FENCED_NOT,
  FENCED_NOW,    /* or since the client was started */
  FENCED_UNKNOWN /* it names a fence of which weftd has not told */
};

/* below: weftd's number for the node: processes that were started before that
 * fence are refused; 0: none.  newest: the newest fence that weftd has sent.
 */
enum fenced fenced_is (uint64_t says, uint64_t below, uint64_t newest);

#endif /* WEFT_FENCED_H */
