/* fuzz-civetweb.h: connections of the HTTP server without sockets, in place of
 * civetweb's: the test gives the request as civetweb has read it, and keeps weftd's
 * answer.
 */

#ifndef WEFT_FUZZ_CIVETWEB_H
#define WEFT_FUZZ_CIVETWEB_H

#include <stdbool.h>
#include <stddef.h>

#include <civetweb.h>

struct mg_connection {
  struct mg_request_info info;
  const char *body; /* the rest of it */
  size_t body_left;
  size_t writes_left; /* then the client is gone */
  void *data;
  void *
    outer; /* the head of the request within which this one is made, or of none */

  char *answer; /* of answer_bytes, and a NUL */
  size_t answer_bytes;
};

/* Take a request apart, in place: "METHOD PATH?QUERY", lines "Name: value", an empty
 * line, the body.  The text is kept as long as the connection.
 */
void fuzz_request (struct mg_connection *conn, char *text, size_t size);
/* Put the method, the version and the headers where civetweb has them: in one buffer, with
 * NULs in the place of most line ends.  A request may be made within another one, whose
 * head is back in that buffer at the end.
 */
void fuzz_request_lay_out (struct mg_connection *conn);
void fuzz_request_end (struct mg_connection *conn);

/* The status of the answer. */
int fuzz_status (const struct mg_connection *conn);

#endif /* WEFT_FUZZ_CIVETWEB_H */
