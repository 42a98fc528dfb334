/* loss.h: bad ranges, as the array process hears of them from weftd: whether there
 * are any, and those of which an administrator has accepted the loss.
 */

#ifndef WEFT_LOSS_H
#define WEFT_LOSS_H

#include <stdbool.h>

#include <jansson.h>

#include "layout/layout.h"

struct engine;

/* Take in "bad" and "accept_loss" of weftd's answer to an attach or a heartbeat
 * (docs/API).  Never blocks.
 */
void loss_take (const json_t *reply);

/* Is anything of the array known to be bad? */
bool loss_any (void);

/* Start the thread that writes zeroes where weftd says so.  0 or an errno. */
int loss_start (struct engine *e, const struct layout *layout);

/* End the thread, before engine_end.  If its request does not come back in time,
 * all requests are failed.
 */
void loss_stop (void);

#endif /* WEFT_LOSS_H */
