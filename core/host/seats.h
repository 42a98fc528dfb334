/* seats.h: what the array engine is told of the members, and when.
 *
 * A seat is a member's place in the array, as this process has it: the state
 * that is recorded, and the connection that the array engine uses.  Seats stand
 * under the array engine's lock, beside it: what weftd says and what becomes of
 * connections meet here.  The functions change the seats and hand the engine
 * what follows; the caller takes its outputs after that.
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
  bool joined[ARRAY_MEMBERS_MAX]; /* had a connection since it was out */
  uint64_t connection[ARRAY_MEMBERS_MAX]; /* the number of the last one; 0:
                                     none. A NOTICE_LOST that the array engine
                                     gives now is of that one. */
};

/* As the process starts: connection 1 to those that are connected. */
void seats_begin (struct seats *s, unsigned members, uint64_t epoch,
                  const enum member_state states[], const bool connected[]);

/* The states that the array engine is to see: a member that is joining is out
 * to it until there is a connection to it.
 */
void seats_seen (const struct seats *s, enum member_state seen[]);

/* These states are recorded.  False: something newer is known, and nothing was
 * done.  Of a member that is out the caller breaks the connection.
 */
bool seats_commit (struct seats *s, struct array *a, uint64_t epoch,
                   const enum member_state states[], uint64_t now_ns);

/* These are prepared; what is older than what is known is ignored. */
void seats_prepare (struct seats *s, struct array *a, uint64_t epoch,
                    const enum member_state states[], uint64_t now_ns);

/* The member has this connection now.  The old one has given back everything.
 * kept: as of array_back.
 */
void seats_take (struct seats *s, struct array *a, unsigned member,
                 uint64_t connection, bool kept, uint64_t now_ns);

#endif /* WEFT_SEATS_H */
