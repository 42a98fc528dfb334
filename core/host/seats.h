/* seats.h: hands the array engine the state of the members.
 *
 * A seat is a member's place in the array, as this process knows it: the state
 * that weftd has recorded, and the connection that the array engine uses.  The
 * functions change the seats and pass the consequences to the array engine;
 * after each call the caller takes the array engine's outputs.  The caller
 * protects the seats by the same lock as the array engine.
 */

#ifndef WEFT_SEATS_H
#define WEFT_SEATS_H

#include <stdbool.h>
#include <stdint.h>

#include "array/array.h"

struct seats {
  unsigned members;
  uint64_t epoch, prepared; /* committed; the newest PREPARED one */
  enum member_state states[ARRAY_MEMBERS_MAX];
  bool joined[ARRAY_MEMBERS_MAX]; /* it has had a connection since it was out */
  /* The number of each member's newest connection, which a NOTICE_LOST of the array
   * engine is about; 0: none.
   */
  uint64_t connection[ARRAY_MEMBERS_MAX];
};

/* The process starts: members that are connected have connection 1. */
void seats_begin (struct seats *s, unsigned members, uint64_t epoch,
                  const enum member_state states[], const bool connected[]);

/* The states that the array engine is to see: a member that is joining is out
 * to it until there is a connection to it.
 */
void seats_seen (const struct seats *s, enum member_state seen[]);

/* weftd has recorded these states.  False: a newer epoch is known, and nothing was
 * done.  The caller breaks its connections to members that are out.
 */
bool seats_commit (struct seats *s, struct array *a, uint64_t epoch,
                   const enum member_state states[], uint64_t now_ns);

/* weftd has PREPARED these states.  Ignored if a newer epoch is known. */
void seats_prepare (struct seats *s, struct array *a, uint64_t epoch,
                    const enum member_state states[], uint64_t now_ns);

/* The member has this connection from now on; all that was asked through the old
 * one has come back.  kept, reach: as for array_back.
 */
void seats_take (struct seats *s, struct array *a, unsigned member,
                 uint64_t connection, bool kept, uint64_t reach,
                 uint64_t now_ns);

#endif /* WEFT_SEATS_H */
