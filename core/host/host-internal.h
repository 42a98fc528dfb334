/* host-internal.h: shared by the files of host.h. */

#ifndef WEFT_HOST_INTERNAL_H
#define WEFT_HOST_INTERNAL_H

#include "host.h"

#define CALL_TIMEOUT_MS 10000

/* weftd is called again so long after a call came to nothing. */
#define HOST_RETRY_MS 1000

enum link_state {
  LINK_OUT,        /* the member is out */
  LINK_WANTED,     /* it should be connected */
  LINK_CONNECTING, /* the caller is connecting it */
  LINK_UP,
  /* it is reported, from due_ms on, until it is out or should be connected
   * again
   */
  LINK_LOST,
};

struct link {
  enum link_state state;
  bool busy; /* from HOST_DO_CONNECT until host_seated, or until it has failed;
                UP and busy: the array engine may not have the connection yet */
  bool told; /* weftd knows that there is no connection */
  bool said; /* a message says that the loss can't be recorded */
  uint64_t connection;         /* the number of the newest connection */
  uint64_t epoch;              /* of the tokens with which that was opened */
  uint64_t lapse, life, round; /* host_view's of the member, as of then */
  uint64_t used; /* `epoch` of the newest connection that the array engine
                    has */
  uint64_t due_ms;
  bool answers;           /* LOST: it is reached, and answers with errors */
  uint64_t waits_from_ms; /* LOST: since then a request has waited for it */
  char reason[160];
};

/* A call to weftd that is repeated: the heartbeat, or the extra call that says
 * what can't wait for the next heartbeat.
 */
struct words {
  bool under_way;
  uint64_t sent_ms, due_ms;
  uint64_t epoch, arrived, prepared; /* values in the call under way */
  bool older, equal;
};

struct host {
  unsigned members;
  bool readonly;
  struct host_view view;
  uint64_t committing; /* the newest epoch that was given to the array engine */
  uint64_t committed;  /* the newest one that the array engine has taken */
  uint64_t settled; /* the newest epoch that this host works in: it is connected
                       to every member, or weftd knows that it is not */
  uint64_t enter_due_ms; /* when to ask the array engine for its epoch again */
  uint64_t arrived;      /* the newest epoch that array_arrived has given */
  uint64_t asked, prepared; /* the newest change that the array engine was asked
                               to prepare for, and that it is prepared for */
  bool older, equal;        /* the resync takes an older copy; it is over */
  uint64_t told_settled, told_arrived,
    told_prepared; /* the last values that weftd has */
  bool told_older, told_equal;
  struct words beat, tell;
  uint64_t heard_ms; /* when the newest call was sent that weftd has answered */
  uint64_t all_arrived; /* as the array engine knows it */
  uint64_t trusts_ms;   /* the array engine trusts until then */
  bool distrusts;       /* a message says that this is over */
  bool relinked; /* an in-sync member was connected again: copies may differ */
  bool over, stopped, ending, ended;
  bool reporting; /* a report of this member is under way: */
  unsigned reported;
  uint64_t reported_connection; /* that was lost then */
  struct link link[ARRAY_MEMBERS_MAX];
};

/* host-links.c */

/* Find out again which members should be connected; called whenever a fact
 * about the members has changed.
 */
void host_links_look (struct host *h);
/* Is each member that is not out either connected, or known to weftd as lost? */
bool host_links_settled (const struct host *h);
/* Is each member connected that becomes in-sync by the change? */
bool host_links_may_prepare (const struct host *h);
/* The first member that should be connected; h->members: none. */
unsigned host_links_connect_due (const struct host *h);
/* The time of the next report of a lost member; UINT64_MAX: none is due. */
uint64_t host_links_report_due_ms (const struct host *h);
/* Take the member that is due, and fill the action in. */
void host_links_connect_take (struct host *h, struct host_action *a);
void host_links_report_take (struct host *h, struct host_action *a,
                             uint64_t now_ms);

/* host-view.c: take in what weftd has answered, to whichever call.  True: it has told
 * its view; host_links_look sees what follows for the connections.
 */
bool host_view_learn (struct host *h, const struct host_answer *a);

#endif /* WEFT_HOST_INTERNAL_H */
