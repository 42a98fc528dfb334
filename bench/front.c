/* front.c: an nbdkit plugin that hands each request to another thread and back.
 *
 *   nbdkit .../front.so size=BYTES [hand=false]
 *
 * Its bytes are in memory, and nothing else is done: what a request costs here is
 * what NBD, nbdkit and the change of threads cost any array behind nbdkit.  With
 * hand=false the change of threads is left out, too.
 */

#include <config.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

struct request {
  void *to;
  const void *from;
  uint32_t count;
  sem_t done;
  struct request *next;
};

static char *bytes;
static int64_t size;
static int hand = true;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t come = PTHREAD_COND_INITIALIZER;
static struct request *first;

static void *
server (void *unused)
{
  struct request *r;

  for (;;) {
    pthread_mutex_lock (&lock);
    while (first == NULL)
      pthread_cond_wait (&come, &lock);
    r = first;
    first = r->next;
    pthread_mutex_unlock (&lock);
    memcpy (r->to, r->from, r->count);
    sem_post (&r->done);
  }
  return NULL;
}

static void
serve (void *to, const void *from, uint32_t count)
{
  struct request r = { .to = to, .from = from, .count = count };

  if (!hand) {
    memcpy (to, from, count);
    return;
  }
  sem_init (&r.done, 0, 0);
  pthread_mutex_lock (&lock);
  r.next = first;
  first = &r;
  pthread_cond_signal (&come);
  pthread_mutex_unlock (&lock);
  while (sem_wait (&r.done) == -1)
    ;
  sem_destroy (&r.done);
}

static int
front_config (const char *key, const char *value)
{
  if (strcmp (key, "size") == 0)
    return (size = nbdkit_parse_size (value)) == -1 ? -1 : 0;
  if (strcmp (key, "hand") == 0)
    return (hand = nbdkit_parse_bool (value)) == -1 ? -1 : 0;
  nbdkit_error ("front: there is no parameter %s", key);
  return -1;
}

static int
front_after_fork (void)
{
  pthread_t thread;

  bytes = calloc (1, size);
  if (bytes == NULL || pthread_create (&thread, NULL, server, NULL) != 0) {
    nbdkit_error ("front: no memory or no thread");
    return -1;
  }
  return 0;
}

static void *
front_open (int readonly)
{
  return NBDKIT_HANDLE_NOT_NEEDED;
}

static int64_t
front_get_size (void *handle)
{
  return size;
}

static int
front_can_multi_conn (void *handle)
{
  return 1;
}

static int
front_pread (void *handle, void *buf, uint32_t count, uint64_t offset,
             uint32_t flags)
{
  serve (buf, bytes + offset, count);
  return 0;
}

static int
front_pwrite (void *handle, const void *buf, uint32_t count, uint64_t offset,
              uint32_t flags)
{
  serve (bytes + offset, buf, count);
  return 0;
}

static int
front_flush (void *handle, uint32_t flags)
{
  return 0;
}

static struct nbdkit_plugin plugin = {
  .name = "front",
  .config = front_config,
  .after_fork = front_after_fork,
  .open = front_open,
  .get_size = front_get_size,
  .can_multi_conn = front_can_multi_conn,
  .pread = front_pread,
  .pwrite = front_pwrite,
  .flush = front_flush,
};

NBDKIT_REGISTER_PLUGIN (plugin)
