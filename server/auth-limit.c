/* auth-limit.c: how often a password may be tried: see auth-limit.h.
 *
 * Before each try of a stranger stand three buckets, and each fills up again
 * with time: one for this user from this address, one for this address, one for
 * this user.  The first is the smallest, and is asked first: so repeated tries
 * of one user's password stop there, and neither this user at another address,
 * nor another user at this address, is kept out.
 *
 * An address of IPv6 counts as its network (addresses_origin).
 *
 * A device that has logged in as this user before has a bucket of its own, and no
 * other: strangers keep it out neither from its own address nor from many, also after
 * weftd was started again.
 */

#include <config.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "addresses.h"
#include "auth-limit.h"
#include "bucket.h"

#define BUCKETS_MAX 2048

struct size {
  char kind;
  unsigned tries;     /* when it is full */
  uint64_t refill_ms; /* for each try */
};

static const struct size of_stranger[] = {
  { 'b', 5, 30000 }, /* both */
  { 'a', 40, 3000 }, /* the address */
  { 'u', 40, 3000 }, /* the user */
};
static const struct size of_device[] = { { 'd', 5, 30000 } };

#define KINDS_MAX (sizeof of_stranger / sizeof of_stranger[0])

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct bucket buckets[BUCKETS_MAX];

/* The sizes of the buckets in the caller's way; returns how many. */
static size_t
sizes_for (const struct limit_caller *c, const struct size **sizes)
{
  *sizes = c->device ? of_device : of_stranger;
  return c->device ? 1 : KINDS_MAX;
}

/* Until its bucket is used it may be given to another: so find the next one after that. */
static struct bucket *
find (const struct limit_caller *c, char kind, uint64_t now_ms)
{
  char key[128], origin[ADDRESSES_ORIGIN_BYTES];

  addresses_origin (c->address, origin);
  if (kind == 'd')
    snprintf (key, sizeof key, "d %.100s", c->device);
  else
    snprintf (key, sizeof key, "%c %s %.63s", kind, kind == 'u' ? "" : origin,
              kind == 'a' ? "" : c->user);
  return bucket_find (buckets, BUCKETS_MAX, key, now_ms);
}

unsigned
limit_take (const struct limit_caller *c, uint64_t now_ms)
{
  struct bucket *b[KINDS_MAX];
  const struct size *sizes;
  uint64_t wait_ms = 0;
  size_t kinds;

  pthread_mutex_lock (&lock);
  kinds = sizes_for (c, &sizes);
  for (size_t i = 0; i < kinds && wait_ms == 0; i++) {
    uint64_t full = sizes[i].tries * sizes[i].refill_ms;

    b[i] = find (c, sizes[i].kind, now_ms);
    if (b[i]->used_ms + sizes[i].refill_ms > full)
      wait_ms = b[i]->used_ms + sizes[i].refill_ms - full;
    else
      b[i]->used_ms += sizes[i].refill_ms;
    if (wait_ms > 0) /* the tokens taken from the other buckets go back */
      while (i-- > 0)
        b[i]->used_ms -= sizes[i].refill_ms;
  }
  pthread_mutex_unlock (&lock);
  return (unsigned) ((wait_ms + 999) / 1000);
}

void
limit_give_back (const struct limit_caller *c, uint64_t now_ms)
{
  const struct size *sizes;
  size_t kinds;

  pthread_mutex_lock (&lock);
  kinds = sizes_for (c, &sizes);
  for (size_t i = 0; i < kinds; i++) {
    struct bucket *b = find (c, sizes[i].kind, now_ms);

    b->used_ms = b->used_ms > sizes[i].refill_ms
                   ? b->used_ms - sizes[i].refill_ms
                   : 0;
  }
  pthread_mutex_unlock (&lock);
}
