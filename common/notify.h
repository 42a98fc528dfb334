/* notify.h: what a service manager wants to hear (sd_notify(3)).
 *
 * Datagrams to the socket that $NOTIFY_SOCKET names; nothing at all where there
 * is none.
 */

#ifndef WEFT_NOTIFY_H
#define WEFT_NOTIFY_H

/* Clients are served from now on. */
void notify_ready (void);
/* weftd's loop goes round.  The loop itself calls this, more often than the service
 * manager's limit, so that a loop that hangs is noticed.
 */
void notify_watchdog (void);
void notify_stopping (void);

#endif /* WEFT_NOTIFY_H */
