/* page.h: lists in pages.
 *
 * A list is sorted by what tells its elements apart; a page has those behind
 * the cursor, which is the key of the last element of the page before.  So what
 * comes and goes meanwhile shifts nothing.
 */

#ifndef WEFT_PAGE_H
#define WEFT_PAGE_H

#include <jansson.h>

#include "routes.h"

/* The page of {"LIST": [...]} that was asked for, with "next"; in place. */
void page_cut (const struct route *route, const struct query *q, json_t *body);

#endif /* WEFT_PAGE_H */
