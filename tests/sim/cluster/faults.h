/* faults.h: what the files of faults have in common:
 *
 *   faults.c  how often, processes, hosts, the network; and the end of it all
 *   admins.c  what administrators do meanwhile
 *   hangs.c   disks that answer nothing, while their processes live
 *   copies.c  copies of disks, and disks that are moved to other hosts
 */

#ifndef WEFT_SIM_CLUSTER_FAULTS_H
#define WEFT_SIM_CLUSTER_FAULTS_H

#include "world.h"

/* Call fn (what) then, whoever is there. */
void fault_later (uint64_t delay, void (*fn) (void *), void *what);
uint64_t fault_outage (void); /* ns that something stays away */
/* One that runs; or NULL. */
struct member_role *fault_member (void);
/* It is started, if it may be, and does not run. */
void fault_member_back (void *member);
void fault_weftd_back (void *what);
void fault_member_stop (struct member_role *m, bool power); /* for a while */
void fault_beside (void); /* what may happen beside a fault */

/* hangs.c */
void hang_disk (struct member_role *m);
void hangs_heal (struct disk *d);

/* admins.c */
void admin_replace (void);
void admin_spare (void);
void admin_cancel (void);
void admin_join (void);
void admin_drain (void);
void admin_maintain (void);
void admin_evict (void);
void admin_rekey (void);
void admin_lose_database (void);
void admin_lose_after_replace (void);
void admins_heal (void);

/* copies.c */
void copies_fault (void);
void copies_of_one (void); /* that writes, of several */
bool copies_served (void); /* or about to be */
void copies_heal (void);

#endif /* WEFT_SIM_CLUSTER_FAULTS_H */
