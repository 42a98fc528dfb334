/* refusals.c: see refusals.h.  A small table: when it is full of new entries,
 * refusals of all further addresses are logged once for each reason.
 */

#include <config.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "addresses.h"
#include "common/clock.h"
#include "refusals.h"

#define ORIGINS_MAX 1024
#define REASONS_MAX 32
#define ENTRIES_MAX (ORIGINS_MAX + REASONS_MAX)
#define ENTRY_BYTES 256
#define QUIET_S 600

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
  char key[ENTRY_BYTES]; /* "": free */
  bool said;
  time_t since;
} entries[ENTRIES_MAX];

/* Its entry of these, or a new one; `to`: there is no room.  Behind the first one that is
 * free all are.
 */
static size_t
find (size_t from, size_t to, const char *key, time_t now)
{
  size_t place = to;

  for (size_t i = from; i < to; i++) {
    bool unused = entries[i].key[0] == '\0';

    if (place == to && (unused || now - entries[i].since >= QUIET_S))
      place = i;
    if (unused)
      break;
    if (now - entries[i].since < QUIET_S && strcmp (entries[i].key, key) == 0)
      return i;
  }
  if (place < to) {
    strcpy (entries[place].key, key);
    entries[place].said = false;
    entries[place].since = now;
  }
  return place;
}

bool
refusals_first (const char *reason, const char *address)
{
  time_t now = clock_boot_ms () / 1000;
  char key[ENTRY_BYTES], origin[ADDRESSES_ORIGIN_BYTES];
  size_t place;
  bool first;

  addresses_origin (address, origin);
  snprintf (key, sizeof key, "%s %s", origin, reason);
  pthread_mutex_lock (&lock);
  place = find (0, ORIGINS_MAX, key, now);
  if (place == ORIGINS_MAX) {
    snprintf (key, sizeof key, "%s", reason);
    place = find (ORIGINS_MAX, ENTRIES_MAX, key, now);
  }
  first = place < ENTRIES_MAX && !entries[place].said;
  if (first)
    entries[place].said = true;
  pthread_mutex_unlock (&lock);
  return first;
}
