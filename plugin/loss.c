/* loss.c: see loss.h.
 *
 * Each block is an ARRAY_ACCEPT (core/array/array.h), which writes zeroes only
 * where no copy can be read, in the epoch of the order: so nothing is destroyed that
 * was written since the administrator has looked, and an order of epoch 0 mends copies
 * alone.  Each copy is read in turn, for the bad copy may be one that a client's read
 * does not ask for.
 *
 * An order has a number, and is carried out once; weftd says it several times, and
 * answers may cross.
 */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "common/clock.h"
#include "engine.h"
#include "hangup.h"
#include "loss.h"
#include "format/bad.h"
#include "role.h"

#define STOP_MS 5000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake; /* a clock_condition */
static json_int_t newest;   /* the number of the last order */
static json_t *ordered;     /* the orders, in this sequence; NULL: none */
static bool started, quit, ended;
static pthread_t thread;
static atomic_bool any;
static struct engine *engine;
static const struct layout *layout;

bool
loss_any (void)
{
  return atomic_load (&any);
}

void
loss_take (const json_t *reply)
{
  const json_t *bad = json_object_get (reply, "bad");
  const json_t *order = json_object_get (reply, "accept_loss");
  json_int_t number = json_integer_value (json_object_get (order, "number"));

  if (json_is_boolean (bad))
    atomic_store (&any, json_is_true (bad));
  pthread_mutex_lock (&lock);
  /* A weftd that was started again counts from elsewhere. */
  if (number && number != newest) {
    newest = number;
    if (ordered == NULL)
      ordered = json_array ();
    json_array_append_new (ordered, json_deep_copy (order));
    if (started)
      pthread_cond_signal (&wake);
  }
  pthread_mutex_unlock (&lock);
}

/* The result for the blocks of an order. */
struct result {
  uint64_t zeroed, kept, failed; /* bytes */
  int error;                     /* of the last one that failed */
};

static void
accept_block (struct array_client *client, uint64_t offset, uint64_t epoch,
              struct result *r)
{
  uint8_t buf[BAD_BLOCK_BYTES];
  struct layout_piece p;
  int error = 0;

  layout_map (layout, offset, BAD_BLOCK_BYTES, &p);
  for (unsigned c = 0; c < p.copies && error == 0; c++) {
    struct array_request request = { .op = ARRAY_ACCEPT,
                                     .client = client,
                                     .offset = offset,
                                     .length = BAD_BLOCK_BYTES,
                                     .buf = buf,
                                     .copy = 1 + c,
                                     .epoch = epoch };

    error = engine_run (engine, &request);
    if (error == 0 && request.lost) {
      r->zeroed += BAD_BLOCK_BYTES;
      return;
    }
  }
  if (error == 0)
    r->kept += BAD_BLOCK_BYTES;
  else {
    r->failed += BAD_BLOCK_BYTES;
    r->error = error;
  }
}

static bool
is_over (const struct result *r)
{
  bool over;

  pthread_mutex_lock (&lock);
  over = quit || hangup_ending () || (r->failed > 0 && r->error == ESHUTDOWN);
  pthread_mutex_unlock (&lock);
  return over;
}

static void
carry_out (struct array_client *client, const json_t *order)
{
  const uint64_t epoch = json_integer_value (json_object_get (order, "epoch"));
  struct result r = { 0 };
  const json_t *range;
  size_t i;

  json_array_foreach (json_object_get (order, "ranges"), i, range) {
    uint64_t at = json_integer_value (json_array_get (range, 0));
    uint64_t length = json_integer_value (json_array_get (range, 1));

    if (at % BAD_BLOCK_BYTES || at > layout->size || length > layout->size - at)
      continue;
    for (; length >= BAD_BLOCK_BYTES && !is_over (&r);
         at += BAD_BLOCK_BYTES, length -= BAD_BLOCK_BYTES)
      accept_block (client, at, epoch, &r);
  }
  if (epoch == 0)
    nbdkit_error ("array %s: %" PRIu64 " bytes that could not be read on one "
                  "member were copied from another",
                  params.array, r.kept);
  else
    nbdkit_error ("array %s: its loss was accepted: %" PRIu64 " bytes that no "
                  "copy can be read of are zeroes now, %" PRIu64 " were read "
                  "after all and kept",
                  params.array, r.zeroed, r.kept);
  if (r.failed > 0)
    nbdkit_error ("array %s: %" PRIu64 " bytes stay bad: %s", params.array,
                  r.failed,
                  r.error != EIO ? strerror (r.error)
                  : epoch == 0   ? "no other copy can be read"
                                 : "members have come or gone since then");
}

static void *
loss_thread (void *opaque)
{
  struct array_client *client = engine_client_open (engine);
  json_t *order, *one;
  size_t i;

  pthread_setname_np (pthread_self (), "weft-loss");
  pthread_mutex_lock (&lock);
  while (!quit) {
    if (ordered == NULL) {
      pthread_cond_wait (&wake, &lock);
      continue;
    }
    order = ordered;
    ordered = NULL;
    pthread_mutex_unlock (&lock);
    json_array_foreach (order, i, one)
      carry_out (client, one);
    json_decref (order);
    pthread_mutex_lock (&lock);
  }
  ended = true;
  pthread_cond_signal (&wake);
  pthread_mutex_unlock (&lock);
  engine_client_close (engine, client);
  return NULL;
}

int
loss_start (struct engine *e, const struct layout *l)
{
  int r;

  engine = e;
  layout = l;
  clock_condition (&wake);
  r = pthread_create (&thread, NULL, loss_thread, NULL);
  pthread_mutex_lock (&lock); /* answers of weftd may come already */
  started = r == 0;
  pthread_mutex_unlock (&lock);
  return r;
}

void
loss_stop (void)
{
  uint64_t until_ms = clock_ms () + STOP_MS;

  if (!started)
    return;
  pthread_mutex_lock (&lock);
  quit = true;
  pthread_cond_signal (&wake);
  while (!ended && clock_wait_ms (&wake, &lock, until_ms))
    ;
  if (!ended) {
    pthread_mutex_unlock (&lock);
    engine_abandon (engine);
    pthread_mutex_lock (&lock);
  }
  json_decref (ordered);
  ordered = NULL;
  pthread_mutex_unlock (&lock);
  pthread_join (thread, NULL);
  started = false;
}
