/* guests.c: see guests.h.
 *
 * Which node a client is on is what its certificate says (tls.h): it was verified by the
 * CA, which gives a node no certificate of another one's name.
 */

#include <config.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "guests.h"
#include "host/fenced.h"
#include "lobby.h"
#include "nbdkit-options.h"
#include "role.h"
#include "nbdkit-tls.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static TAILQ_HEAD (, guest) all = TAILQ_HEAD_INITIALIZER (all);

/* weftd's last answer: "below" of each node, as JSON; and the nodes that may
 * attach the array, with their modes; NULL: any may.
 */
static bool told;
static json_t *fenced, *allow;
static uint64_t fences, fences_done;

/* Was its node fenced since it was started?  With the lock. */
static enum fenced
is_fenced (const struct guest *g)
{
  uint64_t below = 0;
  json_t *node;
  size_t i;

  json_array_foreach (fenced, i, node)
    if (strcmp (json_string_value (json_object_get (node, "node")), g->node) ==
        0)
      below = (uint64_t) json_integer_value (json_object_get (node, "below"));
  return fenced_is (g->fences, below, fences);
}

/* "rw" or "ro"; NULL: its node may not use the array.  With the lock. */
static const char *
mode_of (const struct guest *g)
{
  return allow ? json_string_value (json_object_get (allow, g->node)) : "rw";
}

/* With the lock. */
static bool
is_refused (const struct guest *g)
{
  const char *mode = mode_of (g);

  return is_fenced (g) != FENCED_NOT || mode == NULL ||
         (strcmp (mode, "rw") != 0 && !g->readonly);
}

void
guests_take (const json_t *reply)
{
  const json_t *number = json_object_get (reply, "fences");
  json_t *list = json_object_get (reply, "fenced"), *node;
  json_t *modes = json_object_get (reply, "allow");
  struct guest *g;
  size_t i;

  if (!json_is_integer (number) || !json_is_array (list))
    return;
  json_array_foreach (list, i, node)
    if (!json_is_string (json_object_get (node, "node")))
      return;
  pthread_mutex_lock (&lock);
  /* Answers may come out of order; one of the same number may let a node in. */
  if ((uint64_t) json_integer_value (number) >= fences) {
    json_decref (fenced);
    fenced = json_deep_copy (list);
    json_decref (allow);
    allow = json_is_object (modes) ? json_deep_copy (modes) : NULL;
    fences = (uint64_t) json_integer_value (number);
    told = true;
    TAILQ_FOREACH (g, &all, link)
      if (is_refused (g)) {
        atomic_store (&g->over, true);
        lobby_hang_up (g->caller);
      }
  }
  pthread_mutex_unlock (&lock);
}

uint64_t
guests_fences (void)
{
  const struct guest *g;
  bool runs = false;
  uint64_t done;

  pthread_mutex_lock (&lock);
  TAILQ_FOREACH (g, &all, link)
    runs = runs || (atomic_load (&g->over) && atomic_load (&g->running) > 0);
  if (!runs)
    fences_done = fences;
  done = fences_done;
  pthread_mutex_unlock (&lock);
  return done;
}

const char *
guests_node (void)
{
  const char *node = tls_client ();

  if (node)
    return node;
  nbdkit_error ("a client on another host is refused: which node's certificate "
                "it shows can't be seen here; TLS of this nbdkit is not as "
                "Weft knows it");
  nbdkit_set_error (EPERM);
  return NULL;
}

int
guests_process (void)
{
  const char *process = tls_client_process ();

  if (process[0] == '\0' ||
      (params.array && strncmp (process, "array:", 6) == 0 &&
       strcmp (process + 6, params.array) == 0))
    return 0;
  nbdkit_error ("a client on another host is refused: its certificate is for "
                "the process %s alone; show that of array %s, or the node's",
                process, params.array ? params.array : "");
  nbdkit_set_error (EPERM);
  return -1;
}

/* With the lock. */
static void
enter (struct guest *g)
{
  const char *mode = mode_of (g);

  /* Before it is seen: else a list of meanwhile would find it writing. */
  g->readonly = mode && strcmp (mode, "rw") != 0;
  g->caller = lobby_caller ();
  TAILQ_INSERT_TAIL (&all, g, link);
}

void
guests_enter (struct guest *g)
{
  pthread_mutex_lock (&lock);
  enter (g);
  pthread_mutex_unlock (&lock);
}

int
guests_open (struct guest *g, const char *node)
{
  enum { FINE, UNTOLD, FENCED, STRANGER } why = FINE;

  snprintf (g->node, sizeof g->node, "%s", node);
  pthread_mutex_lock (&lock);
  g->fences = fences;
  if (!told)
    why = UNTOLD;
  else if (is_fenced (g) != FENCED_NOT)
    why = FENCED;
  else if (mode_of (g) == NULL)
    why = STRANGER;
  else
    enter (g);
  pthread_mutex_unlock (&lock);
  switch (why) {
  case FINE:
    return 0;
  case UNTOLD:
    nbdkit_error ("a client on node %s is refused: weftd has not said which "
                  "nodes may use array %s, because it is of an earlier "
                  "version: upgrade weftd first, then start this process again",
                  node, params.array);
    break;
  case FENCED:
    nbdkit_error ("a client on node %s is refused: its node is fenced "
                  "(weftctl node fence off %s)",
                  node, node);
    break;
  case STRANGER:
    nbdkit_error ("a client on node %s is refused: its node may not use array "
                  "%s: an administrator lets it (weftctl array allow %s %s, or "
                  "to read alone weftctl array allow %s %s ro)",
                  node, params.array, params.array, node, params.array, node);
    break;
  }
  nbdkit_set_error (EPERM);
  return -1;
}

int
guests_refused (const struct guest *g)
{
  int error = 0;

  pthread_mutex_lock (&lock);
  if (is_fenced (g) == FENCED_UNKNOWN)
    error = EAGAIN;
  else if (is_refused (g))
    error = EPERM;
  pthread_mutex_unlock (&lock);
  return error;
}

void
guests_leave (struct guest *g)
{
  pthread_mutex_lock (&lock);
  TAILQ_REMOVE (&all, g, link);
  pthread_mutex_unlock (&lock);
}

bool
guests_begin (struct guest *g)
{
  atomic_fetch_add (&g->running, 1);
  if (!atomic_load (&g->over))
    return true;
  guests_end (g);
  return false;
}

void
guests_end (struct guest *g)
{
  atomic_fetch_sub (&g->running, 1);
}
