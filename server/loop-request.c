/* loop-request.c: a request's way to the loop's thread and back, and what a
 * route's handler finds there.
 */

#include <config.h>

#include <stdlib.h>
#include <string.h>

#include <openssl/rand.h>

#include "alloc.h"
#include "common/clock.h"
#include "log.h"
#include "loop-internal.h"
#include "routes.h"
#include "views.h"

void
request_init (struct request *r, const struct route *route)
{
  memset (r, 0, sizeof *r);
  r->route = route;
  sem_init (&r->answered, 0, 0);
  if (route->input)
    r->input = alloc_zeroed (route->input);
}

/* The loop's data for an answer that was sent.  It is freed on the loop's
 * thread: the HTTP threads are many, and malloc keeps for each of them some of
 * the memory that it frees.
 */
struct spent {
  STAILQ_ENTRY (spent) link;
  struct loop *loop;
  json_t *body;
  char *text;
};

static void
give_back (struct request *r)
{
  struct spent *s = r->spent;
  struct loop *l = s->loop;

  pthread_mutex_lock (&l->lock);
  STAILQ_INSERT_TAIL (&l->spent, s, link);
  pthread_mutex_unlock (&l->lock);
  r->spent = NULL;
  r->body = NULL;
  r->text = NULL;
}

/* On the loop's thread, or when it has ended. */
void
loop_request_free_spent (struct loop *l)
{
  STAILQ_HEAD (, spent) spent = STAILQ_HEAD_INITIALIZER (spent);
  struct spent *s;

  pthread_mutex_lock (&l->lock);
  STAILQ_CONCAT (&spent, &l->spent);
  pthread_mutex_unlock (&l->lock);
  while ((s = STAILQ_FIRST (&spent)) != NULL) {
    STAILQ_REMOVE_HEAD (&spent, link);
    json_decref (s->body);
    free (s->text);
    free (s);
  }
}

void
request_destroy (struct request *r)
{
  sem_destroy (&r->answered);
  if (r->route->forget)
    r->route->forget (r->input);
  free (r->input);
  if (r->spent)
    give_back (r);
  free (r->text);
  json_decref (r->body);
}

void
loop_request_deliver (struct loop *l, struct request *r, int status,
                      json_t *body)
{
  struct spent *s = alloc_zeroed (sizeof *s);

  *s = (struct spent) { .loop = l, .body = body, .text = r->text };
  r->spent = s;
  r->status = status;
  r->body = body;
  sem_post (&r->answered); /* it may be gone from here on */
}

json_t *
loop_request_stopping_body (void)
{
  return view_error (503, NULL, "stopping",
                     "weftd is being stopped: try again when it is back");
}

void
loop_ask (struct loop *l, struct request *r)
{
  json_t *body;

  pthread_mutex_lock (&l->lock);
  if (l->stopping) {
    pthread_mutex_unlock (&l->lock);
    r->status = 503;
    r->body = loop_request_stopping_body ();
    return;
  }
  TAILQ_INSERT_TAIL (&l->asked, r, link);
  /* Most heartbeats are patient: one wake-up takes them all. */
  if (!r->patient || l->hurry)
    uv_async_send (&l->wake);
  pthread_mutex_unlock (&l->lock);

  while (sem_wait (&r->answered) == -1)
    ; /* interrupted by a signal */
  if (r->status == 200 && r->route->finish) {
    body = r->route->finish (l, r);
    give_back (r);
    r->body = body;
  }
}

struct cluster *
loop_cluster (struct loop *l)
{
  return l->cluster;
}

struct auth *
loop_auth (struct loop *l)
{
  return l->auth;
}

struct history *
loop_history (struct loop *l)
{
  return l->history;
}

struct ring *
loop_journal (struct loop *l)
{
  return &l->log;
}

uint64_t
loop_last_event (const struct loop *l)
{
  return l->last_event;
}

const struct cluster_input *
loop_input (struct loop *l, struct request *r)
{
  struct cluster_input *in = &l->input;

  /* Also counts the time for which the machine was suspended. */
  in->op = (uint64_t) (uintptr_t) r;
  in->now_ms = clock_boot_ms ();
  in->wall_ms = clock_wall_ms ();
  if (RAND_bytes (in->random, sizeof in->random) != 1) {
    log_line (CLUSTER_ERROR, "no random numbers from OpenSSL: stopped");
    abort ();
  }
  return in;
}
