/* test-member-rig.h: a member engine on a disk whose writes are slow, may finish
 * in any order, and are lost, done or torn when the power goes; and the weftd
 * that tells it what it is.
 */

#ifndef WEFT_TEST_MEMBER_RIG_H
#define WEFT_TEST_MEMBER_RIG_H

#include <stdbool.h>
#include <stdint.h>

#include "member/member.h"
#include "member/member-internal.h"

#define DATA_BYTES (GiB (300)) /* three intent blocks */
#define HOT 12 /* extents that are written, on both sides of block borders */
#define FLIGHTS 8

struct flight {
  bool used;
  struct member_action a;
};

extern const uint8_t key[KEY_BYTES], cluster[16], disk_id[16], array[16];

/* The disk: the header's bytes, and the writes under way. */
extern uint8_t header[HEADER_BYTES];
extern struct flight flights[FLIGHTS];

extern struct member *m;
extern uint64_t epoch, generation; /* weftd's */
extern uint64_t confirmed_max;     /* the highest min_epoch that was told */
extern uint64_t served_max;        /* the highest epoch with an open door */
extern bool out;                   /* weftd has a member out */

void disk_format (void);
/* The power goes: each write under way is not done, done, or torn. */
void disk_crash (void);
/* A crash now, whatever becomes of the writes under way: is the bit set? */
bool bit_durable (uint64_t e);

/* The extent that is hot extent i. */
uint64_t hot (unsigned i);

void export_name (char name[TOKEN_BYTES_MAX + 16], enum member_door door,
                  uint64_t session, bool writable, uint64_t e);
/* weftd says what it wants: that the member has its place, or leaves it. */
bool desire (uint64_t min_epoch, bool release);

/* A life of the member begins; with all that it does before it listens. */
void disk_start (void);
void start (void);

#endif /* WEFT_TEST_MEMBER_RIG_H */
