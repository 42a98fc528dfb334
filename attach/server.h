/* server.h: the array process behind a Unix socket. */

#ifndef WEFT_SERVER_H
#define WEFT_SERVER_H

#include <stdint.h>

/* A connection after the negotiation: only requests and answers follow. */
struct server {
  int socket;
  int process; /* its pidfd: readable once the process has ended */
  int pid;
  uint64_t size;
  uint64_t flags; /* of the NBD protocol */
};

/* Connect to the array process that listens there and has written its number
 * into pid_file, which may take long: until stop is readable.  -1 with a sentence
 * in why: not now.
 */
int server_connect (const char *socket_path, const char *pid_file,
                    const char *export, int stop, struct server *s, char *why,
                    unsigned why_size);

#endif /* WEFT_SERVER_H */
