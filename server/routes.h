/* routes.h: every path of the API, in tables: routes.c joins them. */

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
  enum auth_who who;
  bool makes;  /* something new: 201, not 200 */
  bool asks;   /* a POST that changes nothing: not for the audit trail */
  bool secret; /* its answer holds one, and is never stored */
  bool large;  /* its body may have many values: http-body.c */
  bool
    proves; /* its body needs nobody's word: also for a certificate that is not known */
  /* The kind of process that calls it by a certificate of its own, "disk" or "array";
   * NULL: none.
   */
  const char *process;
  bool late; /* also for a node whose certificate has expired: struct caller */
  unsigned query; /* the parameters that it takes: enum query_parameter */
  /* For a list: its name in the body, and the one or two fields that are its
   * elements' key and order.  The loop cuts it into pages.
   */
  const char *list, *key, *key2;
  /* For a route of one thing: its settings, new; NULL where it does not exist.
   * They make its ETag (etag.h).
   */
  json_t *(*configuration) (struct loop *l, const struct request *r);
  /* On the HTTP thread: take the body's fields into r->input, which has so many
   * bytes, all zero; `forget` lets go of what it then holds.  NULL: the route wants
   * no body.
   */
  size_t input;
  void (*parse) (struct fields *f, struct request *r);
  void (*forget) (void *input);
  /* On the HTTP thread, before the loop: slow work.  False: it is answered
   * already.
   */
  bool (*prepare) (struct loop *l, struct request *r);
  /* On the loop's thread: answer, now or later; or in its place what the good
   * answer is made by.
   */
  void (*handle) (struct loop *l, struct request *r);
  json_t *(*show) (const struct cluster *c);
  /* The same for ?dry_run=true, which a route with this takes: say what `handle`
   * would do.
   */
  void (*preflight) (struct loop *l, struct request *r);
  /* On the loop's thread: the answer, from the engine's reply to this request,
   * and records that go along with it; NULL: the common one (steps.c).
   */
  json_t *(*reply) (struct loop *l, struct request *r,
                    const struct cluster_output *o, struct store_txn *t,
                    int *status);
  /* On the HTTP thread, after an answer of 200: the body that is sent in place of
   * r->body.
   */
  json_t *(*finish) (struct loop *l, struct request *r);
};

/* The i-th of all routes, or NULL. */
const struct route *routes_at (size_t i);
/* Not in the tables: the begin of a stream of events. */
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
