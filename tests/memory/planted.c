/* planted.c: an nbdkit plugin with a leak and a data race, on purpose.
 *
 * The memory tests run it just as they run Weft's own plugin, to show that
 * they would find what they look for.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

static unsigned long raced;

static void *
planted_open (int readonly)
{
  void *volatile lost = malloc (4321);

  lost = NULL;
  (void) lost;
  return NBDKIT_HANDLE_NOT_NEEDED;
}

static int64_t
planted_get_size (void *handle)
{
  return INT64_C (64) << 20;
}

static int
planted_can_multi_conn (void *handle)
{
  return 1;
}

static int
planted_pread (void *handle, void *buf, uint32_t count, uint64_t offset,
               uint32_t flags)
{
  raced++;
  memset (buf, 0, count);
  return 0;
}

/* The key by which the tests recognise what to run under a tool. */
static int
planted_config (const char *key, const char *value)
{
  return 0;
}

static struct nbdkit_plugin plugin = {
  .name = "planted",
  .config = planted_config,
  .open = planted_open,
  .get_size = planted_get_size,
  .can_multi_conn = planted_can_multi_conn,
  .pread = planted_pread,
};

NBDKIT_REGISTER_PLUGIN (plugin)
