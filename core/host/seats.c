/* seats.c: see seats.h. */

#include <config.h>

#include <string.h>

#include "seats.h"

void
seats_begin (struct seats *s, unsigned members, uint64_t epoch,
             const enum member_state states[], const bool connected[])
{
  memset (s, 0, sizeof *s);
  s->members = members;
  s->epoch = epoch;
  for (unsigned m = 0; m < members; m++) {
    s->states[m] = states[m];
    s->joined[m] = connected[m];
    s->connection[m] = connected[m]; /* the first */
  }
}

void
seats_seen (const struct seats *s, enum member_state seen[])
{
  for (unsigned m = 0; m < s->members; m++)
    seen[m] = s->states[m] == MEMBER_JOINING && !s->joined[m] ? MEMBER_OUT
                                                              : s->states[m];
}

/* To the array engine a member that came to be in-sync behind our back was out:
 * so it is lost until there is a connection.
 */
static void
commit_seen (const struct seats *s, struct array *a, uint64_t now_ns)
{
  enum member_state seen[ARRAY_MEMBERS_MAX];

  seats_seen (s, seen);
  array_commit (a, s->epoch, seen, now_ns);
}

bool
seats_commit (struct seats *s, struct array *a, uint64_t epoch,
              const enum member_state states[], uint64_t now_ns)
{
  if (epoch < s->epoch)
    return false;
  s->epoch = epoch;
  for (unsigned m = 0; m < s->members; m++) {
    /* From in-sync to joining there is no way but by way of out. */
    if (states[m] == MEMBER_OUT ||
        (states[m] == MEMBER_JOINING && s->states[m] == MEMBER_IN_SYNC))
      s->joined[m] = false;
    s->states[m] = states[m];
  }
  commit_seen (s, a, now_ns);
  return true;
}

/* Not as seen: a joiner may be connected before the commit. */
void
seats_prepare (struct seats *s, struct array *a, uint64_t epoch,
               const enum member_state states[], uint64_t now_ns)
{
  if (epoch <= s->epoch || epoch <= s->prepared)
    return;
  s->prepared = epoch;
  array_prepare (a, epoch, states, now_ns);
}

void
seats_take (struct seats *s, struct array *a, unsigned member,
            uint64_t connection, bool kept, uint64_t reach, uint64_t now_ns)
{
  /* The joining has begun again: the member was out meanwhile. */
  if (s->states[member] == MEMBER_JOINING) {
    s->joined[member] = false;
    commit_seen (s, a, now_ns);
  }
  s->joined[member] = true;
  s->connection[member] = connection;
  array_back (a, member, kept, reach, now_ns);
  commit_seen (s, a, now_ns);
}
