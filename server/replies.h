/* replies.h: what members and hosts are told, as the JSON of the API
 * (docs/API).  Only these hold keys and tokens.
 */

#ifndef WEFT_REPLIES_H
#define WEFT_REPLIES_H

#include <jansson.h>

#include "cluster/cluster.h"

/* To a disk's heartbeat: what is wanted of it.  no_news: it knows what it has
 * said before.
 */
json_t *reply_disk (const struct cluster *c, const struct cluster_disk *d,
                    bool no_news);
/* To an attach. */
json_t *reply_grant (const struct cluster *c, const struct cluster_array *a,
                     const struct cluster_session *s);
/* To what a session says.  `epoch` is the one that it works in: when it is not
 * the committed one, the reply has the map of the committed one; when it is, and
 * the session has said so before, the states are those that it has.
 */
json_t *reply_session (const struct cluster *c, const struct cluster_array *a,
                       const struct cluster_session *s, uint64_t epoch,
                       bool no_news);

#endif /* WEFT_REPLIES_H */
