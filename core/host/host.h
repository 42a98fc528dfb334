/* host.h: the host engine: an array process's session with weftd, and the choice of
 * connections to members to make, use and report.
 *
 * A pure state machine: it gets weftd's answers, the results of connections, and the
 * time, and returns the next action.  It never
 * blocks, takes no lock, opens nothing.  The caller (the nbdkit plugin, or the
 * simulator) serialises all calls and carries out the actions.
 *
 *   weftd's answers ── host_answered, host_reported ─┐
 *   the array engine ─ host_lost, host_prepared, ... ├─► engine ── host_next
 *   connections ────── host_opened, host_seated ─────┘
 *
 * weftd speaks only in its answers to heartbeats and reports.  An answer gives
 * the epoch with the states of the members, a map with fresh tokens (as long as
 * this host does not work in that epoch yet), and the change of epoch that weftd
 * has PREPARED.  Answers may arrive out of order; the host ignores an answer
 * that is older than its present knowledge.
 *
 *   epoch   given to the array engine at once, so that requests continue which
 *           waited for a lost member.  Then members that are back are connected.
 *           Only after that does the host report that it works in the epoch.
 *   change  given to the array engine when the members that are in-sync in it
 *           are connected.  When the array engine is prepared, the host reports
 *           that to weftd at once.
 *
 * A link is a host's connection to a member, in one of these states:
 *
 *   OUT ──► WANTED ──► CONNECTING ──► UP ──► LOST ──► OUT, or WANTED again
 *                           └──────────────────►┘
 *
 * A member is connected when it is joining, or was lost and will be used
 * again.  A writer may not simply connect again: the member might carry out a
 * request of the old connection after one of the new.  weftd raises the member's
 * `fence` to an epoch when no request of an older epoch runs there any more; a
 * connection that was opened in an older epoch is then invalid, even if it
 * lives.  A reader writes nothing, so it may connect again at any time.
 *
 * A lost member is reported until it is out, or connected again, because an
 * acknowledgement may rely on a failure only after the failure is recorded.  weftd
 * does not put a member out that has the last copy of some data: then requests
 * that need the member wait.
 *
 * While weftd is silent a writer's I/O goes on.  But when the last call that weftd
 * has answered was sent SESSION_TTL_MS ago, weftd may have replaced the writer, or
 * changed the epoch without waiting for a reader: the array engine *trusts* what it
 * knows until then, and no longer (array_trust).  A reader trusts again when weftd
 * has answered and it works in the newest epoch.
 *
 * Connections to a member are numbered, so that a late report of the
 * loss of one is not mistaken for the loss of the next one.
 */

#ifndef WEFT_HOST_H
#define WEFT_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "array/array.h"

/* ---- Attach (host-attach.c) ---- */

/* So long an attach waits for a silent holder to be given up, or for members. */
#define HOST_ATTACH_WAIT_MS 15000

/* The progress of an attach; it begins as zeros. */
struct host_attach {
  bool
    service; /* it is to serve the array: it stands by for as long as it takes */
  char ended[NAME_BYTES_MAX + 1]; /* a session whose process has ended on our
                                     node, as the next request is to say */
  unsigned waited_ms;
  bool asked;        /* an answer has named the session that holds the array */
  uint64_t heard_ms; /* holder_heard_ms of the last such answer */
  unsigned signs;    /* answers that show that weftd has heard the holder since
                        the answer before */
};

/* weftd's answer to an attach. */
struct host_attach_answer {
  int status; /* of HTTP; 0 or -1: there was no answer */
  uint64_t retry_after_ms;
  const char
    *holder; /* the session that holds the array; NULL: none is named */
  uint64_t holder_heard_ms; /* so long ago weftd has heard the holder last */
  bool holder_ended; /* the holder was a process of this node, and has ended */
  bool standby; /* it is not our turn to serve; weftd has held the answer */
};

enum host_attach_next {
  HOST_ATTACHED,
  HOST_ATTACH_AGAIN, /* after *wait_ms */
  HOST_ATTACH_REFUSED,
};
enum host_attach_next
host_attach_answered (struct host_attach *a,
                      const struct host_attach_answer *answer,
                      unsigned *wait_ms);

/* ---- What weftd says ---- */

/* The array, as weftd has described it.  In an answer, what weftd has not said
 * is zero, and so is the epoch of it.
 */
struct host_view {
  uint64_t epoch; /* committed, with: */
  enum member_state states[ARRAY_MEMBERS_MAX];
  uint64_t map_epoch;                /* of the tokens, and of: */
  uint64_t fence[ARRAY_MEMBERS_MAX]; /* no request to the member of an older
                                        epoch runs any more */
  /* the member's unflushed writes of older epochs may be lost */
  uint64_t lapse[ARRAY_MEMBERS_MAX];
  uint64_t life[ARRAY_MEMBERS_MAX];  /* from this epoch on it was sent to the
                                        process that serves the member now */
  uint64_t round[ARRAY_MEMBERS_MAX]; /* which its disk had noted then */
  uint64_t change; /* the newest epoch that is PREPARED, with: */
  enum member_state change_states[ARRAY_MEMBERS_MAX];
  uint64_t all_arrived; /* the newest epoch for array_all_arrived */
};

/* An answer to a heartbeat, or to a report. */
struct host_answer {
  int status;       /* of HTTP; 0 or -1: there was no answer */
  const char *code; /* of a problem; NULL: none */
  uint64_t retry_after_ms;
  bool
    /* it brought news of leases, so the next heartbeat is due at once */
    at_once;
  struct host_view view; /* with status 200 */
};

/* ---- Life ---- */

struct host;

struct host_config {
  unsigned members;
  bool readonly;
  struct host_view view;             /* as of the attach */
  bool connected[ARRAY_MEMBERS_MAX]; /* the array engine has connection 1 */
  uint64_t heard_ms; /* when the request was sent that weftd granted: the array
                        engine trusts until SESSION_TTL_MS later */
};

/* Call this before the array engine can give its first NOTICE_LOST.  NULL: out
 * of memory.
 */
struct host *host_new (const struct host_config *c, uint64_t now_ms);
void host_free (struct host *h);

/* ---- Actions ---- */

/* In the order in which they are taken: actions that delay clients' requests
 * come first.
 */
enum host_do {
  /* The session is over: stop the array engine, and do not wait for what
   * members still have to answer.
   */
  HOST_DO_STOP = 1,
  /* Commit `epoch` with `states` to the array engine; then host_committed. */
  HOST_DO_COMMIT = 2,
  /* Prepare the array engine for `epoch` with `states`. */
  HOST_DO_PREPARE = 4,
  /* array_trust until `until_ms`; 0: that time is over, and a message says so.
   */
  HOST_DO_TRUST = 8,
  /* array_all_arrived with `epoch`. */
  HOST_DO_ALL_ARRIVED = 16,
  /* Ask array_epoch and array_arrived; then host_entered with what they say. */
  HOST_DO_ENTER = 32,
  /* Sever the old connection to `member`, and open one by the newest map; then
   * host_opened.
   */
  HOST_DO_CONNECT = 64,
  /* Tell weftd that `member` is lost; then host_reported. */
  HOST_DO_REPORT = 128,
  /* Tell weftd `epoch`, `arrived`, `prepared`, `older` and `equal` at once; then
   * host_answered.
   */
  HOST_DO_TELL = 256,
  /* Tell weftd the same in a heartbeat; then host_answered. */
  HOST_DO_BEAT = 512,
  HOST_DO_ALL = 1023,
};

struct host_action {
  enum host_do kind;
  unsigned member;
  uint64_t epoch;
  enum member_state states[ARRAY_MEMBERS_MAX];
  uint64_t arrived, prepared;
  bool older;        /* BEAT, TELL: the resync takes an older copy somewhere */
  bool equal;        /* BEAT, TELL: it is over */
  uint64_t until_ms; /* TRUST */
  bool again;        /* TRUST: after it was over */
  uint64_t connection; /* CONNECT: its number */
  bool first;          /* REPORT: weftd does not know of the loss yet */
  bool answers;        /* REPORT: as in struct array_notice ... */
  uint64_t waited_ms;  /* ... and this, up to now */
  unsigned wait_ms;    /* BEAT, TELL: how long weftd may hold its answer */
  unsigned timeout_ms; /* REPORT, BEAT, TELL: after so long give the call up */
  char reason[160];    /* REPORT */
};

/* Take the next action of these kinds that is due; false: none is.  At most one
 * of each kind that has an answer is under way, of CONNECT one for each member.
 * After each input the caller asks until there is none.
 */
bool host_next (struct host *h, uint64_t now_ms, unsigned kinds,
                struct host_action *a);

/* When to call host_next again for these kinds if no input comes before;
 * UINT64_MAX: no need.
 */
uint64_t host_due_ms (const struct host *h, uint64_t now_ms, unsigned kinds);

/* ---- Inputs ---- */

/* weftd has answered HOST_DO_BEAT or HOST_DO_TELL, or has failed to.  The caller
 * keeps the map that came with the answer if its epoch is now the map_epoch of
 * host_view.
 */
void host_answered (struct host *h, enum host_do kind,
                    const struct host_answer *a, uint64_t now_ms);

/* weftd has answered HOST_DO_REPORT, or has failed to.  Returns the message
 * about the lost member.
 */
enum host_news {
  HOST_NO_NEWS,
  HOST_RECORDED,   /* the member is out by now; work goes on without it */
  HOST_UNRECORDED, /* the loss can't be recorded, so requests to it wait */
};
enum host_news host_reported (struct host *h, const struct host_answer *a,
                              uint64_t now_ms);

/* The array engine has lost the connection of this number (NOTICE_LOST; answers,
 * waited_ms: as that says).  Returns true when the loss should be logged.
 */
bool host_lost (struct host *h, unsigned member, uint64_t connection,
                bool answers, uint64_t waited_ms, const char *reason,
                uint64_t now_ms);
void host_prepared (struct host *h, uint64_t epoch); /* NOTICE_PREPARED */
void host_committed (struct host *h, uint64_t epoch);
/* array_epoch and array_arrived say */
void host_entered (struct host *h, uint64_t epoch, uint64_t arrived);
/* The resync is over, without an error: all earlier data is in sync on all
 * copies that count, and stable.  Call it before the first client is admitted.
 */
void host_equal (struct host *h);
/* The newest copy of something can't be read: the resync takes an older one.  Before
 * that is done host_older_told must be true.
 */
void host_older (struct host *h);
/* Has weftd answered since, so that it knows it durably? */
bool host_older_told (const struct host *h);

/* HOST_DO_CONNECT has ended: `ok` says whether there is a connection, `why` why
 * there is none.  Returns true when the array engine should get the connection
 * (seats_take): then the caller calls host_seated.  *kept says whether the
 * member still has all writes that it acknowledged through the last connection,
 * flushed or not; *reach is as for array_back.  Returns false when the
 * connection is not needed: the caller closes it.
 */
bool host_opened (struct host *h, unsigned member, bool ok, const char *why,
                  bool *kept, uint64_t *reach, uint64_t now_ms);
/* The array engine has taken the connection, or could not take it.  Returns
 * true when the new connection should be logged.
 */
bool host_seated (struct host *h, unsigned member, bool taken, uint64_t now_ms);

/* The whole node goes down: members often end a moment before this process does,
 * and that is no loss to be recorded.  Called instead of host_reported; nothing is
 * reported after that.
 */
void host_ending (struct host *h);

/* The process ends.  No action comes any more. */
void host_end (struct host *h);

/* ---- What it knows ---- */

const struct host_view *host_view (const struct host *h);
bool host_is_over (const struct host *h); /* weftd has ended the session */

/* Is every member in-sync and connected, and was each so all the time, so that no
 * copy may lack a write?
 */
bool host_is_whole (const struct host *h);

/* Asserts every invariant of the engine; for tests. */
void host_check (const struct host *h);

#endif /* WEFT_HOST_H */
