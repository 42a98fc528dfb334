/* control-internal.h: what the files of control.h share.
 *
 * control.c takes in what weftd says and tells it what we are; control-links.c
 * looks after the connections to members: who is lost, reports of that, and
 * new ones to those that are back; control-attach.c is the begin and the end.
 */

#ifndef WEFT_CONTROL_INTERNAL_H
#define WEFT_CONTROL_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "common/admin.h"
#include "control.h"
#include "engine.h"
#include "process.h"

#define CALL_TIMEOUT_MS 10000
#define RETRY_MS 1000

extern int weft_debug_control; /* -D weft.control=1 */

/* A connection to a member. */
enum link_state {
  LINK_OUT,        /* the member is out */
  LINK_WANTED,     /* from due_ms on */
  LINK_CONNECTING, /* a thread is at it */
  LINK_UP,
  LINK_LOST,       /* to be reported, from due_ms on, until weftd has a way */
};

struct link {
  enum link_state state;
  bool swapping;  /* up, but the engine may not have it yet */
  bool told;      /* weftd knows that we have none */
  bool said;      /* so do people */
  uint64_t epoch; /* of the tokens that it was last opened with */
  uint64_t used;  /* ... and the engine got the connection */
  uint64_t due_ms;
  char reason[160];
  pthread_t thread;
  bool thread_made, thread_done;
  struct control *control; /* for the thread */
};

struct control {
  struct admin *admin; /* attach, heartbeat */
  struct admin *teller_admin, *reporter_admin;
  char instance[33];
  char process[PROCESS_TEXT_BYTES];
  char session[NAME_BYTES_MAX + 1];
  bool readonly;
  unsigned members;
  struct engine *engine;
  uint64_t member_bytes; /* that a member must have */
  pthread_t heartbeat, teller, reporter, keeper;
  unsigned threads;

  pthread_mutex_t lock; /* held across no call */
  pthread_cond_t wake;
  bool quit, over;
  const struct map *first; /* the caller's */
  struct map *latest;      /* NULL: it is the first still */
  uint64_t epoch;          /* the newest that weftd has said, with: */
  enum member_state states[ARRAY_MEMBERS_MAX];
  uint64_t committed; /* what the engine has */
  uint64_t settled;   /* has entered, with a connection to every member, or
                         weftd knows */
  uint64_t change;    /* the newest PREPARED epoch, with: */
  enum member_state change_states[ARRAY_MEMBERS_MAX];
  uint64_t asked, prepared; /* of the engine; by it */
  uint64_t told_settled, told_prepared;
  json_t *taken, *taken_stats; /* what weftd has of the heartbeat thread's last
                                  words, that thread's own; NULL: nothing */
  json_int_t generation; /* of the weftd that has it */
  uint64_t heard_ms; /* when a heartbeat was sent that weftd has answered */
  bool held;
  bool relinked; /* an in-sync member was away: copies may differ */
  struct link link[ARRAY_MEMBERS_MAX];
};

uint64_t control_now_ms (void);

/* Wait on `wake` until then; UINT64_MAX: for ever.  With the lock. */
void control_sleep (struct control *c, uint64_t until_ms);

/* The newest map.  With the lock. */
const struct map *control_newest (const struct control *c);

/* Take in an answer of weftd's to a heartbeat or a report. */
void control_take (struct control *c, const json_t *reply);

/* weftd has ended the session. */
void control_over (struct control *c, const char *why);

/* control-attach.c: NULL or -1 after nbdkit_error. */
int control_make_instance (char text[33]);
struct map *control_attach_session (struct control *c);
void control_detach_session (struct control *c);

/* control-links.c: with the lock.  After a newer epoch or map came: who is to
 * be connected?
 */
void links_look (struct control *c);
/* Is there a connection to each member, or does weftd know better? */
bool links_settled (const struct control *c);
void *links_reporter (void *control);
void *links_keeper (void *control);
void links_join (struct control *c); /* its threads; without the lock */

#endif /* WEFT_CONTROL_INTERNAL_H */
