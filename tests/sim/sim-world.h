/* sim-world.h: the common part of sim.c (a run) and sim-world.c (its events).
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
  EVENT_BREAK,  /* the engine hears that a connection is broken */
  EVENT_UNHANG, /* a disk that has hung answers again */
  /* sim-weftd.c */
  EVENT_RECORD,   /* weftd hears that a member is lost */
  EVENT_RETURN,   /* a member that could not be left out is there again */
  EVENT_REJOIN,   /* a member that is out joins, */
  EVENT_COPY,     /* and copies what it lacks */
  EVENT_COMMIT,   /* the engine hears of a committed epoch, */
  EVENT_CONNECT,  /* is connected to a member again, */
  EVENT_PREPARE,  /* hears of a prepared one, */
  EVENT_PREPARED, /* and is ready for it */
};

struct flight {
  struct array_io *io;
  struct flight *next;
  uint64_t life; /* of the member, that it is asked in */
  bool executed, silent, answered;
  unsigned events; /* that point to it */
  int error;
};

struct event {
  enum event_kind kind;
  struct flight *flight;
  unsigned member;
  struct array_io stray;
  uint64_t life;
  void *buf;
  uint64_t epoch;
  enum member_state states[ARRAY_MEMBERS_MAX];
  uint64_t fence[ARRAY_MEMBERS_MAX];
};

enum trouble { FINE, BROKEN, SILENT, FAILING, HUNG };

struct world {
  uint64_t progress_at;
  struct array_config config;
  struct array *array;
  struct sim_member members[ARRAY_MEMBERS_MAX];
  enum trouble trouble[ARRAY_MEMBERS_MAX];
  /* The engine's view: it has no connection; it has reported that; it has heard that the
   * member is out, or is about to go out.
   */
  bool noticed[ARRAY_MEMBERS_MAX], said[ARRAY_MEMBERS_MAX],
    heard[ARRAY_MEMBERS_MAX], going[ARRAY_MEMBERS_MAX];
  bool recorded[ARRAY_MEMBERS_MAX];
  uint64_t hung_from[ARRAY_MEMBERS_MAX], hung_until[ARRAY_MEMBERS_MAX];
  /* From then on, and for how long, it has no room: it refuses writes, or some. */
  uint64_t full_at[ARRAY_MEMBERS_MAX], full_until[ARRAY_MEMBERS_MAX];
  uint64_t
    refused_at[ARRAY_MEMBERS_MAX]; /* when the last refusal was answered */
  unsigned full_percent;
  uint64_t epoch;
  /* weftd's: */
  enum member_state state[ARRAY_MEMBERS_MAX], change[ARRAY_MEMBERS_MAX];
  uint64_t change_epoch; /* 0: nothing is prepared */
  bool rejoins, returning[ARRAY_MEMBERS_MAX];
  /* It has lost, perhaps, what was not stable, since the host was connected. */
  bool lapsed[ARRAY_MEMBERS_MAX];
  uint64_t life[ARRAY_MEMBERS_MAX], fence[ARRAY_MEMBERS_MAX];
  /* The host's: */
  uint64_t heard_epoch, prepared_epoch, connected[ARRAY_MEMBERS_MAX],
    connected_epoch[ARRAY_MEMBERS_MAX];
  bool joined[ARRAY_MEMBERS_MAX]; /* connected since it joins */
  enum member_state heard_state[ARRAY_MEMBERS_MAX], seen[ARRAY_MEMBERS_MAX],
    prepared[ARRAY_MEMBERS_MAX];
  struct flight *flights;
  struct array_request requests[OUTSTANDING_MAX];
  struct judged *judged[OUTSTANDING_MAX];
  struct array_client *clients[JUDGE_CLIENTS];
  unsigned outstanding, outstanding_max;
  unsigned steps, faults, fulls, bad_percent;
  uint64_t slow_percent;
  bool may_fail, stopped, may_lose, pauses, sluggish, only_hangs;
  unsigned inputs, requests_done, losses, bads, errors, clears, joins, returns,
    hangs, refused;
  uint64_t bytes_peak;
};
extern struct world w;

struct event *event_new (enum event_kind kind, uint64_t delay);
void world_handle (struct event *e); /* and frees it */
/* After every input to the engine. */
void world_take_outputs (void);
/* No request waits for long for a disk that hangs, if others have copies. */
void world_check_hung (void);
/* The host tells the engine that a connection is broken. */
void world_lost (unsigned member, const char *reason);
/* Everything that is in flight to a member comes back with an error; some of
 * it was or will be carried out.
 */
void world_break_flights (unsigned member);
/* A request of this client, in a place of its own that was free. */
void world_submit (struct array_request *r, unsigned client);

/* sim-weftd.c */
void weftd_handle (const struct event *e);
void weftd_lost (unsigned member);
void weftd_prepared (uint64_t epoch);

#endif /* WEFT_SIM_WORLD_H */
