/* cluster-inputs.h: inputs from disks, sessions, administrators and the clock.  Each changes
 * objects by the rules of the rooms below, and ends in the pump.
 */

#ifndef WEFT_CLUSTER_INPUTS_H
#define WEFT_CLUSTER_INPUTS_H

#include "cluster/epoch/cluster-epoch.h"
#include "cluster/ground/cluster-ground.h"
#include "cluster/lease/cluster-lease.h"
#include "cluster/pump/cluster-pump.h"
#include "cluster/repair/cluster-repair.h"
#include "cluster/session/cluster-session.h"
#include "cluster/trust/cluster-trust.h"
#include "cluster/volume/cluster-volume.h"

/* cluster-admit.c */
/* Is this heartbeat to be taken in?  d: the disk that it names; NULL: unknown.
 * False: it was refused, or waits until the process that is known has spoken.
 */
bool cluster_admit (struct cluster *c, uint64_t op, struct cluster_disk *d,
                    const struct cluster_disk_heartbeat *hb);
/* The known process of the disk has spoken: others that ask for its place are
 * refused.
 */
void cluster_admit_others (struct cluster *c, struct cluster_disk *d);

/* cluster-disk.c */
void cluster_disk_take_over (struct cluster *c, struct waiting *w);
void cluster_disk_tick (struct cluster *c, struct cluster_disk *d);

/* cluster-disk-orders.c */
/* Refuse, if the disk can't be forgotten.  True: refused. */
bool cluster_disk_order_forget_refused (struct cluster *c, uint64_t op,
                                        const uint8_t uuid[16]);
/* Forget the disk; cluster_disk_order_drop: without a word in the log. */
void cluster_disk_order_remove (struct cluster *c, struct cluster_disk *d);
void cluster_disk_order_drop (struct cluster *c, struct cluster_disk *d);

/* cluster-found.c */
/* Judge a finished scan: then each volume that is found has a UUID and a name of its own. */
void cluster_found_settle (struct cluster *c, const struct cluster_input *in,
                           const struct cluster_array *a);
/* Is a volume found of this UUID, or of this name? */
bool cluster_found_uuid (const struct cluster_pool *p, const uint8_t uuid[16]);
bool cluster_found_name (const struct cluster_pool *p, const char *name);

/* cluster-attach.c */
/* An attach has waited too long for members to confirm: go on without them, or
 * refuse it.
 */
void cluster_attach_late (struct cluster *c, struct waiting *w);
/* The session that holds the array was asked to speak, and has said nothing or is
 * over; or members were, and have spoken; or it is the turn of a process that stood by; or
 * the attach has waited for long enough: try it again.
 */
void cluster_attach_unchallenged (struct cluster *c, struct waiting *w);
/* Have all members spoken, or are missing, for which this attach waits? */
bool cluster_attach_heard (const struct waiting *w);
/* Refuse a heartbeat of a reader that a change of epoch did not wait for when a
 * member went out (`epoch`: in which the reader works). It gets the newer epoch
 * only when the writer has prepared itself.  True: refused.
 */
bool cluster_attach_refuse_late (struct cluster *c, uint64_t op,
                                 struct cluster_array *a,
                                 struct cluster_session *s, uint64_t epoch);
/* The holder has spoken: refuse the attaches that waited to see whether it does. */
void cluster_attach_refuse_challengers (struct cluster *c,
                                        struct cluster_session *holder);

/* cluster-service.c */
/* Refuse, if the service can't be ended.  True: refused. */
bool cluster_service_drop_refused (struct cluster *c, uint64_t op,
                                   const char *array);

/* cluster-bad.c */
/* Order the session to copy blocks again that are bad on one member and good on
 * another.
 */
void cluster_bad_mend (struct cluster *c, const struct cluster_array *a,
                       struct cluster_session *s);

/* cluster-reach.c */
/* Move the service, if clients do not reach it where it is. */
void cluster_reach_tick (struct cluster *c, struct cluster_array *a);

/* cluster-fence.c */
/* Is nothing of this waiting fence left to be confirmed? */
bool cluster_fence_done (const struct cluster *c, const struct waiting *w);
/* It is done, or has waited for too long: answer it. */
void cluster_fence_end (struct cluster *c, struct waiting *w);
bool cluster_node_remove_refused (struct cluster *c, uint64_t op,
                                  const char *name);

/* cluster-node.c */
/* Refuse, if the node can't be put in maintenance, drained, removed.  True:
 * refused.
 */
bool cluster_node_maintain_refused (struct cluster *c, uint64_t op,
                                    const char *name, bool on, bool force);
bool cluster_node_drain_refused (struct cluster *c, uint64_t op,
                                 const char *name);
/* The same as far as the node itself matters: there is none of this name, there is no
 * room for a record, or weftd takes no changes.
 */
bool cluster_node_refused (struct cluster *c, uint64_t op, const char *name);
/* Have all members confirmed what was ordered?  Answer an order to shut out. */
bool cluster_node_shut_out_done (const struct cluster *c);
void cluster_node_shut_out_end (struct cluster *c, struct waiting *w);
/* Nodes were shut out while no changes were taken: end their sessions. */
void cluster_node_tick (struct cluster *c);
/* Its record, which there is from now on. */
struct cluster_node *cluster_node_keep (struct cluster *c, const char *name);

/* cluster-array.c */
/* Refuse, if the array can't be made, its loss not accepted, or it not be deleted.
 * True: refused.  plan: as for cluster_array_plan.
 */
bool cluster_array_create_refused (struct cluster *c, uint64_t op,
                                   const struct cluster_create *create,
                                   struct cluster_array *plan);
bool cluster_bad_loss_refused (struct cluster *c, uint64_t op, const char *name,
                               const struct cluster_loss *loss);
bool cluster_array_delete_refused (struct cluster *c, uint64_t op,
                                   const char *name);

/* cluster-pool.c */
/* Refuse a process's message about a pool whose state weftd does not know for sure yet.  True:
 * refused.
 */
bool cluster_pool_refuse_early (struct cluster *c, uint64_t op,
                                struct cluster_array *a);
/* Refuse an administrator's order for a volume, if it can't be done.  True: refused. */
bool cluster_pool_create_refused (struct cluster *c, uint64_t op,
                                  const char *array, const char *name,
                                  uint64_t size);
bool cluster_pool_resize_refused (struct cluster *c, uint64_t op,
                                  const char *array, const char *name,
                                  uint64_t size);
bool cluster_pool_delete_refused (struct cluster *c, uint64_t op,
                                  const char *array, const char *name);

/* cluster-member.c */
/* Refuse what an administrator asks for, if it can't be done.  True: refused. */
bool cluster_member_replace_refused (struct cluster *c, uint64_t op,
                                     const char *array, unsigned member,
                                     const uint8_t disk[16], bool force);
bool cluster_member_cancel_refused (struct cluster *c, uint64_t op,
                                    const char *array, unsigned member);

/* cluster-access-order.c */
/* Refuse, if the array's list can't be changed so (drop: its line goes).  True: refused.
 * next: the list as it would be; may be NULL.
 */
bool cluster_access_order_refused (struct cluster *c, uint64_t op,
                                   const char *array,
                                   const struct cluster_allow *allow, bool drop,
                                   struct cluster_allow_list *next);
/* The node is gone: it may attach nothing, and serve nothing. */
void cluster_access_order_forget (struct cluster *c, const char *node);

/* cluster-import-plan.c: see cluster-import.h, and: */
/* Was it heard lately, and not imported since? */
bool cluster_import_plan_is_heard (const struct cluster *c,
                                   const struct cluster_foreign *f);
/* Does this disk know this epoch, in which its member is in-sync (I1 in docs/PROTOCOL.md)? */
bool cluster_import_plan_knows (const struct cluster_disk_heartbeat *hb,
                                uint64_t epoch);

/* cluster-import.c */
/* Refuse what cluster_array_import would; plan: as for cluster_import_refused. */
struct cluster_import_plan;
bool cluster_import_order_refused (struct cluster *c, uint64_t op,
                                   const struct cluster_import *import,
                                   struct cluster_import_plan *plan);
/* Keep what a disk that is not ours says of itself. */
void cluster_import_note (struct cluster *c,
                          const struct cluster_disk_heartbeat *hb);
/* Drop old reports; drop the reports of this array's disks. */
void cluster_import_tick (struct cluster *c);
void cluster_import_forget (struct cluster *c, const uint8_t array[16]);
/* As good as fresh random bytes for each disk, or for each member of an array. */
void cluster_import_key (const uint8_t random[KEY_BYTES],
                         const uint8_t uuid[16], unsigned m,
                         uint8_t key[KEY_BYTES]);
/* With which rounds does another disk of each member know no more than these? */
void cluster_import_rounds (struct cluster_array *a,
                            const uint64_t round[ARRAY_MEMBERS_MAX]);
/* Make the record of a member's disk from the disk's report; hb NULL: a
 * stand-in for a disk that is absent.
 */
void cluster_import_disk (struct cluster *c, const struct cluster_input *in,
                          const struct cluster_disk_heartbeat *hb, unsigned m,
                          struct cluster_array *a);
/* Does this disk, which says that it is a member of the array, describe the array
 * as the disks did from which it was imported?
 */
bool cluster_import_agrees (const struct cluster *c,
                            const struct cluster_array *a,
                            const struct cluster_disk_heartbeat *hb);
/* A member that an import did not find has sent its first heartbeat: it gets its
 * place.
 */
void cluster_import_return (struct cluster *c, struct cluster_disk *d,
                            const struct cluster_disk_heartbeat *hb);

/* cluster-restore.c */
/* Refuse as cluster_array_restore would.  If it is not refused: which members
 * would be out, and which have a disk that is an old copy.
 */
bool cluster_restore_refused (struct cluster *c, uint64_t op,
                              const struct cluster_import *order,
                              bool out[ARRAY_MEMBERS_MAX],
                              bool old[ARRAY_MEMBERS_MAX]);
/* If it is not refused: a doubt whose loss it accepts.  Begin with *next = 0; false: there is
 * none left.
 */
bool cluster_restore_doubts (const struct cluster *c,
                             const struct cluster_import *order, unsigned *next,
                             char *text, size_t size);
/* At the start: the database is a backup that was put in place. */
void cluster_restore_begin (struct cluster *c, const struct cluster_input *in);
/* Restore each array of which enough members were heard. */
void cluster_restore_tick (struct cluster *c, const struct cluster_input *in);

#endif /* WEFT_CLUSTER_INPUTS_H */
