/* http.h: the HTTP server: civetweb's threads parse and check requests, hand
 * them to the loop and write the answers; files and events they serve alone.
 */

#ifndef WEFT_HTTP_H
#define WEFT_HTTP_H

#include "hub.h"
#include "loop.h"

#define LISTENERS_MAX 16

struct listener {
  char address[46]; /* IPv4, or IPv6 without brackets */
  unsigned port;    /* 0: any, until it is served */
  bool tls, any;    /* any: the address stands for all of the host's */
};

struct http_options {
  struct listener listeners[LISTENERS_MAX];
  unsigned listeners_count;
  const char *host_names[LISTENERS_MAX]; /* by which it is called, too */
  unsigned host_names_count;
  const char *ui_dir;
  const char *openapi; /* a file */
};

struct http;

struct trust;

/* NULL: a sentence in why. */
struct http *http_start (const struct http_options *options, struct loop *loop,
                         struct hub *hub, struct trust *trust, char *why,
                         size_t why_size);
/* "https://10.0.0.1:7380", of the i-th listener. */
void http_url (const struct http *h, unsigned i, char url[80]);
/* Call when the loop has ended: waits for the threads. */
void http_stop (struct http *h);

#endif /* WEFT_HTTP_H */
