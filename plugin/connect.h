/* connect.h: the making of an NBD connection to a member.
 *
 * Other hosts are spoken to by TLS only, and only those that the cluster's CA
 * (tls=) has certified.
 */

#ifndef WEFT_CONNECT_H
#define WEFT_CONNECT_H

#include <stdbool.h>

#include <libnbd.h>

/* The URI of a member's door: the member's own, with DOOR/TOKEN as the export
 * name.  The caller frees it; NULL: out of memory.
 */
char *connect_door_uri (const char *uri, const char *door, const char *token);

enum connect_failure {
  CONNECT_NO_ANSWER = 1, /* in time */
  CONNECT_NBD,           /* libnbd says why */
  CONNECT_PLAIN,         /* no TLS to another host */
  CONNECT_UNCERTIFIED,   /* no TLS, of a host that has a certificate */
  CONNECT_NO_CA,         /* TLS, and no tls= */
  CONNECT_PROCESS,       /* its certificate is for another kind of process */
  CONNECT_DESCRIPTORS,   /* none left for it */
};

/* So long one waits for a member at most while nbdkit is ending: a member that is there
 * counts for a clean end.
 */
#define CONNECT_ENDING_MS 1000
/* Connect a handle, within wait_ms, and CONNECT_ENDING_MS from when nbdkit is ending.
 * Returns 0; else connect_reason, called at once and by the same thread, says why
 * it failed.
 */
enum connect_failure connect_nbd (struct nbd_handle *nbd, const char *uri,
                                  unsigned wait_ms);
#define CONNECT_REASON_BYTES 1024
const char *connect_reason (enum connect_failure failure,
                            char said[CONNECT_REASON_BYTES]);
/* libnbd's last error in this thread, without secrets (it names the export that
 * was refused, and so the token), in said; NULL: none.  All
 * other code gets it from here.
 */
const char *connect_error (char said[CONNECT_REASON_BYTES]);

/* Does this URI want TLS? */
bool connect_is_tls (const char *uri);

#endif /* WEFT_CONNECT_H */
