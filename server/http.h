/* http.h: the HTTP server: civetweb's threads parse and check requests, hand
 * them to the loop and write the answers; files and events they serve alone.
 */

#ifndef WEFT_HTTP_H
#define WEFT_HTTP_H

#include "hub.h"
#include "loop.h"

struct http_options {
  const char *address; /* a loopback address, IPv4 */
  unsigned port;       /* 0: any */
  const char *ui_dir;
  const char *openapi; /* a file */
};

struct http;

/* NULL: a sentence in why. */
struct http *http_start (const struct http_options *options, struct loop *loop,
                         struct hub *hub, char *why, size_t why_size);
unsigned http_port (const struct http *h);
/* Call when the loop has ended: waits for the threads. */
void http_stop (struct http *h);

#endif /* WEFT_HTTP_H */
