/* query.h: a request's parameters after '?', and its headers If-Match and
 * Idempotency-Key.
 */

#ifndef WEFT_QUERY_H
#define WEFT_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct refusal;
struct route;

/* The parameters that a route takes: a set, as .query of its line. */
enum query_parameter {
  QUERY_DRY_RUN = 1 << 0, /* true or false */
  QUERY_PAGE = 1 << 1,    /* limit and cursor, for a list */
  QUERY_SUBJECT = 1 << 2,
  QUERY_SEVERITY = 1 << 3, /* info, warning or error */
  QUERY_TEXT = 1 << 4,
  QUERY_RANGE = 1 << 5,    /* from, to (ms since 1970) and points */
  QUERY_MEMBER = 1 << 6,   /* a position */
  QUERY_NODE = 1 << 7,     /* a node's name */
  QUERY_INSTANCE = 1 << 8, /* of the process that asks */
  /* rw or ro: the attach that the caller is about to make */
  QUERY_ATTACH = 1 << 9,
  QUERY_REACHED = 1 << 10, /* reached or unreached: a session */
  QUERY_FORCE = 1 << 11,   /* true or false */
};

#define QUERY_LIMIT_MAX 1000
#define QUERY_POINTS_MAX 600
#define QUERY_TEXT_MAX 127                        /* characters */
#define QUERY_TIME_MAX UINT64_C (253402300799999) /* the year 9999 */

struct query {
  unsigned given; /* which of them there are */
  bool dry_run, force;
  unsigned limit; /* 0: no limit was given */
  char cursor[128];
  char subject[80], severity[16];
  char text[4 * QUERY_TEXT_MAX + 1];
  bool has_from, has_to;
  uint64_t from, to;
  unsigned points;
  unsigned member;
  char node[64];
  char instance[80];
  bool attach_writable;
  uint64_t session; /* of QUERY_REACHED, ... */
  bool reached;     /* ... and which of the two it is */

  char if_match[256];
  char idempotency_key[72];
  uint8_t digest[32]; /* of the whole request, when it has such a key */
};

/* A request as it came: NULL for what it does not have. */
struct query_source {
  const char *method, *path, *parameters;
  const char *if_match, *idempotency_key;
};

/* Take all that into *q.  Parameters that the route does not take are refused
 * by name: false, with *problem filled.
 */
bool query_take (const struct route *route, const struct query_source *source,
                 struct query *q, struct refusal *problem);

/* The body belongs to what an Idempotency-Key stands for. */
void query_take_body (struct query *q, const char *body, size_t length);

#endif /* WEFT_QUERY_H */
