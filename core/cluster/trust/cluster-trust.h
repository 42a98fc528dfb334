/* cluster-trust.h: trust in disks and nodes: the process that serves a disk, good and stale
 * copies, rounds, and the nodes that may attach an array.
 */

#ifndef WEFT_CLUSTER_TRUST_H
#define WEFT_CLUSTER_TRUST_H

#include "cluster/ground/cluster-ground.h"

/* cluster-process.c */
/* Record that the writer knows the process which serves the disk now. */
void cluster_process_meet (struct cluster *c, struct cluster_disk *d);
/* The disk's reports so far came from an earlier process. */
void cluster_process_replaced (struct cluster_disk *d);
/* Is it the process that the writer knows which serves the disk? */
bool cluster_process_met (const struct cluster_disk *d);
/* Does the process that serves the disk now have all that the writer's requests to
 * the disk were answered for, as far as is known?  It does if it is the process
 * that the writer knows, or has that process's cache.
 */
bool cluster_process_kept (const struct cluster_disk *d);
/* Is the disk served by another process than the one that the writer knows?  (Where
 * nobody writes, that is so until the next change of epoch, at most.)
 */
bool cluster_process_unmet (const struct cluster_disk *d);
/* Is a writer attached that knows a process of this disk?  Then only a change of
 * epoch tells it of the next one.
 */
bool cluster_process_known (const struct cluster *c,
                            const struct cluster_disk *d);
/* If this writer, one of several, has lost the member, is the writer's own line
 * at fault?  The member is well, and at least as many of the other writers
 * reach it as lack it; or some do, and the array can't do without it.
 */
bool cluster_process_apart (const struct cluster_array *a,
                            const struct cluster_session *s, unsigned member);
/* Has this session a connection to the member, by all that it says? */
bool cluster_process_reached (const struct cluster_array *a,
                              const struct cluster_session *s, unsigned member);
/* Has the session reported this member as lost, and a request has waited for the member since
 * this moment, or longer?  0: never.
 */
bool cluster_process_awaited (const struct cluster_session *s, unsigned member,
                              uint64_t live_ms);
/* Up to when have this member, and another one that writes and reaches it, shown that they
 * live?
 */
uint64_t cluster_process_shown (const struct cluster_array *a,
                                const struct cluster_session *s,
                                unsigned member);
/* Was an in-sync member started again under a live writer that does not have
 * the new process yet?  The member's unflushed writes may be lost, so no other
 * session may read it.
 */
bool cluster_process_reborn (const struct cluster *c,
                             const struct cluster_array *a, unsigned member);

/* cluster-copies.c */
/* The states of the members, as committed. */
void cluster_copies_states (const struct cluster_array *a, uint8_t states[]);
/* After weftd's start: the first member that lives and has not spoken yet; if there
 * is none, a->layout.members.
 */
unsigned cluster_copies_unheard (const struct cluster_array *a);
/* Does the disk serve nothing just now: silent, failed, or an old copy? */
bool cluster_copies_disk_away (const struct cluster_disk *d);
/* Its process lives, and its disk has answered nothing for HUNG_MS.  Or for
 * DOUBTFUL_MS: then nothing new is to rely on it.
 */
bool cluster_copies_disk_hangs (const struct cluster_disk *d);
bool cluster_copies_disk_doubtful (const struct cluster_disk *d);
/* Has the joining member said, since weftd was started and for its present joining,
 * that nothing is left to copy?
 */
bool cluster_copies_synced (const struct cluster_array *a, unsigned member);
/* Is the member out, and also in the change that is under way? */
bool cluster_copies_stays_out (const struct cluster_array *a, unsigned member);
/* Has the member said that it refuses epochs below its fence? */
bool cluster_copies_fenced (const struct cluster_array *a, unsigned member);
/* Members without a usable copy now.  out[]: they are not in-sync; gone[]: not
 * in-sync, or their disk is away.
 */
void cluster_copies_missing (const struct cluster_array *a, bool out[],
                             bool gone[]);
/* If these members were gone, how many bytes more would have no copy
 * (*unreachable), or fewer copies than they should (*exposed)?  Members on nodes in
 * maintenance count as gone already.  Either may be NULL.
 */
void cluster_copies_without (const struct cluster *c,
                             const struct cluster_array *a, const bool which[],
                             uint64_t *exposed, uint64_t *unreachable);
/* host[m]: the first member that is on the same host as member m.  A disk that only
 * stands for a member's counts as on a host of its own.
 */
void cluster_copies_hosts (const struct cluster_array *a, unsigned host[]);
/* Change the states so that this member goes out.  Where there are more than two
 * copies, joining members of its group go out as well: they may have copied from it
 * what the third copy lacks.
 */
void cluster_copies_leave_out (const struct cluster_array *a, unsigned member,
                               uint8_t states[]);
/* Does every byte that has a copy now have one in these states?  A copy counts only
 * on a member that is in-sync already and stays so, and whose disk neither has
 * failed nor is an old copy.
 */
bool cluster_copies_kept (const struct cluster_array *a,
                          const uint8_t states[]);
/* The same question, for the states with this member out. */
bool cluster_copies_can_leave_out (const struct cluster_array *a,
                                   unsigned member);
/* Is there a live writer, and is a member not in-sync?  Then its acknowledged
 * writes may not be on the readers' copies yet.
 */
bool cluster_copies_behind (const struct cluster *c,
                            const struct cluster_array *a);

/* cluster-rounds.c */
/* A writer or an in-sync member says that this round of the array's writing has
 * been begun: keep the highest.
 */
void cluster_rounds_begun (struct cluster *c, struct cluster_array *a,
                           uint64_t round);
/* A member has said its round, or has gone out: keep what several nodes bear out. */
void cluster_rounds_weigh (struct cluster *c, struct cluster_array *a);
/* Where one node's disk is alone ahead: does this disk, of which another process
 * serves an older copy, bear it out?  Then that process is known for what it is.
 */
void cluster_rounds_hear (struct cluster *c, struct cluster_disk *d,
                          const struct cluster_disk_heartbeat *hb);
/* The highest round in any report, true or not. */
uint64_t cluster_rounds_said (const struct cluster *c,
                              const struct cluster_array *a);
/* The same of a member that goes out: not beyond what the writer says who has lost it. */
uint64_t cluster_rounds_of_lost (const struct cluster *c,
                                 const struct cluster_array *a,
                                 unsigned member);
/* The writer has said its round in the present epoch, and which one was complete when it
 * took that in (0: it does not say): no member that went out before has a higher one.
 */
void cluster_rounds_settle (struct cluster *c, struct cluster_array *a,
                            const struct cluster_session *writer,
                            uint64_t entered);
/* Can it not be true that this in-sync member's disk has noted this round? */
bool cluster_rounds_refute (const struct cluster *c,
                            const struct cluster_array *a, unsigned member,
                            uint64_t round);
/* Has one node's disk alone noted rounds that all others lack, though they live, and
 * the array could not do without them?  *member: the one; *others: their highest.
 */
bool cluster_rounds_alone (const struct cluster *c,
                           const struct cluster_array *a, unsigned *member,
                           uint64_t *others);

/* cluster-stale.c */
/* Would a disk that has noted only this round be an old copy of the member's disk?
 */
bool cluster_stale_behind (const struct cluster_disk *d, uint64_t round);
/* Does this heartbeat come from an old copy of the member's disk, or from a blank
 * disk in its place, in a process that was not taken in yet?  An old copy shows by
 * a lower sequence number, min_epoch or round than the disk had.
 */
bool cluster_stale_copy (const struct cluster_disk *d,
                         const struct cluster_disk_heartbeat *hb);
/* Find old copies among the disks that are already admitted: the array's round
 * is certain only when all members have spoken.  True: there was one, and its
 * process counts as not heard.  The function looks at disks whose process no
 * writer knows; without a writer at all disks; and while a change is under way
 * at the disks that must confirm it, which have all done so when it is called.
 */
bool cluster_stale_judge (struct cluster *c, struct cluster_array *a);
/* The disk of this member, which is out, is an old copy or another disk: it is to
 * forget the array, and is then rebuilt in full.
 */
void cluster_stale_reset (struct cluster *c, struct cluster_array *a,
                          unsigned member);
/* Advice when the last copy of some data is on an old copy of a disk. */
#define OLD_COPY_WAY                                                           \
  "put the right disk back; if that is gone for good, delete the array, or "   \
  "import it from its members as they are, into a weftd with a new database"

/* cluster-doubt.c */
/* Refuse numbers that no weftd can have given; reports that can't be true, or
 * that show that the database is old.  True, or the answer: refused.
 */
bool cluster_doubt_nonsense (struct cluster *c, uint64_t op,
                             const struct cluster_disk_heartbeat *hb);
struct cluster_problem *
cluster_doubt_disk (struct cluster *c, uint64_t op, struct cluster_disk *d,
                    const struct cluster_disk_heartbeat *hb);
bool cluster_doubt_session (struct cluster *c, uint64_t op,
                            struct cluster_session *s, struct cluster_array *a,
                            const struct cluster_session_heartbeat *hb);
/* Refuse changes of a frozen array.  True: refused. */
bool cluster_doubt_refuse (struct cluster *c, uint64_t op,
                           const struct cluster_array *a);

/* cluster-key.c */
/* Note for which process of each member the tokens of the new epoch are made. */
void cluster_key_minted (const struct cluster *c, struct cluster_array *a);
/* Is there an in-sync member that refuses the tokens that were given out: because
 * it refuses the array's epoch, or because they were made for a former process?
 */
bool cluster_key_too_low (const struct cluster *c,
                          const struct cluster_array *a);

/* cluster-access.c */
/* May the session's node have it (still)? */
bool cluster_access_session (const struct cluster_array *a,
                             const struct cluster_session_record *s);
/* Put this line into the list, or in the place of the node's line.  False: there is no
 * room.
 */
bool cluster_access_put (struct cluster_allow_list *list,
                         const struct cluster_allow *allow);
void cluster_access_remove (struct cluster_allow_list *list, const char *node);
/* The list that an array begins with: the nodes of its disks. */
void cluster_access_begin (const struct cluster_array *a,
                           struct cluster_allow_list *list);
/* Refuse: the node may not attach the array. */
void cluster_access_refuse (struct cluster *c, uint64_t op,
                            const struct cluster_array *a, const char *node,
                            bool writable);

/* cluster-unequal.c */
/* Set whether copies of ranges without an owner may differ. */
void cluster_unequal_set (struct cluster *c, struct cluster_array *a,
                          bool to_recover);
/* The last writing session has ended: the next one resynchronizes the data that
 * given-back members lack.
 */
void cluster_unequal_end (struct cluster *c, struct cluster_array *a);

#endif /* WEFT_CLUSTER_TRUST_H */
