/* descriptors.h: has this process run out of file descriptors? */

#ifndef WEFT_DESCRIPTORS_H
#define WEFT_DESCRIPTORS_H

/* After something has failed that may have needed one: NULL, or that there is none
 * left, which limit that is, and the way out.  The text is this thread's, until the
 * next call.
 */
const char *descriptors_short (void);

#endif /* WEFT_DESCRIPTORS_H */
