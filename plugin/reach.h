/* reach.h: whether other hosts can reach an address. */

#ifndef WEFT_REACH_H
#define WEFT_REACH_H

#include <stdbool.h>
#include <sys/socket.h>

/* Do other hosts reach this address?  A guest and its host are two hosts (vsock). */
bool reach_outside (const struct sockaddr_storage *sa);

#endif /* WEFT_REACH_H */
