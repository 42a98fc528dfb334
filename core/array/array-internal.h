/* array-internal.h: shared by the files of the array engine (array.c). */

#ifndef WEFT_ARRAY_INTERNAL_H
#define WEFT_ARRAY_INTERNAL_H

#include <bsd/sys/queue.h>

#include "array.h"
#include "images.h"
#include "base/spares.h"
#include "base/spans.h"
#include "base/timeout.h"

/* Pieces of one request at once: bounds memory, not speed. */
#define REQUEST_PIECES_MAX 512
/* Neighbouring pieces are joined into one request to a member up to this. */
#define JOINED_BYTES_MAX MiB (1)
#define JOINED_ZERO_BYTES_MAX GiB (1)
/* A read that fails on all copies is split down to this. */
#define READ_BLOCK_BYTES 4096
/* The array is idle when no request has come for so long: images are sent then. */
#define IDLE_NS UINT64_C (5000000)
/* An extent that was not written for so long may lose its intent bit. */
#define CLEAR_IDLE_NS UINT64_C (5000000000)
/* Flushes of a member at a time. */
#define FLUSHES_MAX 2
/* Answers of a member to how far its disk is: to the step that is under way, and to the
 * two before it.
 */
#define NOTED_MAX 3
#define NEED_IMAGES UINT64_MAX
#define EXTENTS_UNITS_MAX 65536
#define EXTENTS_MAX 8192

enum lock_kind { LOCK_NONE, LOCK_SHARED, LOCK_EXCLUSIVE };

/* Where a piece is. */
enum piece_place {
  PIECE_PARKED,   /* waits for its request to get the lock that it wants */
  PIECE_SPACE,    /* a->space: waits for room in the image buffer */
  PIECE_STALLED,  /* a->stalled: waits for a member, or for weftd */
  PIECE_DRAINING, /* the member's draining: waits for older images */
  PIECE_IO,       /* asked of a member */
  PIECE_IMAGES,   /* waits for its own images */
  PIECE_READY,    /* a->ready: to go on */
};

struct req;

/* The part of a request that lies within one stripe unit. */
struct piece {
  TAILQ_ENTRY (piece) link;       /* in its request */
  TAILQ_ENTRY (piece) wait_link;  /* in the queue of its place */
  struct piece *next[COPIES_MAX]; /* of the IO of this copy */
  struct req *req;
  struct layout_piece at;
  enum piece_place place;
  bool started;      /* something was asked of a member for it ... */
  bool older;        /* ... before the readers' copies changed */
  unsigned written;  /* writes: bit c: copy c is written */
  unsigned bad;      /* reads: bit c: copy c can't be read */
  bool tried;        /* reads: copies that could not be read were tried twice */
  bool joined;       /* its IO carries other pieces, too */
  bool alone;        /* it is not to be joined with others */
  unsigned copy;     /* that its IO reads or repairs, or for which it drains */
  unsigned ios;      /* under way for it; a write that goes through has one for
                        each copy */
  bool through;      /* a write: all copies are sent from its own buffer */
  unsigned images;   /* how many of its own images it waits for */
  unsigned admitted; /* images for which room is taken */
  struct payload *payload;
};
TAILQ_HEAD (piece_queue, piece);

struct req {
  struct array_request *r;
  TAILQ_ENTRY (req) link;       /* a->requests */
  TAILQ_ENTRY (req) run_link;   /* a->runnable */
  TAILQ_ENTRY (req) flush_link; /* a->flushes */
  TAILQ_ENTRY (req) lease_link; /* a->lease.waiting */
  bool runnable;
  uint64_t begun_ns;
  /* the lock that it holds or queues for; the lock that it needs */
  enum lock_kind lock, want;
  unsigned blockers; /* requests that it waits for */
  unsigned range;    /* its place in a->ranges */
  uint64_t cursor;   /* up to here it was cut into pieces */
  unsigned commits;  /* a->commits when it was cut into pieces first, or
                                again */
  bool again;        /* it was cut into pieces again */
  bool buffered;     /* images of some pieces are in the buffer, and it
                                does not wait for them */
  unsigned since;    /* `commits` as of before it was cut again */
  struct piece_queue pieces;
  unsigned pieces_count, parked, spacing; /* all; those parked, in a->space */
  int error;
  bool busy; /* a FLUSH or EXTENTS that is not finished */
  bool leased,
    waits; /* all that it covers was ours when it began; it waits to be
                         leased (array-lease.c) */
  uint64_t
    leased_ns; /* since when it is leased: a member delays it from then on */
  /* When the last write was that it promises to be stable; 0: round_holds has not
   * looked yet.
   */
  uint64_t wrote_ns;

  /* ARRAY_FLUSH */
  uint64_t mark;
  bool drained, failed;
  uint64_t
    begun; /* a->event as of its beginning; READ: when it first needed witnesses */
  uint64_t shift; /* a->clear.shifts as of its beginning */
  uint64_t cover; /* it waits for this step of the rounds, too; 0: for none */
  /* For each member: the event up to which it must be flushed; 0: no flush is
   * needed; NEED_IMAGES: its images must be written first.
   */
  uint64_t *need;

  /* ARRAY_EXTENTS */
  struct aio **asked; /* the request to each member; NULL: none */
  unsigned answers; /* that are yet to come; of ARRAY_ACCEPT: to its flushes */

  /* ARRAY_ACCEPT: before zeroes are written, members are asked to flush, to see
   * whether they have failed as a whole.
   */
  bool proving, unproven; /* they were asked; one of them has not flushed */
};
TAILQ_HEAD (req_queue, req);

enum aio_for {
  FOR_PIECES,
  FOR_REPAIR,
  FOR_IMAGES,
  FOR_FLUSH,
  FOR_EXTENTS,
  FOR_PROOF,
  FOR_CLEAR,
  FOR_PROBE,
  FOR_WITNESS,
  FOR_ROUND,
  FOR_PULSE,
};

/* HELD: it is sent when a clear of the same extents was answered.  REFUSED: the member
 * has refused it for the moment, and it is sent again.
 */
enum aio_place {
  AIO_NONE,
  AIO_HELD,
  AIO_REFUSED,
  AIO_OUT,
  AIO_SENT,
  AIO_ORPHAN,
  AIO_FAILED
};

struct aio {
  struct array_io io;
  TAILQ_ENTRY (aio) link; /* in the queue of its place */
  enum aio_place place;
  enum aio_for purpose;
  unsigned copy; /* FOR_PIECES, FOR_REPAIR: of its pieces */
  struct piece *pieces, **pieces_last;
  struct image_run *run;
  struct req *req; /* FOR_EXTENTS, FOR_PROOF */
  unsigned queue;  /* READ: the reads that the member owed, this one included */
  uint64_t start;  /* FOR_FLUSH: the event after which it began; FOR_ROUND:
                       the round; of an IO_ROUND: the step that it is asked in */
  uint64_t
    refused_ns; /* when the member refused it first (array-refused.c); 0: it
                          did not ... */
  int refusal;  /* ... with this errno */
  uint64_t again_ns; /* REFUSED: when it is sent again */
};
TAILQ_HEAD (aio_queue, aio);

struct range {
  uint64_t start, end; /* [start, end) of the array */
  uint64_t sequence;
  struct req *req;
  bool shared;
};

/* Which extents of a member have an intent bit of this session (array-clear.c). */
#define CHUNK_WORDS 512
#define CHUNK_EXTENTS (CHUNK_WORDS * 64)
struct clear_chunk {
  uint64_t recent[CHUNK_WORDS]; /* written since the last shift */
  uint64_t rested[CHUNK_WORDS]; /* written before that shift, and not since */
};
struct batch_record;
struct clear_member {
  struct clear_chunk **chunks;  /* NULL where nothing was written */
  bool recent, rested;          /* such bits may be there */
  struct aio *asked;            /* a clear that is not answered ... */
  struct batch_record *records; /* ... of these extents, ascending */
  unsigned count;
};

enum clear_phase {
  CLEAR_NONE,     /* nothing was written */
  CLEAR_RESTING,  /* until clear.at_ns */
  CLEAR_FLUSHING, /* by a FLUSH of our own */
  CLEAR_ASKING,
};

struct clear {
  enum clear_phase phase;
  uint64_t at_ns;
  uint64_t extent_bytes;
  unsigned chunks; /* of each member, at most */
  uint64_t shifts;
  uint64_t round; /* the step to be complete before rested bits may fall */
  bool covered;   /* a FLUSH that began since the last shift is done */
  /* the copies are in sync: bits of other sessions may be cleared with ours,
   * and a read may take any copy
   */
  bool settle;
  bool differs; /* a member differs: copies may differ where bits are set, so no
                     bit is cleared, and a read may not take either */
  struct array_request flush;
};

/* Rounds (array-round.c), step by step: a step makes one round complete.  Steps are
 * counted from the first round on, so where nobody else writes a step has the number of
 * its round.
 */
struct round {
  bool on;
  bool shared; /* others write, too: each step asks what members have noted */
  uint64_t begun;    /* the newest step */
  uint64_t begun_ns; /* when it began; 0: another session has begun its round */
  uint64_t number;   /* its round; 0: members are being asked */
  uint64_t highest;  /* the highest that any member is known to have, but it */
  uint64_t given;    /* the newest that members were asked to note */
  uint64_t complete; /* the newest complete step: all members that count have
                         noted its round */
  uint64_t since_ns; /* when that one began */
  uint64_t since;    /* its round */
  uint64_t before_ns; /* when the one before began; 0: in another session */
  uint64_t target;    /* steps go on up to this one; 0: nothing was written */
  uint64_t wrote_ns;  /* when a write was last asked for or answered */
  uint64_t hurry;   /* up to this step, each begins as soon as the one before is
                       complete, without waiting for ROUND_MS */
  uint64_t entered; /* see array_round_entered: a round */
  /* No FLUSH is answered before this step is complete: then the disks of members that
   * are out are two rounds behind.
   */
  uint64_t outrun;
};

/* The ranges that we hold, where these come and go (array-lease.c). */
struct leaving;
struct lease {
  struct spans spans;
  struct req_queue waiting; /* the first come first */
  TAILQ_HEAD (, leaving) leaving;
  uint64_t owner;           /* in spans, of the next one that is leaving */
  struct array_range *left; /* to be reported */
  unsigned left_count, left_room;
  uint64_t part_bytes; /* of a part of the array ... */
  uint64_t *cold_ns;   /* ... that was not written for long from then on */
};

/* How quick a member is (array-overdue.c). */
struct overdue {
  struct timeout service;
  uint64_t allowed_ns; /* it may keep silent for so long ... */
  uint64_t quiet_ns; /* ... from here on: when the last part of an answer came,
                          or our question went */
  unsigned waiting;  /* answers that it owes */
  unsigned reads; /* reads that it owes, those included that are not sent yet */
  /* recent mean, for a read: its time by the reads that were pending with it;
   * 0: not known
   */
  uint64_t read_ns;
  uint64_t read_at_ns; /* when it last answered one */
  struct aio *probe; /* the question for a sign of life that is under way, while
                          nothing else has come from the member, ... */
  uint64_t probe_ns; /* ... and when it was asked */
  bool suspect;      /* it is far slower than its peers ... */
  uint64_t slow_ns;  /* ... and takes so long, as was known last */
  uint64_t sync_ns,
    sync_at_ns; /* how long it took to sync, and when it last did */
  uint64_t
    oldest_ns; /* when its oldest unanswered request was sent that tells how
                         slow it is; 0: that was not long ago */
  bool owes;   /* it owes an answer for long, whatever it was asked */
  struct aio *pulse; /* it is being asked whether its disk is silent */
  bool mute;         /* it does not say that */
};

/* Is there a connection to the member? */
enum connection {
  CONNECTION_UP,
  CONNECTION_LOST,
  CONNECTION_BACK, /* there is one again, to be used after the next commit */
};

/* The loss of a member, while its connection is not up. */
struct member_loss {
  bool reported;  /* weftd has a report of it, or needs none */
  bool answers;   /* the member answers, but with errors */
  bool lapsed;    /* the member may lack what was not flushed */
  uint64_t reach; /* as array_back says, the least since it last came back */
};

/* The rounds that a member's disk has noted (array-round.c). */
struct member_rounds {
  uint64_t newest;
  uint64_t heard; /* the step in which it has last said so, since it was lost */
  bool asking;    /* it is being asked that, or to note a newer one, ... */
  uint64_t asked_ns; /* ... since then */
  /* Its disk had no more than this round when it was asked, the newest first. */
  struct {
    uint64_t round, ns;
  } noted[NOTED_MAX];
};

/* How far the writes to a member are stable.  Each is known by its event. */
struct member_writes {
  uint64_t loose;   /* the last that was answered before it was stable */
  uint64_t flushed; /* all up to this one are stable */
  uint64_t last_ns; /* when the last was answered; 0: none was */
  struct aio *flush[FLUSHES_MAX]; /* those on their way */
};

/* May we still write?  The member is asked (array-witness.c). */
struct member_witness {
  struct aio *asked; /* the question that is on its way */
  uint64_t event;    /* we might, when it was asked at this event */
};

/* Requests that the next piece may join, while a->plan is this. */
struct member_open {
  struct aio *io[2]; /* of data, and of images */
  uint64_t plan;
};

struct array_member {
  enum member_state state; /* as committed */
  bool counts;             /* writes and FLUSH need it: it is in-sync, or to be
                              so in the epoch that is prepared */
  enum connection connection;
  struct member_loss loss;
  unsigned returned; /* a->commits when it last came back, perhaps without
                        what was not flushed */
  bool differs; /* it was given back, and its copies may differ from others */
  bool mixed;   /* the image buffer may have copies of its data, too */
  struct member_rounds rounds;
  struct member_writes writes;
  struct member_witness witness;
  struct member_open open;
  struct piece_queue draining;
  struct overdue overdue;
  struct clear_member clear;
};

/* The epoch that weftd has prepared (array-join.c). */
struct array_next {
  uint64_t epoch; /* 0: none */
  enum member_state states[ARRAY_MEMBERS_MAX];
  uint64_t sequence; /* images up to this one must be written first, ... */
  bool flushing;     /* ... and they are: now members are flushed */
  uint64_t start;    /* by flushes that begin at this event or later */
  uint64_t round; /* the step to be complete, where a member becomes in-sync */
  bool told;      /* NOTICE_PREPARED was given */
  /* The member would have become in-sync by an older change, for which we were
   * prepared, too.  That change may have been committed without our knowing, so
   * the member still counts.
   */
  bool promised[ARRAY_MEMBERS_MAX];
};

/* A client that writes (array-flush.c). */
struct array_client {
  TAILQ_ENTRY (array_client) link; /* a->clients */
  bool recovers;                   /* it recovers orphans (ARRAY_RECOVER) */
  bool owed;     /* its next FLUSH is to fail: writes of its may be gone ... */
  uint64_t gone; /* ... that were acknowledged up to this event */
  /* For each member: the event of its last write with a copy there that was not
   * stable when it was acknowledged.
   */
  uint64_t wrote[ARRAY_MEMBERS_MAX];
};

struct notice {
  TAILQ_ENTRY (notice) link;
  struct array_notice notice;
};

struct array {
  struct array_config config;
  const struct layout *layout; /* in config */
  uint64_t now_ns;
  uint64_t event; /* counts what happens to members */
  uint64_t plan;
  int stopped;
  unsigned commits;  /* counts what endangers writes that are not done: epochs
                       that make a member go out, members that come back */
  unsigned returned; /* `commits` when a member last came back */
  bool degraded;     /* some member is lost or not in-sync */
  uint64_t trust_ns; /* array_trust */
  uint64_t all_arrived; /* array_all_arrived */
  struct array_next next;
  uint64_t entered;  /* the epoch that array_epoch gives until ... */
  uint64_t entering; /* ... this mark of the images is reached */
  uint64_t arrived;  /* the result of array_arrived until ... */
  bool moved; /* ... what is `older` has reached the readers' copies, ... */
  uint64_t arriving; /* ... and the images up to this mark have */
  uint64_t lost_bytes;
  TAILQ_HEAD (, array_client) clients;
  struct array_client *own; /* makes repairs, and flushes for array-clear.c */
  struct array_client *former; /* stands for all clients that are closed */
  /* all writes acknowledged up to this event are stable on all copies */
  uint64_t stable;
  uint64_t losses; /* array_losses */
  /* writes may be lost, and no client's FLUSH has failed yet ... */
  bool untold;
  uint64_t gone; /* ... that were acknowledged up to this event */
  bool look;     /* a FLUSH, a round or a prepared epoch may be able to go on */
  uint64_t idle_since_ns;

  struct images *images;
  struct req_queue requests, runnable, flushes;
  unsigned requests_count;
  struct range *ranges;
  unsigned ranges_count, ranges_room;
  uint64_t ranges_sequence;

  struct piece_queue ready, space, stalled;
  struct clear clear;
  struct round round;
  struct lease lease;
  struct aio_queue held, refused, out, sent, failed;
  unsigned refused_count;   /* were refused, and are not answered otherwise */
  struct aio_queue orphans; /* sent to a member that was lost since */
  uint64_t overdue_look_ns; /* when time-outs are predicted again */
  uint64_t hung_look_ns;    /* when to look again for what is unanswered */
  uint64_t memory_ns;       /* when to ask the host for memory again */
  uint64_t memory_since_ns; /* when it had none first; 0: it has */
  uint64_t others_ns; /* when to look again at what another writer is to mend */
  unsigned in_flight; /* given to the caller */
  struct array_request *done_first, **done_last;
  TAILQ_HEAD (, notice) notices;

  struct spares spare_pieces, spare_aios, spare_reqs;

  struct array_stats stats;
  struct array_member member[];
};

/* Is the member in-sync, so that its data is what clients are to read? */
static inline bool
member_in_sync (const struct array *a, unsigned member)
{
  return a->member[member].state == MEMBER_IN_SYNC;
}

/* Is there no connection to the member that may be used? */
static inline bool
member_is_lost (const struct array *a, unsigned member)
{
  return a->member[member].connection != CONNECTION_UP;
}

/* Can the member be read now? */
static inline bool
member_readable (const struct array *a, unsigned member)
{
  return member_in_sync (a, member) && !member_is_lost (a, member);
}

/* Do writes and FLUSH need the member, and wait for it when it is lost? */
static inline bool
member_counts (const struct array *a, unsigned member)
{
  return a->member[member].counts;
}

/* Is a member in this state asked to read or write at all? */
static inline bool
state_takes_part (enum member_state state)
{
  return state == MEMBER_IN_SYNC || state == MEMBER_JOINING;
}

/* Can the member be asked something now? */
static inline bool
member_reachable (const struct array *a, unsigned member)
{
  return state_takes_part (a->member[member].state) &&
         !member_is_lost (a, member);
}

/* Does the member get a copy of what is written for which nobody waits? */
static inline bool
member_background (const struct array *a, unsigned member)
{
  return member_reachable (a, member) && !member_counts (a, member);
}

/* Has it one lease, which neither comes nor goes? */
static inline bool
array_pinned (const struct array *a)
{
  return a->config.part_length > 0;
}

/* Do its leases come and go, so that a request may have to wait for one? */
static inline bool
array_asks (const struct array *a)
{
  return a->config.leases && !array_pinned (a);
}

static inline bool
array_in_part (const struct array *a, uint64_t offset, uint64_t length)
{
  uint64_t from = a->config.part_offset, bytes = a->config.part_length;

  return offset >= from && offset - from <= bytes &&
         length <= bytes - (offset - from);
}

/* Is this read for the request as by who only reads, for others may write there?  (A
 * request without a lease may lie in our part in some of its pieces.)
 */
static inline bool
array_only_reads (const struct array *a, const struct req *q, uint64_t offset,
                  uint64_t length)
{
  return a->config.readonly ||
         (a->config.leases && !q->leased && !array_in_part (a, offset, length));
}

/* Are reads held now, where others may write? */
static inline bool
array_holds_others (const struct array *a)
{
  return a->now_ns >= a->trust_ns || a->next.told ||
         a->all_arrived < a->config.epoch;
}

/* Are reads of this held now? */
static inline bool
array_holds_reads (const struct array *a, const struct req *q, uint64_t offset,
                   uint64_t length)
{
  return array_holds_others (a) && array_only_reads (a, q, offset, length);
}

static inline bool
request_writes (const struct array_request *r)
{
  return r->op == ARRAY_WRITE || r->op == ARRAY_ZERO || r->op == ARRAY_TRIM;
}

/* The files of the engine; each calls only those that stand before it here. */

/* array-req.c: requests, their pieces, and the queues of these. */
struct req *req_new (struct array *a, struct array_request *r);
/* The request may be able to go on: array.c looks at it again. */
void req_wake (struct array *a, struct req *q);
void req_fail (struct array *a, struct req *q, int error);
struct piece *piece_new (struct array *a, struct req *q,
                         const struct layout_piece *at);
void piece_end (struct array *a, struct piece *p);
void piece_move (struct array *a, struct piece *p, enum piece_place place);
/* The copy that a reader reads, except for copies that can't be read (bits);
 * -1: none.
 */
int piece_read_copy (const struct array *a, const struct piece *p,
                     unsigned bad);
/* All pieces in this queue may be able to go on. */
void pieces_go_on (struct array *a, struct piece_queue *queue);

/* array-range.c: which request may access which range. */
bool range_take (struct array *a, struct req *q, enum lock_kind kind);
void range_drop (struct array *a, struct req *q);
bool range_written (const struct array *a, uint64_t offset, uint64_t length);

/* array-aio.c: requests to members. */
struct aio *aio_new (struct array *a, enum aio_for purpose,
                     enum array_io_kind kind, unsigned member);
void aio_free (struct array *a, struct aio *x);
/* Put an IO into the queue of what goes out.  (One that carries data goes by
 * array-send.c.)
 */
void aio_send (struct array *a, struct aio *x);
bool aio_writes (const struct aio *x);
const char *aio_name (enum array_io_kind kind);
/* A request that asks only for an answer. */
struct aio *aio_sign (struct array *a, enum aio_for purpose, unsigned member);
/* Take the IO off the list of its place: it is answered, or never will be. */
void aio_leave (struct array *a, struct aio *x);
/* The member is lost: stop waiting for its answers. */
void aio_orphan (struct array *a, unsigned member);
/* Move what was not sent yet to a->failed. */
void aio_recall (struct array *a);

/* array-member.c: losses. */
struct array_notice *member_notice_new (struct array *a,
                                        enum array_notice_kind kind,
                                        unsigned member);
void member_lost (struct array *a, unsigned member, const char *fmt, ...)
  __attribute__ ((format (printf, 3, 4)));
/* As member_lost, but without a notice (yet). */
void member_lose (struct array *a, unsigned member);
/* If the connection is back, it is not used: it is lost again. */
void member_forget_back (struct array *a, unsigned member);
void member_tell (struct array *a, unsigned member, const char *fmt, ...)
  __attribute__ ((format (printf, 3, 4)));
/* Find out again which members count. */
void member_count (struct array *a);

/* array-timing.c: how long members take, and which are slow. */
uint64_t
timing_longest_ns (const struct array *a); /* 0: there is no time-out */
/* The member is a stranger: there was no connection, or it broke.  After the
 * next connect it may have another disk.
 */
void timing_forget (struct array *a, unsigned member);
void timing_sent (struct array *a, const struct aio *x);
void timing_answered (struct array *a, const struct aio *x, int error);
/* Part of an answer has come from it then. */
void timing_heard (struct array *a, unsigned member, uint64_t heard_ns);
/* Does the time that this takes tell how slow the member is? */
bool timing_counts (const struct aio *x);
/* The time that the member takes for a read; 0: not known, or known too long ago. */
uint64_t timing_read_ns (const struct array *a, unsigned member);
/* See which members are suspect; and, before, how long each may keep silent from now on. */
void timing_weigh (struct array *a);
void timing_predict (struct array *a);
bool timing_suspect (const struct array *a, unsigned member);
void timing_stats (const struct array *a, struct array_stats *stats);

/* array-overdue.c: members that keep silent. */
/* Called with each tick and each answer: while answers come all the time, no tick
 * may come.
 */
void overdue_look (struct array *a);
void overdue_tick (struct array *a);
uint64_t overdue_deadline (const struct array *a);

/* array-hung.c: members whose disk hangs. */
/* Called as overdue_look, and before it. */
void hung_look (struct array *a);
uint64_t hung_deadline (const struct array *a);
void hung_answered (struct array *a, struct aio *x, int error);

/* array-refused.c: requests that a member refuses for the moment. */
/* Is it an error that passes, and says nothing of what the member has answered before? */
bool refused_for_now (const struct array *a, const struct aio *x, int error);
/* Is it to be sent again?  Then it waits for that, as if it were not answered. */
bool refused_waits (struct array *a, struct aio *x, int error);
void refused_tick (struct array *a);
uint64_t refused_deadline (const struct array *a);
void refused_stats (const struct array *a, uint64_t now_ns,
                    struct array_stats *stats);

/* array-witness.c: the reads of a writer while weftd is silent. */
/* Does what it reads for this request need witnesses? */
bool witness_needed (const struct array *a, const struct req *q);
/* May this copy be read for the piece?  If not, its witnesses are asked, and the piece
 * is to stall.
 */
bool witness_all (struct array *a, struct piece *p, unsigned copy);
void witness_answered (struct array *a, struct aio *x, bool ok);

/* array-extents.c */
void extents_begin (struct array *a, struct req *q);
void extents_answered (struct array *a, struct aio *x, bool ok);
/* Reads are not held any more: send what waited for that. */
void extents_go_on (struct array *a);

/* array-round.c: rounds. */
void round_init (struct array *a);
/* A write was sent or answered: rounds go on until it is covered. */
void round_touch (struct array *a);
/* A member does not count any more: rounds go on until its disk is two behind. */
void round_outrun (struct array *a);
/* Are the steps up to `target` complete?  A write that begins now is covered
 * when those up to a->round.target are.
 */
bool round_covers (const struct array *a, uint64_t target);
/* Has the disk of a member that is back all that it has answered, as far as the round
 * that it has noted (`reach`) vouches for that?
 */
bool round_reaches (const struct array *a, unsigned member);
/* Begin the steps up to `target` without waiting for the clock. */
void round_hurry (struct array *a, uint64_t target);
/* Must this request, which promises that something is stable, wait for rounds?  If
 * so, they are begun without waiting for the clock.
 */
bool round_holds (struct array *a, struct req *q);
/* A FLUSH has begun: the rounds that it will wait for begin beside it. */
void round_ahead (struct array *a);
void round_look (struct array *a);
void round_answered (struct array *a, struct aio *x, bool ok);
/* The array is about to take in a newer epoch: see array_round_entered. */
void round_entered (struct array *a);
void round_tick (struct array *a);
uint64_t round_deadline (const struct array *a);

/* array-lease.c: ranges that we hold come and go. */
void lease_init (struct array *a);
void lease_free (struct array *a);
/* Is all that it covers held, or by one of ARRAY_RECOVER at least being recovered? */
bool lease_may_begin (const struct array *a, const struct array_request *r);
/* Is the request leased, or can be now? */
bool lease_has (struct array *a, struct req *q);
/* The same; if not, it gives up its turn and waits, without any, until it is leased. */
bool lease_take (struct array *a, struct req *q);
/* The request is done. */
void lease_done (struct array *a, struct req *q);
void lease_grant (struct array *a, const struct array_range *granted,
                  unsigned count);
void lease_recover (struct array *a, const struct array_range *ranges,
                    unsigned count);
void lease_recovered (struct array *a);
void lease_leave (struct array *a, const struct array_range *must,
                  const struct array_range *wish);
/* Check whether a range that leaves has left. */
void lease_look (struct array *a);
void lease_check (const struct array *a);

/* array-flush.c */
void flush_begin (struct array *a, struct req *q);
void flush_look (struct array *a);
void flush_answered (struct array *a, struct aio *x, bool ok);
void flush_forget (struct array *a, struct req *q);
/* Have what a member was written up to this event flushed. */
void flush_want (struct array *a, unsigned member, uint64_t event);
/* A run of images is being sent to this member: is it to be written as stable, in
 * place of a flush that would follow it?
 */
bool flush_rides (const struct array *a, unsigned member);
/* A write is done. */
void flush_wrote (struct array *a, const struct array_request *r);
/* Writes to this member that were not stable may be lost: each client that made
 * any needs a FLUSH that fails.
 */
void flush_gone (struct array *a, unsigned member);
/* The serving process has failed a FLUSH: earlier writes may be lost, ours or
 * another host's; all others are stable.
 */
void flush_told (struct array *a, unsigned member);

/* array-clear.c: intent bits. */
void clear_init (struct array *a);
void clear_free (struct array *a);
/* x is being sent, or was answered: its extents are `recent`. */
void clear_touch (struct array *a, const struct aio *x);
void clear_touch_range (struct array *a, unsigned member, uint64_t offset,
                        uint64_t length);
/* Must x wait until a clear of its extents was answered? */
bool clear_holds (const struct array *a, const struct aio *x);
bool clear_holds_range (const struct array *a, unsigned member, uint64_t offset,
                        uint64_t length);
void clear_tick (struct array *a);
uint64_t clear_deadline (const struct array *a);
/* A FLUSH is done: the client's, or our own. */
void clear_flushed (struct array *a, const struct req *q);
/* A member has answered a clear.  Writes that waited for that are sent before
 * clear_go_on sends the next clear.
 */
void clear_answered (struct array *a, struct aio *x, bool ok);
void clear_go_on (struct array *a);
/* A member that was joining is in-sync: where its peers have bits of ours, it may
 * have bits, too.
 */
void clear_joined (struct array *a, unsigned member);
/* Members were lost or are back. */
void clear_states (struct array *a);

/* array-join.c: members that join, and epochs that are prepared. */
void join_prepare (struct array *a, uint64_t epoch,
                   const enum member_state states[]);
/* Check whether all conditions of NOTICE_PREPARED hold. */
void join_look (struct array *a);
/* A member is back: drain and flush once more before NOTICE_PREPARED. */
void join_again (struct array *a);
/* A joiner that does not keep up is lost. */
void join_tick (struct array *a);
uint64_t join_deadline (const struct array *a);
/* If reads are no longer held, let those go on that waited. */
void join_release (struct array *a);

/* array-epoch.c: epochs, and members that come back. */
void epoch_commit (struct array *a, uint64_t epoch,
                   const enum member_state states[]);
uint64_t epoch_arrived (struct array *a);
void epoch_back (struct array *a, unsigned member, bool kept, uint64_t reach);
/* Give a notice if the committed states leave data without a copy. */
void epoch_loss (struct array *a);

/* array-send.c: requests with data. */
void send_piece (struct array *a, struct piece *p, enum array_io_kind kind,
                 unsigned copy, unsigned flags);
void send_repair (struct array *a, struct piece *p, unsigned copy);
void send_images (struct array *a);
/* A member has answered a clear: send what waited for that. */
void send_held (struct array *a, unsigned member);

/* array-write.c, array-read.c */
void write_go (struct array *a, struct piece *p);
void write_answered (struct array *a, struct piece *p, unsigned copy, bool ok);
void write_told (void *a, void *piece, unsigned member, bool written);
void read_go (struct array *a, struct piece *p);
void read_answered (struct array *a, struct piece *p, int error);
void read_repaired (struct array *a, struct piece *p);
void read_tick (struct array *a);

/* array-answer.c: answers. */
void answer_take (struct array *a, struct aio *x, int error);

/* array.c, array-new.c and array-check.c are called from outside only. */

#endif /* WEFT_ARRAY_INTERNAL_H */
