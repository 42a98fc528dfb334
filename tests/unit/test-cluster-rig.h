/* test-cluster-rig.h: members that obey the cluster engine, to test its rules
 * about how they come back one at a time.
 *
 * A round is a quarter of a second: every live disk sends a heartbeat, an attached host
 * does, too, and time passes.  A step's records are stored before its replies are heard;
 * weftd may be killed in between.
 */

#ifndef WEFT_TEST_CLUSTER_RIG_H
#define WEFT_TEST_CLUSTER_RIG_H

#include "test-cluster-weftd.h"

#define DISKS 6

struct fake_disk {
  uint8_t uuid[16], cluster[16], array[16];
  unsigned position;
  uint64_t min_epoch, generation, states_epoch, sequence, data_bytes;
  uint64_t round;
  uint64_t over; /* the last states that it got */
  uint8_t states[ARRAY_MEMBERS_MAX];
  struct layout layout; /* of the array */
  char instance[16];
  const char *cache; /* NULL: it is not known */
  bool dead, failed, gone;
  bool hangs;               /* it confirms no epoch */
  bool holds;               /* it does not confirm that sessions are over */
  bool silent;              /* it answers nothing, ... */
  uint64_t silent_since_ms; /* ... as its process says, since then */
  const char *node;         /* that serves it; NULL: the one of its number */
  const char *refused;      /* the last answer's code; NULL: it was taken in */
  uint64_t op;
  uint8_t key[KEY_BYTES]; /* its last order */
  struct cluster_disk_heartbeat said;
  bool taken;   /* weftd has taken in what it said last */
  uint64_t lie; /* it says this round, and not its own; 0: its own */
  /* joining */
  bool full;     /* all of its extents are to do */
  unsigned left; /* rounds of copying */
  bool stuck;    /* it never ends */
  struct cluster_join join;
  struct cluster_join_order order;
  unsigned orders; /* heard */
};

struct rig {
  struct fake_disk disk[DISKS];
  unsigned steps;
  bool spared; /* weftd is not killed as long as it has its database */
  /* the last answer to an administrator */
  uint64_t asked;
  bool answered;
  const char *code; /* NULL: it was done */
  char detail[768];
  /* the host */
  char instance[16];
  bool attached;
  uint64_t attach_op, beat_op, session, epoch, prepared;
  uint64_t granted;       /* the session that was asked for last; 0: none */
  uint64_t round;         /* that it says is complete, and gives to joiners */
  uint64_t round_entered; /* that was complete when it took its epoch in */
  bool proven;            /* disks speak for their nodes by certificates */
  bool brief;             /* disks report only changes */
  bool lags;              /* it does not take epochs in */
  unsigned slow;          /* bits: members that take 2 s for a request */
  bool busy;              /* 400 reads a second, of 1 ms each */
  uint64_t reads;
  bool older; /* its resync takes an older copy */
  unsigned array_events, warnings, errors;
  char log[1 << 16]; /* its warnings and errors, while there is room */
  bool pool;         /* array "a" is one, and the host knows pools */
  uint64_t
    volumes; /* the last of the host's messages about volumes that was answered */
  /* looks at the last answer to an administrator; NULL: nobody does */
  void (*look) (const struct cluster_output *o);
};

/* There is one rig at a time; rig_init makes another one, without an array yet. */
extern struct rig rig;
void rig_init (void);

/* weftd dies and starts again, with its store or with an empty one. */
void restart (void);
void lose_database (void);

/* Make an array of these disks, and wait until it is ready: any, or "a" over
 * the first MEMBERS in raid-x.
 */
void make_array_of (const char *name, enum layout_kind layout, unsigned first,
                    unsigned members);
void make_array (void);

/* In a new rig, array "a" is made of the first disks, in raid-x or another layout... */
void begin_array (void);
void begin_array_of (enum layout_kind layout, unsigned members);
/* ... the host writes to it as well... */
void begin_writing (void);
void begin_writing_to (enum layout_kind layout, unsigned members);
/* ... and its member 1 was lost, copies, and does not get to the end.  Its disk. */
struct fake_disk *begin_copying (enum layout_kind layout, unsigned members);

/* A raid-10 is attached without its first member: which one can't it do without? */
unsigned attach_without_first (void);

/* The host and array "a".  attach waits until it is granted. */
void attach (bool writable);
void attach_refused (const char *why);
void detach (void);

/* One report, whatever comes of it; and reports until the member is out. */
void report (unsigned m);
void lose (unsigned m);
/* The member is lost, for its process has died; or it is lost, comes back, and copies
 * without an end.
 */
void die (unsigned m);
void copy_on (unsigned m);

/* Nobody serves the disk any more, and weftd misses it; or no member; another process
 * serves the disk.
 */
void stop (unsigned disk);
void stop_members (void);
void start_again (unsigned disk);
/* The disk as it is now, before more is written to it; and it is started again as such. */
struct fake_disk yesterday_of (unsigned disk);
void put (unsigned disk, const struct fake_disk *what);

/* The session, or what a joining member reads, in the list of those that are over. */
const struct cluster_over *over (uint64_t session);
/* Is this the disk of that member? */
bool on (unsigned m, unsigned disk);
/* The member joins, with all of its extents to do, until it is in-sync. */
void rebuilt_in_full (unsigned m);

/* Settings that an administrator makes for "a". */
void pause_copying (unsigned m, bool paused);
void spare_after (uint64_t ms);

/* Run the scenario, which makes a rig, with a kill of weftd at each of its steps. */
void test_kills (const char *name, void (*scenario) (void));

/* Ask, and again if weftd dies before it answers. */
#define ASK(call)                                                              \
  do {                                                                         \
    rig.answered = false;                                                      \
    while (!rig.answered) {                                                    \
      CALL (rig.asked = ++weftd.op, call);                                     \
      if (!rig.answered)                                                       \
        live_on (8);                                                           \
    }                                                                          \
  } while (0)
#define DONE(call)                                                             \
  do {                                                                         \
    ASK (call);                                                                \
    while (weftd.killed && rig.code && strcmp (rig.code, "silent") == 0) {     \
      live_on (8); /* weftd has just been started again */                     \
      ASK (call);                                                              \
    }                                                                          \
    FINE ();                                                                   \
  } while (0)
#define FINE()                                                                 \
  do {                                                                         \
    if (rig.code) {                                                            \
      fprintf (stderr, "line %d: %s: %s\n", __LINE__, rig.code, rig.detail);   \
      abort ();                                                                \
    }                                                                          \
  } while (0)

/* Refused so, and nothing was stored. */
#define REFUSED(why, call)                                                     \
  do {                                                                         \
    unsigned steps_ = rig.steps;                                               \
    ASK (call);                                                                \
    if (!rig.code || strcmp (rig.code, (why)) != 0) {                          \
      fprintf (stderr, "line %d: %s: %s\n", __LINE__,                          \
               rig.code ? rig.code : "done", rig.detail);                      \
      abort ();                                                                \
    }                                                                          \
    assert (rig.steps == steps_ || weftd.killed);                              \
  } while (0)

/* A preflight is asked for, and nothing changes. */
#define FLY(call)                                                              \
  do {                                                                         \
    struct cluster_input in_ = input (++weftd.op);                             \
    const struct cluster_input *in = &in_;                                     \
    unsigned steps_ = rig.steps;                                               \
    call;                                                                      \
    assert (cluster_next_step (engine) == NULL && rig.steps == steps_);        \
    cluster_check (engine);                                                    \
  } while (0)

#endif /* WEFT_TEST_CLUSTER_RIG_H */
