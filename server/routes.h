/* routes.h: every path of the API in one table. */

#ifndef WEFT_ROUTES_H
#define WEFT_ROUTES_H

#include "fields.h"
#include "loop.h"

enum route_kind {
  ROUTE_LOOP,    /* handled on the loop's thread */
  ROUTE_EVENTS,  /* a stream of events, from an HTTP thread */
  ROUTE_OPENAPI, /* a file */
};

struct route {
  const char *method;
  const char *pattern; /* "/api/v1/disks/{uuid}/heartbeat" */
  enum route_kind kind;
  bool has_body;
  bool makes; /* something new: 201, not 200 */
  /* On the HTTP thread: take the body's fields into the request. */
  void (*parse) (struct fields *f, struct request *r);
  /* On the loop's thread: answer, now or later. */
  void (*handle) (struct loop *l, struct request *r);
};

extern const struct route routes[];
extern const size_t routes_count;
/* Not in the table: what a stream of events begins with. */
extern const struct route route_snapshot;

enum route_match {
  ROUTE_MATCH,
  ROUTE_NO_PATH,
  ROUTE_NO_METHOD, /* `allow` has those that there are */
  ROUTE_BAD_NAME,  /* `why` says which part of the path is ill-formed */
};

/* Find the route for a path, and take the variable parts of the path into *r,
 * which is initialised on ROUTE_MATCH only.
 */
enum route_match routes_find (const char *method, const char *path,
                              struct request *r, char allow[64], char *why,
                              size_t why_size);

#endif /* WEFT_ROUTES_H */
