/* control-internal.h: shared by the files of control.h.
 *
 * control.c has the threads, which carry out the host engine's actions
 * (core/host/host.h). control-messages.c writes JSON for weftd and reads its
 * answers.  control-attach.c starts and ends the session.  control-lease.c has
 * the threads of a session that shares its array by leases.
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
#include "host/lessee.h"
#include "process.h"

#define WORKERS 4
#define LEASE_WORKERS 4

extern int weft_debug_control; /* -D weft.control=1 */

/* A thread that carries out actions of some kinds. */
struct worker {
  struct control *control;
  unsigned kinds;
  struct admin *admin; /* NULL: it does not speak to weftd */
  pthread_t thread;
  bool
    silent; /* weftd did not answer its last call, or (of leases) refused it */
  bool ended; /* of a lease_worker */
  /* For the asker: a session that has the range of the last ask, and whose
   * process has ended, as this node knows; "": none.
   */
  char holder[NAME_BYTES_MAX + 1];
};

/* A connection that is being made, by a thread of its own. */
struct connecting {
  struct control *control;
  struct host_action action;
  pthread_t thread;
  bool made; /* the thread; it must be joined */
};

/* The values of the last heartbeat that weftd has taken in; the heartbeat
 * thread's own.
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
  json_t *answer;          /* to the attach */
  struct volumes *volumes; /* NULL: the array is no pool */
  struct engine *engine;
  const struct layout *layout;
  uint64_t heard_ms;          /* when the attach was sent that weftd granted */
  uint64_t generation, order; /* of that weftd; see control_order */
  bool held;                  /* the grant says so (docs/PROTOCOL.md, `hold`) */
  bool declared;              /* it knows that we have no leases, or all */
  struct worker worker[WORKERS];
  unsigned workers; /* that run */
  struct connecting connecting[ARRAY_MEMBERS_MAX];
  struct taken taken;
  /* By leases: the threads; and the array engine's wishes are passed on in
   * order.  This lock is taken before the other.
   */
  struct worker lease_worker[LEASE_WORKERS];
  unsigned lease_workers; /* that run */
  pthread_mutex_t wants_lock;
  /* The request that waits for a lease, the first one; with that lock. */
  struct {
    struct array_range range; /* of no length: nothing waits */
    uint64_t since_ms;
    bool said; /* it was logged */
  } waits;

  pthread_mutex_t lock; /* held across no call */
  pthread_cond_t wake;
  bool quit;
  struct host *host;
  struct lessee *lessee; /* NULL: the session has no leases */
  bool lease_quit;
  bool
    recovery_begins; /* the array engine is to have it before anything else is done */
  atomic_bool leaving;     /* the process has told itself to end */
  char why[512];           /* why weftd has ended the session */
  const struct map *first; /* the map of the attach, which is the caller's */
  struct map *latest;      /* the newest map; NULL: it is still the first */
};

/* control-attach.c; NULL after nbdkit_error. */
struct map *control_attach_session (struct control *c);
void control_attach_detach (struct control *c);

/* control-messages.c */

/* An answer's part about leases. */
struct lease_words {
  uint64_t generation; /* 0: nothing */
  uint64_t recover;
  struct lease_wish *revoke;
  unsigned revokes;
  struct array_range *ranges;
  unsigned count;
};
void control_messages_leases (const struct control *c, const json_t *reply,
                              struct lease_words *w);
void control_messages_leases_free (struct lease_words *w);

/* [[offset, length], ...]; and back, what of it lies in the array, from malloc. */
json_t *control_messages_ranges (const struct array_range *list,
                                 unsigned count);
unsigned control_messages_read_ranges (const struct control *c,
                                       const json_t *json,
                                       struct array_range **list);
json_t *control_messages_wish (const struct lease_wish *wish);

/* The body of a heartbeat, or of the call that says what can't wait for one. */
json_t *control_messages (struct control *c, const struct host_action *a);
/* weftd has answered the heartbeat, or not (NULL). */
void control_messages_taken (struct taken *t, const json_t *reply);
/* The body of a report. */
json_t *control_messages_report (struct control *c,
                                 const struct host_action *a);
/* Read weftd's answer; *map is the one that came with it, or NULL. */
void control_messages_read (const struct control *c, int status,
                            const json_t *reply, struct host_answer *a,
                            struct map **map);
/* Fill in what the host engine is to know of a map. */
void control_messages_view (const struct map *map, struct host_view *v);

#endif /* WEFT_CONTROL_INTERNAL_H */
