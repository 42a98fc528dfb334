/* volumes.h: the volumes of a pool, as exports of this process (docs/PROTOCOL.md,
 * "Volumes"): their names, clients, and what weftd and this process say to each other.
 *
 * A volume is opened when its first client comes, or for an order of weftd.  Some seconds
 * after its last client has gone it is closed.  While weftd is silent, a closed volume is kept, and
 * opened again: so clients of the same volumes come and go while weftd is down.
 */

#ifndef WEFT_VOLUMES_H
#define WEFT_VOLUMES_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "block.h"
#include "format/pool.h"

struct engine;
struct volumes;
struct nbdkit_exports;

/* weftd's answer to an attach.  Is the array a pool?  Or it was imported, and weftd does not
 * know that: this session finds out, because it has all of the array for itself.
 */
bool volumes_are_told (const json_t *reply);
/* A session that does not have all of it: if the first segment of an imported array is a
 * pool's, -1 after nbdkit_error.
 */
int volumes_are_absent (const json_t *reply, struct engine *e);
/* The volumes of this session; the layout of the array has array_bytes, and `below` is its block.  NULL after
 * nbdkit_error.
 */
struct volumes *volumes_new (const json_t *reply, const char *instance,
                             uint64_t array_bytes, struct block *below,
                             struct array *array);
/* The block for the engine, and the engine. */
struct block *volumes_block (const struct volumes *vs);
void volumes_ready (struct volumes *vs, struct engine *e);
/* All copies are in sync: read the pool's header, or write it; scan the pool, if weftd needs
 * that; start the thread.  -1 after nbdkit_error.
 */
int volumes_start (struct volumes *vs);
/* After volumes_start: the array was imported, and is no pool. */
bool volumes_plain (const struct volumes *vs);
/* Before engine_end: close all volumes, and stop the thread. */
void volumes_stop (struct volumes *vs);
/* After engine_free. */
void volumes_free (struct volumes *vs);

/* ---- Clients ---- */

struct volumes_export;

/* A client of this volume.  NULL after nbdkit_error and nbdkit_set_error. */
struct array_client *volumes_open (struct volumes *vs, const char *name,
                                   struct volumes_export **export);
void volumes_close (struct volumes *vs, struct volumes_export *export,
                    struct array_client *client);
uint64_t volumes_size (struct volumes *vs, struct volumes_export *export);
/* -1 after nbdkit_error. */
int volumes_list (struct volumes *vs, struct nbdkit_exports *exports);

/* ---- Heartbeats ---- */

/* The number of the last message that weftd has answered.  False: the array is not known to
 * be a pool.
 */
bool volumes_number (struct volumes *vs, uint64_t *number);
/* weftd's answer, perhaps with orders. */
void volumes_heard (struct volumes *vs, const json_t *reply);

#endif /* WEFT_VOLUMES_H */
