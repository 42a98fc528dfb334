/* replies.h: weftd's answers to members and hosts, as the JSON of the API
 * (docs/API). Only these hold keys and tokens.
 */

#ifndef WEFT_REPLIES_H
#define WEFT_REPLIES_H

#include <jansson.h>

#include "cluster/cluster.h"

/* The answer to a disk's heartbeat: the wanted state of the disk.  no_news: as
 * for cluster_disk_told.
 */
json_t *reply_disk (const struct cluster *c, const struct cluster_disk *d,
                    bool no_news);
/* To an attach. */
/* The pool that the session has attached, or null. */
json_t *reply_pool (const struct cluster_array *a,
                    const struct cluster_session *s);
json_t *reply_grant (const struct cluster *c, const struct cluster_array *a,
                     const struct cluster_session *s);
/* The answer to a session's heartbeat or report.  `epoch` is the one in which the
 * session works: if that is not the committed one, the answer has the map of the
 * committed one.  no_news: as for cluster_session_told.
 */
json_t *reply_session (const struct cluster *c, const struct cluster_array *a,
                       const struct cluster_session *s, uint64_t epoch,
                       bool no_news);

#endif /* WEFT_REPLIES_H */
