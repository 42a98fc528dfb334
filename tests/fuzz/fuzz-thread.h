/* fuzz-thread.h: for weftd's threads.  The code that is included behind this has its
 * threads run by fuzz_threads_run, on the thread that calls it, each up to where it
 * would wait.  So the same input always does the same, and no thread is made for each.
 */

#ifndef WEFT_FUZZ_THREAD_H
#define WEFT_FUZZ_THREAD_H

#include <pthread.h>

int fuzz_thread_create (pthread_t *thread, void *(*function) (void *),
                        void *opaque);
int fuzz_thread_join (pthread_t thread);

void fuzz_threads_run (void);

#define pthread_create(thread, attr, function, opaque)                         \
  fuzz_thread_create (thread, function, opaque)
#define pthread_join(thread, result) fuzz_thread_join (thread)
/* A thread's function begins again when it is called again. */
#define pthread_cond_wait(condition, lock)                                     \
  return (pthread_mutex_unlock (lock), NULL)

#endif /* WEFT_FUZZ_THREAD_H */
