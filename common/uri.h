/* uri.h: NBD URIs, as far as a client needs them taken apart.
 *
 *   nbd://HOST[:PORT][/EXPORT]         nbds://... with TLS
 *   nbd+unix:///[EXPORT]?socket=PATH   nbds+unix:///... with TLS
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
  bool tls;
};

/* 0, or -1 for another text: libnbd may take that for a URI by which it starts a program
 * (nbd+ssh).
 */
int uri_parse (const char *text, struct uri *uri);

/* Does an NBD server answer there?  Each step of finding out may take so long. */
#define URI_ANSWER_MS 2000
bool uri_answers (const char *text, unsigned timeout_ms);

/* The URI of a Unix socket. */
void uri_of_socket (const char *socket, char *text, size_t size);

#endif /* WEFT_URI_H */
