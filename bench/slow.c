/* slow.c: an nbdkit filter that delays requests, as nbdkit's delay filter does, by a
 * time that can be changed while it runs.
 *
 *   nbdkit --filter=.../slow.so ... slow-file=FILE [slow-writes=false]
 *
 * FILE has the delay in milliseconds; without the file there is none.  A member's
 * signs of life are writes (of its batch door), and it says how its disk is by reads of
 * 8 bytes there: with slow-writes=false they are not delayed, as those of a member are
 * not whose disk is slow.
 */

#include <config.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nbdkit-filter.h>

#define SIGN_BYTES 8

static char *file;
static int writes = true;

static int
slow_config (nbdkit_next_config *next, nbdkit_backend *nxdata, const char *key,
             const char *value)
{
  if (strcmp (key, "slow-file") == 0)
    return (file = nbdkit_absolute_path (value)) ? 0 : -1;
  if (strcmp (key, "slow-writes") == 0)
    return (writes = nbdkit_parse_bool (value)) == -1 ? -1 : 0;
  return next (nxdata, key, value);
}

static int
delay (int *err)
{
  FILE *f = file ? fopen (file, "re") : NULL;
  unsigned ms = 0;

  if (f == NULL)
    return 0;
  if (fscanf (f, "%u", &ms) != 1)
    ms = 0;
  fclose (f);
  if (ms == 0 || nbdkit_nanosleep (ms / 1000, ms % 1000 * 1000000) == 0)
    return 0;
  *err = ESHUTDOWN;
  return -1;
}

static int
slow_pread (nbdkit_next *next, void *handle, void *buf, uint32_t count,
            uint64_t offset, uint32_t flags, int *err)
{
  if ((writes || count != SIGN_BYTES) && delay (err) == -1)
    return -1;
  return next->pread (next, buf, count, offset, flags, err);
}

static int
slow_pwrite (nbdkit_next *next, void *handle, const void *buf, uint32_t count,
             uint64_t offset, uint32_t flags, int *err)
{
  if (writes && delay (err) == -1)
    return -1;
  return next->pwrite (next, buf, count, offset, flags, err);
}

static void
slow_unload (void)
{
  free (file);
}

static struct nbdkit_filter filter = {
  .name = "slow",
  .config = slow_config,
  .pread = slow_pread,
  .pwrite = slow_pwrite,
  .unload = slow_unload,
};

NBDKIT_REGISTER_FILTER (filter)
