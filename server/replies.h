/* replies.h: what members and hosts are told, as the JSON of the API
 * (docs/API).  Only these hold keys and tokens.
 */

#ifndef WEFT_REPLIES_H
#define WEFT_REPLIES_H

#include <jansson.h>

#include "cluster.h"

/* To a disk's heartbeat: what is wanted of it. */
json_t *reply_disk (const struct cluster *c, const struct cluster_disk *d);
/* To an attach. */
json_t *reply_grant (const struct cluster *c, const struct cluster_array *a,
                     const struct cluster_session *s);
/* To what a session says.  `epoch` is the one that it works in: when it is not
 * the committed one, the reply has the map of the committed one.
 */
json_t *reply_session (const struct cluster *c, const struct cluster_array *a,
                       const struct cluster_session *s, uint64_t epoch);

#endif /* WEFT_REPLIES_H */
