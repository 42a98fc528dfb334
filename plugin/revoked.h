/* revoked.h: what the cluster's CA has revoked is heard from weftd, and given to TLS. */

#ifndef WEFT_REVOKED_H
#define WEFT_REVOKED_H

struct admin;

/* In get_ready, after options_read.  Where this process speaks TLS, and can't see what
 * is revoked, that is said.
 */
void revoked_begin (void);

/* After a call, whatever its status: where the answer names another list than the last
 * one, get that.
 */
void revoked_heard (struct admin *admin);

#endif /* WEFT_REVOKED_H */
