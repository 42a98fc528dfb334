/* host-internal.h: what the files of host.h share. */

#ifndef WEFT_HOST_INTERNAL_H
#define WEFT_HOST_INTERNAL_H

#include "host.h"

#define CALL_TIMEOUT_MS 10000

/* weftd is called again so long after a call came to nothing. */
#define HOST_RETRY_MS 1000

enum link_state {
  LINK_OUT,        /* the member is out */
  LINK_WANTED,     /* it is to be connected */
  LINK_CONNECTING, /* the caller is at it */
  LINK_UP,
  LINK_LOST, /* to be reported, from due_ms on, until weftd has a way */
};

struct link {
  enum link_state state;
  bool busy; /* from HOST_DO_CONNECT until that is over; UP and busy: the array
                engine may not have the connection yet */
  bool told; /* weftd knows that there is none */
  bool said; /* so do people */
  uint64_t connection; /* its number */
  uint64_t epoch;      /* of the tokens that it was last opened with */
  uint64_t lapse;      /* the member's, as of then */
  uint64_t used;       /* `epoch`, of the last that the array engine got */
  uint64_t due_ms;
  char reason[160];
};

/* A call to weftd that is repeated: the heartbeat, or what can't wait for it.
 */
struct words {
  bool under_way;
  uint64_t sent_ms, due_ms;
  uint64_t epoch, prepared; /* that it says */
};

struct host {
  unsigned members;
  bool readonly;
  struct host_view view;
  uint64_t committing; /* the newest epoch that was given to the array engine */
  uint64_t committed;  /* ... and that it has */
  uint64_t settled; /* it works in that, with a connection to every member, or
                       weftd knows better */
  uint64_t enter_due_ms;    /* when to ask again whether it does */
  uint64_t asked, prepared; /* a change: of the array engine; by it */
  uint64_t told_settled, told_prepared;
  struct words beat, tell;
  uint64_t heard_ms; /* when that was sent which weftd has answered */
  bool held;
  bool relinked; /* an in-sync member was away: copies may differ */
  bool over, stopped, ending, ended;
  bool reporting; /* a report of this member is under way: */
  unsigned reported;
  uint64_t reported_connection; /* that was lost then */
  struct link link[ARRAY_MEMBERS_MAX];
};

/* host-links.c */

/* After anything that is known of the members has changed: who is to be
 * connected?
 */
void host_links_look (struct host *h);
/* Is there a connection to each member, or does weftd know better? */
bool host_links_settled (const struct host *h);
/* Are those connected that the change counts on? */
bool host_links_may_prepare (const struct host *h);
/* When one is to be connected or reported; UINT64_MAX: none. */
uint64_t host_connect_due_ms (const struct host *h, uint64_t now_ms);
uint64_t host_report_due_ms (const struct host *h, uint64_t now_ms);
/* Fill in what is due. */
void host_connect_take (struct host *h, uint64_t now_ms, struct host_action *a);
void host_report_take (struct host *h, uint64_t now_ms, struct host_action *a);

/* host.c: what weftd has answered, to anything. */
void host_learn (struct host *h, const struct host_answer *a);

#endif /* WEFT_HOST_INTERNAL_H */
