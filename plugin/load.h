/* load.h: how busy a member and its host are, for weftd.
 *
 * CPU, free memory, network and disk throughput go along with each heartbeat.
 * CEFT-PVFS chooses between copies by such figures (docs/DESIGN.md 10); here
 * people look at them.
 */

#ifndef WEFT_LOAD_H
#define WEFT_LOAD_H

#include <stdatomic.h>
#include <stdint.h>

#include <jansson.h>

/* The member's own counters since its start.  Any thread adds. */
struct load_counters {
  _Atomic uint64_t read_bytes, write_bytes;
  _Atomic uint64_t reads, writes, flushes;
};

static inline void
load_count (_Atomic uint64_t *counter, uint64_t n)
{
  atomic_fetch_add_explicit (counter, n, memory_order_relaxed);
}

/* The values for measuring the CPU's use between two looks.  Start with zeroes.
 */
struct load_meter {
  uint64_t busy, all;
};

/* The `load` object of a heartbeat.  Figures of the host that cannot be read
 * are left 0.  NULL: out of memory.
 */
json_t *load_json (struct load_meter *meter,
                   const struct load_counters *counters);

#endif /* WEFT_LOAD_H */
