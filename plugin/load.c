/* load.c: how busy a member and its host are, read from /proc. */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load.h"

/* The share of time in which the CPUs were not idle since the last look. */
static double
cpu_use (struct load_meter *meter)
{
  uint64_t v[8] = { 0 }, all = 0, idle, busy;
  double use = 0;
  FILE *f = fopen ("/proc/stat", "re");

  /* user nice system idle iowait irq softirq steal */
  if (f == NULL)
    return 0;
  if (fscanf (f,
              "cpu %" SCNu64 "%" SCNu64 "%" SCNu64 "%" SCNu64 "%" SCNu64
              "%" SCNu64 "%" SCNu64 "%" SCNu64,
              &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7]) >= 5) {
    for (int i = 0; i < 8; i++)
      all += v[i];
    idle = v[3] + v[4];
    busy = all - idle;
    /* The kernel's own counts of iowait may go back a little. */
    if (meter->all != 0 && all > meter->all && busy > meter->busy)
      use = (double) (busy - meter->busy) / (all - meter->all);
    meter->busy = busy;
    meter->all = all;
  }
  fclose (f);
  return use < 1 ? use : 1;
}

/* The memory that programs could get, caches included: "MemFree" alone is near
 * 0 on any host that has been up for a while.
 */
static uint64_t
memory_free (void)
{
  char line[256];
  uint64_t kib = 0;
  FILE *f = fopen ("/proc/meminfo", "re");

  if (f == NULL)
    return 0;
  while (fgets (line, sizeof line, f))
    if (sscanf (line, "MemAvailable: %" SCNu64, &kib) == 1)
      break;
  fclose (f);
  return kib * 1024;
}

/* The traffic of all interfaces except the loopback. */
static void
network (uint64_t *rx, uint64_t *tx)
{
  char line[512], name[64];
  uint64_t r, t;
  FILE *f = fopen ("/proc/net/dev", "re");

  *rx = *tx = 0;
  if (f == NULL)
    return;
  while (fgets (line, sizeof line, f))
    if (sscanf (line,
                " %63[^: ]: %" SCNu64 " %*u %*u %*u %*u %*u %*u %*u %" SCNu64,
                name, &r, &t) == 3 &&
        strcmp (name, "lo") != 0) {
      *rx += r;
      *tx += t;
    }
  fclose (f);
}

json_t *
load_json (struct load_meter *meter, const struct load_counters *c)
{
  uint64_t rx, tx;
  double load;

  network (&rx, &tx);
  if (getloadavg (&load, 1) != 1)
    load = 0;
  return json_pack (
    "{s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "cpu",
    cpu_use (meter), "loadavg", load, "mem_free", (json_int_t) memory_free (),
    "disk_read_bytes", (json_int_t) c->read_bytes, "disk_write_bytes",
    (json_int_t) c->write_bytes, "disk_reads", (json_int_t) c->reads,
    "disk_writes", (json_int_t) c->writes, "flushes", (json_int_t) c->flushes,
    "net_rx_bytes", (json_int_t) rx, "net_tx_bytes", (json_int_t) tx);
}
