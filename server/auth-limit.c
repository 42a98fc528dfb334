/* auth-limit.c: how often a password may be tried: see auth-limit.h.
 *
 * Three buckets stand in the way of each try, and each fills up again with
 * time: one for this user from this address, one for this address, one for this
 * user.  The first is the smallest, and is asked first: so whoever tries one
 * user's password again and again is stopped there, and neither this user at
 * another address, nor another user at this address, is kept out.
 *
 * An address of IPv6 counts as its network (addresses_origin).
 *
 * The last is not asked where the user has given the right password within a
 * day: else a few hosts could keep anybody out whose name they know.
 */

#include <config.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "addresses.h"
#include "auth-limit.h"
#include "bucket.h"

#define BUCKETS_MAX 2048
#define KNOWN_MAX 1024
#define KNOWN_MS (UINT64_C (24) * 3600 * 1000)

struct size {
  char kind;
  unsigned tries;     /* when it is full */
  uint64_t refill_ms; /* for each try */
};

static const struct size sizes[] = {
  { 'b', 5, 30000 }, /* both */
  { 'a', 40, 3000 }, /* the address */
  { 'u', 40, 3000 }, /* the user */
};

#define KINDS (sizeof sizes / sizeof sizes[0])

/* A user at an address. */
struct known {
  char key[128];  /* of their bucket; "": free */
  uint64_t at_ms; /* when the password was right */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct bucket buckets[BUCKETS_MAX];
static struct known known[KNOWN_MAX];

static void
make_key (char key[128], char kind, const char *address, const char *user)
{
  char origin[ADDRESSES_ORIGIN_BYTES] = "";

  if (kind != 'u')
    addresses_origin (address, origin);
  snprintf (key, 128, "%c %s %.63s", kind, origin, kind == 'a' ? "" : user);
}

static bool
is_known (const char *address, const char *user, uint64_t now_ms)
{
  char key[128];

  make_key (key, 'b', address, user);
  for (size_t i = 0; i < KNOWN_MAX; i++)
    if (strcmp (known[i].key, key) == 0)
      return now_ms < known[i].at_ms + KNOWN_MS;
  return false;
}

/* How many of the buckets stand in the way. */
static size_t
kinds_for (const char *address, const char *user, uint64_t now_ms)
{
  return is_known (address, user, now_ms) ? KINDS - 1 : KINDS;
}

bool
limit_is_known (const char *address, const char *user, uint64_t now_ms)
{
  bool r;

  pthread_mutex_lock (&lock);
  r = is_known (address, user, now_ms);
  pthread_mutex_unlock (&lock);
  return r;
}

unsigned
limit_take (const char *address, const char *user, uint64_t now_ms)
{
  struct bucket *b[KINDS];
  uint64_t wait_ms = 0;
  size_t kinds;
  char key[128];

  pthread_mutex_lock (&lock);
  kinds = kinds_for (address, user, now_ms);
  for (size_t i = 0; i < kinds && wait_ms == 0; i++) {
    uint64_t full = sizes[i].tries * sizes[i].refill_ms;

    make_key (key, sizes[i].kind, address, user);
    b[i] = bucket_find (buckets, BUCKETS_MAX, key, now_ms);
    if (b[i]->used_ms + sizes[i].refill_ms > full)
      wait_ms = b[i]->used_ms + sizes[i].refill_ms - full;
    else
      b[i]->used_ms += sizes[i].refill_ms;
    if (wait_ms > 0) /* what was taken from the others goes back */
      while (i-- > 0)
        b[i]->used_ms -= sizes[i].refill_ms;
  }
  pthread_mutex_unlock (&lock);
  return (unsigned) ((wait_ms + 999) / 1000);
}

static void
give_back (const char *address, const char *user, uint64_t now_ms)
{
  size_t kinds = kinds_for (address, user, now_ms);
  char key[128];

  for (size_t i = 0; i < kinds; i++) {
    struct bucket *b;

    make_key (key, sizes[i].kind, address, user);
    b = bucket_find (buckets, BUCKETS_MAX, key, now_ms);
    b->used_ms = b->used_ms > sizes[i].refill_ms
                   ? b->used_ms - sizes[i].refill_ms
                   : 0;
  }
}

void
limit_give_back (const char *address, const char *user, uint64_t now_ms)
{
  pthread_mutex_lock (&lock);
  give_back (address, user, now_ms);
  pthread_mutex_unlock (&lock);
}

void
limit_known (const char *address, const char *user, uint64_t now_ms)
{
  struct known *k = &known[0];
  char key[128];

  make_key (key, 'b', address, user);
  pthread_mutex_lock (&lock);
  give_back (address, user, now_ms);
  for (size_t i = 0; i < KNOWN_MAX; i++) {
    if (strcmp (known[i].key, key) == 0) {
      k = &known[i];
      break;
    }
    if (known[i].at_ms < k->at_ms) /* the one of longest ago must go */
      k = &known[i];
  }
  strcpy (k->key, key);
  k->at_ms = now_ms;
  pthread_mutex_unlock (&lock);
}
