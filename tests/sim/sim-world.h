/* sim-world.h: what sim.c (a run) and sim-world.c (what happens in it) share.
 */

#ifndef WEFT_SIM_WORLD_H
#define WEFT_SIM_WORLD_H

#include "sim.h"

#define MS UINT64_C (1000000)
#define US UINT64_C (1000)
#define OUTSTANDING_MAX 24

enum event_kind {
  EVENT_CLIENT,  /* the clients do something */
  EVENT_EXECUTE, /* a member carries out a request */
  EVENT_ANSWER,  /* and answers it */
  EVENT_STRAY,   /* carries out one that was answered with an error */
  EVENT_FAULT,
  EVENT_BREAK,  /* the engine is told that a connection is broken */
  EVENT_RECORD, /* weftd records that a member is out */
  EVENT_COMMIT, /* and the engine hears of it */
};

struct flight {
  struct array_io *io;
  struct flight *next;
  bool executed, silent, answered;
  unsigned events; /* that point to it */
  int error;
};

struct event {
  enum event_kind kind;
  struct flight *flight;
  unsigned member;
  struct array_io stray;
  void *buf;
  uint64_t epoch;
  enum member_state states[ARRAY_MEMBERS_MAX];
};

enum trouble { FINE, BROKEN, SILENT, FAILING };

struct world {
  uint64_t progress_at;
  struct array_config config;
  struct array *array;
  struct sim_member members[ARRAY_MEMBERS_MAX];
  enum trouble trouble[ARRAY_MEMBERS_MAX];
  bool noticed[ARRAY_MEMBERS_MAX], recorded[ARRAY_MEMBERS_MAX],
      heard[ARRAY_MEMBERS_MAX];
  uint64_t epoch;
  struct flight *flights;
  struct array_request requests[OUTSTANDING_MAX];
  struct judged *judged[OUTSTANDING_MAX];
  unsigned outstanding, outstanding_max;
  unsigned steps, faults, bad_percent;
  uint64_t slow_percent;
  bool may_fail, stopped, may_lose, pauses, sluggish;
  unsigned inputs, requests_done, losses, bads, errors, clears;
  uint64_t bytes_peak;
};
extern struct world w;

struct event *event_new (enum event_kind kind, uint64_t delay);
void world_handle (struct event *e); /* and frees it */
/* After every input to the engine. */
void world_take_outputs (void);
/* Everything that is in flight to a member comes back with an error; some of
 * it was or will be carried out.
 */
void world_break_flights (unsigned member);
/* A request of the clients, in a place of its own that was free. */
void world_submit (struct array_request *r);

#endif /* WEFT_SIM_WORLD_H */
