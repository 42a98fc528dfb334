/* stats.h: the counters that an array process reports to weftd. */

#ifndef WEFT_STATS_H
#define WEFT_STATS_H

#include <stdbool.h>
#include <stdint.h>

#include "bounds.h"
#include "latency.h"

struct array_stats {
  uint64_t reads, writes, flushes, zeroes, trims; /* requests done */
  uint64_t read_bytes, write_bytes;
  uint64_t read_ns, write_ns, flush_ns;  /* sums of latencies */
  struct latency read, write, flush;     /* the same, one by one */
  uint64_t image_bytes, image_bytes_max; /* buffered now; the bound */
  uint64_t image_oldest_ns;              /* age; 0 when none */
  uint64_t memory_wait_ns; /* for so long a write has waited for memory of this
                              host; 0: none */
  uint64_t images_sent, images_replaced; /* bytes */
  uint64_t batches;
  unsigned requests_waiting;
  unsigned ios_in_flight;
  struct {
    uint64_t service_ns; /* from request to answer, mean of the last seconds;
                            0: nothing was asked */
    uint64_t timeout_ns; /* that it may keep silent before it is probed */
    bool suspect;        /* far slower than its peers: read around */
    uint64_t refused_ns; /* for so long it has refused a request for the moment
                               that still waits; 0: none */
    struct latency service; /* since the start; FLUSH not counted */
  } member[ARRAY_MEMBERS_MAX];
};

#endif /* WEFT_STATS_H */
