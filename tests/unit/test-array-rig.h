/* test-array-rig.h: an array engine with members in memory.  Its requests to them wait in
 * `ios` until the test answers them.  A test may run another engine on the same members,
 * and switch between them by `a` and `client`.
 */

#ifndef WEFT_TEST_ARRAY_RIG_H
#define WEFT_TEST_ARRAY_RIG_H

#include "array/array.h"
#include "format/batch.h"

#define MS UINT64_C (1000000)
#define UNIT KiB (16)
#define IOS_MAX 4096

/* raid-x, n = 4: unit 0 is on member 0, its image on member 3; 12 units of
 * data, so images begin at 12 * UNIT.
 */
#define IMAGE0 (12 * UNIT)

#define WRITE(o, l, b)                                                         \
  { .op = ARRAY_WRITE, .offset = (o), .length = (l), .buf = (b) }
#define READ(o, l, b)                                                          \
  { .op = ARRAY_READ, .offset = (o), .length = (l), .buf = (b) }
#define FLUSH { .op = ARRAY_FLUSH }

extern struct array_config config; /* of the next `begin`; `end` takes back what
                                      a test has changed of it */
extern struct array *a;
extern struct array_client *client; /* whose requests are that name none */
extern uint64_t now;
extern uint8_t *members[ARRAY_MEMBERS_MAX];
extern uint64_t rig_member_bytes;         /* of the next `begin`, as config */
extern uint64_t noted[ARRAY_MEMBERS_MAX]; /* the round on each one's disk */
extern uint64_t stuck_ms[ARRAY_MEMBERS_MAX]; /* each one's disk */
extern struct array_io *ios[IOS_MAX]; /* asked and not answered, in order */
extern unsigned ios_count;
extern unsigned notices_lost, notices_data, notices_prepared, done_count;
extern unsigned notices_lease, notices_left;
extern struct array_notice notice; /* the last one */
extern uint8_t ones[MiB (8)], twos[MiB (1)], back[MiB (1)];

void rig_init (void);
void begin (enum layout_kind kind, unsigned n);
void end (void);

/* Carry out the i-th outstanding request and answer it. */
void answer (unsigned i, int error);
void answer_all (void);
void answer_all_flushes (void);
void
answer_lost (unsigned member); /* all, and this member by a broken connection */

/* Take what the engine has to say after an input that is not one of these. */
void rig_take (void);

void submit (struct array_request *r);
/* Answer all that is asked: the request is done then, with this error. */
int finish (const struct array_request *r);
int carry_out (struct array_request *r); /* submit, and finish */
bool done (const struct array_request *r);
void lose (unsigned member);
void return_with (unsigned member, bool kept, uint64_t reach); /* array_back */
void return_of (unsigned member); /* data that it had not flushed may be gone */
void return_whole (unsigned member);
/* return_of, and the commit that follows */
void give_back (unsigned member, uint64_t epoch, const char *states);
void hold (bool hold);
void stop (void);
/* The next epoch, with these members out. */
void commit (unsigned out_mask);
/* States in letters: i, o, j. */
void rig_states (const char *letters, enum member_state states[]);
void commit_states (uint64_t epoch, const char *states);
void prepare (uint64_t epoch, const char *states);
/* To the engine's deadline, or beyond now. */
void tick (void);
void tick_after (uint64_t ns);

/* Nothing is asked but this: answer it. */
void answer_only (enum array_io_kind kind, unsigned member, uint64_t offset,
                  uint64_t length, int error);
bool is_io (unsigned i, enum array_io_kind kind, unsigned member,
            uint64_t offset, uint64_t length);
/* The records of the i-th; returns their number, or -1 where it is no batch. */
int batch_of (unsigned i, const struct batch_record **records);
bool all_are (const uint8_t *p, uint8_t c, size_t bytes);

#endif /* WEFT_TEST_ARRAY_RIG_H */
