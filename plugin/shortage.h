/* shortage.h: lets this process go on when its host is short of memory. */

#ifndef WEFT_SHORTAGE_H
#define WEFT_SHORTAGE_H

/* As far as the process may; in get_ready, for threads and children inherit it. */
void shortage_prepare (void);

#endif /* WEFT_SHORTAGE_H */
