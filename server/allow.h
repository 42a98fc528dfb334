/* allow.h: the list of nodes that may attach an array, as JSON: in the API, in
 * the store, and for the array's serving process.
 */

#ifndef WEFT_ALLOW_H
#define WEFT_ALLOW_H

#include "cluster/cluster.h"
#include "fields.h"

/* The fields `mode` (rw, where it is missing) and `failover` of a line. */
void allow_take (struct fields *f, struct cluster_allow *allow);
/* The field of that name: a list of lines with a `node` each, none twice. */
void allow_take_list (struct fields *f, const char *name,
                      struct cluster_allow_list *list);

/* [{"node", "mode", "failover"}]; null: any node may attach it. */
json_t *allow_json (const struct cluster_allow_list *list);
/* The modes alone: {NODE: MODE}. */
json_t *allow_modes_json (const struct cluster_allow_list *list);

/* One of rw and ro; -1: it is none. */
int allow_mode_parse (const char *word);
const char *allow_mode_word (bool writable);

#endif /* WEFT_ALLOW_H */
