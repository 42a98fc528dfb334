/* test-member-join-world.h: the world in which a member joins.
 *
 * It has a survivor, a writer whose writes go to the survivor first and then,
 * if it has a connection, to the joiner; a weftd that fences, takes in, leaves
 * out and makes in-sync; and the disk of the joiner, whose data and header are
 * lost, done or torn when the power goes.  Each hot extent has two cells, its
 * first and last 4 KiB; a cell holds the number of the write that it is from.
 */

#ifndef WEFT_TEST_MEMBER_JOIN_WORLD_H
#define WEFT_TEST_MEMBER_JOIN_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "test-member-rig.h"

#define BLOCK INTENT_BLOCK_EXTENTS
#define LAST (GiB (130) / EXTENT_BYTES)
#define USED_BYTES (LAST * EXTENT_BYTES + 8192) /* the last one is short */
#define DATA_BYTES (USED_BYTES + 12288)
#define HOT 8
#define WRITES 8
#define COPIES 4
#define CONNS 8

/* 0 and JOIN_SLOTS share a slot; BLOCK is the first of another block. */
static const uint64_t hot[HOT] = {
  0, 1, JOIN_SLOTS, JOIN_SLOTS + 1, BLOCK - 1, BLOCK, BLOCK + 1, LAST,
};

struct conn {
  struct member_pass *pass;
  bool dead; /* its writer, or its use */
};

struct write {
  enum { FREE, NOTED, WRITTEN, SENDING, WAITING, RUNNING } at;
  uint64_t version;
  struct batch_record records[2];
  struct member_request r;
  struct conn *conn;
  unsigned record; /* the next piece */
  uint64_t done;
};

struct copy_job {
  bool used;
  unsigned h, stage;
  uint64_t run, given_min, cell[2];
};

struct gather {
  bool bits[HOT];
  bool used;
  uint64_t run;
};

struct flush {
  bool used;
  uint64_t run, mark, data[HOT][2];
};

/* Its randomness comes from the test's seed; call this once. */
void world_start (uint64_t seed);

extern bool calm; /* nothing new goes wrong, nothing is written */
extern bool idle; /* nothing is written */

/* The joiner's data, as it is read and as it is stable. */
extern uint64_t mine[HOT][2], stable[HOT][2];

/* The survivor. */
extern uint64_t theirs[HOT][2];
extern bool their_bit[HOT];
extern uint64_t version;

/* weftd. */
extern enum member_state state; /* committed, of the joiner */
extern uint64_t fence;
extern uint64_t change_epoch; /* 0: none; for the fence to be confirmed */
extern enum member_state change_to;
extern uint64_t wanted_min; /* the min_epoch that the joiner was told last */

/* The writer, and the joiner's copying. */
extern struct conn conns[CONNS];
extern struct conn *writer; /* the writer's connection, if it has one */
extern uint64_t session;
extern struct write writes[WRITES];
extern struct copy_job copies[COPIES];
extern struct gather gather;
extern struct flush flush;

/* Where this cell of a hot extent is; does the write cover it? */
uint64_t cell_at (unsigned h, unsigned c);
bool covers (const struct write *w, unsigned h, unsigned c);

/* A disk from elsewhere: its bits are clear and its data is anything. */
void new_disk (void);
/* A flush from beginning to end; one that began before has no more to say. */
void data_stable (void);

/* The joiner hears from weftd. */
void hear_weftd (void);
/* weftd leaves the joiner out. */
void leave_out (void);

void write_forget (struct write *w);
void reach_survivor (struct write *w);
/* The writer, or its connection, is dead: what it had not sent is not sent. */
void hang_up (bool dies);

void power_off (void);
void power_on (void);

/* What holds always. */
void check_world (void);

#endif /* WEFT_TEST_MEMBER_JOIN_WORLD_H */
