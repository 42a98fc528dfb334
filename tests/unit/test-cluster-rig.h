/* test-cluster-rig.h: members that obey the cluster engine, to test its rules
 * about how they come back one at a time.
 *
 * A round is a quarter of a second: every disk that lives sends a heartbeat, the
 * host too if it is attached, and time passes.  What a step records is stored
 * before its replies are heard; weftd may be killed in between, at the
 * kill_at-th step.
 */

#ifndef WEFT_TEST_CLUSTER_RIG_H
#define WEFT_TEST_CLUSTER_RIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/cluster-internal.h"

#define DISKS 6
#define MEMBERS 4

struct fake_disk {
  uint8_t uuid[16], cluster[16], array[16];
  unsigned position;
  uint64_t min_epoch, generation, states_epoch, sequence, data_bytes;
  uint64_t round;
  uint8_t states[ARRAY_MEMBERS_MAX];
  struct layout layout; /* of the array */
  char instance[16];
  const char *cache; /* NULL: it is not known */
  bool dead, failed;
  const char *node;    /* that serves it; NULL: the one of its number */
  const char *refused; /* the last answer's code; NULL: it was taken in */
  uint64_t op;
  /* joining */
  bool full;     /* all of its extents are to do */
  unsigned left; /* rounds of copying */
  bool stuck;    /* it never ends */
  struct cluster_join join;
  struct cluster_join_order order;
  unsigned orders; /* heard */
};

struct rig {
  struct cluster *c;
  struct cluster_record store[64];
  size_t stored;
  struct {
    bool known;
    uint8_t states[MEMBERS];
  } history[1024]; /* of "a": the states of each number that was ever durable */
  struct fake_disk disk[DISKS];
  uint64_t now_ms, op, random;
  unsigned steps, kill_at;
  bool killed;
  /* the last answer to an administrator */
  uint64_t asked;
  bool answered;
  const char *code; /* NULL: it was done */
  char detail[768];
  /* the host */
  char instance[16];
  bool attached;
  uint64_t attach_op, beat_op, session, epoch, prepared;
  uint64_t round; /* that it says is complete, and gives to joiners */
  bool proven;    /* disks speak for their nodes by certificates */
  bool lags;      /* it does not take epochs in */
  bool busy;      /* 400 reads a second, of 1 ms each */
  uint64_t reads;
  unsigned array_events, warnings, errors;
};

/* No array yet.  kill_at 0: weftd is never killed. */
void rig_init (struct rig *r, unsigned kill_at);

/* Time and randomness for a call of the engine; and take its steps. */
struct cluster_input input (struct rig *r, uint64_t op);
void pump (struct rig *r);

/* weftd dies and starts again, with its store or with an empty one. */
void restart (struct rig *r);
void lose_database (struct rig *r);

void round_of (struct rig *r);
void rounds (struct rig *r, unsigned n);

/* Make an array of these disks, and wait until it is ready: any, or "a" over
 * the first MEMBERS in raid-x.
 */
void make_array_of (struct rig *r, const char *name, enum layout_kind layout,
                    unsigned first, unsigned members);
void make_array (struct rig *r);

/* "a", and the state of its member. */
struct cluster_array *array (struct rig *r);
enum member_state state (struct rig *r, unsigned m);

/* The host and array "a".  lose: it reports the member until that is out. */
void attach (struct rig *r, bool writable);
void detach (struct rig *r);
void lose (struct rig *r, unsigned m);
/* One report; whatever comes of it. */
void report (struct rig *r, unsigned m);

/* All of this: array "a" is made, and the host writes to it. */
void begin_writing (struct rig *r, unsigned kill_at);
/* Also that its member 1 was lost, copies, and does not get to the end. */
struct fake_disk *begin_copying (struct rig *r, enum layout_kind layout,
                                 unsigned members);

/* A raid-10 is attached without its first member: which one can't it do without? */
unsigned attach_without_first (struct rig *r);

/* Run the scenario with a kill at each of its steps.  It returns whether there
 * were so many.
 */
void test_kills (const char *name, bool (*scenario) (unsigned kill_at));

#define UNTIL(r, what)                                                         \
  do {                                                                         \
    unsigned n_ = 0;                                                           \
    while (!(what)) {                                                          \
      if (++n_ > 4000) {                                                       \
        fprintf (stderr, "line %d, kill at %u: never so: %s\n", __LINE__,      \
                 (r)->kill_at, #what);                                         \
        abort ();                                                              \
      }                                                                        \
      round_of (r);                                                            \
    }                                                                          \
  } while (0)

/* Ask, and again if weftd dies before it answers. */
#define ASK(r, call)                                                           \
  do {                                                                         \
    (r)->answered = false;                                                     \
    while (!(r)->answered) {                                                   \
      struct cluster_input in_ = input ((r), (r)->asked = ++(r)->op);          \
      const struct cluster_input *in = &in_;                                   \
      call;                                                                    \
      pump (r);                                                                \
      if (!(r)->answered)                                                      \
        rounds (r, 8);                                                         \
    }                                                                          \
  } while (0)
#define DONE(r, call)                                                          \
  do {                                                                         \
    ASK (r, call);                                                             \
    while ((r)->killed && (r)->code && strcmp ((r)->code, "silent") == 0) {    \
      rounds (r, 8); /* weftd has just been started again */                   \
      ASK (r, call);                                                           \
    }                                                                          \
    FINE (r);                                                                  \
  } while (0)
#define FINE(r)                                                                \
  do {                                                                         \
    if ((r)->code) {                                                           \
      fprintf (stderr, "line %d: %s: %s\n", __LINE__, (r)->code, (r)->detail); \
      abort ();                                                                \
    }                                                                          \
  } while (0)

/* Refused so, and nothing was stored. */
#define REFUSED(r, why, call)                                                  \
  do {                                                                         \
    unsigned steps_ = (r)->steps;                                              \
    ASK (r, call);                                                             \
    if (!(r)->code || strcmp ((r)->code, (why)) != 0) {                        \
      fprintf (stderr, "line %d: %s: %s\n", __LINE__,                          \
               (r)->code ? (r)->code : "done", (r)->detail);                   \
      abort ();                                                                \
    }                                                                          \
    assert ((r)->steps == steps_ || (r)->killed);                              \
  } while (0)

#endif /* WEFT_TEST_CLUSTER_RIG_H */
