/* calls.h: stands before the calls that nbdkit, or a library, makes of other libraries. */

#ifndef WEFT_CALLS_H
#define WEFT_CALLS_H

#include <stdbool.h>

struct call {
  const char *name;
  void *function; /* in its place */
};

/* From now on the calls that the first object makes whose file's name has this in it
 * ("": the program itself) go to ours; up to 32 of them, then a NULL.  All of them or
 * none: false.  In the plugin's load ().
 */
bool calls_replace (const char *object, const struct call *calls);

#endif /* WEFT_CALLS_H */
