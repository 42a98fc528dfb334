/* volume-internal.h: the volume engine's inside.
 *
 * From below: volume-space.c has the places, which are the segments granted to the
 * volume; volume-turn.c says whose turn a segment of the volume is; volume-request.c
 * answers; volume-root.c writes the root; volume-log.c the log; volume-flush.c are FLUSHes;
 * volume-part.c does what a request asks of one segment; volume-open.c reads root and log.
 * volume.c is the roof: inputs mark what has changed, and its pump does what is due.
 */

#ifndef WEFT_VOLUME_INTERNAL_H
#define WEFT_VOLUME_INTERNAL_H

#include <bsd/sys/queue.h>

#include "base/spans.h"
#include "base/spares.h"
#include "volume.h"

#define NONE UINT32_MAX

/* A granted segment. */
enum place_state {
  PLACE_EMPTY, /* of the table: it was given back */
  PLACE_SPARE,
  PLACE_DATA,  /* in the map, at `at` */
  PLACE_LOG,   /* a segment of the log, or of its rewritten copy */
  PLACE_FREED, /* has left the map; becomes spare when nothing holds it */
  PLACE_STATES
};
struct place {
  uint32_t segment;
  uint32_t at;
  uint64_t blocks; /* that are there */
  uint64_t logged; /* that the log has */
  uint64_t taken;  /* that the present group brings into the log */
  uint32_t
    reading; /* requests of the array to its data that are in flight, ... */
  uint32_t
    writing; /* ... and writes in place; the segment's turn counts as well */
  uint8_t state;
  bool named;    /* the log may name it */
  bool renamed;  /* the rewritten log does */
  bool changed;  /* it is in the list of the changed ones */
  bool in_group; /* it is in the present group's list */
};

/* A request of the engine's to the array: to whom its answer is brought. */
enum volume_io_kind { VIO_PART, VIO_FLUSH, VIO_LOG, VIO_ROOT, VIO_OPEN };
struct vio {
  struct array_request io; /* io.owner is this */
  enum volume_io_kind kind;
  void *of; /* a part, or the request that flushes */
  TAILQ_ENTRY (vio) link;
};
TAILQ_HEAD (vio_queue, vio);

#define PART_IOS 3
/* The share of a request that lies in one segment of the volume. */
struct part {
  struct volume_request *r;
  uint32_t at;           /* the segment */
  bool last;             /* it ends where the volume does */
  uint64_t from, to;     /* bytes in it */
  uint32_t place;        /* while it reads or writes there */
  uint64_t began, first; /* READ: bytes between these are being read */
  uint64_t blocks;       /* READ: present when it began; CHANGE: to be there */
  enum part_turn { TURN_NONE, TURN_SHARED, TURN_ALONE } turn;
  unsigned flying;
  uint64_t losses; /* of the array, when it began to write */
  int error;
  uint8_t
    *bounce[2]; /* its first and last block, if it has only a part of them */
  struct vio vio[PART_IOS];
  uint64_t hungry_ns; /* it waits for a segment since; 0: it does not */
  TAILQ_ENTRY (part)
  link; /* ready, hungry or starved; or waiting for its turn */
};
TAILQ_HEAD (part_queue, part);

/* A segment of the volume whose presence is being changed, or is to be. */
struct turn {
  uint32_t at;
  struct part *alone;        /* whose turn it is */
  struct part_queue waiting; /* in the order of submission */
  LIST_ENTRY (turn) link;
};
#define TURN_LISTS 256
LIST_HEAD (turn_list, turn);

struct volume_client {
  struct array_client *array;
  uint64_t wrote; /* the event of its last write */
  bool owed;      /* one FLUSH of its own is to fail, ... */
  uint64_t gone;  /* ... for what was written until then */
  unsigned requests;
  TAILQ_ENTRY (volume_client) link;
};

enum flush_stage {
  FLUSH_IDLE,
  FLUSH_ARRAY,  /* the array flushes */
  FLUSH_LOGGED, /* the log is written */
};

enum log_stage {
  LOG_IDLE,
  LOG_WAITING, /* for segments */
  LOG_WRITING,
  LOG_NAMING, /* the root that names its new segments is written */
};
/* Entries are looked for in the group, or in the whole table of places. */
struct log_cursor {
  unsigned pass; /* of a group: 0 gone, 1 data */
  uint32_t next;
};

#define LOG_CHUNK_BLOCKS 16

struct request_list {
  struct volume_request *first, **last;
};

struct volume {
  struct volume_config config;
  enum volume_state state;
  const char *why;
  int stopped; /* an errno */
  bool deleting;
  unsigned closing; /* 1: the last FLUSH has begun, 2: and the root was put */
  uint64_t close_wants; /* that version of the root */
  uint64_t now;
  bool look;
  uint64_t sequence, event;
  uint64_t block_bytes;

  /* The map: of each segment of the volume its place, or NONE. */
  uint32_t *map;
  uint32_t map_count;
  struct place *places;
  uint32_t places_count, places_room;
  uint32_t count[PLACE_STATES]; /* places in these states */
  uint32_t next_spare;          /* where a spare one is looked for */
  uint32_t next_empty;          /* the same for an empty one */
  unsigned window;
  uint64_t taken_ns; /* the last segment for data; or the window was halved */
  uint64_t
    freed_ns; /* since when there have been freed ones; 0: there are none */

  TAILQ_HEAD (, volume_request)
  making;    /* in the order of submission; see volume-part.c */
  bool room; /* one of these can have more parts */
  struct part_queue ready, hungry,
    starved; /* starved: of whole blocks to copy to */
  struct turn_list turns[TURN_LISTS];
  unsigned turns_count;
  struct spares parts_spare, turns_spare, vios_spare;
  uint8_t *bounces;                /* VOLUME_BOUNCES blocks */
  uint8_t *bounce[VOLUME_BOUNCES]; /* the free ones */
  unsigned bounces_free;

  TAILQ_HEAD (, volume_client) clients;
  bool untold; /* see volume-flush.c */
  uint64_t gone, stable;
  uint64_t losses;           /* how often the array may have lost something */
  uint32_t *changed, *group; /* places; room for all of them */
  uint32_t changed_count, group_count;
  struct {
    enum flush_stage stage;
    struct request_list waiting, present; /* requests */
    unsigned flying;                      /* FLUSHes of the array */
    unsigned passing;                     /* the same, of no group */
    bool failed;
  } flush;

  struct {
    enum log_stage stage;
    bool anew, failed;
    uint64_t sequence; /* of the next block */
    uint64_t first;    /* of the rewritten log */
    struct log_cursor cursor;
    uint64_t wants; /* the version of the root that must be durable */
    uint32_t fresh
      [POOL_LOG_SEGMENTS_MAX]; /* segments that the root does not name yet */
    uint32_t fresh_count;
    uint8_t *buf;
    struct vio vio;
  } log;

  struct pool_root *root, *durable, *sending; /* sending: under way */
  struct {
    uint64_t version, sent, stable;
    bool busy, failed;
    bool scrub;     /* the next slot is to become zeroes before it is written */
    unsigned erase; /* slots that are to become zeroes, and one */
    uint8_t *buf;
    struct vio vio;
  } rootio;

  struct {
    enum { OPEN_ROOT, OPEN_LOG, OPEN_FLUSH, OPEN_LIFE, OPEN_DONE } step;
    unsigned tries;
    bool lost;      /* the data read may be lost: it was not flushed yet */
    uint64_t block; /* of the log: the next one */
    uint64_t bytes; /* that are being read */
    uint32_t life;  /* of the last block */
    struct spans strangers; /* segments, named but not granted */
    uint64_t wants;
    uint8_t *buf;
    struct vio vio;
  } open;

  struct vio_queue out;
  unsigned flying;   /* ios that the caller has, or is to take */
  unsigned requests; /* of clients, not yet answered */
  struct request_list done;
  struct request_list early; /* while it opens */
};

/* ---- volume-request.c: lists of requests, answers, and requests to the array ---- */

void volume_request_add (struct request_list *l, struct volume_request *r);
/* NULL: the list is empty. */
struct volume_request *volume_request_take (struct request_list *l);
/* Answered: with r->error. */
void volume_request_done (struct volume *v, struct volume_request *r);
/* To the array; x->io says what. */
void volume_request_send (struct volume *v, struct vio *x,
                          enum volume_io_kind kind, void *of);
/* Something that cannot be repaired while the volume is open.  A constant sentence. */
void volume_request_broken (struct volume *v, const char *why);

/* ---- volume-space.c ---- */

static inline uint64_t
place_offset (const struct volume *v, uint32_t place)
{
  return (uint64_t) v->places[place].segment * v->config.pool.segment_bytes;
}
/* A spare place for the segment `at` of the volume, as near as it can be to its
 * neighbour's.  NONE: there is none, or the rest is for the log.
 */
uint32_t space_take_data (struct volume *v, uint32_t at);
/* The same for the log. */
uint32_t space_take_log (struct volume *v);
/* Blocks of a log that says so much as the map has, `more` entries besides; and its
 * segments, with room for what follows.
 */
uint64_t space_log_blocks (const struct volume *v, uint64_t more);
uint32_t space_log_segments (const struct volume *v, uint64_t more);
static inline uint64_t
space_log_room (const struct volume *v) /* blocks in a segment */
{
  return v->config.pool.segment_bytes / POOL_LOG_BLOCK_BYTES;
}
/* Segments come to the table. */
void space_granted (struct volume *v, const struct volume_run *run);
/* While it is opened: the place of this segment gets this state.  NONE: it is not
 * granted, or is not spare.
 */
uint32_t space_take_this (struct volume *v, uint32_t segment,
                          enum place_state state);
/* So many were granted at once: the next window may be larger. */
void space_window (struct volume *v, uint32_t granted);
/* The place that has this segment; NONE: none. */
uint32_t space_find (const struct volume *v, uint32_t segment);
/* The table is complete: sorted, it can be searched. */
void space_sort (struct volume *v);
/* Spare segments that are for the log, with `more` entries. */
uint32_t space_kept (const struct volume *v, uint64_t more);
/* The place has changed: the next group is to have it. */
void space_changed (struct volume *v, uint32_t place);
/* It leaves the map, and is spare when nothing holds it. */
void space_free (struct volume *v, uint32_t place);
/* Something that held it is over. */
void space_settle (struct volume *v, uint32_t place);
/* It is spare from now on. */
void space_spare (struct volume *v, uint32_t place);
/* Is there something freed of which the log must say that it is gone? */
bool space_lingers (const struct volume *v);

/* ---- volume-turn.c ---- */

/* True: the part may begin.  False: it comes to v->ready when it may. */
bool turn_take (struct volume *v, struct part *p);
void turn_end (struct volume *v, struct part *p);
/* The blocks that the part touches, and those that it covers as a whole. */
uint64_t turn_blocks (const struct volume *v, const struct part *p);
/* Does no part have the segment alone, or wait for it? */
bool turn_free (struct volume *v, uint32_t at);
/* Nobody needs the segment's place any more, if it has no blocks. */
void turn_settle (struct volume *v, uint32_t at);

/* ---- volume-root.c ---- */

/* v->root was changed: it is written.  Returns its version, which is durable when
 * rootio.stable is no less.
 */
uint64_t volume_root_put (struct volume *v);
void volume_root_pump (struct volume *v);
void volume_root_answered (struct volume *v, int error);
/* Both slots become zeroes. */
void volume_root_erase (struct volume *v);

/* ---- volume-log.c ---- */

/* Bring the group's entries into the log.  It is over when log.stage is LOG_IDLE again;
 * log.failed: it cannot be written any more.
 */
void volume_log_begin (struct volume *v);
void volume_log_pump (struct volume *v);
void volume_log_answered (struct volume *v, int error);

/* ---- volume-flush.c ---- */

/* This request has done all but a FLUSH. */
void volume_flush_add (struct volume *v, struct volume_request *r);
void volume_flush_pump (struct volume *v);
void volume_flush_answered (struct volume *v, struct vio *x, int error);
/* Blocks that the array has not flushed leave the map. */
void volume_flush_lost (struct volume *v);
/* This client may have lost the write that ends now. */
void volume_flush_owe (struct volume *v, struct volume_client *c);
/* A group without a client: for what is closed. */
void volume_flush_last (struct volume *v);

/* ---- volume-part.c ---- */

void part_begin (struct volume *v, struct volume_request *r);
/* Requests whose parts have ended get further ones. */
void part_pump (struct volume *v);
void part_run (struct volume *v, struct part *p);
void part_answered (struct volume *v, struct part *p, int error);
void part_fail (struct volume *v, struct part *p, int error);

/* ---- volume-open.c ---- */

void volume_open_begin (struct volume *v);
void volume_open_answered (struct volume *v, int error);
void volume_open_pump (struct volume *v);

#endif /* WEFT_VOLUME_INTERNAL_H */
