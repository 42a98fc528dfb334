/* array-epoch.c: the changes by a new epoch and by a member's return.
 *
 * When weftd has recorded an epoch in which a lost member (array-member.c) is
 * out, its images are dropped, and requests that waited for it are planned
 * again.  A second loss meanwhile is handled the same way, one commit later.
 *
 * A member that holds the last copy of some data is not recorded as out:
 * requests for that data wait until array_back and the commit that follows,
 * which has the member's present state.  Our earlier writes to it may be lost,
 * and then a FLUSH fails (array-flush.c).
 */

#include <config.h>

#include <stdio.h>
#include <stdlib.h>

#include "array-internal.h"

void
epoch_loss (struct array *a)
{
  bool lost[ARRAY_MEMBERS_MAX] = { false };
  uint64_t bytes;
  struct array_notice *notice;

  for (unsigned i = 0; i < a->layout->members; i++)
    lost[i] = !member_in_sync (a, i);
  bytes = layout_loss (a->layout, lost, NULL);
  if (bytes > a->lost_bytes && a->lost_bytes == 0) {
    notice = member_notice_new (a, NOTICE_DATA_LOST, 0);
    snprintf (notice->reason, sizeof notice->reason,
              "%llu bytes of the array have no copy left; they can be read "
              "again only if a member comes back",
              (unsigned long long) bytes);
  }
  a->lost_bytes = bytes;
}

void
epoch_back (struct array *a, unsigned member, bool kept, uint64_t reach)
{
  struct array_member *m = &a->member[member];
  struct notice *n, *next;

  if (member_is_lost (a, member)) {
    m->connection = CONNECTION_BACK;
    m->loss.lapsed |= !kept;
  }
  m->loss.answers = false;
  if (reach < m->loss.reach)
    m->loss.reach = reach;
  /* Later notices of its last connection would be taken for the loss of this
   * one.
   */
  TAILQ_FOREACH_SAFE (n, &a->notices, link, next)
    if (n->notice.kind == NOTICE_LOST && n->notice.member == member) {
      TAILQ_REMOVE (&a->notices, n, link);
      free (n);
    }
}

/* Has a member anything that is not stable? */
static bool
unflushed (const struct array *a, unsigned member)
{
  const struct array_member *m = &a->member[member];

  return m->writes.loose > m->writes.flushed;
}

/* Its unflushed writes may be lost, unless it is known to have kept them; and
 * writes that rounds do not cover may be lost, flushed or not, with another
 * process.  If it joins it copies them again, unless it is in-sync by now: we
 * have said that we are prepared for it.
 */
static void
come_back (struct array *a, unsigned member, enum member_state state)
{
  struct array_member *m = &a->member[member];
  bool in_sync = state == MEMBER_IN_SYNC ||
                 (a->next.told && a->next.states[member] == MEMBER_IN_SYNC) ||
                 (a->next.epoch && a->next.promised[member]);
  bool lapsed = m->loss.lapsed, aged = !round_reaches (a, member);
  bool same = m->loss.reach == UINT64_MAX; /* no other process serves it */

  m->connection = CONNECTION_UP;
  m->loss.lapsed = false;
  m->loss.reach = UINT64_MAX;
  join_again (a);
  if (!in_sync || a->config.readonly)
    return;
  /* The member may lack writes, or its disk may be an old copy that is too
   * young to be recognised: the bits show what it lacks, when it joins or the
   * array is attached again.  A process that has kept everything lacks only
   * unanswered writes, and these are sent again.
   */
  m->differs |= lapsed || !same;
  if (!aged && (!lapsed || !unflushed (a, member)))
    return;
  m->returned = a->returned = ++a->commits;
  flush_gone (a, member);
}

/* It will begin again: do not rely on its copies of unfinished writes. */
static void
forget_written (struct array *a, unsigned member)
{
  struct req *q;
  struct piece *p;

  TAILQ_FOREACH (q, &a->requests, link)
    TAILQ_FOREACH (p, &q->pieces, link)
      for (unsigned c = 0; c < p->at.copies; c++)
        if (p->at.copy[c].member == member)
          p->written &= ~(1u << c);
}

/* True: it was in-sync, had something that no FLUSH has made stable, and goes.
 */
static bool
take_state (struct array *a, unsigned member, enum member_state state)
{
  struct array_member *m = &a->member[member];
  enum member_state old = m->state;
  bool risked = false, going;

  /* When it is back it copies what has bits.  Of more than two copies, another member
   * may have copied from it, and lack what a third one has.
   */
  if (a->layout->copies == 2 &&
      (!state_takes_part (state) || (old == MEMBER_IN_SYNC && state != old)))
    m->differs = false;

  /* Others may have lost a member that we have not: our requests to it are over
   * as well.
   */
  if (!member_is_lost (a, member) &&
      (!state_takes_part (state) || (old == MEMBER_IN_SYNC && state != old)))
    member_lose (a, member);
  if (member_is_lost (a, member) && state != MEMBER_IN_SYNC)
    forget_written (a, member);
  going = a->next.epoch && !state_takes_part (a->next.states[member]);
  if (m->connection == CONNECTION_BACK && state_takes_part (state) &&
      !a->stopped) {
    /* If it stays after all, weftd gets the report once more. */
    if (going)
      m->loss.reported = false;
    else
      come_back (a, member, state);
  }
  member_forget_back (a, member); /* unless it is up now */
  m->state = state;
  if (state != old && state_takes_part (state))
    m->loss.reported = false;
  if (state != old && state == MEMBER_IN_SYNC)
    clear_joined (a, member);
  if (state != old && old == MEMBER_IN_SYNC) {
    risked = unflushed (a, member) | images_drop (a->images, member);
    a->commits++;
  }
  /* It may have joined in an epoch that this session was not told of. */
  if (state_takes_part (old) && state != old && state != MEMBER_IN_SYNC)
    round_outrun (a);
  if (member_is_lost (a, member) && !m->loss.reported && !a->stopped &&
      (!going || !state_takes_part (state)))
    member_tell (a, member,
                 state_takes_part (state) ? "there is no connection to it"
                                          : "weftd has recorded it as out");
  return risked;
}

/* The readers' copies change: mark the writes that may have reached the former ones
 * alone.
 */
static void
move (struct array *a)
{
  struct req *q;
  struct piece *p;

  a->moved = true;
  TAILQ_FOREACH (q, &a->requests, link)
    TAILQ_FOREACH (p, &q->pieces, link)
      p->older |= p->started && request_writes (q->r);
}

uint64_t
epoch_arrived (struct array *a)
{
  const struct req *q;
  const struct piece *p;

  if (a->moved) {
    /* Also where the member is lost: others may reach it. */
    TAILQ_FOREACH (q, &a->requests, link)
      TAILQ_FOREACH (p, &q->pieces, link) {
        int c = p->older ? piece_read_copy (a, p, 0) : -1;

        if (c >= 0 && !(p->written & 1u << c))
          return a->arrived;
      }
    a->arriving = images_mark (a->images);
    a->moved = false;
  }
  for (unsigned i = 0; i < a->layout->members; i++)
    if (member_in_sync (a, i) && !images_drained_of (a->images, i, a->arriving))
      return a->arrived;
  return a->arrived = a->config.epoch;
}

uint64_t
array_epoch (const struct array *a)
{
  return images_drained (a->images, a->entering) ? a->config.epoch : a->entered;
}

void
epoch_commit (struct array *a, uint64_t epoch, const enum member_state states[])
{
  uint64_t lost_bytes = a->lost_bytes;
  bool risked[ARRAY_MEMBERS_MAX], joins = false, anew = false, moves = false;

  if (epoch < a->config.epoch)
    return; /* overtaken by a newer one */
  for (unsigned i = 0; i < a->layout->members; i++) {
    moves |= member_in_sync (a, i) != (states[i] == MEMBER_IN_SYNC);
    if (states[i] == MEMBER_JOINING) {
      joins |= epoch > a->config.epoch;
      anew |= a->member[i].connection == CONNECTION_BACK ||
              (epoch == a->config.epoch && a->member[i].state != states[i]);
    }
  }
  /* Where members join, the epoch is not entered before what was accepted until
   * now is written.  A member may be seen later than its epoch, once it is
   * connected: then array_epoch gives no epoch until that is written.
   */
  if (joins || anew) {
    a->entered = anew ? 0 : array_epoch (a);
    a->entering = images_mark (a->images);
  }
  if (moves)
    move (a);
  if (epoch > a->config.epoch)
    round_entered (a); /* before the wait for members that go out ends */
  a->config.epoch = epoch;
  if (a->next.epoch <= epoch)
    a->next.epoch = 0;
  a->next.told &= a->next.epoch > 0;
  for (unsigned i = 0; i < a->layout->members; i++)
    risked[i] = take_state (a, i, states[i]);
  member_count (a);
  epoch_loss (a);
  for (unsigned i = 0; i < a->layout->members; i++)
    if (a->lost_bytes > lost_bytes && risked[i] && !a->stopped)
      flush_gone (a, i);
  /* The members that count and that can be asked have changed: look at
   * everything again.
   */
  pieces_go_on (a, &a->stalled);
  for (unsigned i = 0; i < a->layout->members; i++)
    pieces_go_on (a, &a->member[i].draining);
  a->look = true;
  clear_states (a);
  join_release (a);
}
