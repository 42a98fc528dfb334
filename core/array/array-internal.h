/* array-internal.h: what the files of the array engine share (array.c). */

#ifndef WEFT_ARRAY_INTERNAL_H
#define WEFT_ARRAY_INTERNAL_H

#include <bsd/sys/queue.h>

#include "array.h"
#include "images.h"
#include "base/timeout.h"

#define NS_PER_MS UINT64_C (1000000)
/* Pieces of one request at once: bounds memory, not speed. */
#define REQUEST_PIECES_MAX 512
/* Neighbouring pieces are joined into one request to a member up to this. */
#define JOINED_BYTES_MAX MiB (1)
#define JOINED_ZERO_BYTES_MAX GiB (1)
/* A read that fails on all copies is split down to this. */
#define READ_BLOCK_BYTES 4096
/* Nothing else is going on: no request for so long. */
#define IDLE_NS UINT64_C (5000000)
/* An extent that was not written for so long may lose its intent bit. */
#define CLEAR_IDLE_NS UINT64_C (5000000000)
#define EXTENTS_UNITS_MAX 65536
#define EXTENTS_MAX 8192
#define SPARES_MAX 4096

enum lock_kind { LOCK_NONE, LOCK_SHARED, LOCK_EXCLUSIVE };

/* Where a piece is. */
enum piece_place {
  PIECE_PARKED,   /* until its request has the lock that it wants */
  PIECE_SPACE,    /* a->space: waits for room in the image buffer */
  PIECE_STALLED,  /* a->stalled: waits for a member, or for weftd */
  PIECE_DRAINING, /* the member's draining: waits for older images */
  PIECE_IO,       /* asked of a member */
  PIECE_IMAGES,   /* waits for its own images */
  PIECE_READY,    /* a->ready: to go on */
};

struct req;

/* What lies within one stripe unit of a request. */
struct piece {
  TAILQ_ENTRY (piece) link;      /* in its request */
  TAILQ_ENTRY (piece) wait_link; /* in the queue of its place */
  struct piece *next;            /* of the same IO; in the free list */
  struct req *req;
  struct layout_piece at;
  enum piece_place place;
  bool started;      /* something was asked of a member for it */
  unsigned written;  /* writes: bit c: copy c is written */
  unsigned bad;      /* reads: bit c: copy c can't be read */
  bool tried;        /* all copies, in turn */
  bool joined;       /* its IO carries others too */
  bool alone;        /* is not to be joined */
  unsigned copy;     /* of the IO */
  unsigned images;   /* of its own that it waits for */
  unsigned admitted; /* images for which room is taken */
  struct payload *payload;
};
TAILQ_HEAD (piece_queue, piece);

struct req {
  struct array_request *r;
  struct req *next;             /* in the free list */
  TAILQ_ENTRY (req) link;       /* a->requests */
  TAILQ_ENTRY (req) run_link;   /* a->runnable */
  TAILQ_ENTRY (req) flush_link; /* a->flushes */
  bool runnable;
  uint64_t begun_ns;
  enum lock_kind lock, want; /* held or queued for; needed */
  unsigned blockers;         /* requests that it waits for */
  unsigned range;            /* its place in a->ranges */
  uint64_t cursor;           /* what of the request is in pieces */
  unsigned commits;          /* a->commits as of its beginning, or ... */
  bool again;                /* ... when it was cut into pieces again */
  bool buffered;             /* the images of some pieces, not awaited */
  unsigned since;            /* ... and a->commits as of before that */
  struct piece_queue pieces;
  unsigned pieces_count, parked, spacing; /* of them, parked; in a->space */
  int error;
  bool busy; /* a FLUSH or EXTENTS: not finished */
  uint64_t
    wrote_ns; /* the last write that it stands for, if a round may have to
                        begin after that; 0: not looked yet */

  /* ARRAY_FLUSH */
  uint64_t mark;
  bool syncing, failed;
  uint64_t begun; /* a->event as of its beginning */
  uint64_t shift; /* a->clear.shifts as of its beginning */
  uint64_t cover; /* rounds are to be complete up to there, too; 0: any */
  uint64_t *need; /* for each member: flushed up to there; 0: nothing */

  /* ARRAY_EXTENTS */
  struct aio **asked; /* for each member; NULL: nothing */
  unsigned answers;   /* yet to come; the same of ARRAY_ACCEPT's proofs: */

  /* ARRAY_ACCEPT */
  bool proving, unproven; /* members were asked to flush; one did not */
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
  FOR_ROUND,
};

/* HELD: until a clear of the same extents is answered. */
enum aio_place {
  AIO_NONE,
  AIO_HELD,
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
  struct piece *pieces, **pieces_last;
  struct image_run *run;
  struct req *req;  /* FOR_EXTENTS, FOR_PROOF */
  uint64_t start;   /* FOR_FLUSH: the event after which it began; FOR_ROUND:
                       the round */
  struct aio *next; /* in the free list */
};
TAILQ_HEAD (aio_queue, aio);

struct range {
  uint64_t start, end; /* [start, end) of the array */
  uint64_t sequence;
  struct req *req;
  bool shared;
};

/* Which extents of a member have an intent bit for us (array-clear.c). */
#define CHUNK_WORDS 512
#define CHUNK_EXTENTS (CHUNK_WORDS * 64)
struct clear_chunk {
  uint64_t recent[CHUNK_WORDS]; /* written since the last shift */
  uint64_t rested[CHUNK_WORDS]; /* before it, and not since */
};
struct batch_record;
struct clear_member {
  struct clear_chunk **chunks;  /* NULL where nothing was written */
  bool recent, rested;          /* perhaps */
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
  uint64_t round; /* that is to be complete before what is rested may fall */
  bool covered;   /* a FLUSH that began since the last shift is done */
  bool settle;    /* bits of other sessions may fall with ours */
  bool never;     /* the copies may differ where bits stand: no more of it, and
                   one is not as good as another */
  struct array_request flush;
};

/* Rounds (array-round.c). */
struct round {
  bool on;
  uint64_t begun;     /* the newest */
  uint64_t begun_ns;  /* 0: by another session */
  uint64_t complete;  /* the last that all have that count, ... */
  uint64_t since_ns;  /* ... and its begun_ns */
  uint64_t before_ns; /* that of the last but one; 0: by another session */
  uint64_t target;    /* they go on up to there; 0: nothing was written */
  uint64_t wrote_ns;  /* the last write that was asked or answered */
  uint64_t hurry;     /* up to there one begins as the last is complete */
};

/* How quick a member is (array-overdue.c). */
struct overdue {
  struct timeout service;
  uint64_t allowed_ns; /* it may keep silent for so long ... */
  uint64_t quiet_ns;   /* ... from here on: its last answer, or our question */
  unsigned waiting;    /* answers that it owes */
  struct aio *probe;   /* a sign of life that it is asked for, unless it has
                          answered anything meanwhile ... */
  uint64_t probe_ns;   /* ... since */
  bool suspect;        /* far slower than its peers */
};

struct array_member {
  struct overdue overdue;
  struct clear_member clear;
  uint64_t round;          /* that it has */
  bool asked_round;        /* to have a newer one */
  enum member_state state; /* as committed */
  bool lost;               /* there is no connection to it */
  bool told;               /* of its loss; or there is nothing to tell */
  bool fresh;              /* there is one again, from the next commit on */
  bool counts; /* writes and FLUSH need it: it is in-sync, or to be so in the
                  epoch that is prepared */
  bool lapsed; /* ... without what was not stable, perhaps */
  unsigned returned; /* a->commits when it last came back, perhaps without
                        what was not flushed */
  bool mixed;        /* the image buffer may have copies of its data, too */
  uint64_t written;  /* the event of its last write */
  uint64_t loose;    /* of the last one that was not stable when it answered */
  uint64_t flushed;  /* what was written up to there is stable */
  struct aio *flush; /* on its way */
  struct piece_queue draining;
  struct aio *open;   /* that the next piece may join ... */
  uint64_t open_plan; /* ... in this plan */
};

/* The epoch that weftd has prepared (array-join.c). */
struct array_next {
  uint64_t epoch; /* 0: none */
  enum member_state states[ARRAY_MEMBERS_MAX];
  uint64_t sequence; /* images up to there are to be written */
  bool flushing;     /* they are ... */
  uint64_t start; /* ... and a flush that began at this event or later is to be
                     answered by all members */
  uint64_t round; /* is to be complete, where one becomes in-sync */
  bool told;      /* NOTICE_PREPARED */
  /* It was to be in-sync by an older change that we were prepared for, too: that
   * may be committed, and we not have heard of it.
   */
  bool promised[ARRAY_MEMBERS_MAX];
};

/* Who writes (array-flush.c). */
struct array_client {
  TAILQ_ENTRY (array_client) link; /* a->clients */
  bool owed;     /* a FLUSH that fails, for something may be gone ... */
  uint64_t gone; /* ... that was acknowledged up to this event */
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
  unsigned returned; /* as of the last member that came back */
  bool degraded;     /* some member is lost or not in-sync */
  bool hold;         /* weftd was not heard of: nothing is read */
  struct array_next next;
  uint64_t entered;  /* the epoch that array_epoch gave before ... */
  uint64_t entering; /* ... this mark of the images is reached */
  uint64_t lost_bytes;
  TAILQ_HEAD (, array_client) clients;
  struct array_client *own; /* makes repairs, and flushes for array-clear.c */
  struct array_client *former; /* all whose connections are closed */
  uint64_t
    stable;      /* what was acknowledged up to this event is, on all copies */
  bool untold;   /* something may be gone, and nobody was told ... */
  uint64_t gone; /* ... that was acknowledged up to this event */
  bool look;     /* a FLUSH, or what is prepared, may go on */
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
  struct aio_queue held, out, sent, orphans, failed; /* orphans: sent to a
                                                  member that was lost since */
  uint64_t overdue_look_ns; /* when time-outs are predicted again */
  unsigned in_flight;       /* given to the caller */
  struct array_request *done_first, **done_last;
  TAILQ_HEAD (, notice) notices;

  struct piece *spare_pieces;
  struct aio *spare_aios;
  struct req *spare_reqs;
  unsigned spare_pieces_count, spare_aios_count, spare_reqs_count;

  struct array_stats stats;
  struct array_member member[];
};

/* What it holds is what is read. */
static inline bool
member_in_sync (const struct array *a, unsigned member)
{
  return a->member[member].state == MEMBER_IN_SYNC;
}

/* What it holds can be read now. */
static inline bool
member_readable (const struct array *a, unsigned member)
{
  return member_in_sync (a, member) && !a->member[member].lost;
}

/* Writes and FLUSH need it, and wait for it when it is lost. */
static inline bool
member_counts (const struct array *a, unsigned member)
{
  return a->member[member].counts;
}

/* In an epoch with this state it is asked things. */
static inline bool
state_takes_part (enum member_state state)
{
  return state == MEMBER_IN_SYNC || state == MEMBER_JOINING;
}

/* It can be asked something now. */
static inline bool
member_reachable (const struct array *a, unsigned member)
{
  return state_takes_part (a->member[member].state) && !a->member[member].lost;
}

/* It gets a copy of what is written, and nobody waits for that. */
static inline bool
member_background (const struct array *a, unsigned member)
{
  return member_reachable (a, member) && !member_counts (a, member);
}

/* Nothing is read now. */
static inline bool
array_holds_reads (const struct array *a)
{
  return a->hold || (a->config.readonly && a->next.told);
}

static inline bool
request_writes (const struct array_request *r)
{
  return r->op == ARRAY_WRITE || r->op == ARRAY_ZERO || r->op == ARRAY_TRIM;
}

/* The files of the engine, each calling only those above it here. */

/* array-req.c: what all build on. */
void *array_alloc (size_t bytes); /* zeroed; never NULL: aborts */
struct req *req_new (struct array *a, struct array_request *r);
/* Look at it again. */
void req_wake (struct array *a, struct req *q);
void req_fail (struct array *a, struct req *q, int error);

/* array-range.c: who may touch which range. */
bool range_take (struct array *a, struct req *q, enum lock_kind kind);
void range_drop (struct array *a, struct req *q);
bool range_written (const struct array *a, uint64_t offset, uint64_t length);

/* array-piece.c: the pieces of a request, their life and their queues. */
struct piece *piece_new (struct array *a, struct req *q,
                         const struct layout_piece *at);
void piece_end (struct array *a, struct piece *p);
void piece_move (struct array *a, struct piece *p, enum piece_place place);
/* All that wait there look again. */
void pieces_go_on (struct array *a, struct piece_queue *queue);

/* array-io.c: requests to members. */
struct aio *aio_new (struct array *a, enum aio_for purpose,
                     enum array_io_kind kind, unsigned member);
void aio_free (struct array *a, struct aio *x);
/* What carries data goes by array-send.c. */
void aio_send (struct array *a, struct aio *x);
bool aio_writes (const struct aio *x);
const char *aio_name (enum array_io_kind kind);
/* It is answered, or will not be. */
void aio_leave (struct array *a, struct aio *x);
/* Nothing more comes of what was asked of a lost member. */
void aio_orphan (struct array *a, unsigned member);
/* Take back what was not sent yet: to a->failed. */
void aio_recall (struct array *a);

/* array-member.c: losses. */
struct array_notice *notice_new (struct array *a, enum array_notice_kind kind,
                                 unsigned member);
void member_lost (struct array *a, unsigned member, const char *fmt, ...)
  __attribute__ ((format (printf, 3, 4)));
/* As member_lost, but nobody is told (yet). */
void member_lose (struct array *a, unsigned member);
void member_tell (struct array *a, unsigned member, const char *fmt, ...)
  __attribute__ ((format (printf, 3, 4)));
/* Who counts, now? */
void member_count (struct array *a);

/* array-overdue.c: who keeps silent, who is slow. */
void overdue_init (struct array *a);
void overdue_sent (struct array *a, const struct aio *x);
void overdue_answered (struct array *a, const struct aio *x, int error);
/* Once in a while, also when answers come all the time and no tick does. */
void overdue_look (struct array *a);
void overdue_tick (struct array *a);
uint64_t overdue_deadline (const struct array *a);
bool overdue_suspect (const struct array *a, unsigned member);
void overdue_stats (const struct array *a, struct array_stats *stats);

/* array-extents.c */
void extents_begin (struct array *a, struct req *q);
void extents_answered (struct array *a, struct aio *x, bool ok);
/* Reads are not held any more: ask. */
void extents_go_on (struct array *a);

/* array-round.c: rounds. */
void round_init (struct array *a);
/* Something is written, or was. */
void round_touch (struct array *a);
/* What is written now is covered when rounds up to a->round.target are complete:
 * are they, up to this one?
 */
bool round_covers (const struct array *a, uint64_t target);
/* Not to wait for the clock before that. */
void round_hurry (struct array *a, uint64_t target);
/* Must this request, which promises that something is stable, wait for rounds?  They
 * do not wait for the clock then.
 */
bool round_holds (struct array *a, struct req *q);
void round_look (struct array *a);
void round_answered (struct array *a, struct aio *x, bool ok);
void round_tick (struct array *a);
uint64_t round_deadline (const struct array *a);

/* array-flush.c */
void flush_begin (struct array *a, struct req *q);
void flush_look (struct array *a);
void flush_answered (struct array *a, struct aio *x, bool ok);
void flush_forget (struct array *a, struct req *q);
/* Flush a member that has no flush on its way. */
void flush_start (struct array *a, unsigned member);
/* A write is done. */
void flush_wrote (struct array *a, const struct array_request *r);
/* What was written to this member and is not stable may be gone. */
void flush_gone (struct array *a, unsigned member);

/* array-clear.c: intent bits. */
void clear_init (struct array *a);
void clear_free (struct array *a);
/* x is sent, or was answered. */
void clear_touch (struct array *a, const struct aio *x);
void clear_touch_range (struct array *a, unsigned member, uint64_t offset,
                        uint64_t length);
/* Must it wait for a clear? */
bool clear_holds (const struct array *a, const struct aio *x);
bool clear_holds_range (const struct array *a, unsigned member, uint64_t offset,
                        uint64_t length);
void clear_tick (struct array *a);
uint64_t clear_deadline (const struct array *a);
/* A FLUSH is done: the client's, or our own. */
void clear_flushed (struct array *a, const struct req *q);
/* A member has answered a clear: what waited for that is sent before the next. */
void clear_answered (struct array *a, struct aio *x, bool ok);
void clear_go_on (struct array *a);
/* A member that has joined is in-sync: what its peers' bits stand for is its, too. */
void clear_joined (struct array *a, unsigned member);
/* Members are lost or are back. */
void clear_states (struct array *a);

/* array-join.c: members that join, and epochs that are prepared. */
void join_prepare (struct array *a, uint64_t epoch,
                   const enum member_state states[]);
/* Are we prepared? */
void join_look (struct array *a);
/* A member is back: what it has is to be drained and flushed once more. */
void join_again (struct array *a);
/* A joiner that does not keep up is lost. */
void join_tick (struct array *a);
uint64_t join_deadline (const struct array *a);
/* Reads may be held no more. */
void join_release (struct array *a);

/* array-epoch.c: epochs, and members that come back. */
void epoch_commit (struct array *a, uint64_t epoch,
                   const enum member_state states[]);
void epoch_back (struct array *a, unsigned member, bool kept);
/* What do the states lose? */
void epoch_loss (struct array *a);

/* array-send.c: what carries data. */
void send_piece (struct array *a, struct piece *p, enum array_io_kind kind,
                 unsigned copy, unsigned flags);
void send_repair (struct array *a, struct piece *p, unsigned copy);
void send_images (struct array *a);
/* A member has answered a clear: send what waited for that. */
void send_held (struct array *a, unsigned member);

/* array-write.c, array-read.c */
void write_go (struct array *a, struct piece *p);
void write_answered (struct array *a, struct piece *p, bool ok);
void write_told (void *a, void *piece, unsigned member, bool written);
void read_go (struct array *a, struct piece *p);
void read_answered (struct array *a, struct piece *p, int error);
void read_repaired (struct array *a, struct piece *p);

/* array-answer.c: answers. */
void answer_take (struct array *a, struct aio *x, int error);

/* array.c, array-new.c and array-check.c are called from outside only. */

#endif /* WEFT_ARRAY_INTERNAL_H */
