/* cluster-epoch.h: changes of an array's epoch, the members and sessions that each waits for, and
 * the orders to members that follow.
 */

#ifndef WEFT_CLUSTER_EPOCH_H
#define WEFT_CLUSTER_EPOCH_H

#include "cluster/ground/cluster-ground.h"
#include "cluster/trust/cluster-trust.h"

/* cluster-change.c */
/* Kinds of changes of epoch; each has a row in the table of cluster-change.c. */
enum change_kind {
  CHANGE_WRITER,
  CHANGE_END,
  CHANGE_LEFT,
  CHANGE_READER,
  CHANGE_LOST_ALONE,
  CHANGE_LOST,
  CHANGE_PUT_OUT,
  CHANGE_JOINER_OUT,
  CHANGE_JOIN,
  CHANGE_IN_SYNC,
  CHANGE_BACK,
  CHANGE_KEY,
  CHANGE_INSTEAD,
  CHANGE_CALLED_OFF,
  CHANGE_TOKENS,
  CHANGE_NUMBER,
};
/* Prepare a change: a new epoch with these states, which replaces a change that is
 * under way.  Its number is above all that any member has seen.  which: the members
 * that are to confirm, where the row of its kind says that they are named; NULL:
 * none.
 */
void cluster_change_prepare (struct cluster *c, struct cluster_array *a,
                             enum change_kind kind, const uint8_t states[],
                             const bool which[]);
/* Prepare a change in which members go out that no session has lost. */
void cluster_change_put_out (struct cluster *c, struct cluster_array *a,
                             const uint8_t states[]);
/* Prepare a change in which all members stay what they are. */
void cluster_change_stay (struct cluster *c, struct cluster_array *a,
                          enum change_kind kind, const bool which[]);
/* Must sessions be prepared before these states are committed?  They must when a
 * joining member becomes in-sync, or when an in-sync member goes out and others
 * than `except` are attached (the session that asks for the change; NULL: none
 * does).
 */
bool cluster_change_needs_sessions (const struct cluster *c,
                                    const struct cluster_array *a,
                                    const uint8_t states[],
                                    const struct cluster_session *except);
/* Has somebody who writes lost a member that is not out in these states?  Then he can't
 * prepare himself for them.
 */
bool cluster_change_stalls (const struct cluster *c,
                            const struct cluster_array *a,
                            const uint8_t states[]);
/* The same of this one. */
bool cluster_change_stalls_by (const struct cluster_array *a,
                               const struct cluster_session *s,
                               const uint8_t states[]);
/* Can a change begin by which this member goes out: does each byte keep a copy, and can
 * every writer prepare itself?
 */
bool cluster_change_can_put_out (const struct cluster *c,
                                 const struct cluster_array *a,
                                 unsigned member);
/* Does an in-sync member go out by the change under way that weftd knows to be lost: it is
 * silent, has failed, hangs, or is an old copy?
 */
bool cluster_change_loses_member (const struct cluster_array *a);
/* Would these states leave some data without a copy?  Only members that are in-sync
 * now, and stay so, count as copies.
 */
bool cluster_change_loses (const struct cluster_array *a,
                           const uint8_t states[]);
/* The states of the change that is under way, or the array's. */
void cluster_change_states (const struct cluster_array *a, uint8_t states[]);
/* Does the change under way wait for this member, to confirm or to say that nothing
 * is left to copy?  Does it wait for this session to prepare itself?
 */
bool cluster_change_waits_for (const struct cluster_array *a, unsigned member);
bool cluster_change_waits_for_session (const struct cluster_array *a,
                                       const struct cluster_session *s);

/* cluster-shut.c */
/* Give it the next number. */
void cluster_shut_number (struct cluster *c, struct cluster_over *o);
/* This session of a node is over, or, by its number in the list alone, that of a joining
 * member: inform the members.  ordered: by an administrator.
 */
void cluster_shut_add (struct cluster *c, struct cluster_array *a,
                       uint64_t session, const char *node, bool ordered);
/* Has a member that is not out not confirmed yet that this session is over?  session 0:
 * that any is.
 */
bool cluster_shut_waits (const struct cluster_array *a, uint64_t session);
/* The same of this member. */
bool cluster_shut_waits_for (const struct cluster_array *a, unsigned member,
                             uint64_t session);
/* May something still run that one of several that write has asked for?  It has ended. */
bool cluster_shut_runs (const struct cluster *c,
                        const struct cluster_session *s);
/* Is it in the list, so that members refuse it? */
bool cluster_shut_has (const struct cluster_array *a, uint64_t session);
/* Is there room for the end of one more session: of any node, and of this one? */
bool cluster_shut_room (const struct cluster *c, const struct cluster_array *a,
                        bool writable);
bool cluster_shut_room_of (const struct cluster *c,
                           const struct cluster_array *a, const char *node);
/* Take out sessions that need not be in the list any more.  True: there was
 * one.
 */
bool cluster_shut_prune (struct cluster *c, struct cluster_array *a);
/* A rule that cluster-pump.c applies: if many sessions are in the list, old
 * tokens become invalid.
 */
bool cluster_shut_renew (struct cluster *c, struct cluster_array *a);
/* Is there a session that the disk does not know and that the last answer did
 * not have?  The sessions to send to it; their count.
 */
bool cluster_shut_news (const struct cluster_disk *d);
unsigned cluster_shut_told (const struct cluster_disk *d,
                            struct cluster_over over[OVER_TOLD_MAX]);

/* The number of the first in the list that the member is to shut, whatever its state, and
 * has not confirmed; 0: none.
 */
uint64_t cluster_shut_owed (const struct cluster_array *a, unsigned member);

/* cluster-lapse.c */
/* A change of epoch is being COMMITted (the records still have the former states).
 * prepared: all sessions had prepared themselves.
 */
void cluster_lapse_commit (const struct cluster *c, struct cluster_array *a,
                           bool prepared);
/* A writer is admitted: after the COMMIT. */
void cluster_lapse_writer (struct cluster *c, struct cluster_array *a);
/* The writer's resync takes an older copy where the newest can't be read. */
void cluster_lapse_older (struct cluster *c, struct cluster_array *a);
/* The writer says that its resync is over: copies are equal, and stable. */
void cluster_lapse_equal (struct cluster *c, struct cluster_array *a);
/* The writer has detached, in its own words. */
void cluster_lapse_detached (struct cluster *c, struct cluster_array *a);

/* cluster-join.c */
/* The disk gets its order: note the sources whose tokens are in it. */
void cluster_join_grant (struct cluster_disk *d);
/* Does the joining member get every write?  So it is when the writer works in the
 * epoch in which the joining began, or when there is no writer.
 */
bool cluster_join_sends (const struct cluster *c, const struct cluster_array *a,
                         unsigned member);
/* The round that a joining member's disk is to note at the end; 0: the writer tells
 * it the round.
 */
uint64_t cluster_join_round (const struct cluster *c,
                             const struct cluster_array *a);
/* It becomes in-sync.  Its reports of rounds were not compared with the others'
 * so far: until its next report it counts as one that has at most the round
 * that it was sent.
 */
void cluster_join_end (const struct cluster *c, const struct cluster_array *a,
                       unsigned member);

/* cluster-rekey.c */
/* At weftd's start. */
void cluster_rekey_begin (struct cluster *c);
/* Fence the next member that is to get another key, and give it that.  True: one is. */
bool cluster_rekey_member (struct cluster *c, struct cluster_array *a);
/* Give it to a disk that is no member. */
void cluster_rekey_free (struct cluster *c, struct cluster_disk *d);
/* Does the change under way wait for this member, which is well, to be fenced for its
 * key?  Then it is not given up yet.
 */
bool cluster_rekey_confirms (const struct cluster *c,
                             const struct cluster_array *a, unsigned member);
/* Has the session lost the member because that was fenced for its key, perhaps?  Then
 * it gets it back, and the loss counts for nothing.
 */
bool cluster_rekey_cuts (const struct cluster *c, const struct cluster_array *a,
                         const struct cluster_session *s, unsigned member);
/* The disk's process has taken in the last answer. */
void cluster_rekey_heard (struct cluster *c, struct cluster_disk *d);

#endif /* WEFT_CLUSTER_EPOCH_H */
