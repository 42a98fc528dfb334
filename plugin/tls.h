/* tls.h: whose certificates TLS believes here: as they are now, and not as they were when
 * this process was started.
 */

#ifndef WEFT_TLS_H
#define WEFT_TLS_H

#include <stdbool.h>

/* In the plugin's load (). */
void tls_begin (void);
/* False: nbdkit or libnbd has no TLS, or one that is not as we know it; then the rest has
 * no effect there.
 */
bool tls_works (void);

/* nbdkit's certificates are in this folder from now on (it is read anew when it has
 * changed, by the next connection), and so is a first list of what is revoked.  Once, before there are
 * connections.
 */
void tls_folder (const char *folder);

/* The CA's list of revoked certificates, as PEM, in place of the last one.  Returns how
 * many connections end by that; -1: it is no list, and the last one stands.
 */
int tls_revoked (const char *pem);

/* In open: the name in the certificate that this client shows, a node's; for as long as it
 * is connected.  NULL: it shows none, or TLS is not as we know it.
 */
const char *tls_client (void);

/* In unload (). */
void tls_end (void);

#endif /* WEFT_TLS_H */
