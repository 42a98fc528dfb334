/* loop.h: weftd's one loop thread, which owns the cluster engine.
 *
 * HTTP threads hand it requests (loop_ask) and wait for the answers.  Every
 * step of the engine goes through one queue: first its records and events are
 * stored, then its replies, events and log lines are sent, in order.  Answers
 * that store nothing wait in the same queue, so every answer reports durable
 * state only.
 */

#ifndef WEFT_LOOP_H
#define WEFT_LOOP_H

#include <semaphore.h>
#include <stdbool.h>

#include <jansson.h>
#include <openssl/types.h>

#include "auth.h"
#include "cluster/cluster.h"
#include "hub.h"
#include "query.h"
#include "store/store.h"
#include "text.h"

struct count;
struct history;
struct loop;
struct request;
struct ring;
struct route;
struct spent;

/* A request, from an HTTP thread to the loop and back. */
struct request {
  TAILQ_ENTRY (request) link;
  const struct route *route;
  struct caller caller;
  X509 *
    certificate; /* of a node that calls by it, while its words are read; or NULL */
  struct query query;
  /* It was refused already, and comes to the loop for the audit trail alone. */
  struct refusal refused;
  struct count *counted; /* where auth-audit.c counts it */

  /* From the path. */
  uint8_t uuid[16];
  uint64_t id;
  char name[NAME_BYTES_MAX + 1];
  char volume[NAME_BYTES_MAX + 1]; /* of the pool `name` */

  unsigned member;
  char job[80]; /* its id */

  unsigned body_bytes; /* of its body, as they count in the caller's quota */

  /* From the body, as the route's parse function leaves it. */
  void *input; /* the route's own, route->input bytes; freed with the request */
  /* The node that sends it; "": see the path.  Where the path has a {node} beside a
   * {name}, that one.
   */
  char node[NAME_BYTES_MAX + 1];
  char subject[4 * NAME_BYTES_MAX]; /* for the audit trail; "": see the path */
  bool grants; /* the answer gives rights, which belongs into the audit trail */
  bool no_news; /* a heartbeat that says the same as the one before */
  bool patient; /* it may wait until the next tick */

  /* The answer. */
  sem_t answered;
  int status;
  json_t *body;
  char *text; /* instead of a body, of this `type` */
  const char *type;
  struct spent *spent; /* body and text, which the loop is to free */
  char headers[512];   /* more lines of the answer, each ending in \r\n */
  uint64_t event_id;   /* of the last event that a snapshot holds */
};

void request_init (struct request *r, const struct route *route);
void request_destroy (struct request *r);

/* NULL: a sentence in why. */
struct loop *loop_new (struct store *store, struct hub *hub, struct auth *auth,
                       char *why, size_t why_size);
/* Runs until SIGTERM or SIGINT (returns 0), or until the store fails (-1). */
int loop_run (struct loop *l);
/* The end of loop_run, for a loop that did not run: answers all waiting
 * requests and closes the store.
 */
void loop_end (struct loop *l);
void loop_free (struct loop *l);

/* From an HTTP thread: returns with the answer in *r. */
void loop_ask (struct loop *l, struct request *r);

/* On the loop thread, from a route's handler: */
struct cluster *loop_cluster (struct loop *l);
struct history *loop_history (struct loop *l); /* from any thread */
struct ring *loop_journal (struct loop *l);
struct auth *loop_auth (struct loop *l);
/* The verdict says what auth_doubt_words does.  From the loop's thread. */
void loop_note_doubt (struct loop *l);
uint64_t loop_last_event (const struct loop *l);
/* The arguments of a call of the engine; valid until the next one.  r may be
 * NULL.
 */
const struct cluster_input *loop_input (struct loop *l, struct request *r);
/* Answer, after all that came before.  A good answer to a route with `list` is the
 * list alone.
 */
void loop_answer (struct loop *l, struct request *r, int status, json_t *body);
void loop_refuse (struct loop *l, struct request *r, int status,
                  const char *field, const char *code, const char *fmt, ...)
  __attribute__ ((format (printf, 6, 7)));
/* An answer, when the records in `t` are durable; takes it over.  NULL: none. */
void loop_answer_stored (struct loop *l, struct request *r, int status,
                         json_t *body, struct store_txn *t);
/* The same without an answer. */
void loop_store (struct loop *l, struct store_txn *t);
/* The disk's state may differ from the state here: weftd ends. */
void loop_fail (struct loop *l, const char *error);

#endif /* WEFT_LOOP_H */
