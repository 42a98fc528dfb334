/* http-internal.h: what the files of the HTTP server share. */

#ifndef WEFT_HTTP_INTERNAL_H
#define WEFT_HTTP_INTERNAL_H

#include <stddef.h>

struct mg_connection;

/* `extra`: more header lines, each ending in \r\n.  Returns the status. */
int http_send (struct mg_connection *conn, int status, const char *type,
               const char *extra, const char *body, size_t length);
int http_not_found (struct mg_connection *conn, const char *path);

#endif /* WEFT_HTTP_INTERNAL_H */
