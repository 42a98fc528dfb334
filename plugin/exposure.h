/* exposure.h: ensures that data leaves this host only by TLS. */

#ifndef WEFT_EXPOSURE_H
#define WEFT_EXPOSURE_H

#include <stdbool.h>
#include <sys/socket.h>

/* Does this URL or NBD URI lead off this host without TLS? */
bool exposure_uri_plain (const char *uri);

/* Would nbdkit, with its options, admit other hosts without TLS 1.2 or later,
 * or without a certificate of theirs?  In get_ready; -1: it would, and an error
 * was logged.
 */
int exposure_check_start (void);
/* After that: do other hosts reach this process? */
bool exposure_listens (void);

/* In preconnect and open: the address of the client, of no family if it has
 * none.  Returns its bytes.
 */
socklen_t exposure_peer (struct sockaddr_storage *sa);

/* In open: did this client come otherwise than by loopback?  It may be on this host. */
bool exposure_far_client (void);

/* In open: came this client in like that all the same? */
int exposure_check_client (const struct sockaddr_storage *peer);

#endif /* WEFT_EXPOSURE_H */
