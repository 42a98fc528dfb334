/* quota.c: see quota.h. */

#include <config.h>

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/sys/queue.h>

#include "addresses.h"
#include "alloc.h"
#include "bucket.h"
#include "quota.h"

enum who { STRANGER, USER, ADMIN, NODE, ANYBODY, WHOS };

static const struct {
  unsigned each[QUOTA_KINDS], all[QUOTA_KINDS]; /* 0: there is no limit */
} limits[WHOS] = {
  [STRANGER] = { .each = { QUOTA_STRANGER_CALLS, 1, QUOTA_SMALL_BYTES },
                 .all = { QUOTA_STRANGERS_CALLS, 1, QUOTA_USERS_BYTES } },
  [USER] = { .each = { QUOTA_USER_CALLS, QUOTA_USER_STREAMS, QUOTA_USER_BYTES },
             .all = { QUOTA_USERS_CALLS, QUOTA_STREAMS, QUOTA_USERS_BYTES } },
  [ADMIN] = { .each = { QUOTA_USER_CALLS, QUOTA_USER_STREAMS,
                        QUOTA_USER_BYTES } },
  [NODE] = { .each = { QUOTA_NODE_CALLS, QUOTA_USER_STREAMS, QUOTA_NODE_BYTES },
             .all = { 0, QUOTA_STREAMS, QUOTA_NODES_BYTES } },
  [ANYBODY] = { .all = { 0, QUOTA_STREAMS, QUOTA_NODES_BYTES } },
};

/* A caller with requests under way. */
struct holder {
  LIST_ENTRY (holder) link;
  char key[QUOTA_KEY_BYTES];
  unsigned has[QUOTA_KINDS];
};

#define BUCKETS 256

#define ATTACHES_MAX 256

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD (, holder) holders[BUCKETS];
static unsigned all[WHOS][QUOTA_KINDS];
static struct bucket attaches[ATTACHES_MAX]; /* by node */
static uint64_t refused;

static enum who
who_is (const struct caller *caller)
{
  if (caller->role == ROLE_NOBODY)
    return STRANGER;
  if (caller->via == VIA_NONE)
    return ANYBODY;
  if (caller->role == ROLE_NODE)
    return NODE;
  return caller->role == ROLE_ADMIN ? ADMIN : USER;
}

void
quota_key (const struct caller *caller, char key[QUOTA_KEY_BYTES])
{
  char origin[ADDRESSES_ORIGIN_BYTES];

  switch (who_is (caller)) {
  case USER:
  case ADMIN:
    snprintf (key, QUOTA_KEY_BYTES, "%c %s",
              caller->via == VIA_TOKEN ? 't' : 'u',
              caller->owner[0] ? caller->owner : caller->name);
    return;
  case NODE:
    snprintf (key, QUOTA_KEY_BYTES, "n %s", caller->name);
    return;
  case STRANGER:
  case ANYBODY:
  case WHOS:
    break;
  }
  addresses_origin (caller->address, origin);
  snprintf (key, QUOTA_KEY_BYTES, "a %s", origin);
}

/* With the lock held.  NULL: it has nothing. */
static struct holder *
find (const char *key, unsigned *bucket)
{
  struct holder *h;
  unsigned hash = 5381;

  for (const char *p = key; *p; p++)
    hash = hash * 33 + (unsigned char) *p;
  *bucket = hash % BUCKETS;
  LIST_FOREACH (h, &holders[*bucket], link)
    if (strcmp (h->key, key) == 0)
      return h;
  return NULL;
}

static bool
is_full (unsigned has, unsigned amount, unsigned limit)
{
  return limit > 0 && (amount > limit || has > limit - amount);
}

bool
quota_begin (const struct caller *caller, enum quota_kind kind, unsigned amount)
{
  enum who who = who_is (caller);
  char key[QUOTA_KEY_BYTES];
  unsigned bucket;
  struct holder *h;
  bool fits;

  quota_key (caller, key);
  pthread_mutex_lock (&lock);
  h = find (key, &bucket);
  fits = !is_full (h ? h->has[kind] : 0, amount, limits[who].each[kind]) &&
         !is_full (all[who][kind], amount, limits[who].all[kind]);
  if (fits && h == NULL) {
    h = alloc_zeroed (sizeof *h);
    strcpy (h->key, key);
    LIST_INSERT_HEAD (&holders[bucket], h, link);
  }
  if (fits) {
    h->has[kind] += amount;
    all[who][kind] += amount;
  }
  else
    refused++;
  pthread_mutex_unlock (&lock);
  return fits;
}

void
quota_end (const struct caller *caller, enum quota_kind kind, unsigned amount)
{
  static const unsigned nothing[QUOTA_KINDS];
  char key[QUOTA_KEY_BYTES];
  unsigned bucket;
  struct holder *h;

  quota_key (caller, key);
  pthread_mutex_lock (&lock);
  h = find (key, &bucket);
  assert (h && h->has[kind] >= amount);
  all[who_is (caller)][kind] -= amount;
  h->has[kind] -= amount;
  if (memcmp (h->has, nothing, sizeof nothing) == 0) {
    LIST_REMOVE (h, link);
    free (h);
  }
  pthread_mutex_unlock (&lock);
}

bool
quota_attach (const char *node, uint64_t now_ms)
{
  struct bucket *b;
  bool fits;

  pthread_mutex_lock (&lock);
  b = bucket_find (attaches, ATTACHES_MAX, node, now_ms);
  fits = b->used_ms + QUOTA_ATTACH_MS <= QUOTA_ATTACHES * QUOTA_ATTACH_MS;
  refused += !fits;
  pthread_mutex_unlock (&lock);
  return fits;
}

/* Several may have been asked for before one was granted: then it has more. */
void
quota_attached (const char *node, uint64_t now_ms)
{
  pthread_mutex_lock (&lock);
  bucket_find (attaches, ATTACHES_MAX, node, now_ms)->used_ms +=
    QUOTA_ATTACH_MS;
  pthread_mutex_unlock (&lock);
}

uint64_t
quota_refused (void)
{
  uint64_t n;

  pthread_mutex_lock (&lock);
  n = refused;
  pthread_mutex_unlock (&lock);
  return n;
}
