/* bounds.h: every limit of Weft, in one place.
 *
 * A size in bytes ends in _SIZE or _BYTES, a time in its unit.  _MAX is the
 * largest value that is accepted; _DEFAULT is the value where none is given.
 */

#ifndef WEFT_BOUNDS_H
#define WEFT_BOUNDS_H

#include <stdint.h>

#define KiB(n) ((uint64_t) (n) << 10)
#define MiB(n) ((uint64_t) (n) << 20)
#define GiB(n) ((uint64_t) (n) << 30)
#define NS_PER_MS UINT64_C (1000000)

/* An array: n members in each of k stripe groups. */
#define GROUP_MEMBERS_MAX 32
#define ARRAY_MEMBERS_MAX 128
#define ARRAY_GROUPS_MAX 64
/* Copies of one byte: the data copy and its images. */
#define COPIES_MAX 4
#define UNIT_BYTES_MIN KiB (4)
#define UNIT_BYTES_MAX MiB (4)
#define UNIT_BYTES_DEFAULT KiB (256)

/* A member: header, then data.  See docs/FORMAT.md. */
#define HEADER_BYTES MiB (1)
#define EXTENT_BYTES MiB (4) /* one bit of the intent map */
#define MEMBER_DATA_BYTES_MAX (GiB (1024) * 31)

/* Requests.  The largest is what the array advertises; nbdkit itself lets
 * 64 MiB through, and those are served too.
 */
#define REQUEST_BYTES_ADVERTISED MiB (8)
#define REQUEST_BYTES_MAX MiB (64)

/* A batch: one NBD write of many scattered records. */
#define BATCH_RECORDS_MAX 1024
#define BATCH_BYTES_MAX MiB (2)

/* The image buffer of an array process. */
#define IMAGE_BUFFER_BYTES_MIN MiB (1)
#define IMAGE_BUFFER_BYTES_DEFAULT MiB (64)
#define IMAGE_BUFFER_BYTES_MAX GiB (4)
#define IMAGE_AGE_MS_DEFAULT 200
#define IMAGE_AGE_MS_MAX 10000
/* A run of images at least this long travels as a write of its own. */
#define IMAGE_RUN_BYTES KiB (32)

/* A write of at least this size goes past the image buffer.  If the buffer is
 * more than half full, a write of half this size does, too, because its images
 * would travel alone anyway.
 */
#define THROUGH_BYTES KiB (64)

/* Bad ranges whose loss is accepted at once. */
#define LOSS_RANGES_MAX 1024

/* A member that has not answered a request for so long is lost. */
#define IO_TIMEOUT_MS_DEFAULT 15000

/* A disk that has completed nothing for HUNG_MS, though its member reads it,
 * hangs (member/pulse.h). After DOUBTFUL_MS, no new decision relies on it.
 */
#define HUNG_MS 3500
#define DOUBTFUL_MS 1000

/* Sessions that write an array at the same time, each a part of it, or by leases. */
#define WRITERS_MAX 32

/* Leases by range: their alignment; the cells in which conflicts are counted
 * and near whose borders prefetched leases end; the number of leases of a
 * session and of an array; the number of ranges in one request; the time for
 * which a neighbouring range must not have been written to be given back, too.
 */
#define LEASE_BYTES 512
#define LEASE_REGION_BYTES KiB (16)
#define SESSION_LEASES_MAX 16384
#define ARRAY_LEASES_MAX 65536
#define LEASE_ASKS_MAX 16
#define LEASE_COLD_MS 10000

/* A pool (core/format/pool.h), and its volumes. */
#define POOL_SEGMENT_BYTES_MIN KiB (256)
#define POOL_SEGMENT_BYTES_DEFAULT MiB (1)
#define POOL_SEGMENT_BYTES_MAX GiB (1)
#define POOL_SEGMENTS_MAX (UINT32_C (1) << 24)
#define POOL_SEGMENTS_MIN 16
#define POOL_ROOTS_MIN 16
#define POOL_ROOTS_MAX 4096
#define POOL_SNAPSHOTS_MAX 1000
#define POOL_BRANCHES_MAX 64
#define POOL_LOG_SEGMENTS_MAX 2500
#define VOLUME_BYTES_MAX (GiB (1024) * 64)
/* Segments that a volume has in store: at first, and at most. */
#define VOLUME_WINDOW_MIN 16
#define VOLUME_WINDOW_MAX 1024
/* The window is halved each time when for so long no segment was taken for data. */
#define VOLUME_WINDOW_MS 1000
/* A write waits so long for a segment; segments that a trim has freed are free for other
 * use after so long even if no client sends a FLUSH.
 */
#define VOLUME_FULL_WAIT_MS_DEFAULT 60000
#define VOLUME_FULL_WAIT_MS_MAX 3600000
#define VOLUME_FREED_MS 1000
/* Runs of segments in one grant; segments of which one record of weftd has the owners; the
 * share of a pool that is for logs alone, and at least so many segments.
 */
#define VOLUME_RUNS_MAX 256
#define POOL_PAGE_SEGMENTS 4096
#define POOL_LOG_SHARE 256
#define POOL_LOG_SEGMENTS_MIN 4
/* Segments in which one request is carried out at a time. */
#define VOLUME_PARTS_MAX 64
/* Buffers for blocks of which a client writes only a part. */
#define VOLUME_BOUNCES 64

/* Control connections to weftd. */
#define HEARTBEAT_MS 1000
#define REST_MS 2000 /* between heartbeats of a member without work */
#define SESSION_TTL_MS 10000
#define MEMBER_TTL_MS 5000
/* A member that has not heard weftd for so long gives joining members nothing. */
#define SOURCE_TTL_MS 60000

/* A spare takes the place of a member that has been out for so long. */
#define SPARE_AFTER_MS_DEFAULT 600000
#define SPARE_AFTER_MS_MAX ((uint64_t) 365 * 24 * 3600 * 1000)

/* A rebuild gets at least so many bytes a second while clients work. */
#define REBUILD_FLOOR_DEFAULT MiB (4)

/* Epochs count up from 1, one for each change.  The bound only keeps nonsense
 * out, and sums from overflowing; JSON's integers have a sign.
 */
#define EPOCH_MAX ((uint64_t) 1 << 60)
/* No number that weftd or a writer counts is ever so far beyond what is known of it. */
#define AHEAD_MAX ((uint64_t) 1 << 32)

/* The same bound holds for the starts of weftd and the writes of a superblock,
 * or of a list of bad ranges.  A program that reaches the bound says so, and
 * writes nothing.
 */
#define GENERATION_MAX EPOCH_MAX
#define SEQUENCE_MAX EPOCH_MAX
/* The numbers of give-backs and of recovery orders begin here, for a generation
 * of weftd: other generations around it have other numbers, and all are below
 * 2^63. An imported cluster's generation may be the seconds since 1970, which
 * pass 2^31 in 2038, or any number that a disk has seen.
 */
#define LEASE_NUMBERS(generation) (((generation) & INT32_MAX) << 32)

/* While data is written, a round (core/array/array-round.c) begins every ROUND_MS.
 * A FLUSH is answered when the last two complete rounds began no earlier than
 * ROUND_LATE_MS before the last write that the FLUSH stands for.
 */
#define ROUND_MS 1000
#define ROUND_LATE_MS 3000

/* Writing sessions whose intents a member tells apart. */
#define MEMBER_SESSIONS_MAX 64

/* Sessions of an array that are over, and whose tokens are of an epoch that members
 * serve still, with those that are not over yet: in all, of one node, and those for which
 * readers leave room, so that writers find places.  After so many ends of one node's, or in
 * all, tokens are renewed.
 */
#define OVER_MAX 512
#define OVER_NODE_MAX 96
#define OVER_WRITERS 64
#define OVER_NODE_RENEW 32
/* In one answer to a member, and of those that a member knows. */
#define OVER_TOLD_MAX 64
#define MEMBER_OVER_MAX 1024

/* Extents that a joining member copies at a time. */
#define JOIN_COPIES_MAX 64

#define NAME_BYTES_MAX 63 /* [a-z0-9][a-z0-9-]{0,62} */
#define TOKEN_BYTES_MAX 319
#define KEY_BYTES 32

#endif /* WEFT_BOUNDS_H */
