/* notify.h: messages to a service manager (sd_notify(3)).
 *
 * Messages are datagrams to the socket that $NOTIFY_SOCKET names; without that
 * variable nothing is sent.
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
