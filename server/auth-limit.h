/* auth-limit.h: how often a password may be tried.  From any thread. */

#ifndef WEFT_AUTH_LIMIT_H
#define WEFT_AUTH_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

/* A caller that tries a user's password.  `device` names a login or a device of
 * the user (SECRET_DEVICE); NULL: a stranger.
 */
struct limit_caller {
  const char *address, *user, *device;
};

/* Before a try.  Returns 0, or the seconds to wait. */
unsigned limit_take (const struct limit_caller *c, uint64_t now_ms);
/* The password was right, or none was tried after all: the try does not count. */
void limit_give_back (const struct limit_caller *c, uint64_t now_ms);

#endif /* WEFT_AUTH_LIMIT_H */
