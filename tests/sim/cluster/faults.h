/* faults.h: the common part of the files of faults:
 *
 *   faults.c  how often, processes, hosts, the network; and the end of it all
 *   admins.c  what administrators do meanwhile
 *   databases.c  weftd's database is old, restored from a backup, or lost
 *   hangs.c   disks that answer nothing, while their processes live
 *   sick.c    disks that are slow, lines that swallow what is sent
 *   withheld.c  members and hosts that do not say what they have done
 *   readers.c readers whose writers are gone, and a member with them
 *   copies.c  copies of disks, and disks that are moved to other hosts
 */

#ifndef WEFT_FAULTS_H
#define WEFT_FAULTS_H

#include "world.h"

/* Call fn (what) then, whoever is there. */
void fault_later (uint64_t delay, void (*fn) (void *), void *what);
uint64_t fault_outage (void); /* ns that something stays away */
/* A running member; or NULL. */
struct member_role *fault_member (void);
/* It is started, if it may be, and does not run. */
void fault_member_back (void *member);
void fault_weftd_back (void *what);
void fault_member_stop (struct member_role *m, bool power); /* for a while */
void fault_heal_network (void);
void fault_beside (void); /* a fault that may happen beside another */

/* hangs.c */
/* All other faults in force, except this member's: the number changes when a fault begins
 * or ends.  0: such a fault is in force.
 */
uint64_t fault_state_but (const struct member_role *m);
/* The same, but for disks that are slow and lines that swallow. */
uint64_t fault_state_of_others (const struct member_role *m);
/* Has the array two copies, and are all members but that at `place` in-sync, and their disks
 * there?
 */
bool fault_others_in_sync (unsigned place);
void hang_disk (struct member_role *m);
void hangs_heal (struct disk *d);

/* sick.c */
void sick_begin (void);
void sick_heal (void);

/* withheld.c */
void withhold_word (struct member_role *m);
void withhold_host (void);
bool withheld_host (const struct host_role *h);
void withheld_heal (void);
void withheld_begin (void *nothing);

/* readers.c */
void readers_alone (void);

/* admins.c */
void admin_replace (void);
void admin_spare (void);
void admin_cancel (void);
void admin_join (void);
void admin_drain (void);
void admin_maintain (void);
void admin_evict (void);
void admin_rekey (void);
void admins_heal (void);

/* databases.c */
void database_backup (void);
void database_old (void);
void database_newest (void *nothing); /* again */
void database_restore (void);         /* from the backup */
void database_lose (void);
/* A disk that replaced another one goes on alone; then the database is lost. */
void database_alone (void *nothing);
/* Something about imports, about restores. */
void database_import (void);
void database_restored (void);

/* copies.c */
void copies_fault (void);
void copies_of_one (void); /* that writes, of several */
bool copies_served (void); /* or about to be */
bool copies_doubted (void);
void copies_heal (void);

#endif /* WEFT_FAULTS_H */
