/* sim.h: the simulator of the array engine.
 *
 * sim.c is a run; sim-world.c its events: the clients, weftd, and the faults; sim-event.c
 * its clock.  sim-member.c are the members: their content, and the part of it that would
 * survive a power cut.  sim-history.c is the judge: it knows every client's requests and
 * answers, and nothing of the engine.
 *
 * Storage is looked at in grains.  A write has a version, its number in the
 * order of submission, and fills each of its grains with that version and the
 * grain's number; zero is the version of nothing and of zeroes.
 */

#ifndef WEFT_SIM_H
#define WEFT_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "array/array.h"
#include "layout/layout.h"

/* Random numbers: one stream for a run, so that its seed replays it. */
void sim_seed (uint64_t seed);
uint64_t sim_random (void);
uint64_t sim_below (uint64_t n); /* 0 ... n-1 */
bool sim_chance (unsigned percent);

/* The clock, in ns, and what is to happen.  sim_pop sets the clock; NULL: there
 * is nothing.
 */
extern uint64_t sim_now;
void sim_push (uint64_t at, void *what);
uint64_t sim_next (void); /* when; UINT64_MAX: never */
void *sim_pop (void);

extern bool sim_verbose;
/* The runs begin; they end well, or else this says how the last one is replayed. */
void sim_begin (void (*how_to_replay) (void));
void sim_well (void);
/* Ends the run: prints the seed and what is wrong. */
void sim_fail (const char *fmt, ...)
  __attribute__ ((format (printf, 1, 2), noreturn));
void sim_trace (const char *fmt, ...) __attribute__ ((format (printf, 1, 2)));

/* Grains. */
extern unsigned grain_bytes;
void grain_fill (void *buf, uint64_t grain, uint64_t count, uint64_t version);
/* The version of a grain; fails when it is torn or another grain's. */
uint64_t grain_version (const void *buf, uint64_t grain, const char *where);

/* Known moments of a grain, or a client, only get later. */
static inline void
raise_to (uint64_t *to, uint64_t version)
{
  if (*to < version)
    *to = version;
}

/* Members. */
enum sim_map {
  SIM_HELD,   /* bits of the session, */
  SIM_LEFT,   /* of nobody, since a power cut, */
  SIM_TODO,   /* of a joining member: to be copied; ... */
  SIM_COPIED, /* ... it is, and perhaps not stable */
  SIM_MAPS
};
enum sim_phase { SIM_SERVING, SIM_WAITING, SIM_COPYING };
struct sim_member {
  uint8_t *now;         /* the content that a read sees */
  uint8_t *durable;     /* the content that survives a power cut */
  bool *bad;            /* for each grain: can't be read, until it is written */
  bool *maps[SIM_MAPS]; /* for each extent: the intent map */
  enum sim_phase phase; /* of joining */
  uint64_t round;       /* that it has */
  uint64_t copying;     /* this extent; UINT64_MAX: none */
  uint64_t bytes, extent_bytes;
};
void sim_member_init (struct sim_member *m, uint64_t bytes,
                      uint64_t extent_bytes);
/* Does a bit of the intent map stand? */
bool sim_member_dirty (const struct sim_member *m, uint64_t extent);
/* `gone` is called for each grain that is to lose a write. */
void sim_member_cut (struct sim_member *m, void (*gone) (uint64_t offset));
/* Its content is no longer trusted: all of it is dirty. */
void sim_member_forget (struct sim_member *m);
/* Begin to join: dirty extents must be copied. */
void sim_member_wait (struct sim_member *m);
/* The clears of a batch, if it is one: how many bytes of extents, from where; false:
 * there are no further ones.
 */
bool sim_member_clears (const struct sim_member *m, const struct array_io *io,
                        unsigned i, uint64_t *offset, uint64_t *length);
/* Does it write anything in this range? */
bool sim_member_writes (const struct sim_member *m, const struct array_io *io,
                        uint64_t offset, uint64_t length);
void sim_member_free (struct sim_member *m);
/* Carry out; returns an errno.  buf is io->buf, or a copy of it. */
int sim_member_execute (struct sim_member *m, struct array_io *io, void *buf);

#define JUDGE_CLIENTS 3

/* Which clients may get an error from FLUSH because acknowledged data is gone.  Moments
 * are a judge's own: submissions and acknowledgements, in their order.
 */
struct lapses {
  uint64_t stable; /* data acknowledged before is stable: a FLUSH was done */
  struct {
    uint64_t wrote[ARRAY_MEMBERS_MAX]; /* when last, with a copy there */
    bool may;                          /* a FLUSH of its may fail ... */
    uint64_t may_last;         /* ... for what was acknowledged until then */
  } client[JUDGE_CLIENTS + 1]; /* the last: the closed clients */
  bool may;                    /* a FLUSH of anybody's */
  uint64_t may_last;
};
/* May a FLUSH that this client asks for now fail? */
bool lapses_may (const struct lapses *l, unsigned client);
/* A FLUSH that it requested at that moment is over. */
void lapses_told (struct lapses *l, unsigned client, uint64_t at);
/* A member may have lost what was not stable; false: it had nothing of that. */
bool lapses_add (struct lapses *l, unsigned member);
void lapses_close (struct lapses *l, unsigned client);

/* The judge. */
struct judge_world {
  const struct layout *layout;
  struct sim_member *members;
  const bool *recorded_out; /* weftd's state of each member */
  const bool *heard_out;    /* and the state that the engine has heard */
  bool sync;                /* dup = sync-client */
  struct array *const *array;
};
struct judged; /* a request, from its submission to its end */
void judge_begin (const struct judge_world *world);
void judge_end (void);
/* Of this client.  For a write, fills r->buf. */
struct judged *judge_submitted (struct array_request *r, unsigned client);
/* The client has closed its connection; from now on it is another. */
void judge_closed (unsigned client);
/* Checks the client's answer, and frees j.  may_fail: an error is excused.
 */
void judge_done (struct judged *j, struct array_request *r, bool may_fail);
/* The array prepares an epoch, in which these members are in-sync; and says
 * that it has.
 */
void judge_prepares (void);
void judge_prepared (const bool in_sync[]);
/* Unstable data in this place of a member is gone. */
void judge_gone (unsigned member, uint64_t offset);
/* The array hears that it may be; counts: of an in-sync copy. */
void judge_heard (unsigned member, bool counts);
/* Bits have fallen: where no copy that counts has one, all are the same and
 * stable.
 */
void judge_cleared (void);
/* The end of any run. */
void judge_kept (void);
/* All is quiet: every copy that counts is the same and what it should be. */
void judge_quiet (void);

#endif /* WEFT_SIM_H */
