/* control-internal.h: what the files of control.h share.
 *
 * control.c has the threads, which carry out what the host engine
 * (core/host/host.h) wants done; control-words.c makes JSON of what is said,
 * and reads what is answered; control-attach.c is the begin and the end.
 */

#ifndef WEFT_CONTROL_INTERNAL_H
#define WEFT_CONTROL_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "common/admin.h"
#include "control.h"
#include "engine.h"
#include "host/host.h"
#include "process.h"

#define WORKERS 4

extern int weft_debug_control; /* -D weft.control=1 */

/* A thread that carries out actions of some kinds. */
struct worker {
  struct control *control;
  unsigned kinds;
  struct admin *admin; /* NULL: it does not speak to weftd */
  pthread_t thread;
  bool silent; /* weftd did not answer its last call */
};

/* A connection that is being made, by a thread of its own. */
struct connecting {
  struct control *control;
  struct host_action action;
  pthread_t thread;
  bool made; /* the thread; it is to be joined */
};

/* What the last heartbeat said that weftd has taken in; the heartbeat thread's own.
 */
struct taken {
  json_t *words, *stats; /* NULL: nothing */
  json_int_t generation; /* of the weftd that has taken it */
};

struct control {
  struct admin *admin; /* to attach */
  char instance[PROCESS_INSTANCE_BYTES];
  char process[PROCESS_TEXT_BYTES];
  char session[NAME_BYTES_MAX + 1];
  struct engine *engine;
  uint64_t member_bytes; /* that a member must have */
  uint64_t heard_ms;     /* when the attach was sent that weftd granted */
  struct worker worker[WORKERS];
  unsigned workers; /* that run */
  struct connecting connecting[ARRAY_MEMBERS_MAX];
  struct taken taken;

  pthread_mutex_t lock; /* held across no call */
  pthread_cond_t wake;
  bool quit;
  struct host *host;
  atomic_bool leaving;     /* the process has told itself to end */
  char why[512];           /* why weftd has ended the session */
  const struct map *first; /* the map of the attach, which is the caller's */
  struct map *latest;      /* the newest map; NULL: it is still the first */
};

/* control-attach.c; NULL after nbdkit_error. */
struct map *control_attach_session (struct control *c);
void control_detach_session (struct control *c);

/* control-words.c */

/* The body of a heartbeat, or of the call that says what can't wait for one. */
json_t *control_words (struct control *c, const struct host_action *a);
/* weftd has answered the heartbeat, or not (NULL). */
void control_words_taken (struct taken *t, const json_t *reply);
/* The body of a report. */
json_t *control_report (struct control *c, const struct host_action *a);
/* Read weftd's answer; *map is the one that came with it, or NULL. */
void control_read (const struct control *c, int status, const json_t *reply,
                   struct host_answer *a, struct map **map);
/* Fill in what the host engine is to know of a map. */
void control_view (const struct map *map, struct host_view *v);

#endif /* WEFT_CONTROL_INTERNAL_H */
