/* vitastor.c: an nbdkit plugin that is a client of Vitastor (https://vitastor.io), so
 * that it is measured behind the same front as the others (other).
 *
 *   nbdkit .../vitastor.so config=FILE image=NAME
 *
 * Vitastor's client belongs to one thread.  The threads of nbdkit put their requests
 * into a queue, wake that thread by an eventfd, and sleep until they are done.
 */

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <vitastor_c.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

enum op { OP_READ, OP_WRITE, OP_SYNC };

struct request {
  enum op op;
  struct iovec buf;
  uint64_t offset;
  long result;
  sem_t done;
  struct request *next;
};

static const char *config, *image;
static vitastor_c *client;
static void *watch;
static uint64_t inode;
static sem_t opened;
static int wake = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct request *first, **last = &first;

static void
on_watch (void *opaque, long result)
{
  watch = (void *) result;
}

static void
on_done (void *opaque, long result)
{
  struct request *r = opaque;

  r->result = result;
  sem_post (&r->done);
}

static void
on_read (void *opaque, long result, uint64_t version)
{
  on_done (opaque, result);
}

static void
submit (struct request *r)
{
  switch (r->op) {
  case OP_READ:
    vitastor_c_read (client, inode, r->offset, r->buf.iov_len, &r->buf, 1,
                     on_read, r);
    break;
  case OP_WRITE:
    vitastor_c_write (client, inode, r->offset, r->buf.iov_len, 0, &r->buf, 1,
                      on_done, r);
    break;
  case OP_SYNC:
    vitastor_c_sync (client, on_done, r);
    break;
  }
}

static void
submit_all (void)
{
  struct request *r, *next;

  pthread_mutex_lock (&lock);
  r = first;
  first = NULL;
  last = &first;
  pthread_mutex_unlock (&lock);
  for (; r; r = next) {
    next = r->next; /* it may be done, and gone, before submit returns */
    submit (r);
  }
}

static void *
serve (void *unused)
{
  const char *options[] = { "config_path", config };
  struct pollfd fds[2] = { { .fd = wake, .events = POLLIN },
                           { .fd = -1, .events = POLLIN } };
  uint64_t count;

  client = vitastor_c_create_uring_json (options, 2);
  if (client) {
    fds[1].fd = vitastor_c_uring_register_eventfd (client);
    vitastor_c_uring_wait_ready (client);
    vitastor_c_watch_inode (client, (char *) image, on_watch, NULL);
    if (watch)
      inode = vitastor_c_inode_get_num (watch);
  }
  sem_post (&opened);
  while (inode) {
    vitastor_c_uring_handle_events (client);
    if (poll (fds, 2, -1) > 0 && fds[0].revents &&
        read (wake, &count, sizeof count) == sizeof count)
      submit_all ();
  }
  return NULL;
}

static int
run (enum op op, void *buf, uint32_t count, uint64_t offset)
{
  struct request r = { .op = op,
                       .buf = { .iov_base = buf, .iov_len = count },
                       .offset = offset };
  static const uint64_t one = 1;

  sem_init (&r.done, 0, 0);
  pthread_mutex_lock (&lock);
  *last = &r;
  last = &r.next;
  pthread_mutex_unlock (&lock);
  if (write (wake, &one, sizeof one) == -1) {
    nbdkit_error ("vitastor: eventfd: %m");
    return -1;
  }
  while (sem_wait (&r.done) == -1)
    ;
  sem_destroy (&r.done);
  if (r.result == (op == OP_SYNC ? 0 : (long) count))
    return 0;
  nbdkit_error ("vitastor: it answered %ld", r.result);
  nbdkit_set_error (r.result < 0 ? -r.result : EIO);
  return -1;
}

static int
vitastor_config (const char *key, const char *value)
{
  if (strcmp (key, "config") == 0)
    config = value;
  else if (strcmp (key, "image") == 0)
    image = value;
  else {
    nbdkit_error ("vitastor: there is no parameter %s", key);
    return -1;
  }
  return 0;
}

static int
vitastor_config_complete (void)
{
  if (config && image)
    return 0;
  nbdkit_error ("vitastor: config=FILE and image=NAME are needed");
  return -1;
}

static int
vitastor_after_fork (void)
{
  pthread_t thread;

  sem_init (&opened, 0, 0);
  wake = eventfd (0, EFD_CLOEXEC);
  if (wake == -1 || pthread_create (&thread, NULL, serve, NULL) != 0) {
    nbdkit_error ("vitastor: no eventfd or no thread");
    return -1;
  }
  while (sem_wait (&opened) == -1)
    ;
  if (inode)
    return 0;
  nbdkit_error ("vitastor: there is no image %s, or no cluster", image);
  return -1;
}

static void *
vitastor_open (int readonly)
{
  return NBDKIT_HANDLE_NOT_NEEDED;
}

static int64_t
vitastor_get_size (void *handle)
{
  return (int64_t) vitastor_c_inode_get_size (watch);
}

static int
vitastor_can_multi_conn (void *handle)
{
  return 1;
}

static int
vitastor_block_size (void *handle, uint32_t *minimum, uint32_t *preferred,
                     uint32_t *maximum)
{
  *minimum = *preferred = 4096;
  *maximum = 32 << 20;
  return 0;
}

static int
vitastor_pread (void *handle, void *buf, uint32_t count, uint64_t offset,
                uint32_t flags)
{
  return run (OP_READ, buf, count, offset);
}

static int
vitastor_pwrite (void *handle, const void *buf, uint32_t count, uint64_t offset,
                 uint32_t flags)
{
  return run (OP_WRITE, (void *) buf, count, offset);
}

static int
vitastor_flush (void *handle, uint32_t flags)
{
  return run (OP_SYNC, NULL, 0, 0);
}

static struct nbdkit_plugin plugin = {
  .name = "vitastor",
  .config = vitastor_config,
  .config_complete = vitastor_config_complete,
  .after_fork = vitastor_after_fork,
  .open = vitastor_open,
  .get_size = vitastor_get_size,
  .block_size = vitastor_block_size,
  .can_multi_conn = vitastor_can_multi_conn,
  .pread = vitastor_pread,
  .pwrite = vitastor_pwrite,
  .flush = vitastor_flush,
};

NBDKIT_REGISTER_PLUGIN (plugin)
