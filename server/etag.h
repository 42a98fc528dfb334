/* etag.h: ETags against lost updates.
 *
 * The ETag of a thing stands for its stored configuration, not for its figures:
 * it changes when somebody changes the thing, not when it works.  A PATCH or
 * DELETE with If-Match does nothing when the ETag is another by now.
 */

#ifndef WEFT_ETAG_H
#define WEFT_ETAG_H

#include <stdbool.h>

#include <jansson.h>

#include "loop.h"

/* For the tables of routes: the thing in the path. */
json_t *etag_volume (struct loop *l, const struct request *r);
json_t *etag_array (struct loop *l, const struct request *r);
json_t *etag_disk (struct loop *l, const struct request *r);
json_t *etag_node (struct loop *l, const struct request *r);

/* Is the request meant for another state of the thing?  A thing that does not
 * exist is nobody's other state: the handler says that it is not there.
 */
bool etag_differs (struct loop *l, const struct request *r);
/* Add the thing's ETag to the headers of a good answer. */
void etag_add (struct loop *l, struct request *r, int status);

#endif /* WEFT_ETAG_H */
