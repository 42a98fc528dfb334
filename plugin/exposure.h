/* exposure.h: what leaves this host goes by TLS, or not at all. */

#ifndef WEFT_EXPOSURE_H
#define WEFT_EXPOSURE_H

#include <stdbool.h>
#include <sys/socket.h>

/* Do other hosts reach this address?  vsock is between a host and its guests. */
bool exposure_of (const struct sockaddr_storage *sa);

/* Does this URL or NBD URI lead off this host without TLS? */
bool exposure_uri_plain (const char *uri);

/* Would nbdkit, with the options that it was given, let others in without TLS,
 * or, with `verify`, without a certificate of theirs?  In get_ready; -1: it
 * would, and an error was said.
 */
int exposure_check_start (bool verify);

/* In open: came this client in without TLS all the same? */
int exposure_check_client (void);

#endif /* WEFT_EXPOSURE_H */
