/* fuzz-main.c: the beginning of a fuzz target.  Without libFuzzer it runs the inputs
 * that it is given; with libFuzzer it looks for more.
 *
 *   fuzz-NAME --seeds FOLDER   write the inputs to begin with into the folder
 *   fuzz-NAME FILE...          run these inputs
 */

#include <config.h>

#include <stdio.h>
#include <sys/stat.h>

#include "fuzz.h"

static struct {
  uint8_t data[8192];
  size_t bytes;
} input;

void
fuzz_put (const void *data, size_t bytes)
{
  assert (bytes <= sizeof input.data - input.bytes);
  memcpy (input.data + input.bytes, data, bytes);
  input.bytes += bytes;
}

void
fuzz_put_end (void (*seed) (const void *data, size_t size))
{
  seed (input.data, input.bytes);
  input.bytes = 0;
}

static unsigned long count;

static const char *seeds;

static void
write_seed (const void *data, size_t size)
{
  char path[4096];
  FILE *f;

  snprintf (path, sizeof path, "%s/seed-%02lu", seeds, ++count);
  f = fopen (path, "we");
  if (f == NULL || fwrite (data, 1, size, f) != size || fclose (f) != 0) {
    perror (path);
    exit (EXIT_FAILURE);
  }
}

static bool
write_seeds (int argc, char **argv)
{
  if (argc != 3 || strcmp (argv[1], "--seeds") != 0)
    return false;
  seeds = argv[2];
  fuzz_seeds (write_seed);
  printf ("%s: %lu inputs\n", argv[0], count);
  return true;
}

/* Freed memory is kept apart for a while, so that a use after free is found.  An amount
 * that fits into the processor's cache is enough: 256 MB cost more time, in pages that
 * are touched for the first time, than their findings are worth, and 16 MB still made
 * fuzz-cluster take a third longer.
 */
const char *__asan_default_options (void);

const char *
__asan_default_options (void)
{
#ifdef FUZZER
  /* While it looks for inputs, it is not told where each piece was allocated, nor keeps
   * what functions had on their stacks: a sixth of an execution and more.  `replay` does.
   */
  return "quarantine_size_mb=2:thread_local_quarantine_size_kb=64:"
         "malloc_context_size=1:detect_stack_use_after_return=0";
#else
  return "quarantine_size_mb=2:thread_local_quarantine_size_kb=64";
#endif
}

#ifdef FUZZER

int LLVMFuzzerInitialize (int *argc, char ***argv);

int
LLVMFuzzerInitialize (int *argc, char ***argv)
{
  if (write_seeds (*argc, *argv))
    exit (EXIT_SUCCESS);
  return 0;
}

#else

static void
run_file (const char *path)
{
  FILE *f = fopen (path, "re");
  struct stat st;
  uint8_t *data;

  if (f == NULL || fstat (fileno (f), &st) == -1) {
    perror (path);
    exit (EXIT_FAILURE);
  }
  data = malloc (st.st_size ? (size_t) st.st_size : 1);
  assert (data);
  if (fread (data, 1, (size_t) st.st_size, f) != (size_t) st.st_size) {
    perror (path);
    exit (EXIT_FAILURE);
  }
  fclose (f);
  /* A crash names its input. */
  fprintf (stderr, "%s\n", path);
  LLVMFuzzerTestOneInput (data, (size_t) st.st_size);
  free (data);
  count++;
}

int
main (int argc, char **argv)
{
  if (write_seeds (argc, argv))
    return EXIT_SUCCESS;
  for (int i = 1; i < argc; i++)
    run_file (argv[i]);
  printf ("%s: %lu inputs\n", argv[0], count);
  return count > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
