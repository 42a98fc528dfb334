/* first.c: starts AddressSanitizer's library before any other.
 *
 * If a program was not built with AddressSanitizer, as nbdkit, the library
 * starts with the first malloc.  In nbdkit that malloc came from libp11-kit,
 * within newlocale, which holds glibc's lock of locales.  AddressSanitizer asks
 * the linker for a symbol that is missing; glibc translates the error message,
 * which unlocks the same lock, and the end of newlocale unlocks it once more.
 * nbdkit then hung in its exit, where libp11-kit takes the lock again.
 *
 * Linked with -z initfirst, and preloaded.
 */

#include <stdlib.h>

__attribute__ ((constructor)) static void
first (void)
{
  void *volatile p = malloc (1);

  free (p);
}
