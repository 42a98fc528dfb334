/* uri.h: NBD URIs, as far as a client needs them taken apart.
 *
 *   nbd://HOST[:PORT][/EXPORT]
 *   nbd+unix:///[EXPORT]?socket=PATH
 *
 * (https://github.com/NetworkBlockDevice/nbd/blob/master/doc/uri.md)
 */

#ifndef WEFT_URI_H
#define WEFT_URI_H

#include <stdbool.h>
#include <stddef.h>

struct uri {
  char socket[108]; /* of a Unix socket; "": TCP */
  char host[256], port[8];
  char export[256];
};

/* 0, or -1 for a URI of another kind (such as nbds, with TLS). */
int uri_parse (const char *text, struct uri *uri);

/* Does an NBD server answer there?  True for a URI of another kind, which is left
 * to the client to find out.
 */
bool uri_answers (const char *text);

/* The URI of a Unix socket. */
void uri_of_socket (const char *socket, char *text, size_t size);

#endif /* WEFT_URI_H */
