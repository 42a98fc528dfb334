/* list-page.h: lists in pages.
 *
 * A list is sorted by its elements' key; a page begins behind the cursor, which
 * is the key of the last element of the page before.  So elements that come and
 * go meanwhile do not shift the pages.
 */

#ifndef WEFT_LIST_PAGE_H
#define WEFT_LIST_PAGE_H

#include <jansson.h>

#include "routes.h"

/* {"LIST": [...], "next": ...}: the page of this list that was asked for. */
json_t *list_page_cut (const struct route *route, const struct query *q,
                       json_t *list);

#endif /* WEFT_LIST_PAGE_H */
