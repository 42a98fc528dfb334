/* descriptors.h: has this process run out of file descriptors? */

#ifndef WEFT_DESCRIPTORS_H
#define WEFT_DESCRIPTORS_H

/* After something has failed that may have needed one: NULL, or that there is none
 * left, which limit that is, and the way out: in why.
 */
#define DESCRIPTORS_WHY_BYTES 200
const char *descriptors_short (char why[DESCRIPTORS_WHY_BYTES]);

#endif /* WEFT_DESCRIPTORS_H */
