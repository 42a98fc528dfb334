/* loop-internal.h: shared by the files of the loop, all on the loop's thread.
 */

#ifndef WEFT_LOOP_INTERNAL_H
#define WEFT_LOOP_INTERNAL_H

#include <uv.h>

#include "loop.h"
#include "ring.h"

struct pending;
struct node;

struct loop {
  uv_loop_t uv;
  uv_async_t wake;
  uv_timer_t timer;
  uv_signal_t sigterm, sigint;
  uv_signal_t sighup; /* where there is an audit log */
  uv_work_t audit_work;
  bool audit_reopen, audit_failed;

  struct cluster *cluster;
  struct cluster_input input; /* of its latest call */
  struct store *store;
  struct hub *hub;
  struct auth *auth;
  struct history *history;
  struct ring log; /* journal.h */
  struct idempotency *idempotency;
  uint64_t last_event;
  unsigned ticks;
  STAILQ_HEAD (, pending) pending;
  TAILQ_HEAD (, node) nodes;
  TAILQ_HEAD (requests, request) held; /* with the engine or pending */
  int result;
  char stalled[512]; /* why nothing is stored just now; "": it is */

  pthread_mutex_t lock; /* of what follows */
  struct requests asked;
  bool hurry; /* the patient are not to wait either */
  STAILQ_HEAD (, spent) spent;
  bool stopping;
};

/* loop-request.c */
/* Give the answer to the HTTP thread that waits for it. */
void loop_request_deliver (struct loop *l, struct request *r, int status,
                           json_t *body);
json_t *loop_request_stopping_body (void);
/* On the loop's thread, or when it has ended. */
void loop_request_free_spent (struct loop *l);

/* loop-audit.c */
void loop_audit_start (struct loop *l);
/* Let what is durable of the audit log be written, unless that goes on already. */
void loop_audit_write (struct loop *l);
void loop_audit_end (struct loop *l);

/* steps.c */
/* Take a step into the queue, and to the store. */
void steps_queue (struct loop *l, struct cluster_step *step);
/* Store records for which no request waits. */
void steps_store (struct loop *l, struct store_txn *t);
/* This step's transaction is done; frees it. */
void steps_durable (struct store_txn *t);
/* Send out what is at the head of the queue and durable. */
void steps_release (struct loop *l);
/* Refuse all requests whose answers wait for the store.  Their changes stay in the queue. */
void steps_refuse (struct loop *l, int status, const char *code,
                   const char *why);
/* The number of the oldest step that was not sent out yet; 0: all were.  (Under steady
 * changes the queue is never empty.)
 */
uint64_t steps_unsaid (const struct loop *l);
/* Forget whatever was not sent. */
void steps_drop (struct loop *l);
void steps_forget_nodes (struct loop *l);
/* A stored event, at the start. */
int steps_load_event (struct loop *l, const char *key, const char *json,
                      char *why, size_t why_size);

#endif /* WEFT_LOOP_INTERNAL_H */
