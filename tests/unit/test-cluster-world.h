/* test-cluster-world.h: the world in which the cluster engine is tested.
 *
 * It has a store (the records made durable so far), members and hosts that send
 * heartbeats and obey the replies, and weftd's part of carrying steps out.  A step's
 * records become durable together; then its outputs leave one by one.  Each of these is
 * an action, and weftd can be killed after any action.  Then its memory is gone, no
 * caller gets an answer and each asks again, and a new engine loads the store.  The
 * invariants are asserted after each action.
 */

#ifndef WEFT_TEST_CLUSTER_WORLD_H
#define WEFT_TEST_CLUSTER_WORLD_H

#include "test-cluster-weftd.h"

#define HOSTS 3
#define RANGES_MAX 256

/* A reply as it travels: copied when the engine makes it. */
struct message {
  struct message *next;
  uint64_t op;
  enum cluster_reply_kind kind;
  struct cluster_problem problem;
  /* to a disk */
  uint8_t cluster[16], array[16], release[16];
  bool assigned;
  unsigned position;
  uint64_t min_epoch, generation, epoch;
  enum member_state states[ARRAY_MEMBERS_MAX];
  /* to a host */
  uint64_t session, granted_epoch;
  uint64_t change; /* to prepare for; 0: none */
  bool leave;
  bool hold;
  uint64_t fences;
  unsigned over_count;
  struct cluster_over over[OVER_TOLD_MAX]; /* sessions that are over */
  uint64_t order; /* to a joiner: the join epoch that it may work for; 0 */
  /* to one that shares by leases */
  struct cluster_part granted[LEASE_ASKS_MAX];
  unsigned granted_count;
  struct cluster_lease_ask revoke[HOSTS * LEASE_ASKS_MAX];
  unsigned revokes;
  uint64_t recover; /* the order that it does not know yet; 0 */
  struct cluster_part ranges[RANGES_MAX];
  unsigned ranges_count;
};

struct step_out {
  struct step_out *next;
  struct cluster_step *step;
  unsigned round; /* in which it was made */
  bool durable;
  struct message *messages;
};

/* A disk, as it is in truth. */
struct disk {
  uint8_t uuid[16];
  uint8_t cluster[16], array[16];
  unsigned position;
  uint64_t min_epoch, generation, states_epoch, sequence;
  uint64_t dirty; /* extents with an intent bit */
  uint64_t over;  /* the sessions that are over it has shut up to this number */
  enum member_state states[ARRAY_MEMBERS_MAX];
  struct layout layout; /* of the array */
  enum cluster_join_phase phase;
  uint64_t join_epoch; /* that it copies for */
  uint64_t stuck_ms;   /* it has answered nothing for so long */
  bool slow;           /* it does not get to the end of its copying */
  bool holds;          /* it does not confirm that sessions are over */
  bool unfenced;       /* it confirms no epoch */
  bool placeless;      /* it says that it belongs to no array */
  bool starts;         /* it takes no connections yet */
  double works;        /* requests a second of its disk; 0: it says nothing */
  char instance[16];
  const char *cache; /* NULL: it is not known */
  bool alive;
  uint64_t op;          /* outstanding; 0: none */
  const char *shortage; /* it refuses writes for now; NULL: it does not */
  struct cluster_room room;
};

struct host {
  char instance[16];
  char node[16];
  bool alive, attached, over;
  bool writable;
  struct cluster_part part; /* that it writes; of length 0: all */
  bool
    obeys; /* with a part: it says what it has, and recovers what it is ordered to */
  bool leases; /* it shares the array by leases, and knows this order */
  uint64_t order;
  struct message heard; /* its last grant or reply */
  uint64_t lease_op;    /* its ask that is under way; 0: none */
  struct message lease; /* the answer to the last one */
  bool service; /* it asks to serve the array, for as long as it lives */
  bool exports; /* it listens for clients on other hosts */
  bool leaves;  /* weftd has told it to leave */
  bool copying; /* its resync does not get to the end */
  bool older;   /* it takes an older copy */
  bool ending;  /* it is about to detach */
  uint64_t fences,
    hears; /* up to which fence it refuses clients; the newest that
                             it has heard of */
  uint64_t session, epoch, arrived, prepared, told;
  uint64_t op, beat_op;
  uint64_t asked_ms, fresh_ms; /* when it sent what was granted or told last */
  bool takeover;               /* how it attaches */
  bool bound;     /* as a node, by the array's list; else as an administrator */
  uint64_t ended; /* the session whose process has ended, as it says */
  bool busy;      /* it does not get to the end of preparing */
  bool lags;      /* its earlier writes do not arrive */
  bool behind;    /* it takes no epoch in */
  bool stays;     /* it goes on serving after weftd has told it to leave */
  bool lost[ARRAY_MEMBERS_MAX];
  bool answers;       /* the member that it reports does, with errors */
  uint64_t waited_ms; /* for it, as it reports */
  uint64_t refused_ns[MEMBERS]; /* as its array engine says of each member */
  uint64_t memory_wait_ns;      /* as it says of its host */
  enum cluster_problem_kind refused;
  const char *code;
  bool answered;
  enum member_state states[ARRAY_MEMBERS_MAX];
};

struct world {
  struct step_out *steps, **steps_tail;
  struct disk disk[MEMBERS];
  struct host host[HOSTS];
  unsigned long actions, kills;
  unsigned kill_percent, lag_percent; /* at random, of each action */
  unsigned rounds, behind; /* by so many the store is behind, always */
  uint64_t admin_op;
  bool admin_answered;
  struct message admin;
  struct message answer; /* to ASK */
  uint64_t highest_grant;
  uint64_t writer_end; /* the epoch in which the last writer ended */
  /* The sessions that ever said that they are prepared for a number; some are dead
   * now.
   */
  uint64_t prepared[HISTORY_MAX][8];
};

/* There is one world at a time; world_init makes another one. */
extern struct world world;
void world_init (uint64_t seed);

/* Its hosts: the first writes, another one may, and the last one reads.  live lets the
 * candidates for service stand by, and lets them detach when weftd tells them to
 * leave.
 */
extern struct host *const writer, *const other, *const reader;

/* ---- The store, and what must always hold of it (test-cluster-store.c). ---- */

void store_check (void);
/* A step's records become durable, together; the invariants are checked then. */
void transaction (const struct step_out *s);
/* Sessions that say that they are prepared are so, even if they die then. */
void prepared (uint64_t session, uint64_t epoch);
const struct cluster_session_record *stored_session (uint64_t id);
const struct cluster_array_record *stored_array (const uint8_t uuid[16]);
const struct cluster_array_record *stored_array_name (const char *name);

/* ---- Life (test-cluster-world.c). ---- */

void drop_step (void);

/* Store, then deliver, as far as it goes; may kill weftd on the way. */
void carry_out (void);

/* weftd dies and starts again: nobody who waits gets an answer. */
void reincarnate (void);

/* A member's words in a heartbeat. */
struct cluster_disk_heartbeat disk_words (const struct disk *d,
                                          uint64_t wait_ms);

/* One heartbeat, or one attach; the answer comes with carry_out. */
void disk_beat (struct disk *d, uint64_t wait_ms);
void host_beat (struct host *h);
void host_attach (struct host *h);

/* ---- Acts (test-cluster-acts.c). ---- */

/* The array's record, and weftd's knowledge of the host's session. */
const struct cluster_array_record *rec (void);
struct cluster_session *session (const struct host *h);

/* An array over all disks is made, until it is ready; or deleted. */
void make_array_of (enum layout_kind layout);
void delete_array (const char *name);

/* In a new world, an array is made, in raid-x or another layout... */
void begin_array (void);
void begin_array_of (enum layout_kind layout);
/* ... the writer writes to it, and the reader may read it as well... */
void healthy (void);
void healthy_of (enum layout_kind layout);
void healthy_with_reader (void);
/* ... and this member is joining, and stays so; or it has everything, but the writer
 * does not get to prepare for that.
 */
void joining (unsigned member);
void nearly_joined (unsigned member);

void attach_until_granted (struct host *h);
/* The code with which an attach is finally refused. */
const char *attach_refusal (struct host *h);
void detach (struct host *h);
/* It sends no more heartbeats; and another process of it is there, to attach. */
void fall_silent (struct host *h);
void come_again (struct host *h);

/* One report; reports until the member is out; it is cut off, and the writer says so. */
void lost (struct host *h, unsigned member);
void report_lost (struct host *h, unsigned member);
void die (unsigned member);
/* The member's next heartbeats and answers are lost; they are heard again; and another
 * process serves it.
 */
void cut_off (unsigned member);
void heard_again (unsigned member);
void start_again (unsigned member);

/* Live through this day, again and again, with a kill of weftd after each of its actions. */
void kill_at_each (void (*day) (void));

void tick (uint64_t ms);
/* Store all steps; the answer to this operation, and nobody else hears one. */
struct message said (uint64_t op);
/* The answer to one heartbeat. */
struct message beat (struct disk *d);
void expect_refused (struct message m, enum cluster_problem_kind kind,
                     const char *code);
/* The host reports the member, and is refused so. */
void refuse_loss (struct host *h, unsigned member,
                  enum cluster_problem_kind kind, const char *code);

/* world.answer is the answer to this call, and nobody else hears one. */
#define ASK(call)                                                              \
  do {                                                                         \
    uint64_t op_ = ++weftd.op;                                                 \
    CALL (op_, call);                                                          \
    world.answer = said (op_);                                                 \
  } while (0)
#define REFUSED(kind, code, call)                                              \
  do {                                                                         \
    ASK (call);                                                                \
    expect_refused (world.answer, (kind), (code));                             \
  } while (0)

#endif /* WEFT_TEST_CLUSTER_WORLD_H */
