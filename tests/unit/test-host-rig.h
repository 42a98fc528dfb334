/* test-host-rig.h: a host engine with two members, to be asked what it wants.
 */

#ifndef WEFT_TEST_HOST_RIG_H
#define WEFT_TEST_HOST_RIG_H

#include "host/host.h"
#include "test-random.h"

extern struct host *h;
extern uint64_t now;
extern struct host_action act; /* the last one */
extern struct host_answer answer;
extern struct host_config config;

/* Epoch 5; members by letters: i, o, j; those in capitals are connected. */
void begin (bool readonly, const char *members);
void finish (void);

/* Takes the next action of these kinds; true: it is of this kind, in `act`. */
bool next (enum host_do kind);
bool nothing (unsigned kinds);
/* Carries out the kinds that send nothing: commits and entries. */
void work (void);

/* `answer`: status 200 without content; then its content. */
void says_nothing (void);
void says_epoch (uint64_t epoch, const char *members, bool map);
void says_fence (unsigned member, uint64_t lapse); /* in this epoch */
void says_change (uint64_t epoch, const char *members);
void says_problem (int status, const char *code);
/* `answer` is given to a heartbeat that is due now, or to the report of this member,
 * which is due.
 */
void beat (void);
enum host_news report (unsigned member);
/* A heartbeat's answer gives this epoch, with the map; all is done that follows. */
void hear (uint64_t epoch, const char *members);
void hear_fence (uint64_t epoch, const char *members, unsigned member,
                 uint64_t lapse);
/* weftd hears of it at once, and answers. */
void tell (void);

/* Connects member m as requested now (kept: its unflushed data is still there). */
bool connects (unsigned member, bool ok);
extern bool kept;
extern uint64_t reach;

#endif /* WEFT_TEST_HOST_RIG_H */
