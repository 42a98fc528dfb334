/* follow.h: a client of an array's service: which process it is connected to.
 *
 * A pure state machine: it gets weftd's answers about the service, the results of
 * connections, and the time, and returns the next action.  The caller (the
 * nbdkit plugin, or a test) serialises all calls and carries out the actions.
 *
 *   SEEK ──► OPENING ──► FLUSHING ──► CHECKING ──► UP ──► SEEK
 *
 * The client asks weftd for the serving process each second, and more often while it has
 * no connection.  It also reports whether it reaches that process, so that weftd can move
 * the service.  It leaves a connection when the connection breaks, when weftd names another
 * session, or when weftd reports that the array has lapsed since.
 * The array's epochs fence the members against an ended server.  A live server, to which
 * we connect again, first ends all requests of our earlier connections (their numbers
 * grow).  Unanswered requests can therefore be sent again.
 *
 * Acknowledged writes are checked: on a new connection the client sends a FLUSH, and asks
 * weftd again after that.  If the FLUSH did not fail, and the array has no lapse beyond
 * the epoch of our last connection, no acknowledged write is lost.  (A lapse before the
 * FLUSH's end is known to weftd by then; a later one takes no stable data.)  Otherwise
 * data may be lost.
 */

#ifndef WEFT_FOLLOW_H
#define WEFT_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bounds.h"

#define FOLLOW_URI_BYTES 512
#define FOLLOW_ARRAY_BYTES 40
#define FOLLOW_CONNECT_MS 2500 /* time to connect to the serving process */

/* weftd's answer about the service. */
struct follow_answer {
  int status;   /* of HTTP; 0 or -1: there was no answer */
  bool refused; /* our node may not attach the array (any more) */
  char array[FOLLOW_ARRAY_BYTES]; /* its UUID */
  uint64_t epoch, lapse;
  uint64_t fences; /* the number of the newest fence */
  uint64_t
    /* processes on our node that were started before that number are refused */
    below;
  char session[NAME_BYTES_MAX + 1]; /* that serves; "": none */
  char uri[FOLLOW_URI_BYTES];
};

enum follow_do {
  FOLLOW_ASK, /* ask weftd, and say whether `session` is reached; then follow_heard */
  FOLLOW_OPEN, /* connect to `uri`; then follow_opened */
  FOLLOW_FLUSH, /* send a FLUSH, if none is under way there, and wait for its end for
                   HEARTBEAT_MS at most; then follow_flushed */
  FOLLOW_TAKE,  /* use the connection; then follow_taken */
  FOLLOW_DROP,  /* close it: it is no longer needed */
  FOLLOW_LEAVE, /* break the connection that is used */
  FOLLOW_STOP,  /* our node was fenced, or may not attach the array: fail every
                   request from now on.  No other
                   action follows */
};

struct follow_action {
  enum follow_do kind;
  char session[NAME_BYTES_MAX + 1]; /* OPEN, ASK; "": ASK says nothing of it */
  bool reached;                     /* ASK */
  char uri[FOLLOW_URI_BYTES];
  uint64_t number;     /* OPEN: of this connection, greater than all before */
  uint64_t fences;     /* OPEN: the newest fence when we were started */
  uint64_t connection; /* TAKE: counts those that were taken, from 1 on */
  bool kept;           /* TAKE, LEAVE: all that was answered before is there */
};

enum follow_state {
  FOLLOW_SEEK,
  FOLLOW_OPENING,
  FOLLOW_FLUSHING,
  FOLLOW_CHECKING,
  FOLLOW_UP,
};

/* The result of a FLUSH. */
enum follow_flush {
  FOLLOW_PENDING, /* it is still under way */
  FOLLOW_STABLE,
  FOLLOW_GONE,   /* it has failed: something may be gone */
  FOLLOW_BROKEN, /* the connection has */
};

/* It begins as zeros. */
struct follow {
  enum follow_state state;
  bool busy;      /* an action that has an answer is under way */
  bool found;     /* SEEK: there is somebody to connect to */
  bool unreached; /* SEEK: `session` was lost or tried, and not reached since */
  bool leaves, drops; /* that is due */
  bool begun;         /* weftd has answered, us or an earlier process: */
  uint64_t fences;    /* the newest fence then */
  bool over,
    stopped;       /* our node was fenced since, or is refused; weftd said so */
  bool checked;    /* CHECKING: the connection may be taken */
  bool stranger;   /* the array of this name is not the one that was */
  bool gone;       /* a FLUSH has failed since a connection was taken */
  uint64_t due_ms; /* when weftd is asked again */
  uint64_t number, connection;
  uint64_t lost; /* the last connection that was lost */
  uint64_t
    used; /* the array's epoch when the last connection was taken; 0: there
                     was none */
  uint64_t epoch; /* the same, of the one that is being checked */
  bool kept;
  char array[FOLLOW_ARRAY_BYTES];
  char session[NAME_BYTES_MAX + 1]; /* of the connection, or that is sought */
  char uri[FOLLOW_URI_BYTES];
};

/* At the start, where an earlier process was the same client: its connections had
 * numbers up to this one; known: `fences` were the newest when the first one started;
 * `used`: of what may be gone since that epoch it knows nothing.
 */
void follow_resume (struct follow *f, uint64_t number, bool known,
                    uint64_t fences, uint64_t used);
/* The next action that is due; false: none is. */
bool follow_next (struct follow *f, uint64_t now_ms, struct follow_action *a);
/* When to ask again if no input comes before; UINT64_MAX: no need. */
uint64_t follow_due_ms (const struct follow *f);

void follow_heard (struct follow *f, const struct follow_answer *answer,
                   uint64_t now_ms);
void follow_opened (struct follow *f, bool ok, uint64_t now_ms);
void follow_flushed (struct follow *f, enum follow_flush what, uint64_t now_ms);
/* FOLLOW_TAKE has ended; not ok: the connection is closed. */
void follow_taken (struct follow *f, bool ok, uint64_t now_ms);
/* The connection of this number (`connection`) is lost. */
void follow_lost (struct follow *f, uint64_t connection, uint64_t now_ms);

#endif /* WEFT_FOLLOW_H */
