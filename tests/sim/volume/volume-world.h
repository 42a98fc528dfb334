/* volume-world.h: the world of the simulator of the volume engine.
 *
 * volume-disk.c is a model of what an array promises: answers come in any order, but
 * writes that overlap take effect in the order of submission; a FLUSH makes stable what
 * was acknowledged before it was asked for; a power cut keeps any part of the rest; data
 * in caches may be lost, and then FLUSHes fail as core/array/array-flush.c says.
 * volume-world.c has the volumes, their clients, and weftd, which is a table of segments
 * and loses answers.  volume-judge.c knows the clients' requests and answers alone.
 * (sim-history.c judges the copies on members of a layout; here there are neither.)
 *
 * A grain is a sector.  A write has a version and fills each grain with it and the
 * grain's number, which is another one in each volume.
 */

#ifndef WEFT_VOLUME_WORLD_H
#define WEFT_VOLUME_WORLD_H

#include "sim.h"
#include "volume/volume.h"

#define SECTOR 512
#define VOLUMES_MAX 3
#define VOLUME_CLIENTS 2
#define NOBODY 255

/* ---- The array ---- */

/* The unstable sectors that a power cut keeps. */
enum cut_kind {
  CUT_NONE,
  CUT_ALL,
  CUT_ANY, /* of each sector any state since it was stable */
  CUT_ONE, /* one sector alone: disk_cut says which */
};

void disk_begin (uint64_t bytes);
void disk_end (void);
struct array_client *disk_client (unsigned owner); /* its number at the judge */
void disk_client_gone (unsigned owner);
/* tag: whose it is. */
void disk_submit (struct array_request *r, unsigned tag);
unsigned disk_waiting (void); /* requests that are not answered */
/* Carry out request number `which` of those that may be next, and take it away. */
struct array_request *disk_answer (uint64_t which, unsigned *tag);
/* A request in flight that nobody waits for any more; NULL: there is none. */
struct array_request *disk_dead (unsigned tag);
/* The host is dead; in-flight requests are carried out or not.  power: and the array has
 * lost its power.  Returns the number of unstable sectors.
 */
unsigned disk_cut (bool power, enum cut_kind kind, unsigned one);
/* Some of what is in caches is lost; false: there is nothing. */
bool disk_lose (void (*lost) (unsigned owner));
/* All requests from now on fail. */
extern int disk_error;
/* The numbers of requests in flight to the bytes in this range. */
unsigned disk_busy (uint64_t offset, uint64_t length);

/* ---- The judge ---- */

struct vjudged;
void vjudge_begin (unsigned volumes, uint64_t grains_each);
void vjudge_end (void);
struct vjudged *vjudge_submitted (struct volume_request *r, unsigned volume,
                                  unsigned client);
/* may: this error is excused. */
void vjudge_done (struct vjudged *j, struct volume_request *r, bool may);
/* The array has lost a write of this client's (of all if it is NOBODY). */
void vjudge_lost (unsigned owner);
void vjudge_lost_any (void);
/* The host of the volume was killed; later it is opened, and its content is this. */
void vjudge_killed (unsigned volume);
void vjudge_opened (unsigned volume, const void *content, uint64_t grains);
/* The volume is a new one: all zeroes. */
void vjudge_made (unsigned volume);

/* ---- Volumes ---- */

struct outstanding {
  struct volume_request r;
  struct vjudged *judged;
  unsigned volume, client;
  uint64_t at; /* of its submission */
};

struct world_volume {
  struct volume *v;
  uint8_t uuid[16];
  bool exists, open;     /* open: it was opened and its content was judged */
  uint64_t size;         /* the largest durable one */
  uint64_t log_sequence; /* of the log's first block */
  struct volume_client *clients[VOLUME_CLIENTS];
  unsigned outstanding;
  struct { /* asked of weftd */
    bool asked, decided;
    unsigned want, count;
    struct volume_run runs[64];
  } ask;
};

struct volume_world {
  struct pool_header pool;
  unsigned volumes;
  uint64_t grains_max; /* of a volume */
  struct world_volume volume[VOLUMES_MAX];
  uint8_t *owner; /* of each segment: volume or NOBODY */
  bool may_fail, full;
  bool importing;
  struct volume_request *was_read; /* by vworld_open */
  unsigned full_wait_ms;
  unsigned log_entries, parts; /* of struct volume_config */
  unsigned window;             /* the volumes' smallest */
  uint64_t requests, ios, cuts, kills, losses, flushes, full_errors, imports,
    anews, freed;
};
extern struct volume_world vw;

void vworld_begin (uint64_t segment_bytes, uint32_t segments, unsigned volumes,
                   uint64_t grains_max);
void vworld_end (void);
void vworld_make (unsigned volume, uint64_t size);
/* Begins to open it. */
void vworld_start (unsigned volume);
void vworld_resize (unsigned volume, uint64_t size);
/* Opens it, reads all of it, and has that judged. */
void vworld_open (unsigned volume);
void vworld_submit (unsigned volume, unsigned client, enum array_op op,
                    unsigned flags, uint64_t grain, uint64_t grains);
/* Takes the outputs of this volume. */
void vworld_outputs (unsigned volume);
/* Answers request number `which` (see disk_answer). */
void vworld_answer (uint64_t which);
/* weftd answers what a volume has asked for, or hears what it gives. */
void vworld_weftd (unsigned volume);
/* Everything is answered, in the order of submission or in any. */
void vworld_settle (bool any);
/* All hosts are killed, and perhaps the power is cut. */
unsigned vworld_kill (bool power, enum cut_kind kind, unsigned one);
/* weftd has lost its table, and reads all roots and logs. */
void vworld_import (void);
/* Closed, or deleted; nothing may be outstanding. */
void vworld_close (unsigned volume, bool delete);
void vworld_tick (unsigned volume);
/* All volumes hear that the array has lost writes. */
void vworld_lost (void);

#endif /* WEFT_VOLUME_WORLD_H */
