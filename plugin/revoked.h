/* revoked.h: gets the list of revoked certificates from weftd, and passes it to
 * TLS.
 */

#ifndef WEFT_REVOKED_H
#define WEFT_REVOKED_H

struct admin;

/* In get_ready, after options_read.  If this process speaks TLS, and can't see
 * revocations, that is logged.
 */
void revoked_begin (void);

/* After a call, whatever its status: where the answer names another list than the last
 * one, get that; where it names an older one, show weftd the newest.
 */
void revoked_heard (struct admin *admin);

#endif /* WEFT_REVOKED_H */
