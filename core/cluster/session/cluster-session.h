/* cluster-session.h: sessions: the conditions of an attach, the answers to heartbeats, the end.
 */

#ifndef WEFT_CLUSTER_SESSION_H
#define WEFT_CLUSTER_SESSION_H

#include "cluster/epoch/cluster-epoch.h"
#include "cluster/ground/cluster-ground.h"
#include "cluster/lease/cluster-lease.h"
#include "cluster/trust/cluster-trust.h"
#include "cluster/volume/cluster-volume.h"

/* cluster-session-end.c */
void cluster_session_end (struct cluster *c, struct cluster_session *s,
                          const char *fmt, ...)
  __attribute__ ((format (printf, 3, 4)));
/* End a session that detaches (by NULL) or is evicted, and do what follows. */
void cluster_session_end_cut (struct cluster *c, struct cluster_session *s,
                              const char *by);
/* A writing session has ended: fence its requests, and let members begin their
 * joining again if the session sent them its writes in the background.
 * detached: by itself, so all its acknowledged writes are on all copies.
 * Otherwise a member that was about to go out stays if it is well, because it
 * may have the only copy of some data.
 */
void cluster_session_end_left (struct cluster *c, struct cluster_array *a,
                               bool detached);
/* Drop the oldest ended sessions beyond ENDED_SESSIONS_MAX, but for those that members
 * have not confirmed the end of.
 */
void cluster_session_end_prune (struct cluster *c);
void cluster_session_end_tick (struct cluster *c, struct cluster_session *s);
/* The session with this number, if it is not over; else refuses. */
struct cluster_session *
cluster_session_end_find_live (struct cluster *c, uint64_t op, uint64_t id);
/* The same, if it is this process's. */
struct cluster_session *cluster_session_end_find_own (struct cluster *c,
                                                      uint64_t op, uint64_t id,
                                                      const char *instance);
/* Refuse, if there is no such session.  True: refused. */
bool cluster_session_end_refused (struct cluster *c, uint64_t op, uint64_t id);

/* cluster-attach-check.c */
/* Does the session to grant conflict with the attach?  Does this session?  A
 * silent session does in any case, whatever it writes, because it would delay
 * the next change of epoch.
 */
bool cluster_attach_check_conflicts (const struct cluster_session_record *rec,
                                     const struct cluster_attach *attach);
bool cluster_attach_check_in_the_way (const struct cluster_session *s,
                                      const struct cluster_attach *attach);
/* The session that is in the way of one that is to write, one that is not silent before
 * others; NULL: none is.
 */
struct cluster_session *
cluster_attach_check_holder (const struct cluster_array *a,
                             const struct cluster_attach *attach);
/* Does this one write where nobody else does, when all have gone that are in its way?
 * Then all members are fenced for it.
 */
bool cluster_attach_check_alone (const struct cluster_array *a,
                                 const struct cluster_attach *attach);
/* Is the member missing?  late: it is as well if it has not confirmed in time. */
bool cluster_attach_check_missing (const struct cluster_array *a,
                                   unsigned member, bool late,
                                   const char **why);
/* Refuse: this one holds the array.  quiet: it may be replaced when it has been silent
 * for long enough.
 */
struct cluster_problem *cluster_attach_check_refuse_held (
  struct cluster *c, uint64_t op, const struct cluster_array *a,
  const struct cluster_session_record *holder, uint64_t silent_ms, bool quiet);
/* Refuse an attach because of its caller (*takes_over: the caller may take the
 * array from a live holder); because of the request; because of the array's
 * present state.  True: refused.  fences: as of cluster_attach_check_alone.
 * states: in which the array starts.
 */
bool cluster_attach_check_refuse_asker (struct cluster *c, uint64_t op,
                                        const struct cluster_array *a,
                                        const struct cluster_attach *attach,
                                        bool *takes_over);
bool cluster_attach_check_refuse_wish (struct cluster *c, uint64_t op,
                                       const struct cluster_array *a,
                                       const struct cluster_attach *attach,
                                       bool fences);
bool cluster_attach_check_refuse_now (struct cluster *c, uint64_t op,
                                      struct cluster_array *a, bool fences,
                                      uint8_t states[]);
/* Two reasons of the last kind.  Another writer has lost a member, or does not
 * know yet that one was started again.  Or a member is missing (late: as above)
 * that can't be left out because data would be lost, or because it is just
 * being started.
 */
bool cluster_attach_check_refuse_beside (struct cluster *c, uint64_t op,
                                         const struct cluster_array *a);
bool cluster_attach_check_refuse_members (struct cluster *c, uint64_t op,
                                          struct cluster_array *a, bool late,
                                          uint8_t states[]);

/* cluster-candidates.c */
/* Which candidate of the array's service is this node?  a->rec.service_nodes: it is
 * none.
 */
unsigned cluster_candidate_find (const struct cluster_array *a,
                                 const char *node);
/* This process of that candidate asks to serve. */
void cluster_candidate_asked (struct cluster *c, struct cluster_array *a,
                              unsigned i, const char *instance);
/* Is whoever holds the array gone, as far as this attach may count on that?  Silent
 * for its TTL; or its own node, which attaches, says that its process has ended.
 * holder: NULL: nobody holds it.
 */
bool cluster_candidate_holder_gone (const struct cluster *c,
                                    const struct cluster_session *holder,
                                    const struct cluster_attach *attach);
/* Is it the turn of this process to serve? */
bool cluster_candidate_turn (const struct cluster *c,
                             const struct cluster_array *a,
                             const struct cluster_attach *attach);
/* How many clients have not reached this node of late, when it served? */
unsigned cluster_candidate_missed (const struct cluster *c,
                                   const struct cluster_array *a,
                                   const char *server);
/* Which candidate is the better one to serve: the less. */
unsigned cluster_candidate_rank (const struct cluster *c,
                                 const struct cluster_array *a, unsigned i);
/* The service is to move to this node. */
void cluster_candidate_order (const struct cluster *c, struct cluster_array *a,
                              const char *node);
/* Is this session to leave off serving, for another? */
bool cluster_candidate_leaves (const struct cluster *c,
                               const struct cluster_array *a,
                               const struct cluster_session *s);
/* Tell by an event who stands by, where that has changed. */
void cluster_candidate_tick (struct cluster *c, struct cluster_array *a);

/* cluster-overdue.c */
/* Let the clocks of all words go on that the array waits for. */
void cluster_overdue_tick (struct cluster *c, struct cluster_array *a);

/* cluster-tell.c */
/* Answer the disk's long poll.  True: there was one. */
bool cluster_tell_wake_disk (struct cluster *c, struct cluster_disk *d);
/* Reply to a session's heartbeat or report. */
void cluster_tell_reply_session (struct cluster *c, uint64_t op,
                                 const struct cluster_array *a,
                                 struct cluster_session *s);
/* Answer the long poll where there is news, or (at_once) in any case. */
void cluster_tell_disk (struct cluster *c, struct cluster_disk *d,
                        bool at_once);
void cluster_tell_session (struct cluster *c, struct cluster_session *s,
                           bool at_once);
/* Answer the long polls of all its disks and sessions where there is news. */
void cluster_tell_array (struct cluster *c, const struct cluster_array *a);
/* Refuse: another change of epoch is under way; ask again. */
void cluster_tell_changing (struct cluster *c, uint64_t op,
                            const struct cluster_array *a);
void cluster_tell_grant (struct cluster *c, uint64_t op,
                         struct cluster_array *a,
                         const struct cluster_session_record *rec);
/* Answer a report of a lost member: more can't be done about it now. */
void cluster_tell_lost_end (struct cluster *c, struct waiting *w);
/* The array's change of epoch is COMMITted: grant the attaches that waited for it.
 * prepared: all sessions had prepared themselves for it.
 */
void cluster_tell_committed (struct cluster *c, struct cluster_array *a,
                             bool prepared);

#endif /* WEFT_CLUSTER_SESSION_H */
