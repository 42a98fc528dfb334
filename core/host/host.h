/* host.h: the host engine: an array process's session with weftd, and which of
 * its connections to members are to be made, used and reported.
 *
 * A pure state machine: it is told what weftd has answered, what has become of
 * connections, and the time, and it says what is to be done next.  It never
 * blocks, takes no lock, opens nothing.  The caller (the nbdkit plugin, or the
 * simulator) serialises all calls and carries out the actions.
 *
 *   weftd's answers ── host_answered, host_reported ─┐
 *   the array engine ─ host_lost, host_prepared, ... ├─► engine ── host_next
 *   connections ────── host_opened, host_seated ─────┘
 *
 * weftd has its say in the answers to heartbeats and reports: the epoch with
 * the states of the members, a map with fresh tokens while we are not in that
 * epoch yet, and the change that it has PREPARED.  Answers may cross; what is
 * older than what we know is ignored.
 *
 *   epoch   committed to the array engine at once: work that a lost member held
 *           up goes on.  Then members that are back are connected.  Only when
 *           that is done do we say that we are in the epoch.
 *   change  given to the array engine when the members that it counts on are
 *           connected.  That the engine is prepared is told at once.
 *
 * A link is what a host has to a member:
 *
 *   OUT ──► WANTED ──► CONNECTING ──► UP ──► LOST ──► OUT, or WANTED again
 *                           └──────────────────►┘
 *
 * A member is connected when it is joining, or was lost and is to be used
 * again.  A writer may not simply connect again: what it asked before may still
 * be executed behind the new connection.  weftd says by the member's `fence`
 * that all of that is over; a connection that is older is no use, even if it
 * lives.  A reader has nothing to fear, and may.
 *
 * A lost member is reported until it is out, or back, for nothing may be
 * acknowledged on the strength of a failure that is not recorded.  While weftd
 * does not leave it out (it has the last copy of something) what needs it
 * waits.
 *
 * While weftd is silent a writer's I/O goes on.  A reader holds its reads when
 * weftd may have passed it over: when what weftd answered last was asked
 * SESSION_TTL_MS ago.
 *
 * Connections to a member are numbered.  The loss of one says nothing of the
 * next one, however late it is heard of.
 */

#ifndef WEFT_HOST_H
#define WEFT_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "array/array.h"

/* ---- Attach (host-attach.c) ---- */

#define HOST_ATTACH_WAIT_MS 15000 /* for a silent holder, or for members */

/* What an attach has come to so far; it begins as zeros. */
struct host_attach {
  char ended[NAME_BYTES_MAX + 1]; /* to be said in the next request: this
                                     session's process has ended on our node */
  unsigned waited_ms;
  bool asked;        /* who holds the array was named before, ... */
  uint64_t heard_ms; /* ... and had been heard so long ago */
  unsigned signs;    /* of life of its that were seen since */
};

/* weftd's answer to it. */
struct host_attach_answer {
  int status; /* of HTTP; 0 or -1: there was no answer */
  uint64_t retry_after_ms;
  const char *holder; /* the session of who holds the array; NULL: none named */
  uint64_t holder_heard_ms; /* when that was heard last: so long ago */
  bool holder_ended;        /* it was a process of this node that has ended */
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

/* The array, as weftd has described it.  In an answer, what is not said is
 * zero: an epoch of 0 says nothing.
 */
struct host_view {
  uint64_t epoch; /* committed, with: */
  enum member_state states[ARRAY_MEMBERS_MAX];
  uint64_t map_epoch;                /* of the tokens, and of: */
  uint64_t fence[ARRAY_MEMBERS_MAX]; /* all that was asked of a member in older
                                        epochs is over */
  uint64_t lapse[ARRAY_MEMBERS_MAX]; /* what it had not flushed in older epochs
                                        may be gone */
  uint64_t change; /* the newest epoch that is PREPARED, with: */
  enum member_state change_states[ARRAY_MEMBERS_MAX];
};

/* An answer to a heartbeat, or to a report. */
struct host_answer {
  int status;       /* of HTTP; 0 or -1: there was no answer */
  const char *code; /* of a problem; NULL: none */
  uint64_t retry_after_ms;
  struct host_view view; /* with status 200 */
};

/* ---- Life ---- */

struct host;

struct host_config {
  unsigned members;
  bool readonly;
  struct host_view view;             /* as of the attach */
  bool connected[ARRAY_MEMBERS_MAX]; /* the array engine has connection 1 */
  uint64_t heard_ms; /* when the attach was asked for that was granted */
};

/* Made before the array engine may tell of a loss.  NULL: out of memory. */
struct host *host_new (const struct host_config *c, uint64_t now_ms);
void host_free (struct host *h);

/* ---- Actions ---- */

enum host_do {
  HOST_DO_STOP = 1, /* the session is over: the array engine is stopped, and
                       nothing is waited for that a member owes */
  HOST_DO_COMMIT =
    2, /* `epoch`, `states` to the array engine; host_committed */
  HOST_DO_PREPARE = 4, /* the same, as prepared */
  HOST_DO_HOLD = 8,    /* `hold`: the array engine answers no reads, or again */
  HOST_DO_ENTER = 16,  /* ask the array engine in which epoch it is by now;
                          host_entered */
  HOST_DO_CONNECT = 32, /* sever the old connection to `member`, and open one by
                           the newest map; host_opened */
  HOST_DO_REPORT = 64,  /* tell weftd that `member` is lost; host_reported */
  HOST_DO_TELL = 128,   /* say `epoch`, `prepared` at once; host_answered */
  HOST_DO_BEAT = 256,   /* the same in a heartbeat; host_answered */
  HOST_DO_ALL = 511,
};

struct host_action {
  enum host_do kind;
  unsigned member;
  uint64_t epoch;
  enum member_state states[ARRAY_MEMBERS_MAX];
  uint64_t prepared;
  bool hold;
  uint64_t connection; /* CONNECT: its number */
  bool first;          /* REPORT: weftd does not know of the loss yet */
  unsigned wait_ms;    /* BEAT, TELL: how long weftd may keep it */
  unsigned timeout_ms; /* REPORT, BEAT, TELL: without an answer for so long
                          there was none */
  char reason[160];    /* REPORT */
};

/* Take the next action of these kinds that is due.  At most one of each kind
 * that has an answer is under way, of CONNECT one for each member.  After each
 * input the caller asks until it says false.
 */
bool host_next (struct host *h, uint64_t now_ms, unsigned kinds,
                struct host_action *a);

/* When host_next wants to be asked again for these kinds, without an input
 * before; UINT64_MAX: no need.
 */
uint64_t host_due_ms (const struct host *h, uint64_t now_ms, unsigned kinds);

/* ---- Inputs ---- */

/* To the heartbeat, or to what was told (HOST_DO_BEAT, HOST_DO_TELL).  The
 * caller keeps the map that came with it if host_view says that it is the
 * newest.
 */
void host_answered (struct host *h, enum host_do kind,
                    const struct host_answer *a, uint64_t now_ms);

/* To the report that is under way.  What people are to hear of the member: */
enum host_news {
  HOST_NO_NEWS,
  HOST_RECORDED,   /* it is out by now; work goes on without it */
  HOST_UNRECORDED, /* it can't be recorded, so requests to it wait */
};
enum host_news host_reported (struct host *h, const struct host_answer *a,
                              uint64_t now_ms);

/* The array engine has lost the connection of this number (NOTICE_LOST).
 * True: people are to hear of it.
 */
bool host_lost (struct host *h, unsigned member, uint64_t connection,
                const char *reason, uint64_t now_ms);
void host_prepared (struct host *h, uint64_t epoch); /* NOTICE_PREPARED */
void host_committed (struct host *h, uint64_t epoch);
void host_entered (struct host *h, uint64_t epoch); /* array_epoch says */

/* The connection was made, or could not be.  True: the array engine is to get
 * it (seats_take), and then host_seated follows.  kept: what was asked by the
 * last one is still there, be it stable or not.  False: it is no use, and is
 * closed.
 */
bool host_opened (struct host *h, unsigned member, bool ok, const char *why,
                  bool *kept, uint64_t now_ms);
/* The array engine has it, or could not take it.  True: people are to hear that
 * the member is connected again.
 */
bool host_seated (struct host *h, unsigned member, bool taken, uint64_t now_ms);

/* The whole node goes down: members often end a moment before we do, and that
 * is no loss to be recorded.  Said instead of host_reported; nothing is
 * reported any more.
 */
void host_ending (struct host *h);

/* The process ends.  No action comes any more. */
void host_end (struct host *h);

/* ---- What it knows ---- */

const struct host_view *host_view (const struct host *h);
bool host_is_over (const struct host *h); /* weftd has ended the session */

/* Is every member in-sync and reached, and has all that was ever written? */
bool host_is_whole (const struct host *h);

/* Asserts every invariant of the engine; for tests. */
void host_check (const struct host *h);

#endif /* WEFT_HOST_H */
