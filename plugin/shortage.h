/* shortage.h: lets this process go on when its host is short of memory. */

#ifndef WEFT_SHORTAGE_H
#define WEFT_SHORTAGE_H

/* Prepare for that, as far as this process is allowed to.  Called in get_ready,
 * since threads and children inherit it.
 */
void shortage_prepare (void);

#endif /* WEFT_SHORTAGE_H */
