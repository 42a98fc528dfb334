/* control-lease.h: a session that shares its array by leases
 * (core/host/lessee.h): asks weftd for leases, gives them back, and recovers
 * the leases of a dead session.
 */

#ifndef WEFT_CONTROL_LEASE_H
#define WEFT_CONTROL_LEASE_H

#include "control.h"

/* The resync of the attach is done: it was what control_order is for. */
void control_lease_recovered (struct control *c);

/* Start the threads, after control_start.  0 or an errno. */
int control_lease_start (struct control *c);

/* Take NOTICE_LEASE or NOTICE_LEFT, as control_notice does others. */
void control_lease_notice (struct control *c, const struct array_notice *n);

/* End the threads, before engine_end.  If a recovery does not end in time, all requests
 * are failed.  Returns whether weftd knows what of all that we were to recover is not: if
 * not, the session has no clean end.
 */
bool control_lease_stop (struct control *c);

#endif /* WEFT_CONTROL_LEASE_H */
