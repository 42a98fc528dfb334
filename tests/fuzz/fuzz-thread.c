/* fuzz-thread.c: see fuzz-thread.h. */

#include <config.h>

#include "fuzz.h"
#include "fuzz-thread.h"

#define THREADS_MAX 4

static struct {
  void *(*function) (void *); /* NULL: free */
  void *opaque;
} threads[THREADS_MAX];

int
fuzz_thread_create (pthread_t *thread, void *(*function) (void *), void *opaque)
{
  unsigned i = 0;

  while (i < THREADS_MAX && threads[i].function)
    i++;
  assert (i < THREADS_MAX);
  threads[i].function = function;
  threads[i].opaque = opaque;
  *thread = i;
  return 0;
}

int
fuzz_thread_join (pthread_t thread)
{
  threads[thread].function (threads[thread].opaque);
  threads[thread].function = NULL;
  return 0;
}

void
fuzz_threads_run (void)
{
  for (unsigned i = 0; i < THREADS_MAX; i++)
    if (threads[i].function)
      threads[i].function (threads[i].opaque);
}
