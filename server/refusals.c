/* refusals.c: see refusals.h.  A small table: when it is full of new entries,
 * nothing more is said for a while.
 */

#include <config.h>

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "refusals.h"

#define ENTRIES_MAX 256
#define QUIET_S 600

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
  const char *reason; /* NULL: free */
  char address[46];
  time_t at;
} entries[ENTRIES_MAX];

bool
refusals_first (const char *reason, const char *address)
{
  struct timespec now;
  size_t place = ENTRIES_MAX;
  bool first = true;

  clock_gettime (CLOCK_BOOTTIME, &now);
  pthread_mutex_lock (&lock);
  for (size_t i = 0; i < ENTRIES_MAX && first; i++)
    if (entries[i].reason == NULL || now.tv_sec - entries[i].at >= QUIET_S)
      place = i;
    else if (strcmp (entries[i].reason, reason) == 0 &&
             strcmp (entries[i].address, address) == 0)
      first = false;
  first = first && place < ENTRIES_MAX;
  if (first) {
    entries[place].reason = reason;
    entries[place].at = now.tv_sec;
    snprintf (entries[place].address, sizeof entries[place].address, "%s",
              address);
  }
  pthread_mutex_unlock (&lock);
  return first;
}
