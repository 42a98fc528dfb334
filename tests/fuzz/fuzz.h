/* fuzz.h: the common part of the fuzz targets.
 *
 * A target is a file fuzz-NAME.c: it includes the code that it is about, hands it
 * whatever bytes come, and asserts what must hold of the outcome.  It is linked with
 * libFuzzer, or with fuzz-main.c, which runs the inputs that are kept in corpus/NAME.
 * The same bytes always do the same.
 *
 * The other files here are what targets are made with: fuzz-audit.c, fuzz-history.c,
 * fuzz-history-view.c, fuzz-limit.c, fuzz-log.c, fuzz-loop.c, fuzz-password.c,
 * fuzz-quota.c, fuzz-refusals.c, fuzz-replies.c and fuzz-store.c are weftd's files of
 * these names without what waits, takes long or outlives an input, and are linked in
 * place of them; fuzz-civetweb.c is in place of that library, fuzz-json.c of memory for jansson,
 * fuzz-random.c of random numbers, fuzz-sqlite.c of databases' files, and fuzz-thread.c of
 * threads.
 */

#ifndef WEFT_FUZZ_H
#define WEFT_FUZZ_H

#undef NDEBUG
#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

/* Hand over inputs to begin with, as the real encoders make them. */
void fuzz_seeds (void (*seed) (const void *data, size_t size));

/* ---- An input to begin with, put together in pieces (fuzz-main.c). ---- */

/* Append these bytes to it. */
void fuzz_put (const void *data, size_t bytes);
#define FUZZ_PUT(...)                                                          \
  fuzz_put ((const uint8_t[]) { __VA_ARGS__ },                                 \
            sizeof ((const uint8_t[]) { __VA_ARGS__ }))

/* Hand it over to `seed`; the next one is empty. */
void fuzz_put_end (void (*seed) (const void *data, size_t size));

/* ---- An input, taken from its beginning.  Behind its end there are zeroes. ---- */

struct fuzz {
  const uint8_t *at;
  size_t left;
};

static inline uint64_t
fuzz_number (struct fuzz *f, unsigned bytes)
{
  uint64_t v = 0;

  for (unsigned i = 0; i < bytes && f->left > 0; i++, f->left--)
    v |= (uint64_t) *f->at++ << 8 * i;
  return v;
}

/* Less than `below`. */
static inline unsigned
fuzz_below (struct fuzz *f, unsigned below)
{
  return (unsigned) fuzz_number (f, below > 256 ? 2 : 1) % below;
}

/* The bytes up to the next NUL, which is left out, or the end; to be freed.  It is of
 * just that size, so that the sanitizer sees who reads on.
 */
static inline char *
fuzz_text (struct fuzz *f, size_t *length)
{
  const uint8_t *end = f->left ? memchr (f->at, '\0', f->left) : NULL;
  size_t n = end ? (size_t) (end - f->at) : f->left;
  char *text = malloc (n + 1);

  assert (text);
  memcpy (text, n ? (const void *) f->at : "", n);
  text[n] = '\0';
  f->at += n + (end != NULL);
  f->left -= n + (end != NULL);
  if (length)
    *length = n;
  return text;
}

/* All remaining bytes, in a copy of exactly that size, which the caller frees. */
static inline void *
fuzz_rest (struct fuzz *f, size_t *bytes)
{
  void *copy = malloc (f->left ? f->left : 1);

  assert (copy);
  memcpy (copy, f->left ? (const void *) f->at : "", f->left);
  *bytes = f->left;
  f->at += f->left;
  f->left = 0;
  return copy;
}

#endif /* WEFT_FUZZ_H */
