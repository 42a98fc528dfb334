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

#define FLIGHTS 8

struct flight {
  bool used;
  struct member_action a;
};

extern const uint8_t key[KEY_BYTES], cluster[16], disk_id[16], array[16];

extern struct member *m;

/* ---- The disk: the header's bytes, and the writes under way ---- */

extern uint8_t header[HEADER_BYTES];
extern struct flight flights[FLIGHTS];

/* Its superblock is like this one, of the array if it has an n; this many extents,
 * the first ones, are dirty.
 */
void disk_format (struct superblock sb, unsigned dirty);
/* A life of the member begins; heard: weftd has given it the key. */
void disk_start (bool heard);
/* The power goes: each write under way is not done, done, or torn. */
void disk_crash (void);
/* A crash now, whatever becomes of the writes under way: is the bit set? */
bool bit_durable (uint64_t e);

/* Do one action, or all that are due; returns how many these were. */
void do_action (const struct member_action *a);
unsigned do_actions (bool lazy);

/* ---- weftd ---- */

extern struct member_desire wish;

/* A desire for a member of a group of n, all of them in-sync, in this epoch. */
void wish_place (enum layout_kind layout, unsigned n, uint64_t epoch);
/* Is the wish obeyed? */
bool desire (void);

/* The rest are of a member of four that is always in-sync. */
extern uint64_t epoch, generation; /* weftd's */
extern uint64_t confirmed_max;     /* the highest min_epoch that weftd has
                                    * sent */
extern uint64_t served_max;        /* the highest epoch with an open door */
extern bool out;                   /* weftd has another member out */

/* weftd says what it wants: that the member has its place, or leaves it. */
bool desire_four (uint64_t min_epoch, bool release);
/* A life of the member begins; with all that it does before it listens. */
void start (void);
/* The same with a new disk of DATA_BYTES, which then has its place in epoch 1. */
#define FOUR_DATA_BYTES (GiB (300)) /* three intent blocks */
void start_new (void);

/* ---- Sessions ---- */

void export_name (char name[TOKEN_BYTES_MAX + 16], enum member_door door,
                  uint64_t session, bool writable, uint64_t e);
/* A door for data, to write by. */
struct member_pass *open_door (uint64_t session, uint64_t e);

/* That is closed, and the life of the member ends. */
void end_life (struct member_pass *p);

struct one {
  struct batch_record b;
  struct member_request r;
};

/* A write to `count` extents from this one on: the first verdict, and that of a retry.
 */
enum member_verdict ask (struct member_pass *p, struct one *w, uint64_t extent,
                         uint64_t count);
enum member_verdict again (struct member_pass *p, struct one *w);
/* A write comes and goes, so the extent's bit is set. */
void write_to (struct member_pass *p, uint64_t extent);

/* ---- Joining ---- */

/* The member hears of the peers' bits; they are of the first extents. */
void gathered (uint64_t bits);
/* This extent is the next one to copy, and is copied. */
void copy_extent (uint64_t extent);
/* All copied data is stable. */
void copies_stable (void);

#endif /* WEFT_TEST_MEMBER_RIG_H */
