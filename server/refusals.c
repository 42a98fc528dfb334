/* refusals.c: see refusals.h.  A small table: when it is full of new entries,
 * nothing more is said for a while.
 */

#include <config.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "refusals.h"

#define ENTRIES_MAX 1024
#define KEY_BYTES 256
#define QUIET_S 600

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
  char key[KEY_BYTES]; /* "": free */
  unsigned count;
  time_t since;
} entries[ENTRIES_MAX];

/* Its entry, or a new one; ENTRIES_MAX: there is no room. */
static size_t
find (const char *key, time_t now)
{
  size_t place = ENTRIES_MAX;

  for (size_t i = 0; i < ENTRIES_MAX; i++)
    if (entries[i].key[0] == '\0' || now - entries[i].since >= QUIET_S)
      place = i;
    else if (strcmp (entries[i].key, key) == 0)
      return i;
  if (place < ENTRIES_MAX) {
    strcpy (entries[place].key, key);
    entries[place].count = 0;
    entries[place].since = now;
  }
  return place;
}

bool
refusals_few (const char *reason, const char *address, unsigned most)
{
  char key[KEY_BYTES];
  size_t place;
  bool few;

  snprintf (key, sizeof key, "%s %s", address, reason);
  pthread_mutex_lock (&lock);
  place = find (key, clock_boot_ms () / 1000);
  few = place < ENTRIES_MAX && entries[place].count < most;
  if (few)
    entries[place].count++;
  pthread_mutex_unlock (&lock);
  return few;
}

bool
refusals_first (const char *reason, const char *address)
{
  return refusals_few (reason, address, 1);
}
