/* test-cluster-weftd.h: weftd as the tests of its engine have it, in the rig
 * (test-cluster-rig.h) as in the world (test-cluster-world.h): the engine, time, what
 * is stored, and what is known of the array of whom all speak.
 */

#ifndef WEFT_TEST_CLUSTER_WEFTD_H
#define WEFT_TEST_CLUSTER_WEFTD_H

#undef NDEBUG
#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/inputs/cluster-inputs.h"

#define MEMBERS 4
#define RECORDS_MAX 700
#define HISTORY_MAX 8192

struct weftd {
  struct cluster_record store[RECORDS_MAX];
  size_t stored;
  uint64_t now_ms, random;
  int64_t ahead_ms;      /* of the wall clock: it is wrong by so much */
  uint64_t op;           /* the last one's number */
  const char *name;      /* of the array: "a" */
  unsigned long kill_at; /* the step, or action, after which it is; 0: none */
  bool killed;
  /* The states of each number that was ever durable. */
  struct {
    uint8_t array[16], states[MEMBERS];
    bool known;
  } history[HISTORY_MAX];
};

/* There is one at a time; and its engine. */
extern struct weftd weftd;
extern struct cluster *engine;

/* Another one, with nothing in its store and no engine yet. */
void weftd_init (uint64_t seed);

/* An engine of what is stored takes the place of the one that was. */
void start_engine (void);

uint64_t rnd (void);

/* Time and randomness for a call of the engine. */
struct cluster_input input (uint64_t op);

/* Take the steps that the engine has made, as each world does. */
void pump (void);

/* Call the engine: as this operation, or as none, 0. */
#define CALL(op, call)                                                         \
  do {                                                                         \
    struct cluster_input in_ = input (op);                                     \
    const struct cluster_input *in = &in_;                                     \
    call;                                                                      \
    pump ();                                                                   \
  } while (0)

/* It becomes durable.  A number never gets two sets of states, and the last copy of
 * everything stays.
 */
void store_put (const struct cluster_record *r);

/* The array, its member, and the state of that; are all of them in-sync, and nothing
 * changes?
 */
struct cluster_array *array (void);
struct cluster_member *member (unsigned m);
enum member_state state (unsigned m);
bool whole (void);

/* The cluster's verdict; does it say so? */
enum cluster_severity verdict (void);
bool says (const char *what);

/* A disk's UUID, which each world has, what weftd knows of the disk, and how an array
 * of disks is asked for.
 */
const uint8_t *disk_uuid (unsigned disk);
struct cluster_disk *known (unsigned disk);
struct cluster_create create_of (const char *name, enum layout_kind layout,
                                 unsigned first, unsigned members);

/* A quarter of a second of everybody's life, which is each world's own; so many. */
void live (void);
void live_on (unsigned rounds);

/* Live until it is so. */
#define UNTIL(what)                                                            \
  do {                                                                         \
    unsigned rounds_ = 0;                                                      \
    while (!(what)) {                                                          \
      if (++rounds_ > 4000) {                                                  \
        fprintf (stderr, "line %d, kill at %lu: never so: %s\n", __LINE__,     \
                 weftd.kill_at, #what);                                        \
        abort ();                                                              \
      }                                                                        \
      live ();                                                                 \
    }                                                                          \
  } while (0)

#endif /* WEFT_TEST_CLUSTER_WEFTD_H */
