/* fuzz-json.c: see fuzz-json.h.
 *
 * Pieces are taken one behind the other, and poisoned when they are given back; when all
 * are back, the first is used again.  Before each is its size, which is always
 * poisoned.
 */

#include <config.h>

#include <stdalign.h>

#include <jansson.h>
#include <sanitizer/asan_interface.h>

#include "fuzz.h"
#include "fuzz-json.h"

#define ARENA_BYTES (8 << 20)

struct piece {
  alignas (16) size_t bytes;
  bool taken;
};

static alignas (16) char arena[ARENA_BYTES];
static size_t used;
static unsigned taken;

__attribute__ ((no_sanitize_address)) static void *
take (size_t bytes)
{
  size_t whole = (sizeof (struct piece) + bytes + 15) / 16 * 16;
  struct piece *piece;

  if (whole > ARENA_BYTES - used)
    return malloc (bytes);
  piece = (struct piece *) (arena + used);
  piece->bytes = bytes;
  piece->taken = true;
  used += whole;
  taken++;
  ASAN_UNPOISON_MEMORY_REGION (piece + 1, bytes);
  return piece + 1;
}

__attribute__ ((no_sanitize_address)) static void
give (void *p)
{
  struct piece *piece = (struct piece *) p - 1;

  if ((char *) p < arena || (char *) p >= arena + ARENA_BYTES) {
    free (p);
    return;
  }
  assert (piece->taken); /* or it is freed twice */
  piece->taken = false;
  ASAN_POISON_MEMORY_REGION (p, piece->bytes);
  if (--taken == 0)
    used = 0;
}

void
fuzz_json_begin (void)
{
  static bool begun;

  if (begun)
    return;
  begun = true;
  ASAN_POISON_MEMORY_REGION (arena, sizeof arena);
  json_set_alloc_funcs (take, give);
}

void
fuzz_json_end (void)
{
  assert (taken == 0);
}

/* In place of jansson's, as what it returns is freed by free (). */
char *
json_dumps (const json_t *json, size_t flags)
{
  static char few[16384];
  size_t bytes = json_dumpb (json, few, sizeof few, flags);
  char *text = malloc (bytes + 1);

  assert (bytes > 0 && text);
  if (bytes <= sizeof few)
    memcpy (text, few, bytes);
  else
    json_dumpb (json, text, bytes, flags);
  text[bytes] = '\0';
  return text;
}
