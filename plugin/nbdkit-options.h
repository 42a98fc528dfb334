/* nbdkit-options.h: the options on nbdkit's own command line.
 *
 * A plugin hears of -r and of TLS only when the first client comes, and of the
 * addresses never; but we must know before anything is served.
 */

#ifndef WEFT_NBDKIT_OPTIONS_H
#define WEFT_NBDKIT_OPTIONS_H

#include <limits.h>
#include <stdbool.h>

struct options {
  bool readonly;
  bool tls_required, verify_peer;
  bool
    psk; /* TLS is by secrets that both sides know: nobody shows a certificate */
  /* nbdkit makes TCP sockets, or one of vsock, unless it was handed its sockets */
  bool ip, vsock;
  char address[256]; /* their address, or its name; "": all of this host's */
  char
    certificates[PATH_MAX]; /* the folder, by its absolute path; "": not said */
};
extern struct options options;

/* In get_ready, before there are other threads.  -1: an error was logged. */
int options_read (void);

#endif /* WEFT_NBDKIT_OPTIONS_H */
