/* nbdkit-tls.h: whose certificates TLS believes here: as they are now, and not as they were when
 * this process was started.
 */

#ifndef WEFT_NBDKIT_TLS_H
#define WEFT_NBDKIT_TLS_H

#include <stdbool.h>
#include <stdint.h>

/* In the plugin's load ().  False: nbdkit's TLS is not as we know it, and memory for requests
 * (budget.h) is not bounded.
 */
bool tls_begin (void);
/* False: nbdkit or libnbd has no TLS, or an unknown version of it; then the
 * rest has no effect there.
 */
bool tls_works (void);

/* nbdkit's certificates are in this folder from now on (the next connection
 * reads it again when it has changed), and so is a first list of revoked ones.
 * Once, before there are connections.
 */
void tls_folder (const char *folder);

/* The CA's list of revoked certificates, as PEM, in place of the last one.  Returns how
 * many connections end by that; -1: it is no list, -2: it is an older one, by its number,
 * and the last one stands.
 */
int tls_revoked (const char *pem);
/* Take the list in the folder, where weft-renew keeps it, if that is not older. */
void tls_list_read (void);
/* The number of the newest list; 0: there is none, or it has no number. */
uint64_t tls_list_number (void);
/* Its text (malloc'ed); NULL: there is none. */
char *tls_list (void);

/* In open: the name in the certificate that this client shows, a node's; for as long as it
 * is connected.  NULL: it shows none, or TLS is not as we know it.
 */
const char *tls_client (void);

/* The same: the process for which that certificate is, "disk:UUID" or "array:NAME"; "":
 * it is the node's own, or there is none.  "?": another URI, of nobody.
 */
const char *tls_client_process (void);
/* The same of the server to which this thread has connected last, as a client by TLS. */
const char *tls_server_process (void);

struct caller;

/* In open, when it succeeds: this client's requests count as its own from now on. */
void tls_opened (const struct caller *caller);

/* In unload (). */
void tls_end (void);

#endif /* WEFT_NBDKIT_TLS_H */
