/* stack.c: see stack.h. */

#include <config.h>

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stack.h"

/* Where the stack of this thread begins. */
static _Thread_local char *stack;

void
stack_begin (void)
{
  pthread_attr_t attr;
  void *begin;
  size_t size;

  if (pthread_getattr_np (pthread_self (), &attr) != 0)
    return;
  if (pthread_attr_getstack (&attr, &begin, &size) == 0)
    stack = begin;
  pthread_attr_destroy (&attr);
}

void
stack_give_back (void)
{
  uintptr_t page = (uintptr_t) sysconf (_SC_PAGESIZE);
  uintptr_t here = (uintptr_t) __builtin_frame_address (0);
  /* Functions called from here need some of it. */
  uintptr_t end = (here & ~(page - 1)) - page;

  if (stack && end > (uintptr_t) stack)
    madvise (stack, end - (uintptr_t) stack, MADV_DONTNEED);
}
