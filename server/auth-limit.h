/* auth-limit.h: how often a password may be tried.  From any thread. */

#ifndef WEFT_AUTH_LIMIT_H
#define WEFT_AUTH_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

/* Before a try.  Returns 0, or the seconds to wait. */
unsigned limit_take (const char *address, const char *user, uint64_t now_ms);
/* No password was tried after all: the try does not count. */
void limit_give_back (const char *address, const char *user, uint64_t now_ms);
/* The password was right: the try does not count.  For a day this user is known at
 * this address, and not kept out by others who try the user's password elsewhere.
 */
void limit_known (const char *address, const char *user, uint64_t now_ms);
bool limit_is_known (const char *address, const char *user, uint64_t now_ms);

#endif /* WEFT_AUTH_LIMIT_H */
